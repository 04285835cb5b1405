"""fluid.layers.utils: shape arguments, nested structures and other helpers of layers."""

from paddle._basics import mode
from paddle._basics.checks import check_dtype
from paddle._basics.element_types import INDICES
from paddle._basics.mode import in_static_mode
from paddle._basics.structure import (
    assert_same_structure,
    copy_mutable_vars,
    flatten,
    hold_mutable_vars,
    is_sequence,
    map_structure,
    pack_sequence_as,
)
from paddle._dispatch.arguments import contains_variable as _contain_var
from paddle._dispatch.arguments import convert_to_list, filled, split_list  # noqa: F401
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_shape

__all__ = [
    "_contain_var",
    "assert_same_structure",
    "check_shape",
    "convert_shape_to_list",
    "convert_to_list",
    "copy_mutable_vars",
    "flatten",
    "get_shape_tensor_inputs",
    "hold_mutable_vars",
    "is_sequence",
    "map_structure",
    "pack_sequence_as",
    "try_get_constant_shape_from_tensor",
    "try_set_static_shape_tensor",
]


def convert_shape_to_list(shape):
    """A shape given as a list, tuple or dygraph Tensor, as a list of ints."""
    if isinstance(shape, (list, tuple)):
        return [v.numpy().reshape(-1)[0] if isinstance(v, Variable) else v for v in shape]
    return [int(n) for n in shape.numpy().reshape(-1)]


def get_shape_tensor_inputs(inputs, attrs, shape, op_type):
    """Passes a shape to an operator of a Program: in its `inputs`, or its `attrs`.

    Args:
        inputs, attrs (dict): of the operator; modified.
        shape (Variable|list|tuple): sizes; Variables among them are int32 or int64.
        op_type (str): the operator's name, for errors.

    Raises:
        TypeError: for another type of shape. AssertionError: for an empty one.
    """
    if isinstance(shape, Variable):
        check_dtype(shape.dtype, "shape", INDICES, op_type)
        shape.stop_gradient = True
        inputs["ShapeTensor"] = shape
    elif isinstance(shape, (list, tuple)):
        assert len(shape) > 0, f"{op_type}: shape must have an entry"
        for i, size in enumerate(shape):
            if isinstance(size, Variable):
                check_dtype(size.dtype, f"shape[{i}]", INDICES, op_type)
        attrs["shape"], tensors = split_list(shape)
        if tensors is not None:
            inputs["ShapeTensorList"] = tensors
    else:
        raise TypeError(f"{op_type}: shape must be a Variable, list or tuple, got {type(shape)}")


def try_get_constant_shape_from_tensor(shape_tensor):
    """The sizes of the Variable whose shape the Variable `shape` holds; None if unknown while a Program is built."""
    op = getattr(shape_tensor, "op", None) if in_static_mode() else None
    if op is None or op.type != "shape":
        return None
    return shape_tensor.block.vars[op.input_arg_names[0]].shape


def try_set_static_shape_tensor(tensor, shape):
    """Sets unknown sizes of a Variable from a shape tensor whose value is known."""
    if in_static_mode() and -1 in tensor.shape and isinstance(shape, Variable):
        sizes = try_get_constant_shape_from_tensor(shape)
        if sizes:
            tensor.desc.set_shape(sizes)


def _is_symmetric_padding(padding, data_dim):
    """Whether the paddings before and after each of `data_dim` dimensions are equal, as one number for each are."""
    assert len(padding) in (data_dim, 2 * data_dim), f"padding must have {data_dim} or {2 * data_dim} numbers"
    return len(padding) == data_dim or list(padding[::2]) == list(padding[1::2])
