"""Entry policies: which ids of a parameter server's sparse table get a row."""

from __future__ import annotations

__all__ = ["ProbabilityEntry", "CountFilterEntry"]


class EntryAttr:
    """The base of entry policies."""

    def __init__(self) -> None:
        self._name: str | None = None

    def _to_attr(self) -> str:
        """The policy as an operator's attribute."""
        raise NotImplementedError("EntryAttr is a base: use ProbabilityEntry or CountFilterEntry")


class ProbabilityEntry(EntryAttr):
    """An id gets a row with this probability at each occurrence.

    Args:
        probability (float): above 0 and below 1.

    Raises:
        ValueError: for another value.

    Examples:
        >>> import paddle
        >>> paddle.distributed.ProbabilityEntry(0.1)._to_attr()
        'probability_entry:0.1'
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise ValueError(f"probability must be a float in (0,1), got {probability!r}")
        self._name = "probability_entry"
        self._probability = probability

    def _to_attr(self) -> str:
        return f"{self._name}:{self._probability}"


class CountFilterEntry(EntryAttr):
    """An id gets a row after `count_filter` occurrences.

    Args:
        count_filter (int): 0 or more.

    Raises:
        ValueError: for another value.

    Examples:
        >>> import paddle
        >>> paddle.distributed.CountFilterEntry(10)._to_attr()
        'count_filter_entry:10'
    """

    def __init__(self, count_filter: int) -> None:
        super().__init__()
        if not isinstance(count_filter, int) or isinstance(count_filter, bool) or count_filter < 0:
            raise ValueError(f"count_filter must be an integer, 0 or more, got {count_filter!r}")
        self._name = "count_filter_entry"
        self._count_filter = count_filter

    def _to_attr(self) -> str:
        return f"{self._name}:{self._count_filter}"
