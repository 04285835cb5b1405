"""paddle.fluid.entry_attr."""

from paddle.distributed.entry_attr import CountFilterEntry, EntryAttr, ProbabilityEntry  # noqa: F401 (the base, too)

__all__ = ["ProbabilityEntry", "CountFilterEntry"]
