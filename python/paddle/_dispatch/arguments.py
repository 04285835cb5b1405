"""Arguments given as numbers or as tensors: shapes and indices."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import INTS
from paddle._basics.dtypes import VarType
from paddle._programs.variable import Variable

__all__: list[str] = []


def convert_to_list(value, n: int, name: str, dtype=int) -> list:
    """`value` n times, or `value` itself when it is a sequence of n items.

    Raises:
        ValueError: for another length, or items of another type.
    """
    if isinstance(value, INTS if dtype is int else dtype):
        return [value] * n
    try:
        items = list(value)
    except TypeError:
        raise ValueError(f"The {name}'s type must be list or tuple. Received: {value!s:.200}") from None
    if len(items) != n:
        raise ValueError(f"The {name}'s length must be {n}. Received: {value!s:.200}")
    for item in items:
        try:
            dtype(item)
        except (ValueError, TypeError):
            raise ValueError(
                f"{name} must be a list or tuple of {n} values of {dtype}, got {value!s:.200} with the entry "
                f"{item!s:.200} of {type(item)}"
            ) from None
    return items


def contains_variable(values) -> bool:
    """Whether a list holds a Variable (a tensor in dygraph mode)."""
    return any(isinstance(v, Variable) for v in values)


def filled(value: int, dtype=VarType.INT32):
    """An integer as a tensor of shape [1] on the CPU."""
    out = _ops.fill_constant(shape=[1], value=float(value), str_value=str(int(value)), dtype=dtype, force_cpu=True)
    out.stop_gradient = True
    return out


def number(value):
    """A number; of a dygraph tensor, its only element."""
    return value.numpy().item() if isinstance(value, Variable) else value


def split_list(values) -> tuple[list, list | None]:
    """(numbers with -1 for Variables, list of tensors or None) of a list that may hold Variables; ints in dygraph."""
    if not mode.in_static_mode():
        return [int(number(v)) for v in values], None
    numbers_ = [-1 if isinstance(v, Variable) else int(v) for v in values]
    if not contains_variable(values):
        return numbers_, None
    tensors = []
    for v in values:
        if isinstance(v, Variable):
            v.stop_gradient = True
            # int64 is kept: a bound of a slice may exceed int32
            tensors.append(v if v.dtype in (VarType.INT32, VarType.INT64) else v.astype("int32"))  # type: ignore[attr-defined]  # set by monkey_patch_variable
        else:
            tensors.append(filled(v))
    return numbers_, tensors


def shape_arguments(shape, tensor_slot: str = "ShapeTensor", list_slot: str = "ShapeTensorList") -> dict:
    """Keywords for an operator that takes `shape` as attribute, as one tensor, or as a list of tensors."""
    if isinstance(shape, Variable):
        if not mode.in_static_mode():
            return {"shape": [int(n) for n in shape.numpy().reshape(-1)]}
        shape.stop_gradient = True
        return {"shape": [], tensor_slot: shape}
    if isinstance(shape, INTS):
        shape = [shape]
    sizes, tensors = split_list(shape)
    return {"shape": sizes} if tensors is None else {"shape": sizes, list_slot: tensors}


def _bounds(which: str, value, keywords: dict, flags: list[int]) -> None:
    slot = which.capitalize()
    if isinstance(value, Variable):
        if not mode.in_static_mode():
            keywords[which] = [int(n) for n in value.numpy().reshape(-1)]
            return
        value.stop_gradient = True
        keywords[which], keywords[f"{slot}Tensor"] = [], value
        flags[:] = [-1] * len(flags)
        return
    keywords[which], tensors = split_list(value)
    if tensors is not None:
        keywords[f"{slot}TensorList"] = tensors
        for i, item in enumerate(value):
            if isinstance(item, Variable):
                flags[i] = -1


def bounded(op, x, axes, **bounds):
    """Runs slice or strided_slice: each of starts, ends, strides is a list that may hold tensors, or a tensor."""
    flags, keywords = [1] * len(axes), {}
    for which, value in bounds.items():
        _bounds(which, value, keywords, flags)
    return op(x, axes=list(axes), infer_flags=flags, **keywords)
