"""`if` and conditional expressions: Python's own, or two conditional blocks whose results are merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle import _ops
from paddle._basics.dtypes import VarType, convert_dtype
from paddle._programs import building
from paddle.static.conditional import ConditionalBlock

from .errors import unsupported
from .exits import VALUE
from .values import (
    UNBOUND,
    Contents,
    Maybe,
    array_of,
    as_var,
    constant,
    describe,
    emptied,
    in_block,
    is_differentiable,
    is_number,
    is_var,
    program_now,
    same,
    stands_for_number,
    variable,
)

#: file, line, column, whether the statement is inside `try`
Place = tuple[str, int, int, bool]


def scalar_bool(pred: Any) -> Any:
    """A condition as a bool Variable of shape [1]; one of more elements stops the run that evaluates it."""
    if convert_dtype(pred.dtype) != "bool":
        pred = _ops.cast(pred, in_dtype=int(pred.dtype), out_dtype=int(VarType.BOOL))
    if tuple(pred.shape) != (1,) and all(size in (1, -1) for size in pred.shape):
        pred = _ops.reshape2(pred, shape=[1])
        pred = pred[0] if isinstance(pred, (tuple, list)) else pred
    return pred


class _Branch:
    """A conditional block of the current Program."""

    def __init__(self, condition: Any) -> None:
        self.condition = condition
        self.program = program_now()
        self.parent = self.program.current_block()
        self.block = self.program._create_block()
        self.program.current_block_idx = self.parent.idx

    def run(self, function: Callable[[], Any]) -> Any:
        with in_block(self.block):
            return function()

    def complete(self) -> None:
        if not self.block.ops:
            return
        made = ConditionalBlock([self.condition], True)
        with in_block(self.block):
            made.complete()

    def clear(self) -> None:
        """Remove what was appended."""
        for block in self.program.blocks[self.block.idx :]:
            emptied(block)


def _needs_array(before: Any, one: Any, other: Any) -> bool:
    """Whether a list of Tensors has different lengths, or items of different types or ranks, after two branches."""
    if not all(type(each) is list for each in (before, one, other)):
        return False
    one, other = [variable(v) for v in one], [variable(v) for v in other]
    if not all(is_var(v) or is_number(v) for v in (*one, *other)):
        return False
    return len(one) != len(other) or any(
        is_var(a) and is_var(b) and (a.dtype != b.dtype or len(a.shape) != len(b.shape))
        for a, b in zip(one, other, strict=True)
    )


class Merge:
    """Merges the values of a name after two branches."""

    def __init__(self, then: _Branch, other: _Branch, place: Place) -> None:
        self.branches = (then, other)
        self.place = place

    def _where(self) -> str:
        return f"`if` at {self.place[0]}:{self.place[1]}"

    def _refuse(self, name: str, kind: type, text: str) -> Any:
        """Reading the name raises this error."""
        if building.current is not None:
            building.current.reasons[name.split(".")[0]] = (kind, text)
        return UNBOUND

    def __call__(self, name: str, one: Any, other: Any) -> Any:
        if one is other:
            return one
        if isinstance(one, Maybe) or isinstance(other, Maybe) or (name == VALUE and (one is None) != (other is None)):
            return self._maybe(name, one, other)
        if (
            name == VALUE
            and one is not UNBOUND
            and other is not UNBOUND
            and _shape_of_nest(one) != _shape_of_nest(other)
        ):
            kept = self._either("_jst_first", one, UNBOUND), self._either("_jst_second", UNBOUND, other)
            return Maybe(self(name + ".present", True, False), *kept, where=self._where())
        if one is UNBOUND or other is UNBOUND:
            if name.startswith("_jst_"):
                return self._either(name, one, other)
            return self._refuse(
                name, NameError, f"name '{name}' is bound in one branch only of the {self._where()}, and read later"
            )
        if same(one, other):
            return one
        one, other = variable(one), variable(other)
        if (is_var(one) or is_number(one)) and (is_var(other) or is_number(other)):
            return self._tensors(name, one, other)
        if type(one) is type(other):
            merged = self._containers(name, one, other)
            if merged is not NotImplemented:
                return merged
        return self._refuse(
            name,
            TypeError,
            f"'{name}' is {describe(one)} or {describe(other)} after the {self._where()}, whose condition is a Tensor: "
            "a Program can only choose between Tensors and numbers",
        )

    def _containers(self, name: str, one: Any, other: Any) -> Any:
        if isinstance(one, (list, tuple)) and len(one) == len(other):
            items = [self(name, a, b) for a, b in zip(one, other, strict=True)]
            if any(item is UNBOUND for item in items):
                return UNBOUND
            if isinstance(one, tuple):
                return type(one)(*items) if hasattr(one, "_fields") else tuple(items)
            return items
        if isinstance(one, dict) and list(one) == list(other):
            found = {key: self(name, one[key], other[key]) for key in one}
            return UNBOUND if any(item is UNBOUND for item in found.values()) else found
        if isinstance(one, list):
            return self._refuse(
                name,
                ValueError,
                f"the list '{name}' has {len(one)} or {len(other)} items after the {self._where()}, whose condition is "
                "a Tensor",
            )
        return NotImplemented

    def _tensors(self, name: str, one: Any, other: Any) -> Any:
        numbers = stands_for_number(one) and stands_for_number(other)
        like = [v.dtype if is_var(v) else None for v in (other, one)]
        then, otherwise = self.branches
        first = then.run(lambda: as_var(one, like[0]))
        second = otherwise.run(lambda: as_var(other, like[1]))
        if first.type == VarType.LOD_TENSOR_ARRAY or second.type == VarType.LOD_TENSOR_ARRAY:
            return first
        if numbers and first.dtype != second.dtype and VarType.FP32 in (first.dtype, second.dtype):
            first, second = then.run(lambda: _as_float(first)), otherwise.run(lambda: _as_float(second))
        if first.dtype != second.dtype:
            return self._refuse(
                name,
                TypeError,
                f"'{name}' is {describe(first)} or {describe(second)} after the {self._where()}: both branches must "
                "give one data type",
            )
        if len(first.shape) != len(second.shape):
            return self._refuse(
                name,
                ValueError,
                f"'{name}' is {describe(first)} or {describe(second)} after the {self._where()}: both branches must "
                "give as many dimensions",
            )
        shape = [a if a == b else -1 for a, b in zip(first.shape, second.shape, strict=True)]
        out = then.parent.create_var(dtype=first.dtype, shape=shape, type=first.type)
        out.stop_gradient = not is_differentiable(out.dtype) or (first.stop_gradient and second.stop_gradient)
        if building.current is not None:
            building.current.derived.add(out.name)
        for branch, value in zip(self.branches, (first, second), strict=True):
            with in_block(branch.block):
                _ops.assign(value, Out=out)
        return building.number(out) if numbers else out

    def _either(self, name: str, one: Any, other: Any) -> Any:
        """A value that only one branch gives, and that is read only after that branch."""
        known, branch = (other, self.branches[0]) if one is UNBOUND else (one, self.branches[1])
        if is_number(known) or is_var(known) or isinstance(known, (list, tuple, dict)):
            filled = branch.run(lambda: placeholder(known))
            return self(name, filled, known) if one is UNBOUND else self(name, known, filled)
        return known

    def _maybe(self, name: str, one: Any, other: Any) -> Any:
        if one is UNBOUND or other is UNBOUND:
            return other if one is UNBOUND else one
        parts = []
        for value in (one, other):
            if value is None:
                parts.append((False, UNBOUND))
            elif isinstance(value, Maybe):
                parts.append((value.present, value.value))
            else:
                parts.append((True, value))
        (p, a), (q, b) = parts
        return Maybe(self(name + ".present", p, q), self(name, a, b), where=self._where())


def _as_float(number: Any) -> Any:
    return number if number.dtype == VarType.FP32 else number.astype("float32")


def _shape_of_nest(value: Any) -> Any:
    """The structure of a result, without its leaves."""
    if isinstance(value, (list, tuple)):
        return type(value), [_shape_of_nest(item) for item in value]
    if isinstance(value, dict):
        return dict, {key: _shape_of_nest(item) for key, item in value.items()}
    return None


def placeholder(value: Any) -> Any:
    """Zeros like a value, in nests like its own."""
    if isinstance(value, (list, tuple)):
        items = [placeholder(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: placeholder(item) for key, item in value.items()}
    if is_var(value):
        shape = [1 if size < 0 else size for size in value.shape]
        zeros = constant(shape or [1], convert_dtype(value.dtype), 0)
        return building.number(zeros) if building.is_number(value) else zeros
    return value


def run_if(
    test: Any,
    then: Callable[[], Any],
    other: Callable[[], Any],
    get: Callable[[], list],
    put: Callable[[list], Any],
    names: tuple[str, ...],
    live: tuple[bool, ...],
    place: Place,
) -> None:
    """An `if` statement.

    Args:
        test: the condition.
        then, other: the branches.
        get, put: read and set the names that the branches change.
        names, live: these names, and whether each is read later.
        place: of the statement.
    """
    test = variable(test)
    if not is_var(test):
        (then if test else other)()
        return
    if place[3]:
        raise unsupported("`if` on a Tensor inside `try`", *place[:3], "Move the `if` out of the `try`")
    pred = scalar_bool(test)
    conditions = (pred, _ops.logical_not(pred))
    builder = building.current
    reads = set() if builder is None else set(builder.reads)
    before = get()
    if builder is not None:  # attributes that both branches set do not depend on their values before
        builder.reads = reads
    while True:
        branches = (_Branch(conditions[0]), _Branch(conditions[1]))
        contents = Contents(before)
        after = []
        assigned = {} if builder is None else dict(builder.assigned)
        buffers = []
        for branch, function in zip(branches, (then, other), strict=True):
            branch.run(function)
            found = get()
            after.append([contents.frozen(value) for value in found])
            contents.restore()
            put(before)
            if builder is not None:  # buffers that called functions assign, too
                buffers.append(builder.assigned)
                builder.assigned = dict(assigned)
        arrays = [i for i, lists in enumerate(zip(before, *after, strict=True)) if live[i] and _needs_array(*lists)]
        if not arrays:
            break
        # A list whose length or items depend on the condition is a TensorArray; the branches are appended again.
        for branch in branches:
            branch.clear()
        for i in arrays:
            before[i] = array_of(before[i])
        put(before)
    merge = Merge(*branches, place)
    merged = []
    for name, alive, start, a, b in zip(names, live, before, *after, strict=True):
        if not alive and type(start) not in (list, dict):
            merged.append(UNBOUND if a is not b else a)
            continue
        value = merge(name, a, b)
        if type(start) is list and type(value) is list:
            start[:] = value
            value = start
        elif type(start) is dict and type(value) is dict:
            start.clear()
            start.update(value)
            value = start
        merged.append(value)
    put(merged)
    if builder is not None:
        _merge_buffers(builder, merge, assigned, *buffers)
    for branch in branches:
        branch.complete()


def _merge_buffers(builder: Any, merge: Merge, before: dict, one: dict, other: dict) -> None:
    """Assign the buffers that a function which a branch calls assigns; `one`, `other`: those of the two branches."""
    for key in {**one, **other}:
        layer, name = (one.get(key) or other[key])[:2]
        former = before.get(key)
        if builder.assigned.get(key) is not former:
            continue  # the statement itself assigns it
        if all(after.get(key) is former for after in (one, other)):
            continue
        start = builder.member(layer, layer._buffers, name)
        first, second = (start if after.get(key) is None else after[key][2] for after in (one, other))
        value = merge(f"{type(layer).__name__}.{name}", first, second)
        if value is UNBOUND:
            kind, text = builder.reasons.pop(type(layer).__name__)
            raise kind(text)
        builder.assign_member(layer, name, value)


def choose(test: Any, then: Callable[[], Any], other: Callable[[], Any], place: Place) -> Any:
    """The conditional expression `then() if test else other()`."""
    test = variable(test)
    if not is_var(test):
        return then() if test else other()
    if place[3]:
        raise unsupported("a conditional expression on a Tensor inside `try`", *place[:3], "Move it out of the `try`")
    return two_ways(test, then, other, place)


def two_ways(test: Any, then: Callable[[], Any], other: Callable[[], Any], place: Place) -> Any:
    """The merged results of two functions, of which one runs."""
    pred = scalar_bool(test)
    branches = (_Branch(pred), _Branch(_ops.logical_not(pred)))
    first, second = (branch.run(f) for branch, f in zip(branches, (then, other), strict=True))
    value = Merge(*branches, place)("the expression", first, second)
    for branch in branches:
        branch.complete()
    if value is UNBOUND and building.current is not None:
        kind, text = building.current.reasons.pop("the expression")
        raise kind(text)
    return value
