"""fluid.layers.tensor: creation and conversion of tensors."""

from __future__ import annotations

import numpy as np

import paddle._core as _core
from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import INTS, check_dtype, check_type
from paddle._basics.dtypes import convert_dtype, convert_np_dtype_to_dtype_
from paddle._basics.element_types import BOOL_HALF_NUMERIC, BOOL_NUMERIC, NUMERIC, ORDERED
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_shape, check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper
from paddle.static import creation as static_creation
from paddle.tensor import creation, manipulation
from paddle.tensor.creation import linspace

__all__ = [
    "create_tensor",
    "create_parameter",
    "create_global_var",
    "cast",
    "concat",
    "tensor_array_to_tensor",
    "sums",
    "assign",
    "fill_constant_batch_size_like",
    "fill_constant",
    "argmax",
    "argmin",
    "argsort",
    "reverse",
    "ones",
    "zeros",
    "range",
    "zeros_like",
    "ones_like",
    "diag",
    "eye",
    "has_inf",
    "has_nan",
    "isfinite",
    "linspace",
    "triu",
]


def create_tensor(dtype, name=None, persistable=False):
    """An empty variable of type `dtype`.

    Args:
        dtype (str): bool, float16/32/64, int8/32/64.
        name (str, optional): its name.
        persistable (bool): keep its value between runs.
    """
    mode.choose_static()
    check_dtype(dtype, "dtype", ["bool", "float16", "float32", "float64", "int8", "int32", "int64"], "create_tensor")
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=dtype, persistable=persistable)


def create_parameter(shape, dtype, name=None, attr=None, is_bias=False, default_initializer=None):
    """A trainable parameter: :func:`paddle.create_parameter`, in a Program unless dygraph mode is on.

    Args:
        shape (list|tuple of int): its shape.
        dtype (str): its element type.
        name (str, optional): its name, unless `attr` gives one.
        attr (ParamAttr, optional): its attributes.
        is_bias (bool): the default initializer is zeros instead of Xavier.
        default_initializer (Initializer, optional): used if `attr` has none.

    Raises:
        TypeError: for other types of arguments.
    """
    mode.choose_static()
    return static_creation.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)


def create_global_var(shape, value, dtype, persistable=False, force_cpu=False, name=None):
    """A variable that the startup Program sets to `value`: :func:`paddle.static.create_global_var`.

    Args:
        shape (list|tuple of int): its shape.
        value (float): its initial elements.
        dtype (str): its element type.
        persistable (bool): keep its value between runs.
    """
    mode.choose_static()
    return static_creation.create_global_var(shape, value, dtype, persistable, force_cpu, name)


def cast(x, dtype):
    """`x` converted to `dtype`.

    Args:
        x (Variable): bool, float16/32/64, int32, int64 or uint8.
        dtype (VarType|numpy type|str): the new element type.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> fluid.layers.cast(paddle.to_tensor([1.5]), "int32").numpy()
        array([1], dtype=int32)
    """
    kinds = ["bool", "float16", "float32", "float64", "int32", "int64", "uint8"]
    check_variable_and_dtype(x, "x", kinds, "cast")
    check_dtype(dtype, "dtype", [*kinds, "int8"], "cast")
    out = _ops.cast(x, in_dtype=x.dtype, out_dtype=convert_np_dtype_to_dtype_(dtype))
    if in_static_mode():
        out.stop_gradient = x.stop_gradient
    return out


def concat(input, axis=0, name=None):  # noqa: A002
    """Tensors concatenated along `axis`.

    Args:
        input (list|tuple of Variable): of the same type, and the same shape except along `axis`.
        axis (int|Variable): an int32 or int64 tensor of shape [1] is accepted.

    Raises:
        TypeError: for other types, or different ones.
    """
    if not in_static_mode() and isinstance(input, Variable):
        input = [input]  # noqa: A001
    return manipulation.concat(input, axis, name)


def tensor_array_to_tensor(input, axis=1, name=None, use_stack=False):  # noqa: A002
    """The tensors of an array concatenated along `axis`, or stacked.

    Args:
        input (Variable|list): a LoDTensorArray; a list of tensors in dygraph mode.
        axis (int): the dimension.
        name (str, optional): prefix of the outputs' names.
        use_stack (bool): stack along a new dimension.

    Returns:
        (Variable, Variable): the tensor, and the sizes of the parts along `axis` (int32).

    Raises:
        TypeError: for another input.
    """
    if not in_static_mode():
        assert isinstance(input, list), "tensor_array_to_tensor: input must be a list"
        joined = _ops.stack(input, axis=axis) if use_stack else _ops.concat(input, axis=axis)
        return joined, _core.tensor_from_array(np.array([x.shape[axis] for x in input]), True)
    check_type(input, "input", (list, Variable), "tensor_array_to_tensor")
    if isinstance(input, list):
        for i, x in enumerate(input):
            check_type(x, f"input[{i}]", Variable, "tensor_array_to_tensor")
        assert len(input) == 1, f"tensor_array_to_tensor takes one array, but received {len(input)}"
        input = input[0]  # noqa: A001
    return named(name, _ops.tensor_array_to_tensor, input, axis=axis, use_stack=use_stack)


