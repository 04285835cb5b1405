"""Layers with parameters, activations, random tensors and SelectedRows of fluid.layers.nn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_dtype, check_type
from paddle._basics.dtypes import VarType, convert_np_dtype_to_dtype_
from paddle._basics.element_types import BOOL_NUMERIC, FLOATS, takes
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import named
from paddle._dispatch.arguments import number, shape_arguments
from paddle._programs import guards
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.fluid.input import one_hot_rows
from paddle.fluid.layers.tensor import assign
from paddle.fluid.layers.utils import try_set_static_shape_tensor
from paddle.nn.functional.activation import relu
from paddle.static.creation import autoincreased_step_counter
from paddle.static.nn.common import batch_norm, fc_layer, layer_norm, lookup_layer
from paddle.static.nn.group import group_norm
from paddle.static.pyfunc import PyFuncRegistry, py_func
from paddle.tensor.math import stanh

__all__ = [
    "fc",
    "embedding",
    "batch_norm",
    "layer_norm",
    "dropout",
    "softmax",
    "l2_normalize",
    "relu",
    "relu6",
    "leaky_relu",
    "swish",
    "hard_swish",
    "hard_sigmoid",
    "stanh",
    "elu",
    "brelu",
    "soft_relu",
    "selu",
    "mish",
    "sign",
    "expand",
    "group_norm",
    "topk",
    "one_hot",
    "uniform_random",
    "uniform_random_batch_size_like",
    "gaussian_random",
    "autoincreased_step_counter",
    "get_tensor_from_selected_rows",
    "merge_selected_rows",
    "py_func",
    "PyFuncRegistry",
    "sampling_id",
    "gaussian_random_batch_size_like",
]


fc = fc_layer


def embedding(
    input,  # noqa: A002
    size,
    is_sparse=False,
    is_distributed=False,
    padding_idx=None,
    param_attr=None,
    dtype="float32",
):
    """A lookup table: rows for ids.

    Args:
        input (Variable): int64 ids, the last dimension of size 1.
        size (list|tuple): [rows, width] of the table.
        is_sparse (bool): gradients as SelectedRows.
        padding_idx (int, optional): an id whose row is zero.
        param_attr (ParamAttr, optional): of the table.
        dtype (str): float16, float32 or float64.

    Returns:
        Variable: of shape input.shape[:-1] + [width].
    """
    if is_distributed:
        warnings.warn("is_distributed has no effect any more", stacklevel=2)
    return lookup_layer(
        "lookup_table", "fluid.layers.embedding", input, size, is_sparse, False, padding_idx, param_attr, dtype
    )


def dropout(x, dropout_prob, is_test=None, seed=None, name=None, dropout_implementation="downgrade_in_infer"):
    """Sets elements of `x` to zero with probability `dropout_prob`.

    Args:
        x (Variable): float16, float32 or float64.
        dropout_prob (float): from 0 to 1.
        is_test (bool, optional): disable dropout; in dygraph mode None follows train() and eval().
        seed (int, optional): of the random generator; None: the Program's or the global one.
        dropout_implementation (str): "downgrade_in_infer" multiplies by 1 - p when testing, "upscale_in_train" divides
            by it when training.
    """
    if dropout_prob == 0:
        return x
    random_seed = guards.default_main_program().random_seed
    if not seed and random_seed != 0:
        seed = random_seed
    if is_test is None and not in_static_mode():
        is_test = not mode._dygraph_tracer()._train_mode
    check_variable_and_dtype(x, "x", takes("dropout"), "dropout")
    out, mask = named(
        name,
        _ops.dropout,
        x,
        dropout_prob=dropout_prob,
        is_test=is_test,
        fix_seed=seed is not None,
        seed=seed or 0,
        dropout_implementation=dropout_implementation,
    )
    if mask is not None:
        mask.stop_gradient = True
    return out


def softmax(input, use_cudnn=True, name=None, axis=-1):  # noqa: A002
    """exp(input) over its sum along `axis`.

    Args:
        input (Variable): float16, float32 or float64.
        axis (int): the dimension that sums to one.
    """
    check_variable_and_dtype(input, "input/x", takes("softmax"), "softmax")
    return named(name, _ops.softmax, input, axis=axis, use_cudnn=use_cudnn)


def l2_normalize(x, axis, epsilon=1e-12, name=None):
    """L2 normalization along `axis`: x / sqrt(sum of squares + epsilon).

    `axis` is ignored for one dimension.

    Args:
        x (Variable): float32 or float64.
        axis (int): the dimension to normalize; None is 1.

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.l2_normalize(paddle.to_tensor([[3.0, 4.0]]), axis=1).numpy().tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """
    check_variable_and_dtype(x, "X", FLOATS, "norm")
    axis = 0 if len(x.shape) == 1 else 1 if axis is None else axis
    return named(name, _ops.norm, x, axis=axis, epsilon=epsilon)[1]


def relu6(x, threshold=6.0, name=None):
    """min(max(x, 0), threshold), element by element (float16, float32 or float64)."""
    return named(name, _ops.relu6, x, threshold=threshold)


def leaky_relu(x, alpha=0.02, name=None):
    """x where positive, alpha * x elsewhere."""
    return named(name, _ops.leaky_relu, x, alpha=float(alpha))


def swish(x, beta=1.0, name=None):
    """x * sigmoid(beta * x), element by element (float16, float32 or float64)."""
    return named(name, _ops.swish, x, beta=float(beta))


def hard_swish(x, threshold=6.0, scale=6.0, offset=3.0, name=None):
    """x * min(max(x + offset, 0), threshold) / scale, element by element (float16, float32 or float64)."""
    return named(name, _ops.hard_swish, x, threshold=threshold, scale=scale, offset=offset)


def hard_sigmoid(x, slope=0.2, offset=0.5, name=None):
    """slope * x + offset clipped to 0..1, element by element (float16, float32 or float64)."""
    return named(name, _ops.hard_sigmoid, x, slope=slope, offset=offset)


def elu(x, alpha=1.0, name=None):
    """x where positive, alpha * (exp(x) - 1) elsewhere, element by element (float16, float32 or float64)."""
    return named(name, _ops.elu, x, alpha=alpha)


def brelu(x, t_min=0.0, t_max=24.0, name=None):
    """x clipped to t_min..t_max, element by element (float16, float32 or float64)."""
    return named(name, _ops.brelu, x, t_min=t_min, t_max=t_max)


def soft_relu(x, threshold=40.0, name=None):
    """log(1 + exp(x)) with x clipped to -threshold..threshold, element by element (float16, float32 or float64)."""
    return named(name, _ops.soft_relu, x, threshold=threshold)


def selu(x, scale=None, alpha=None, name=None):
    """scale * x where x is positive, scale * alpha * (exp(x) - 1) elsewhere.

    Args:
        x (Variable): float32 or float64.
        scale (float, optional): default 1.0507...
        alpha (float, optional): default 1.6732...
        name (str, optional): a name for the output.
    """
    check_variable_and_dtype(x, "x", FLOATS, "selu")
    attrs = {key: value for key, value in (("scale", scale), ("alpha", alpha)) if value is not None}
    return named(name, _ops.selu, x, **attrs)


def mish(x, threshold=20, name=None):
    """x * tanh(log(1 + exp(x))), element by element.

    Args:
        x (Variable): float32 or float64.
        threshold (float|int): above it log(1 + exp(x)) is x, below its negative exp(x); not positive:
            no threshold.
        name (str, optional): a name for the output.

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.mish(paddle.to_tensor([0.0, 30.0])).numpy().tolist()
        [0.0, 30.0]
    """
    check_variable_and_dtype(x, "x", FLOATS, "mish")
    check_type(threshold, "threshold", (float, int), "mish")
    return named(name, _ops.mish, x, threshold=float(threshold or -1))


def sign(x):
    """1, 0 or -1, as x is above, at or below zero.

    Args:
        x (Variable|numpy.ndarray): float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.sign(paddle.to_tensor([3.0, 0.0, -2.0])).numpy().tolist()
        [1.0, 0.0, -1.0]
    """
    check_type(x, "x", (Variable, np.ndarray), "sign")
    if isinstance(x, np.ndarray):
        x = assign(x)
    check_dtype(x.dtype, "x", takes("sign"), "sign")
    return _ops.sign(x)


def expand(x, expand_times, name=None):
    """`x` repeated along each dimension.

    Args:
        x (Variable): of 1 to 6 dimensions; bool, float32, float64, int32 or int64.
        expand_times (list|tuple|Variable): repetitions per dimension, each an int or Tensor of shape [1]; or all
            as one int32 Tensor.

    Raises:
        ValueError: in a Program, for bool `x` whose `stop_gradient` is True, as in 2.0.2.

    Examples:
        >>> import paddle.fluid as fluid
        >>> fluid.layers.expand(fluid.layers.ones([1, 3], "float32"), [2, 2]).shape
        [2, 6]
    """
    check_variable_and_dtype(x, "x", BOOL_NUMERIC, "expand")
    check_type(expand_times, "expand_times", (list, tuple, Variable), "expand")
    if in_static_mode() and x.stop_gradient and x.dtype == VarType.BOOL:
        raise ValueError("expand: set stop_gradient of x to False, its elements are bool")
    if isinstance(expand_times, Variable):
        return named(name, _ops.expand, x, expand_times)
    if not in_static_mode() or not any(isinstance(t, Variable) for t in expand_times):
        return named(name, _ops.expand, x, expand_times=[int(number(t)) for t in expand_times])
    tensors = [
        t if isinstance(t, Variable) else _ops.fill_constant(shape=[1], value=float(t), dtype=2) for t in expand_times
    ]
    return named(name, _ops.expand, x, expand_times_tensor=tensors)


def topk(input, k, name=None):  # noqa: A002
    """The `k` greatest values of each row, and their indices (int64).

    Args:
        input (Variable): numbers.
        k (int|Variable): number of values; a tensor of shape [1] is accepted.
    """
    if isinstance(k, Variable) and in_static_mode():
        values, indices = named(name, _ops.top_k, input, k)
    else:
        values, indices = named(name, _ops.top_k, input, k=int(number(k)))
    values.stop_gradient = indices.stop_gradient = True
    return values, indices


def one_hot(input, depth, allow_out_of_range=False):  # noqa: A002
    """One-hot encoding: a float32 row for each id, one at its position and zeros elsewhere.

    Args:
        input (Variable): int32 or int64 ids, the last dimension of size 1.
        depth (int|Variable): the length of a row; an int32 tensor of shape [1] is accepted.
        allow_out_of_range (bool): ids not below `depth` give rows of zeros instead of an error.

    Returns:
        Variable: input.shape[:-1] + [depth].
    """
    return one_hot_rows("one_hot", input, depth, allow_out_of_range)


def uniform_random(shape, dtype="float32", min=-1.0, max=1.0, seed=0, name=None):  # noqa: A002
    """Random numbers of the uniform distribution over [min, max).

    Args:
        shape (list|tuple|Variable): sizes, which may be tensors of shape [1].
        dtype (str): float32 or float64.
        min, max (float): the bounds.
        seed (int): 0 uses the global generator.
    """
    mode.choose_static()
    check_dtype(dtype, "dtype", FLOATS, "uniform_random/rand")
    check_type(shape, "shape", (list, tuple, Variable), "uniform_random/rand")
    vartype = convert_np_dtype_to_dtype_(dtype)
    out = named(
        name,
        _ops.uniform_random,
        min=float(min),
        max=float(max),
        seed=seed,
        dtype=vartype,
        **shape_arguments(shape),
    )
    try_set_static_shape_tensor(out, shape)
    return out


def uniform_random_batch_size_like(
    input,  # noqa: A002
    shape,
    dtype="float32",
    input_dim_idx=0,
    output_dim_idx=0,
    min=-1.0,  # noqa: A002
    max=1.0,  # noqa: A002
    seed=0,
):
    """Random numbers of the uniform distribution over [min, max), with the batch size of `input`.

    Args:
        input (Variable): float32 or float64; its size `input_dim_idx` becomes the size `output_dim_idx`.
        shape (list|tuple of int): the other sizes.
        dtype (str): float32 or float64.
        min, max (float): the bounds.
        seed (int): 0 uses the global generator.
    """
    check_variable_and_dtype(input, "Input", FLOATS, "uniform_random_batch_size_like")
    check_type(shape, "shape", (list, tuple), "uniform_random_batch_size_like")
    check_dtype(dtype, "dtype", FLOATS, "uniform_random_batch_size_like")
    return _ops.uniform_random_batch_size_like(
        input,
        shape=list(shape),
        input_dim_idx=input_dim_idx,
        output_dim_idx=output_dim_idx,
        min=float(min),
        max=float(max),
        seed=seed,
        dtype=convert_np_dtype_to_dtype_(dtype),
    )


def gaussian_random(shape, mean=0.0, std=1.0, seed=0, dtype="float32", name=None):
    """Random numbers of the normal distribution.

    Args:
        shape (list|tuple|Variable): sizes, which may be tensors of shape [1].
        mean, std (float): of the distribution.
        seed (int): 0 uses the global generator.
        dtype (str): float32 or float64.
    """
    mode.choose_static()
    check_dtype(dtype, "dtype", FLOATS, "gaussian_random/randn")
    check_type(shape, "shape", (list, tuple, Variable), "gaussian_random/randn")
    vartype = convert_np_dtype_to_dtype_(dtype)
    return named(
        name,
        _ops.gaussian_random,
        mean=float(mean),
        std=float(std),
        seed=seed,
        dtype=vartype,
        **shape_arguments(shape),
    )


def get_tensor_from_selected_rows(x, name=None):
    """The value tensor of a SelectedRows.

    Raises:
        TypeError: if `x` is not a SelectedRows Variable.
    """
    check_type(x, "x", Variable, "get_tensor_from_selected_rows")
    if in_static_mode() and x.type != VarType.SELECTED_ROWS:
        raise TypeError(f"get_tensor_from_selected_rows takes a Variable of type SELECTED_ROWS, got {x.type}")
    return named(name, _ops.get_tensor_from_selected_rows, x)


def merge_selected_rows(x, name=None):
    """A SelectedRows with duplicate rows added."""
    return named(name, _ops.merge_selected_rows, x)


def sampling_id(x: Any, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: str = "float32") -> Any:
    """Samples a class for each row of probabilities: the first whose cumulative sum exceeds a random number.

    Args:
        x (Variable): [N, classes], float32 or float64.
        min, max (float): bounds of the random number; min must be less than max (ValueError).
        seed (int): 0 uses the global generator.
        dtype (str): ignored: the indices are int64.

    Returns:
        Variable: int64 [N].

    Examples:
        >>> import paddle
        >>> p = paddle.to_tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> paddle.fluid.layers.sampling_id(p).numpy().tolist()
        [1, 0]
    """
    return _ops.sampling_id(x, min=min, max=max, seed=seed)


def gaussian_random_batch_size_like(
    input: Any,  # noqa: A002
    shape: Any,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: str = "float32",
) -> Any:
    """Random numbers of the normal distribution, with the batch size of `input` (Paddle 2.0:
    paddle.fluid.layers.gaussian_random_batch_size_like).

    Args:
        input (Variable): its size `input_dim_idx` becomes the size `output_dim_idx`.
        shape (list|tuple of int): the other sizes.
        mean, std (float): of the distribution.
        seed (int): 0 uses the global generator.
        dtype (str): float16 or float32.

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.gaussian_random_batch_size_like(paddle.ones([13, 2]), shape=[-1, 11]).shape
        [13, 11]
    """
    where = "fluid.layers.gaussian_random_batch_size_like"
    check_type(shape, "shape", (list, tuple), where)
    check_dtype(dtype, "dtype", ["float16", "float32", "int"], where)
    return _ops.gaussian_random_batch_size_like(
        input,
        shape=list(shape),
        input_dim_idx=input_dim_idx,
        output_dim_idx=output_dim_idx,
        mean=float(mean),
        std=float(std),
        seed=seed,
        dtype=convert_np_dtype_to_dtype_(dtype),
    )
