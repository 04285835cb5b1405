"""Python's operators and indexing on Variables of a static Program."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._programs import building
from paddle._programs.variable import Variable

from .indexing import getitem, setitem

__all__: list[str] = []

_INTEGERS = (VarType.UINT8, VarType.INT8, VarType.INT16, VarType.INT32, VarType.INT64)


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


def _binary(name: str, op_type: str, reverse: bool, by_scalar, boolean: bool):
    def operator(self, other_var):
        left, right = self, other_var
        # Python's numbers only: numpy's become constants of the Variable's type, as in dygraph mode.
        if isinstance(other_var, (int, float)):
            # integer tensors are converted to float32 for float arithmetic
            if left.dtype in _INTEGERS and (isinstance(other_var, float) or op_type == "elementwise_div"):
                left = astype(left, "float32")
            right = float(other_var)
            if by_scalar is not None:
                return by_scalar(left, right)
        dtype = left.dtype
        if building.current is not None:
            right = building.current.variables(right)
        if not issubclass(type(right), Variable):
            right = _constant(left, right, dtype, like=reverse)
        if right.dtype != dtype:
            right = astype(right, dtype)
        if reverse:
            left, right = right, left
        block = _block(left)
        out = _new(block, "bool" if boolean else dtype)
        attrs = {} if op_type == "matmul_v2" else {"axis": -1}
        block.append_op(type=op_type, inputs={"X": [left], "Y": [right]}, outputs={"Out": out}, attrs=attrs)
        return out

    operator.__name__ = name
    operator.__doc__ = f"The operator {op_type} of two Variables, or of a Variable and a number."
    return operator


def _add(var, value):
    return _scaled(var, 1.0, value)


def _sub(var, value):
    return _scaled(var, 1.0, -value)


def _rsub(var, value):
    return _scaled(var, -1.0, value)


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
    cls.__neg__ = lambda self: _scaled(self, -1.0, 0.0)
    for name, op_type, reverse, by_scalar in _ROWS:
        setattr(Variable, name, _binary(name, op_type, reverse, by_scalar, name in _COMPARES))


def patch_tensor_methods(functions: dict) -> None:
    """Add these functions as methods of Variable, except names that it has."""
    for name, function in functions.items():
        if not hasattr(Variable, name):
            setattr(Variable, name, function)