def sums(input, out=None):  # noqa: A002
    """The sum of several tensors; written to `out` if given.

    Args:
        input (Variable|list|tuple): float32, float64, int32 or int64, of the same shape.
        out (Variable, optional): receives the result.
    """
    check_type(input, "input", (Variable, tuple, list), "sums")
    inputs = [input] if isinstance(input, Variable) else list(input)
    for x in inputs:
        check_variable_and_dtype(x, "input", NUMERIC, "sums")
    if out is not None:
        check_variable_and_dtype(out, "out", NUMERIC, "sums")
    return _ops.sum(inputs) if out is None else creation.written(_ops.sum(inputs, Out=out))


def assign(input, output=None):  # noqa: A002
    """A copy of a tensor, or an array as a tensor; written to `output` if given.

    Args:
        input (Variable|numpy.ndarray): a Variable of float16/32/64, int32, int64 or bool, or an array of bool, float32,
            int32 or int64 with at most 1024 * 1024 elements.
        output (Variable, optional): receives the result.

    Raises:
        TypeError: for other types. ValueError: for a larger array.
    """
    if isinstance(input, np.ndarray):
        mode.choose_static()
        return creation.assign_array(input, output)
    if not isinstance(input, Variable):
        raise TypeError(f"The type of 'input' in assign must be Variable or numpy.ndarray, but received {type(input)}")
    return creation.assign(input, output)


def fill_constant(shape, dtype, value, force_cpu=False, out=None, name=None):
    """A tensor of `shape` filled with `value`; written to `out` if given.

    Args:
        shape (list|tuple|Variable): sizes, which may be int32 or int64 tensors of shape [1].
        dtype (VarType|numpy type|str): bool, float16/32/64, int32 or int64.
        value (bool|float|int|Variable): one number.
        force_cpu (bool): create it on the CPU.
        out (Variable, optional): receives the result.

    Returns:
        Variable: without a gradient.

    Examples:
        >>> import paddle.fluid as fluid
        >>> with fluid.dygraph.guard():
        ...     fluid.layers.fill_constant([2, 1], "int64", 5).numpy()
        array([[5],
               [5]])
    """
    mode.choose_static()
    dtype = convert_dtype(dtype)
    check_shape(shape, "fill_constant")
    if isinstance(shape, (list, tuple)) and in_static_mode():
        assert len(shape) > 0, "The size of 'shape' in fill_constant can't be zero, but received 0."
    check_dtype(dtype, "dtype", BOOL_HALF_NUMERIC, "fill_constant")
    if out is not None:
        check_variable_and_dtype(out, "out", [dtype], "fill_constant")
    vartype = convert_np_dtype_to_dtype_(dtype)
    result = creation.fill(shape, value, vartype, name, force_cpu=force_cpu, Out=out)
    return result if out is None else creation.written(result)


def fill_constant_batch_size_like(
    input,  # noqa: A002
    shape,
    dtype,
    value,
    input_dim_idx=0,
    output_dim_idx=0,
    force_cpu=False,
):
    """A tensor of `shape` filled with `value`; its size `output_dim_idx` is that of `input` at `input_dim_idx`."""
    out = _ops.fill_constant_batch_size_like(
        input,
        shape=list(shape),
        dtype=convert_np_dtype_to_dtype_(dtype),
        value=float(value),
        str_value=creation.as_text(value, dtype),
        input_dim_idx=input_dim_idx,
        output_dim_idx=output_dim_idx,
        force_cpu=force_cpu,
    )
    out.stop_gradient = True
    return out


def argmax(x, axis=0):
    """The indices (int64) of the maxima of `x` along `axis`."""
    check_variable_and_dtype(x, "x", ORDERED, "argmax")
    out = _ops.arg_max(x, axis=axis)
    out.stop_gradient = True
    return out


def argmin(x, axis=0):
    """The indices (int64) of the minima of `x` along `axis`."""
    check_variable_and_dtype(x, "x", ORDERED, "argmin")
    out = _ops.arg_min(x, axis=axis)
    out.stop_gradient = True
    return out


def argsort(input, axis=-1, descending=False, name=None):  # noqa: A002
    """(sorted values, their indices as int64) of `input` along `axis`."""
    check_variable_and_dtype(input, "input", ORDERED, "argsort")
    out, ids = named(name, _ops.argsort, input, axis=axis, descending=descending)
    out.stop_gradient = ids.stop_gradient = True
    return out, ids


def ones(shape, dtype, force_cpu=False):
    """A tensor of ones."""
    return fill_constant(shape, dtype, 1.0, force_cpu)


def zeros(shape, dtype, force_cpu=False, name=None):
    """A tensor of zeros."""
    return fill_constant(shape, dtype, 0.0, force_cpu, name=name)


