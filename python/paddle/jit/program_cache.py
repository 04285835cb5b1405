"""ProgramCache: the Programs of a function by the structure of its arguments."""

from __future__ import annotations

import collections
import copy
import warnings
from typing import Any

import paddle._core as _core
from paddle._basics import autocast
from paddle.nn.layer.layers import Layer
from paddle.static.creation import InputSpec

from .concrete_program import ConcreteProgram
from .function_spec import FunctionSpec
from .partial_program import PartialProgramLayer, partial_program_from

__all__: list[str] = []

#: More Programs of one function than this give a warning.
MAX_TRACED_PROGRAM_COUNT = 10


def _hashable(value: Any) -> Any:
    """A hashable stand-in that is equal for equal structures; numbers of different types differ."""
    if isinstance(value, InputSpec):
        return "spec", value.shape, value.dtype, getattr(value, "stop_gradient", True)
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_hashable, value))
    if isinstance(value, dict):
        return dict, tuple((key, _hashable(item)) for key, item in value.items())
    try:
        hash(value)
    except TypeError:
        raise ValueError(
            f"to_static: arguments must be Tensors, arrays or hashable values, or nests of these, got "
            f"{type(value).__name__}"
        ) from None
    return type(value), value


class _DifferError(Exception):
    """Arguments differ in more than sizes."""


def _open(one: Any, other: Any) -> Any:
    """`one`, with unknown sizes where those of `other` differ; _DifferError for other differences."""
    if isinstance(one, InputSpec) and isinstance(other, InputSpec):
        if one.dtype != other.dtype or len(one.shape) != len(other.shape):
            raise _DifferError
        spec = copy.copy(one)
        spec.shape = tuple(a if a == b else -1 for a, b in zip(one.shape, other.shape, strict=True))
        return spec
    if isinstance(one, (list, tuple)) and type(one) is type(other) and len(one) == len(other):
        items = [_open(a, b) for a, b in zip(one, other, strict=True)]
        return type(one)(*items) if hasattr(one, "_fields") else type(one)(items)
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        return {key: _open(one[key], other[key]) for key in one}
    if _hashable(one) != _hashable(other):
        raise _DifferError
    return one


def training_flags(layer: Any) -> tuple:
    """The training flags of a Layer and its sublayers."""
    if not isinstance(layer, Layer):
        return ()
    flags = [layer.training]
    waiting = [layer._sub_layers]
    while waiting:
        for each in waiting.pop().values():
            if each is not None:
                flags.append(each.training)
                if each._sub_layers:
                    waiting.append(each._sub_layers)
    return tuple(flags)


class CacheKey:
    """The key of a Program: function, arguments, Layer, training flags, recording of gradients, mixed precision."""

    __slots__ = ("class_instance", "function_spec", "input_args_with_spec", "input_kwargs_with_spec", "_key")

    def __init__(
        self, function_spec: FunctionSpec, input_args_with_spec: list, input_kwargs_with_spec: dict, class_instance: Any
    ) -> None:
        self.function_spec = function_spec
        self.input_args_with_spec = input_args_with_spec
        self.input_kwargs_with_spec = input_kwargs_with_spec
        self.class_instance = class_instance
        self._key = (
            id(function_spec),
            _hashable(input_args_with_spec),
            _hashable(input_kwargs_with_spec),
            id(class_instance),
            training_flags(class_instance),
            _core.is_grad_enabled(),
            autocast.current(),
        )

    @classmethod
    def from_func_and_args(cls, function_spec: FunctionSpec, args: Any, kwargs: dict, class_instance: Any) -> CacheKey:
        """The key of a call."""
        if args and isinstance(args[0], Layer):
            args = args[1:]
        given, rest = function_spec.unified_args_and_kwargs(args, kwargs)
        return cls(function_spec, *function_spec.args_to_input_spec(given, rest), class_instance)

    def like(self, other: CacheKey) -> bool:
        """Whether function, Layer, training flags and mixed precision agree."""
        one, two = self._key, other._key
        return (one[0], *one[3:5], one[6]) == (two[0], *two[3:5], two[6])

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheKey) and self._key == other._key

    def __repr__(self) -> str:
        return (
            f"CacheKey({self.function_spec}, args: {self.input_args_with_spec}, kwargs: "
            f"{self.input_kwargs_with_spec}, class_instance: {type(self.class_instance).__name__})"
        )


