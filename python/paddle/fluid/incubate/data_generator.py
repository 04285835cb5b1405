"""paddle.fluid.incubate.data_generator."""

from paddle.distributed.fleet.data_generator import (  # noqa: F401 (the base is outside __all__, as upstream)
    DataGenerator,
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)

__all__ = ["MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]
