"""`while` and `for`: Python's own, or a loop of the Program over the names that the body changes.

The body is appended to a block of its own. Names whose values it changes need a variable each before the loop; they are
known afterwards, so the block is then emptied and the body appended again, until no name is new.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paddle import _ops
from paddle._basics.dtypes import VarType, convert_dtype
from paddle._programs import building
from paddle._programs.while_block import While

from ..structure import leaves, rebuild
from .branches import Place, placeholder, run_if, scalar_bool
from .errors import unsupported
from .exits import VALUE
from .iteration import Items
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
    stands_for_number,
    variable,
)

#: attempts before a body counts as one that never settles
_ATTEMPTS = 40


def run_while(
    test: Callable[[], Any],
    body: Callable[[], Any],
    get: Callable[[], list],
    put: Callable[[list], Any],
    names: tuple[str, ...],
    live: tuple[bool, ...],
    place: Place,
) -> None:
    """A `while` statement; arguments as of `run_if`."""
    while True:
        going = variable(test())
        if is_var(going):
            break
        if not going:
            return
        body()
    if place[3]:
        raise unsupported("a loop over a Tensor inside `try`", *place[:3], "Move the loop out of the `try`")
    _Loop(test, body, get, put, names, live, place).build()


def run_for(
    iterable: Any,
    body: Callable[[Any], Any],
    get: Callable[[], list],
    put: Callable[[list], Any],
    stop: Callable[[], Any] | None,
    targets: tuple[str, ...],
    names: tuple[str, ...],
    live: tuple[bool, ...],
    place: Place,
) -> None:
    """A `for` statement; `stop` returns whether `break` was reached, `targets` are the names that each pass binds."""
    items = Items.of(variable(iterable))
    start = 0
    if not (items is not None and items.is_dynamic()):
        unrolled = iterable if items is None else items.unrolled()
        pos = -1
        for pos, item in enumerate(unrolled):
            stopped = None if stop is None else variable(stop())
            if is_var(stopped):
                if items is not None and items.can_index:
                    start = pos
                    break
                going = _ops.logical_not(scalar_bool(stopped))
                run_if(going, functools.partial(body, item), _nothing, get, put, names, live, place)
                continue
            if stopped:
                return
            body(item)
        else:
            return
    assert items is not None
    if place[3]:
        raise unsupported("a loop over a Tensor inside `try`", *place[:3], "Move the loop out of the `try`")
    counter = [constant([1], "int64", start)]
    end = items.length()

    def test() -> Any:
        inside = _ops.less_than(counter[0], _as_int64(end))
        if stop is None:
            return inside
        stopped = variable(stop())
        if is_var(stopped):
            return _ops.logical_and(_ops.logical_not(scalar_bool(stopped)), inside)
        return constant([1], "bool", False) if stopped else inside

    def step() -> None:
        item = items.at(counter[0])
        after = counter[0] + 1
        body(item)
        counter[0] = after

    def put_all(found: list) -> None:
        counter[0] = found[-1]
        put(found[:-1])

    loop = _Loop(test, step, lambda: [*get(), counter[0]], put_all, (*names, "_jst_counter"), (*live, False), place)
    loop.targets = frozenset(targets)
    loop.build()


def _nothing() -> None:
    return None


def _as_int64(value: Any) -> Any:
    if not is_var(value):
        return constant([1], "int64", value)
    if convert_dtype(value.dtype) != "int64":
        value = _ops.cast(value, in_dtype=int(value.dtype), out_dtype=int(VarType.INT64))
    return value


class _Again(Exception):
    """The body must be appended again: more values are variables of the loop."""


class _Spec:
    """What a variable of the loop is: data type, shape, and whether it stands for a number of Python."""

    def __init__(self, dtype: Any, shape: tuple, number: bool = False) -> None:
        self.dtype, self.shape, self.number = dtype, tuple(shape), number


class _Loop:
    def __init__(self, test: Any, body: Any, get: Any, put: Any, names: tuple, live: tuple, place: Place) -> None:
        self.test, self.body, self.get, self.put = test, body, get, put
        self.names, self.live, self.place = names, live, place
        self.program = program_now()
        self.parent = self.program.current_block()
        #: (name, number of the leaf) -> what its variable is
        self.specs: dict[tuple[str, int], _Spec] = {}
        self.arrays: set[str] = set()
        self.maybe: set[str] = set()
        #: names that each pass binds first: what they were before does not matter
        self.targets: frozenset[str] = frozenset()
        #: results that are unbound before the loop, in their own structure
        self.late: dict[str, Any] = {}

    def _where(self) -> str:
        return f"loop at {self.place[0]}:{self.place[1]}"

    def build(self) -> None:
        before = self.get()
        contents = Contents(before)
        size = len(self.parent.ops)
        block = None
        for _ in range(_ATTEMPTS):
            if block is None:
                block = self.program._create_block()
                self.program.current_block_idx = self.parent.idx
            try:
                self._attempt(block, before, contents)
                return
            except _Again:
                contents.restore()
                self.put(before)
                first_new = block.idx
                for each in self.program.blocks[first_new:]:
                    emptied(each)
                _cut(self.parent, size)
        raise TypeError(f"{self._where()}: the types or shapes of its variables change in every pass")

    # ------------------------------------------------------------------ before the loop

    def _start(self, name: str, value: Any) -> Any:
        """The value at the start of the loop: variables of the loop in place of what the body changes."""
        if name in self.arrays and type(value) is list:
            return array_of(value)
        if name in self.maybe and value is None:
            value = Maybe(False, UNBOUND, where=self._where())
        if isinstance(value, Maybe):
            held = placeholder(self.late[name]) if value.value is UNBOUND else value.value
            present, inner = self._start(name + ".present", value.present), self._start(name + ".value", held)
            return Maybe(present, inner, where=self._where())
        if value is UNBOUND:
            if name not in self.late:
                return value
            value = placeholder(self.late[name])
        number = iter(range(1 << 30))

        def own(leaf: Any) -> Any:
            spec = self.specs.get((name, next(number)))
            return leaf if spec is None else self._variable(leaf, spec)

        return rebuild(value, own)

    def _variable(self, leaf: Any, spec: _Spec) -> Any:
        value = as_var(leaf, spec.dtype)
        if len(value.shape) != len(spec.shape):
            value = constant([1 if size < 0 else size for size in spec.shape], convert_dtype(spec.dtype), 0)
        if value.dtype != spec.dtype:
            value = _ops.cast(value, in_dtype=int(value.dtype), out_dtype=int(spec.dtype))
        made = self.parent.create_var(dtype=value.dtype, shape=value.shape, type=value.type)
        _ops.assign(value, Out=made)
        made.stop_gradient = not is_differentiable(made.dtype)
        if tuple(made.shape) != spec.shape:
            made.desc.set_shape(list(spec.shape))
        return building.number(made) if spec.number else made

    # ------------------------------------------------------------------ the loop

    def _attempt(self, block: Any, before: list, contents: Contents) -> None:
        start = [self._start(name, value) for name, value in zip(self.names, before, strict=True)]
        for value, new in zip(before, start, strict=True):
            _fill(value, new)
        start = [value if _filled(value, new) else new for value, new in zip(before, start, strict=True)]
        self.put(start)
        frozen = [contents.frozen(value) for value in start]
        pre = _ops.assign(scalar_bool(as_var(self.test())))
        again = False
        copies: list = []
        with in_block(block):
            self.body()
            found = self.get()
            for name, alive, old, new in zip(self.names, self.live, frozen, found, strict=True):
                again |= self._compare(name, alive, old, new, copies)
            if again:
                raise _Again
            going = scalar_bool(as_var(self.test()))
            known = _depended_on(block, [value for value, _ in copies])
            copies = [(value if target.name in known else _after(value, target), target) for value, target in copies]
            targets = {id(target) for _, target in copies}
            ready = [_ops.assign(value) if id(value) in targets else value for value, _ in copies]
            for value, (_, target) in zip(ready, copies, strict=True):
                _ops.assign(value, Out=target)
            _ops.assign(going, Out=pre)
        loop = While(pre)
        with in_block(block):
            loop._complete()
        contents.restore()
        final = []
        for alive, value, new, last in zip(self.live, start, frozen, found, strict=True):
            _fill(value, new)
            out = value if _filled(value, new) else new
            # A name that only the passes bind, and that is not read later.
            final.append(UNBOUND if new is UNBOUND and last is not UNBOUND and not alive else out)
        self.put(final)

    def _compare(self, name: str, alive: bool, old: Any, new: Any, copies: list) -> bool:
        """Whether the body makes more values variables of the loop; appends (value, variable) to `copies`."""
        if old is new or name in self.arrays:
            return False
        if old is UNBOUND:
            if not alive or new is UNBOUND:
                return False
            self.late[name] = new
            for i, leaf in enumerate(leaves(new)):
                self._learn((name, i), leaf, leaf)
            return True
        if old is None and name == VALUE and new is not None:
            self.maybe.add(name)
            inner = new.value if isinstance(new, Maybe) else new
            self.late[name] = inner
            self.specs[name + ".present", 0] = _Spec(VarType.BOOL, (1,))
            for i, leaf in enumerate(leaves(inner)):
                self._learn((name + ".value", i), leaf, leaf)
            return True
        if isinstance(old, Maybe):
            present, inner = (new.present, new.value) if isinstance(new, Maybe) else (new is not None, new)
            if new is None:
                inner = old.value
            one = self._compare(name + ".present", alive, old.present, present, copies)
            return self._compare(name + ".value", alive, old.value, inner, copies) or one
        if type(old) is list and type(new) is list and len(old) != len(new):
            self.arrays.add(name)
            return True
        if type(old) is list and is_var(new) and new.type == VarType.LOD_TENSOR_ARRAY:
            self.arrays.add(name)
            return True
        olds, news = leaves(old), leaves(new)
        if len(olds) != len(news) or _is_nest(old) != _is_nest(new):
            raise TypeError(
                f"'{name}' is {describe(old)} before and {describe(new)} after a pass of the {self._where()}: a loop "
                "on a Tensor keeps the structure of its variables"
            )
        again = False
        for i, (a, b) in enumerate(zip(olds, news, strict=True)):
            b = variable(b)
            if a is b or _equal(a, b):
                continue
            if not (is_var(b) or is_number(b)) or not (is_var(a) or is_number(a)):
                if not alive and is_var(a) is False:
                    continue
                raise TypeError(
                    f"'{name}' is {describe(a)} before and {describe(b)} after a pass of the {self._where()}: a loop "
                    "on a Tensor can only change Tensors and numbers"
                )
            if self._learn((name, i), variable(a), b):
                again = True
            else:
                copies.append((as_var(b, a.dtype), a))
        return again

    def _learn(self, key: tuple[str, int], old: Any, new: Any) -> bool:
        """Record what the variable of a leaf must be; whether that is new."""
        dtype = new.dtype if is_var(new) else old.dtype if is_var(old) else None
        if dtype is None:
            dtype = as_var(0.0 if isinstance(old, float) or isinstance(new, float) else old).dtype
            shape: tuple = (1,)
        else:
            shape = tuple(new.shape if is_var(new) else old.shape)
        number = stands_for_number(old) and stands_for_number(new)
        spec = self.specs.get(key)
        first = old if spec is None else None
        if is_var(old) and is_var(new) and key[0] not in self.targets:
            if old.dtype != new.dtype:
                raise TypeError(
                    f"'{key[0]}' is {describe(old)} before and {describe(new)} after a pass of the {self._where()}: a "
                    "loop keeps the data types of its variables"
                )
            if len(old.shape) != len(new.shape):
                raise ValueError(
                    f"'{key[0]}' is {describe(old)} before and {describe(new)} after a pass of the {self._where()}: a "
                    "loop keeps the number of dimensions"
                )
            shape = tuple(a if a == b else -1 for a, b in zip(old.shape, new.shape, strict=True))
        if spec is not None and first is None:
            number = number and spec.number
            if spec.shape == shape or len(spec.shape) != len(shape):
                shape = spec.shape
            else:
                shape = tuple(a if a == b else -1 for a, b in zip(spec.shape, shape, strict=True))
            if shape == spec.shape and number == spec.number:
                return False
        self.specs[key] = _Spec(dtype, shape, number)
        return True


def _depended_on(block: Any, values: list) -> set[str]:
    """The names of the variables that values of a block are computed from, along Tensors that have gradients."""
    known = {value.name for value in values}
    for op in reversed(block.ops):
        if known & set(op.output_arg_names):
            for name in op.input_arg_names:
                var = block._find_var_recursive(name)
                if var is not None and var.type == VarType.LOD_TENSOR and is_differentiable(var.dtype):
                    known.add(name)
    return known


def _after(value: Any, target: Any) -> Any:
    """`value`, as the sum of it and zeros that are computed from `target`.

    A pass that replaces a variable without reading it has a gradient of zeros for it, which an operator must write.
    """
    if not is_differentiable(value.dtype):
        return value
    never = _ops.less_than(target, target)
    zeros = _ops.where(never, target, _ops.fill_zeros_like(target))
    return _ops.elementwise_add(value, _ops.reduce_sum(zeros, reduce_all=True, dim=[0]))


def _is_nest(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict))


def _equal(one: Any, other: Any) -> bool:
    if is_var(one) or is_var(other) or type(one) is not type(other):
        return False
    try:
        return bool(one == other)
    except Exception:
        return False


def _filled(value: Any, new: Any) -> bool:
    return type(value) in (list, dict) and type(value) is type(new)


def _fill(value: Any, new: Any) -> None:
    """Give a list or dict the contents of another: other names refer to it."""
    if value is new or not _filled(value, new):
        return
    if type(value) is list:
        value[:] = new
    else:
        value.clear()
        value.update(new)


def _cut(block: Any, size: int) -> None:
    """Remove the operators after the first `size`."""
    block.desc._remove_op(size, len(block.ops))
    del block.ops[size:]