class ProgramCache:
    """(ConcreteProgram, PartialProgramLayer) by CacheKey, in the order of their making."""

    def __init__(self) -> None:
        self._caches: collections.OrderedDict[CacheKey, tuple] = collections.OrderedDict()

    def _build_once(self, key: CacheKey) -> tuple[ConcreteProgram, PartialProgramLayer]:
        concrete = ConcreteProgram.from_func_spec(
            key.function_spec, key.input_args_with_spec, key.input_kwargs_with_spec, key.class_instance
        )
        return concrete, partial_program_from(concrete)

    def __getitem__(self, item: CacheKey) -> tuple[ConcreteProgram, PartialProgramLayer]:
        if not isinstance(item, CacheKey):
            raise ValueError(f"ProgramCache: the key must be a CacheKey, got {type(item).__name__}")
        found = self._caches.get(item)
        if found is None:
            found = self._caches[item] = self._build_once(item)
            if len(self._caches) > MAX_TRACED_PROGRAM_COUNT:
                warnings.warn(
                    f"to_static: {item.function_spec.name}() has {len(self._caches)} Programs, more than "
                    f"{MAX_TRACED_PROGRAM_COUNT}: arguments differ in shape, or are Python values that change. "
                    "InputSpecs with None for sizes, and Tensors for values, keep one Program",
                    stacklevel=4,
                )
        return found

    def get_program(self, item: CacheKey) -> tuple[ConcreteProgram, PartialProgramLayer]:
        """The entry of a key. ValueError for another type, RuntimeError for an unknown key."""
        if not isinstance(item, CacheKey):
            raise ValueError(f"ProgramCache.get_program: the key must be a CacheKey, got {type(item).__name__}")
        if item not in self._caches:
            raise RuntimeError("ProgramCache.get_program: no Program has this key; call the function first")
        return self._caches[item]

    def items(self) -> list[tuple[CacheKey, tuple[ConcreteProgram, PartialProgramLayer]]]:
        """All keys and their entries."""
        return list(self._caches.items())

    def drop(self, concrete: ConcreteProgram) -> None:
        """Removes the entry of a ConcreteProgram."""
        for key, (each, _) in self.items():
            if each is concrete:
                del self._caches[key]

    def last(self) -> tuple[CacheKey, tuple[ConcreteProgram, PartialProgramLayer]]:
        """The latest key and its entry."""
        assert self._caches, "ProgramCache.last: no Program was built yet"
        key = next(reversed(self._caches))
        return key, self._caches[key]

    def open_arguments(self) -> tuple[list, dict] | None:
        """The arguments of the latest Program, where sizes that differ from other Programs' are unknown.

        Programs count that differ from the latest in sizes only; None where there is none.
        """
        latest, *others = reversed(self._caches)
        found = (latest.input_args_with_spec, latest.input_kwargs_with_spec)
        count = 0
        for key in others:
            if key.like(latest):
                try:
                    found = _open(found, (key.input_args_with_spec, key.input_kwargs_with_spec))
                    count += 1
                except _DifferError:
                    continue
        return found if count else None

    def __len__(self) -> int:
        return len(self._caches)

    def output_places(self) -> dict[str, int]:
        """The positions of the results of all Programs, by their names; Tensors that a call returned have these."""
        each = (dict.fromkeys(var.name for var in made.variables()) for made in self.concrete_programs())
        return {name: i for names in each for i, name in enumerate(names)}

    def concrete_programs(self) -> list[ConcreteProgram]:
        """All ConcretePrograms."""
        return [concrete for concrete, _ in self._caches.values()]
