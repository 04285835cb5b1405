"""Arrays of tensors (LoDTensorArray): create_array, array_write, array_read, array_length."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import named
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs import guards
from paddle._programs.variable import Variable

__all__ = ["create_array", "array_write", "array_read", "array_length"]


def is_array(value) -> bool:
    """Whether `value` is a LoDTensorArray of a static Program."""
    return in_static_mode() and isinstance(value, Variable) and value.type == VarType.LOD_TENSOR_ARRAY


def _new_array(key: str, dtype):
    block = guards.default_main_program().current_block()
    return block.create_var(name=f"{unique_name.generate(key)}.out", type=VarType.LOD_TENSOR_ARRAY, dtype=dtype)


def create_array(dtype) -> Any:
    """An empty array of tensors of type `dtype`; a Python list in dygraph mode.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> array = fluid.layers.create_array("float32")
    """
    if not in_static_mode():
        return []
    return _new_array("array", dtype)


def _index(i, where: str) -> int:
    assert isinstance(i, Variable), f"The index 'i' in {where} must be Variable in dygraph mode"
    assert list(i.shape) == [1], "array_write: i must have shape [1]"
    return int(i.numpy().item(0))


def array_write(x, i, array=None) -> Any:
    """Write `x` at position `i` (int64, shape [1]) of `array`; None creates an array.

    Returns:
        The array.

    Raises:
        TypeError: when `array` is no array, or the arguments are no Variables.
    """
    if not in_static_mode():
        assert isinstance(x, Variable), "array_write: x must be a Variable"
        position = _index(i, "array_write")
        array = [] if array is None else array
        assert isinstance(array, list), "array_write: array must be a list"
        assert position <= len(array), "array_write: i must be at most the length of array"
        array[position : position + 1] = [x]
        return array
    check_arguments("array_write", i, x)
    if array is None:
        array = _new_array("array_write", x.dtype)
    elif not is_array(array):
        raise TypeError("array should be tensor array variable in array_write Op")
    block = guards.default_main_program().current_block()
    block.append_op(type="write_to_array", inputs={"X": [x], "I": [i]}, outputs={"Out": [array]})
    return array


def array_read(array, i) -> Any:
    """The tensor at position `i` (int64, shape [1]) of `array`.

    Raises:
        TypeError: when `array` is no array.
    """
    if not in_static_mode():
        assert isinstance(array, list), "array_read: array must be a list"
        return array[_index(i, "array_read")]
    check_arguments("array_read", i)
    if not is_array(array):
        raise TypeError("array should be tensor array variable")
    return named(unique_name.generate("array_read"), _ops.read_from_array, array, i)


def array_length(array) -> Any:
    """The number of tensors in `array`: int64 of shape [1]; an int in dygraph mode.

    Raises:
        TypeError: when `array` is no array.
    """
    if not in_static_mode():
        assert isinstance(array, list), "The 'array' in array_length must be a list in dygraph mode"
        return len(array)
    if not is_array(array):
        raise TypeError("array should be tensor array variable in array_length Op")
    out = _ops.lod_array_length(array)
    out.stop_gradient = True
    return out
