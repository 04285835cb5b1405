"""Values of Python names while a Program is built: unbound names, numbers as Variables, results of two branches."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator
from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics import mode
from paddle._basics import numpy as np
from paddle._basics.dtypes import VarType, convert_dtype, convert_np_dtype_to_dtype_
from paddle._programs import building
from paddle._programs.guards import default_main_program
from paddle._programs.variable import Variable, isinstance_of
from paddle.tensor.creation import assign


class _Unbound:
    """The value of a name that is not bound."""

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND = _Unbound()
_NUMBERS = (bool, int, float)


def is_var(value: Any) -> bool:
    """Whether a value is a Variable of a Program."""
    return isinstance_of(value, Variable)


def variable(value: Any) -> Any:
    """An eager Tensor as a Variable of the Program that is built; other values as they are."""
    if building.current is not None and isinstance_of(value, _core.Tensor) and mode.in_static_mode():
        return building.current.variable(value)
    return value


def values(*getters: Any) -> list:
    """The values of names, UNBOUND for those that are not bound."""
    out = []
    for getter in getters:
        try:
            out.append(getter())
        except (NameError, AttributeError):
            out.append(UNBOUND)
    return out


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute, or delete it for UNBOUND."""
    if value is UNBOUND:
        with contextlib.suppress(AttributeError):
            delattr(owner, name)
    else:
        if building.current is not None and building.current.put_back(owner, name, value):
            return
        try:
            unchanged = getattr(owner, name) is value
        except AttributeError:
            unchanged = False
        if not unchanged:
            setattr(owner, name, value)


@contextlib.contextmanager
def in_block(block: Any) -> Iterator[None]:
    """Operators go to the end of `block`."""
    program = block.program
    former, program.current_block_idx = program.current_block_idx, block.idx
    try:
        yield
    finally:
        program.current_block_idx = former


def program_now() -> Any:
    """The Program that operators go to."""
    return default_main_program()


def is_number(value: Any) -> bool:
    """Whether a Python or numpy number (a bool, too)."""
    return isinstance(value, _NUMBERS) or isinstance(value, numbers.Number)


_DTYPE_OF = ((bool, "bool"), (int, "int64"), (float, "float32"))


def number_dtype(value: Any) -> str:
    """The data type of the Variable of a number."""
    kind = getattr(value, "dtype", None)
    if kind is not None:
        return str(kind)
    return next((dtype for base, dtype in _DTYPE_OF if isinstance(value, base)), "float32")


def stands_for_number(value: Any) -> bool:
    """Whether a value is a number of Python, or a Variable that stands for one."""
    return building.is_number(value) if is_var(value) else is_number(value)


def as_var(value: Any, dtype: Any = None) -> Any:
    """A number or an eager Tensor as a Variable; `dtype` is that of the Variable it is merged with."""
    value = variable(value)
    if is_var(value):
        return value
    if isinstance(value, np.ndarray):
        return assign(value)
    name = number_dtype(value) if dtype is None else convert_dtype(dtype)
    if dtype is not None and isinstance(value, float) and name.startswith(("int", "uint", "bool")):
        name = "float32"
    if isinstance(value, bool) and name != "bool" and dtype is not None:
        name = "bool"
    made = constant([1], name, value)
    return building.number(made) if dtype is None and isinstance(value, _NUMBERS) else made


def constant(shape: list, dtype: str, value: Any) -> Any:
    """A Variable filled with a number."""
    text = str(int(value)) if dtype.startswith(("int", "uint")) else str(float(value))
    out = _ops.fill_constant(
        shape=shape, value=float(value), str_value=text, dtype=int(convert_np_dtype_to_dtype_(dtype))
    )
    out.stop_gradient = True
    return out


def is_differentiable(dtype: Any) -> bool:
    """Whether Tensors of a data type have gradients."""
    return convert_dtype(dtype).startswith(("float", "bfloat", "complex"))


def describe(value: Any) -> str:
    """A value for messages: type and shape of a Variable, the value itself otherwise."""
    if is_var(value):
        if value.type == VarType.LOD_TENSOR_ARRAY:
            return "a TensorArray"
        return f"a Tensor of {convert_dtype(value.dtype)} and shape {list(value.shape)}"
    return "unbound" if value is UNBOUND else f"{value!r:.60}"


class Maybe:
    """A result that is None, or has another structure, in some branches.

    Attributes:
        present (Variable): a bool of shape [1].
        value: the result where it is True.
        other: the result where it is False.
        where (str): the statement that chooses, for messages.
    """

    def __init__(self, present: Any, value: Any, other: Any = None, where: str = "") -> None:
        self.present, self.value, self.other, self.where = present, value, other, where


class Contents:
    """The contents of lists and dicts among values, to undo what a branch does to them."""

    def __init__(self, held: list) -> None:
        self.kept: list = []
        seen: set[int] = set()

        def keep(value: Any) -> None:
            if type(value) in (list, dict) and id(value) not in seen:
                seen.add(id(value))
                self.kept.append((value, value.copy()))
                for item in value.values() if type(value) is dict else value:
                    keep(item)

        for value in held:
            keep(value)

    def restore(self) -> None:
        for value, copy in self.kept:
            if type(value) is dict:
                value.clear()
                value.update(copy)
            else:
                value[:] = copy

    def frozen(self, value: Any) -> Any:
        """A copy of a list or dict that was kept, other values as they are."""
        if type(value) is list:
            return [self.frozen(item) for item in value]
        if type(value) is dict:
            return {key: self.frozen(item) for key, item in value.items()}
        return value


def same(one: Any, other: Any) -> bool:
    """Whether two Python values are the same for a Program."""
    if one is other:
        return True
    if type(one) is not type(other) or is_var(one):
        return False
    try:
        return bool(one == other)
    except Exception:
        return False


def array_of(items: list) -> Any:
    """A TensorArray with the items of a list."""
    program = program_now()
    block = program.current_block()
    array = block.create_var(type=VarType.LOD_TENSOR_ARRAY, dtype="float32")
    for i, item in enumerate(items):
        write_array(array, constant([1], "int64", i), as_var(item))
    array.stop_gradient = False
    return array


def write_array(array: Any, index: Any, value: Any) -> None:
    """Write an item of a TensorArray."""
    array.desc.set_dtype(value.dtype)
    block = program_now().current_block()
    block.append_op(type="write_to_array", inputs={"X": [value], "I": [index]}, outputs={"Out": [array]})


def emptied(block: Any) -> None:
    block.desc._remove_op(0, len(block.ops))
    del block.ops[:]
    for name in list(block.vars):
        block.desc._remove_var(name)
        del block.vars[name]
