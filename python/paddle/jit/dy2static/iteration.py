"""What `for` runs over: Tensors, TensorArrays, and range, enumerate and zip of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paddle import _ops
from paddle._basics.dtypes import VarType, convert_dtype
from paddle._programs import building

from .errors import refuse_truth
from .values import as_var, constant, is_var, variable

#: Tensors with at most as many rows are iterated by repeating the body.
UNROLLED = 64


class Items:
    """A sequence of `length()` items, of which `at(i)` gives one for an int or a Variable."""

    #: whether `at` takes Variables
    can_index = True

    @staticmethod
    def of(value: Any) -> Items | None:
        """The items of a Tensor or of another sequence that knows Tensors; None for Python's iterables."""
        if isinstance(value, Items):
            return value
        if is_var(value):
            return ArrayItems(value) if value.type == VarType.LOD_TENSOR_ARRAY else TensorItems(value)
        if isinstance(value, range):
            return RangeItems(value.start, value.stop, value.step)
        return None

    def length(self) -> Any:
        raise NotImplementedError

    def at(self, index: Any) -> Any:
        raise NotImplementedError

    def is_dynamic(self) -> bool:
        """Whether the number of items is known at run time only."""
        return is_var(self.length())

    def unrolled(self) -> Iterator[Any]:
        """The items, if their number is known."""
        return (self.at(i) for i in range(self.length()))

    def __iter__(self) -> Iterator[Any]:
        if self.is_dynamic():
            raise refuse_truth("iteration over a Tensor", "Its number of rows is not known: use a `for` statement")
        return self.unrolled()


class TensorItems(Items):
    """The rows of a Tensor."""

    def __init__(self, x: Any) -> None:
        self.x = x
        known = x.shape[0] if x.shape else 1
        self._length = known if known >= 0 else _ops.slice(_ops.shape(x), axes=[0], starts=[0], ends=[1])

    def length(self) -> Any:
        return self._length

    def is_dynamic(self) -> bool:
        return is_var(self._length) or self._length > UNROLLED

    def __iter__(self) -> Iterator[Any]:
        return super().__iter__() if is_var(self._length) else self.unrolled()

    def at(self, index: Any) -> Any:
        return self.x[index]


class ArrayItems(Items):
    """The items of a TensorArray."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._length = _ops.lod_array_length(array)

    def length(self) -> Any:
        return self._length

    def at(self, index: Any) -> Any:
        return read_array(self.array, index)


class RangeItems(Items):
    """range() with bounds that may be Tensors."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.bounds = start, stop, step
        self.dynamic = any(is_var(b) for b in self.bounds)
        if not self.dynamic:
            self._length: Any = len(range(start, stop, step))
            return
        first, last, by = (_int64(b) for b in self.bounds)
        # ceil((last - first) / by), at least 0, in integers
        span = _ops.elementwise_sub(last, first)
        up = _ops.elementwise_sub(by, _sign(by))
        count = _ops.elementwise_floordiv(_ops.elementwise_add(span, up), by)
        self._length = _ops.elementwise_max(count, constant([1], "int64", 0))

    def length(self) -> Any:
        return self._length

    def at(self, index: Any) -> Any:
        start, _, step = self.bounds
        if not is_var(index) and not self.dynamic:
            return start + index * step
        moved = index if not is_var(step) and step == 1 else _int64(index) * _int64(step)
        moved = moved if not is_var(start) and start == 0 else _int64(moved) + _int64(start)
        wanted = next((b for b in self.bounds if is_var(b)), None)
        if wanted is not None and convert_dtype(wanted.dtype) == "int32":
            moved = _ops.cast(moved, in_dtype=int(moved.dtype), out_dtype=int(VarType.INT32))
        return building.number(_ops.assign(moved) if moved is index else moved)


def _int64(value: Any) -> Any:
    if not is_var(value):
        return constant([1], "int64", value)
    if convert_dtype(value.dtype) != "int64":
        return _ops.cast(value, in_dtype=int(value.dtype), out_dtype=int(VarType.INT64))
    return value


def _sign(by: Any) -> Any:
    wide = _ops.cast(by, in_dtype=int(by.dtype), out_dtype=int(VarType.FP32))
    return _ops.cast(_ops.sign(wide), in_dtype=int(VarType.FP32), out_dtype=int(VarType.INT64))


class EnumerateItems(Items):
    """enumerate() of items."""

    def __init__(self, items: Items, start: Any) -> None:
        self.items, self.start = items, start

    def length(self) -> Any:
        return self.items.length()

    def is_dynamic(self) -> bool:
        return self.items.is_dynamic()

    def at(self, index: Any) -> Any:
        place = index if not is_var(self.start) and self.start == 0 else index + self.start
        return (building.number(_ops.assign(place)) if is_var(place) else place), self.items.at(index)


class ZipItems(Items):
    """zip() of items."""

    def __init__(self, parts: list[Items]) -> None:
        self.parts = parts
        lengths = [part.length() for part in parts]
        self._length: Any = lengths[0]
        if any(is_var(n) for n in lengths):
            self._length = _int64(lengths[0])
            for n in lengths[1:]:
                self._length = _ops.elementwise_min(self._length, _int64(n))
        else:
            self._length = min(lengths)

    def length(self) -> Any:
        return self._length

    def is_dynamic(self) -> bool:
        return any(part.is_dynamic() for part in self.parts)

    def at(self, index: Any) -> Any:
        return tuple(part.at(index) for part in self.parts)


class SequenceItems(Items):
    """A list or tuple in zip() together with Tensors."""

    can_index = False

    def __init__(self, values: list) -> None:
        self.values = values

    def length(self) -> Any:
        return len(self.values)

    def at(self, index: Any) -> Any:
        if not is_var(index):
            return self.values[index]
        array = as_var(self.values[0])
        for i, value in enumerate(self.values[1:], 1):
            array = _ops.where(_ops.equal(index, constant([1], "int64", i)), as_var(value), array)
        return array


def read_array(array: Any, index: Any) -> Any:
    """An item of a TensorArray."""
    if not is_var(index):
        if index < 0:
            size = _ops.lod_array_length(array)
            index = size + index
        else:
            index = constant([1], "int64", index)
    out = _ops.read_from_array(array, _int64(index))
    return out


def convert_range(*args: Any) -> Any:
    """range()."""
    args = tuple(variable(a) for a in args)
    if not any(is_var(a) for a in args):
        return range(*args)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (args + (1,))[:3]
    return RangeItems(start, stop, step)


def convert_enumerate(iterable: Any, start: Any = 0) -> Any:
    """enumerate()."""
    items = Items.of(variable(iterable))
    if items is None or isinstance(iterable, range):
        return enumerate(iterable, start)
    return EnumerateItems(items, start)


def convert_zip(*iterables: Any, **options: Any) -> Any:
    """zip()."""
    found = [Items.of(variable(each)) for each in iterables]
    if all(each is None or isinstance(raw, range) for each, raw in zip(found, iterables, strict=True)):
        return zip(*iterables, strict=options.get("strict", False))
    parts = [each if each is not None else SequenceItems(list(raw)) for each, raw in zip(found, iterables, strict=True)]
    if any(part.is_dynamic() for part in parts) and not any(isinstance(part, SequenceItems) for part in parts):
        return ZipItems(parts)
    if any(is_var(part.length()) for part in parts):
        return ZipItems(parts)
    return zip(*(part.unrolled() for part in parts), strict=options.get("strict", False))


__all__ = ["Items"]
