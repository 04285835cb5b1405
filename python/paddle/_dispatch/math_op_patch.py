"""Python's operators and indexing on Variables of a static Program."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from paddle._basics import flags, unique_name
from paddle._basics.dtypes import VarType
from paddle._programs import building
from paddle._programs.variable import Variable

from .indexing import getitem, setitem

__all__: list[str] = []

_INTEGERS = (VarType.UINT8, VarType.INT8, VarType.INT16, VarType.INT32, VarType.INT64)
_FLOATS = (VarType.BF16, VarType.FP16, VarType.FP32, VarType.FP64)


def _block(var):
    return var.block.program.current_block()


def _new(block, dtype):
    return block.create_var(name=unique_name.generate("tmp"), dtype=dtype)


def astype(self, dtype):
    """A Variable with the elements converted to `dtype` (VarType, numpy type or name).

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> paddle.static.data("x", [2], "float32").astype("int64").shape
        (2,)
    """
    block = _block(self)
    out = _new(block, dtype)
    attrs = {"in_dtype": self.dtype, "out_dtype": out.dtype}
    block.append_op(type="cast", inputs={"X": [self]}, outputs={"Out": [out]}, attrs=attrs)
    out.stop_gradient = self.stop_gradient
    return out


def _constant(var, value, dtype, like: bool):
    """`value` as a Variable: of the shape of `var` (whose batch size may be unknown), or [1]."""
    block = _block(var)
    out = _new(block, dtype)
    shape = list(var.shape) if like else [1]
    batch = next((i for i, size in enumerate(shape) if size < 0), None)
    if batch is None:
        attrs = {"dtype": out.dtype, "shape": shape, "value": float(value), "force_cpu": False}
        block.append_op(type="fill_constant", outputs={"Out": [out]}, attrs=attrs)
    else:
        # at most one size may be unknown; the other dimensions broadcast
        shape = [size if size >= 0 or i == batch else 1 for i, size in enumerate(shape)]
        attrs = {
            "shape": shape,
            "value": float(value),
            "dtype": out.dtype,
            "input_dim_idx": batch,
            "output_dim_idx": batch,
        }
        block.append_op(
            type="fill_constant_batch_size_like", inputs={"Input": [var]}, outputs={"Out": [out]}, attrs=attrs
        )
    out.stop_gradient = True
    return out


def _scaled(var, scale: float, bias: float):
    block = _block(var)
    out = _new(block, var.dtype)
    attrs = {"scale": scale, "bias": bias}
    block.append_op(type="scale", inputs={"X": [var]}, outputs={"Out": [out]}, attrs=attrs)
    return out


#: file and line of each expression that a warning has named
_warned: set[tuple[str, int]] = set()


def _axis(left, right, op_type: str) -> int:
    """The axis at which the second operand is aligned with the first: -1, and in 1.8 0 if its first size is unknown.

    Where the two differ, 2.0 warns; once for each expression.
    """
    if not right.shape or right.shape[0] != -1 or len(left.shape) == len(right.shape):
        return -1
    if flags.is_18():
        return 0 if len(left.shape) > len(right.shape) else -1
    frame: FrameType | None = sys._getframe(2)
    where = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)
    if where not in _warned:
        _warned.add(where)
        form = f"{op_type}(X, Y, axis=%d)"
        warnings.warn(
            f"{where[0]}:{where[1]}: the behavior of an operator of two Variables has been unified with "
            f"{form % -1} from Paddle 2.0; in 1.8 it was {form % 0} here, as the first size of Y is unknown. A program "
            f"that relies on it calls {form % 0}, or runs with FLAGS_compat=1.8",
            stacklevel=3,
        )
    return -1


def _check_whole(number: float, op_type: str) -> None:
    """The rule of 1.8: AssertionError for a number with a fraction, as operand of integers."""
    assert op_type == "elementwise_div" or number == int(number), (
        f"{op_type}: in 1.8 (FLAGS_compat) the number {number} cannot be an operand of a Variable of integers"
    )


def _c_remainder(left, right):
    """The remainder of integers with the sign of `left`: `left` less the multiple of `right` that trunc(left / right)
    gives."""
    block = _block(left)
    axis = _axis(left, right, "elementwise_mod")

    def made(op_type, x, y, axis):
        out = _new(block, left.dtype)
        block.append_op(type=op_type, inputs={"X": [x], "Y": [y]}, outputs={"Out": out}, attrs={"axis": axis})
        return out

    quotient = made("elementwise_floordiv", left, right, axis)
    return made("elementwise_sub", left, made("elementwise_mul", quotient, right, axis), -1)


def _agree(left, right, op_type: str):
    """The operands, of which one or both stand for numbers of Python, in the data type that dygraph mode computes in.

    A number takes that of a Variable; integers become float32 where a number is a float, and for a division.
    """
    numbers = [var.dtype for var in (left, right) if building.is_number(var)]
    given = [var.dtype for var in (left, right) if not building.is_number(var)]
    if given:
        dtype = left.dtype if given[0] == VarType.BOOL else given[0]
    else:
        dtype = max(numbers, key=lambda number: (number in _FLOATS, number in _INTEGERS, int(number)))
    if dtype in _INTEGERS and (op_type == "elementwise_div" or any(number in _FLOATS for number in numbers)):
        dtype = VarType.FP32
    return (var if var.dtype == dtype else astype(var, dtype) for var in (left, right))


def _binary(name: str, op_type: str, reverse: bool, by_scalar, boolean: bool):
    def operator(self, other_var):
        left, right = self, other_var
        number = building.is_number(self) and (isinstance(other_var, (int, float)) or building.is_number(other_var))
        # Python's numbers only: numpy's become constants of the Variable's type, as in dygraph mode.
        if isinstance(other_var, (int, float)):
            integers = left.dtype in _INTEGERS
            if integers and flags.is_18():
                _check_whole(other_var, op_type)
            elif integers and (isinstance(other_var, float) or op_type == "elementwise_div"):
                # integer tensors are converted to float32 for float arithmetic
                left, integers = astype(left, "float32"), False
            right = float(other_var)
            if by_scalar is not None and not (integers and op_type == "elementwise_div"):
                out = by_scalar(left, right)
                return building.number(out) if number else out
        dtype = left.dtype
        if building.current is not None:
            right = building.current.variables(right)
            if issubclass(type(right), Variable) and (building.is_number(left) or building.is_number(right)):
                left, right = _agree(left, right, op_type)
                dtype = left.dtype
        if not issubclass(type(right), Variable):
            right = _constant(left, right, dtype, like=reverse)
        if right.dtype != dtype:
            right = astype(right, dtype)
        if reverse:
            left, right = right, left
        if op_type == "elementwise_mod" and dtype in _INTEGERS and flags.is_18():
            return _c_remainder(left, right)
        block = _block(left)
        out = _new(block, "bool" if boolean else dtype)
        attrs = {} if op_type == "matmul_v2" else {"axis": _axis(left, right, op_type)}
        block.append_op(type=op_type, inputs={"X": [left], "Y": [right]}, outputs={"Out": out}, attrs=attrs)
        return building.number(out) if number else out

    operator.__name__ = name
    operator.__doc__ = f"The operator {op_type} of two Variables, or of a Variable and a number."
    return operator


def _add(var, value):
    return _scaled(var, 1.0, value)


def _sub(var, value):
    return _scaled(var, 1.0, -value)


def _rsub(var, value):
    return _scaled(var, -1.0, value)


def _neg(self):
    out = _scaled(self, -1.0, 0.0)
    return building.number(out) if building.is_number(self) else out


def _mul(var, value):
    return _scaled(var, value, 0.0)


def _div(var, value):
    return _scaled(var, 1.0 / value, 0.0)


#: method, operator, whether the operands are swapped, the scale operator's form for a number
_ROWS = [
    ("__add__", "elementwise_add", False, _add),
    ("__radd__", "elementwise_add", False, _add),
    ("__sub__", "elementwise_sub", False, _sub),
    ("__rsub__", "elementwise_sub", True, _rsub),
    ("__mul__", "elementwise_mul", False, _mul),
    ("__rmul__", "elementwise_mul", False, _mul),
    ("__div__", "elementwise_div", False, _div),
    ("__truediv__", "elementwise_div", False, _div),
    ("__rdiv__", "elementwise_div", True, None),
    ("__rtruediv__", "elementwise_div", True, None),
    ("__pow__", "elementwise_pow", False, None),
    ("__rpow__", "elementwise_pow", True, None),
    ("__floordiv__", "elementwise_floordiv", False, None),
    ("__mod__", "elementwise_mod", False, None),
    ("__matmul__", "matmul_v2", False, None),
    ("__eq__", "equal", False, None),
    ("__ne__", "not_equal", False, None),
    ("__lt__", "less_than", False, None),
    ("__le__", "less_equal", False, None),
    ("__gt__", "greater_than", False, None),
    ("__ge__", "greater_equal", False, None),
]
_COMPARES = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


def monkey_patch_variable() -> None:
    """Add operators, indexing, `astype` and negation to Variable. `__hash__` stays that of object."""
    cls: Any = Variable
    cls.astype = astype
    cls.__getitem__, cls.__setitem__ = getitem, setitem
    cls.__neg__ = _neg
    for name, op_type, reverse, by_scalar in _ROWS:
        setattr(Variable, name, _binary(name, op_type, reverse, by_scalar, name in _COMPARES))


def patch_tensor_methods(functions: dict) -> None:
    """Add these functions as methods of Variable, except names that it has."""
    for name, function in functions.items():
        if not hasattr(Variable, name):
            setattr(Variable, name, function)
