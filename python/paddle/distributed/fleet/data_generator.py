"""Data generators: the base of a data set's pipe commands, which convert raw lines to MultiSlot text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]


class DataGenerator:
    """Reads lines from standard input, writes instances to standard output: override `generate_sample`."""

    def __init__(self) -> None:
        self._proto_info: list[tuple[str, str]] | None = None
        self.batch_size_ = 32

    def set_batch(self, batch_size: int) -> None:
        """Sets the number of samples of a `generate_batch` call.

        Args:
            batch_size (int): the number.
        """
        self.batch_size_ = batch_size

    def run_from_memory(self) -> None:
        """Writes the samples of `generate_sample(None)`: data of the script itself."""
        self._write(self.generate_sample(None)())

    def run_from_stdin(self) -> None:
        """Writes the samples of `generate_sample` for every line of standard input."""
        self._write(sample for line in sys.stdin for sample in self.generate_sample(line)())

    def _write(self, samples: Iterable[Any]) -> None:
        batch: list[Any] = []
        for sample in samples:
            if sample is None:
                continue
            batch.append(sample)
            if len(batch) == self.batch_size_:
                self._write_batch(batch)
                batch = []
        if batch:
            self._write_batch(batch)

    def _write_batch(self, batch: list[Any]) -> None:
        for sample in self.generate_batch(batch)():
            sys.stdout.write(self._gen_str(sample))

    def _gen_str(self, line: Any) -> str:
        """A sample as a line."""
        raise NotImplementedError("use MultiSlotDataGenerator or MultiSlotStringDataGenerator")

    def generate_sample(self, line: str | None) -> Callable[[], Iterator[Any]]:
        """Override: a function that yields the samples of a line, each ``[(name, [value, ...]), ...]``; None is
        skipped.

        Args:
            line (str|None): the line, or None in `run_from_memory`.
        """
        raise NotImplementedError(
            "generate_sample must be overridden to give samples: [(name, [value, ...]), ...] or ((name, [...]), ...)"
        )

    def generate_batch(self, samples: list[Any]) -> Callable[[], Iterator[Any]]:
        """A function that yields the samples of a batch to write; override it to change them.

        Args:
            samples (list): at most `batch_size` samples.
        """

        def local_iter() -> Iterator[Any]:
            yield from samples

        return local_iter


def _fields(line: Any, example: str) -> list[tuple[Any, Any]]:
    line = list(line) if isinstance(line, zip) else line
    if not isinstance(line, list | tuple):
        raise ValueError(f"a sample is a list or tuple, as {example}, got {line!r:.200}")
    return list(line)


class MultiSlotStringDataGenerator(DataGenerator):
    """A data generator whose values are strings, which is faster.

    Examples:
        >>> from paddle.distributed import fleet
        >>> class Words(fleet.MultiSlotStringDataGenerator):
        ...     def generate_sample(self, line):
        ...         def samples():
        ...             yield [("words", ["1926", "8", "17"]), ("label", ["1"])]
        ...         return samples
        >>> Words().run_from_memory()
        3 1926 8 17 1 1
    """

    def _gen_str(self, line: Any) -> str:
        fields = _fields(line, "[('words', ['1926', '8', '17']), ('label', ['1'])]")
        return " ".join(" ".join([str(len(values)), *values]) for _, values in fields) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """A data generator whose values are ints and floats; the first sample determines the fields.

    Examples:
        >>> from paddle.distributed import fleet
        >>> class Words(fleet.MultiSlotDataGenerator):
        ...     def generate_sample(self, line):
        ...         def samples():
        ...             yield [("words", [1926, 8, 17]), ("label", [1])]
        ...         return samples
        >>> Words().run_from_memory()
        3 1926 8 17 1 1
    """

    def _gen_str(self, line: Any) -> str:
        fields = _fields(line, "[('words', [1926, 8, 17]), ('label', [1])]")
        for name, values in fields:
            self._check(name, values)
        if self._proto_info is None:
            self._proto_info = [(name, "uint64") for name, _ in fields]
        if len(fields) != len(self._proto_info):
            raise ValueError(f"the samples so far have {len(self._proto_info)} fields, this one has {len(fields)}")
        for i, (name, values) in enumerate(fields):
            if name != self._proto_info[i][0]:
                raise ValueError(f"field {i} of the samples so far is {self._proto_info[i][0]!r}, here it is {name!r}")
            if any(isinstance(v, float) for v in values):
                self._proto_info[i] = (name, "float")
        return " ".join(" ".join(map(str, [len(values), *values])) for _, values in fields) + "\n"

    @staticmethod
    def _check(name: Any, values: Any) -> None:
        if not isinstance(name, str):
            raise ValueError(f"the name of a field is a str, got {type(name)}")
        if not isinstance(values, list):
            raise ValueError(f"the values of field {name!r} are a list, got {type(values)}")
        if not values:
            raise ValueError(f"field {name!r} has no values: it must be padded")
        for v in values:
            if not isinstance(v, int | float):
                raise ValueError(f"the values of field {name!r} are ints or floats, got {type(v)}")
