"""paddle.batch: groups the samples of a reader into lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__: list[str] = []


def batch(reader: Callable[[], Iterator], batch_size: int, drop_last: bool = False) -> Callable[[], Iterator[list]]:
    """A reader that yields lists of `batch_size` samples of `reader`.

    Args:
        reader (callable): returns an iterator over samples.
        batch_size (int): samples per list; positive.
        drop_last (bool): drop a last incomplete list.

    Raises:
        ValueError: if batch_size is not positive.

    Examples:
        >>> import paddle
        >>> list(paddle.batch(lambda: iter(range(5)), 2)())
        [[0, 1], [2, 3], [4]]
    """
    size = int(batch_size)
    if size <= 0:
        raise ValueError(f"batch: batch_size must be a positive int, got {size!s:.200}")

    def read() -> Iterator[list]:
        samples: list = []
        for sample in reader():
            samples.append(sample)
            if len(samples) == size:
                yield samples
                samples = []
        if samples and not drop_last:
            yield samples

    return read