def range(start, end, step, dtype, name=None):  # noqa: A001
    """start, start + step, ... before `end`.

    Args:
        start, end, step (int|float|Variable): numbers or tensors of shape [1].
        dtype (VarType|numpy type|str): float32, float64, int32 or int64.
    """
    check_dtype(dtype, "dtype", NUMERIC, "range/arange")
    vartype = convert_np_dtype_to_dtype_(dtype)
    bounds = []
    for bound in (start, end, step):
        if not isinstance(bound, Variable):
            bound = fill_constant([1], dtype, bound, force_cpu=True)
        elif bound.dtype != vartype:
            bound = cast(bound, dtype)
        bounds.append(bound)
    out = named(name, _ops.range, *bounds)
    out.stop_gradient = True
    return out


def zeros_like(x, out=None):
    """Zeros of the shape and type of `x`; written to `out` if given."""
    check_variable_and_dtype(x, "x", BOOL_NUMERIC, "ones_like")
    result = _ops.fill_zeros_like(x, Out=out)
    result.stop_gradient = True
    return result if out is None else creation.written(result)


def ones_like(x, out=None):
    """Ones of the shape and type of `x`; written to `out` if given."""
    check_variable_and_dtype(x, "x", BOOL_NUMERIC, "ones_like")
    result = _ops.fill_any_like(x, value=1.0, Out=out)
    result.stop_gradient = True
    return result if out is None else creation.written(result)


def reverse(x, axis):
    """`x` reversed along the dimensions `axis`.

    Args:
        x (Variable): float32, float64, int32, int64 or uint8; or a LoDTensorArray, whose tensors are
            reversed in order (axis 0).
        axis (int|list|tuple): dimensions; negative values count from the end.

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.reverse(paddle.to_tensor([[1, 2], [3, 4]]), [0, 1]).numpy().tolist()
        [[4, 3], [2, 1]]
    """
    check_variable_and_dtype(x, "x", [*NUMERIC, "uint8"], "reverse")
    check_type(axis, "axis", (int, tuple, list), "reverse")
    return _ops.reverse(x, axis=[axis] if isinstance(axis, INTS) else list(axis))


def diag(diagonal):
    """A square matrix with the elements of `diagonal` on its diagonal and zeros elsewhere.

    Args:
        diagonal (Variable|numpy.ndarray): one dimension; float32, float64, int32 or int64.

    Examples:
        >>> import numpy as np
        >>> import paddle.fluid as fluid
        >>> fluid.layers.diag(np.array([3, 4], "int32")).numpy().tolist()
        [[3, 0], [0, 4]]
    """
    check_type(diagonal, "diagonal", (Variable, np.ndarray), "diag")
    check_dtype(diagonal.dtype, "diagonal", NUMERIC, "diag")
    out = _ops.diag(diagonal if isinstance(diagonal, Variable) else assign(diagonal))
    out.stop_gradient = True
    return out


def eye(num_rows, num_columns=None, batch_shape=None, dtype="float32", name=None):
    """Matrices with ones on the main diagonal and zeros elsewhere.

    Args:
        num_rows (int): number of rows.
        num_columns (int, optional): number of columns, by default `num_rows`.
        batch_shape (list of int, optional): positive sizes of leading dimensions.
        dtype (VarType|numpy type|str): float16, float32, float64, int32 or int64.

    Raises:
        TypeError: for sizes that are not ints, or negative.

    Examples:
        >>> import paddle.fluid as fluid
        >>> fluid.layers.eye(2, batch_shape=[3]).shape
        [3, 2, 2]
    """
    out = creation.eye(num_rows, num_columns, dtype, name)
    if batch_shape is None:
        return out
    if not isinstance(batch_shape, list) or any(n <= 0 for n in batch_shape):
        raise TypeError(f"eye: batch_shape must be a list of positive ints, got {batch_shape!s:.200}")
    columns = num_rows if num_columns is None else num_columns
    out = manipulation.reshape(out, [1] * len(batch_shape) + [num_rows, columns])
    out = _ops.expand(out, expand_times=[*batch_shape, 1, 1])
    out.stop_gradient = True
    return out


def triu(input, diagonal=0, name=None):  # noqa: A002
    """The upper triangle of matrices; see :func:`paddle.triu`."""
    return creation.triu(input, diagonal, name)


def has_inf(x):
    """Whether any element of `x` is infinite, a bool of one element.

    Args:
        x (Variable): float32, float64, int32 or int64; SelectedRows are accepted.

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.has_inf(paddle.to_tensor([1.0, float("inf")])).numpy().tolist()
        [True]
    """
    check_type(x, "x", Variable, "has_inf")
    return _ops.isinf(x)


def has_nan(x):
    """Whether any element of `x` is NaN, a bool of one element; see :func:`has_inf`."""
    check_type(x, "x", Variable, "has_nan")
    return _ops.isnan(x)


def isfinite(x):
    """Whether all elements of `x` are finite, a bool of one element.

    Args:
        x (Variable): float32, float64, int32 or int64.
    """
    check_variable_and_dtype(x, "x", NUMERIC, "isfinite")
    return _ops.isfinite(x)
