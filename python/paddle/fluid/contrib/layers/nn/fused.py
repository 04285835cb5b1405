"""Layers that fuse several operators, and shuffle_batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.element_types import takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.param_attr import ParamAttr

__all__ = [
    "fused_bn_add_act",
    "fused_elemwise_activation",
    "fused_embedding_seq_pool",
    "shuffle_batch",
]


def fused_elemwise_activation(
    x: Any,
    y: Any,
    functor_list: Any,
    axis: int = -1,
    scale: float = 0.0,
    save_intermediate_out: bool = True,
) -> Any:
    """A binary operator fused with an activation (Paddle 2.0: paddle.fluid.contrib.layers.fused_elemwise_activation).

    Args:
        x, y (Variable): float32 or float64; the smaller one is broadcast.
        functor_list (list of str|str): two names, or both in one str with a comma: ["elementwise_add", "relu"] is
            x + relu(y), ["relu", "elementwise_add"] relu(x + y).
        axis (int): where the smaller shape begins in the larger one; -1: aligned at the end.
        scale (float): the factor of the activation "scale".
        save_intermediate_out (bool): keep the intermediate result for backward instead of computing it again.

    Returns:
        Variable: of the larger shape.

    Raises:
        ValueError: for other lists.

    Examples:
        >>> import paddle
        >>> x, y = paddle.to_tensor([1.0, -3.0]), paddle.to_tensor([1.0, 2.0])
        >>> layers = paddle.fluid.contrib.layers
        >>> layers.fused_elemwise_activation(x, y, ["relu", "elementwise_add"]).numpy().tolist()
        [2.0, 0.0]
    """
    names = functor_list.split(",") if isinstance(functor_list, str) else functor_list
    if not isinstance(names, list) or len(names) != 2:
        raise ValueError(f"functor_list should be a list of 2 names, got {functor_list!r}")
    return _ops.fused_elemwise_activation(
        x, y, axis=axis, scale=scale, save_intermediate_out=save_intermediate_out, functor_list=names
    )[0]


def fused_embedding_seq_pool(
    input: Any,  # noqa: A002
    size: Any,
    is_sparse: bool = False,
    padding_idx: int | None = None,
    combiner: str = "sum",
    param_attr: Any = None,
    dtype: str = "float32",
) -> Any:
    """For each sequence the sum of the table's rows at its ids (Paddle 2.0:
    paddle.fluid.contrib.layers.fused_embedding_seq_pool).

    Args:
        input (Variable): ids, int64 [rows, ..., 1] with one level of LoD.
        size (list of int): rows and columns of the table.
        is_sparse (bool): the gradient is SelectedRows.
        padding_idx (int, optional): an id whose row is zero; negative values count from the end.
        combiner (str): "sum".
        param_attr (ParamAttr, optional): of the table.
        dtype (str): of the table, float32 or float64.

    Returns:
        Variable: [sequences, columns].

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        >>> fluid.contrib.layers.fused_embedding_seq_pool(ids, size=[100, 8]).shape
        (-1, 8)
    """
    helper = LayerHelper("fused_embedding_seq_pool", **locals())
    table = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype, is_bias=False)
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    more = {"is_sparse": is_sparse, "combiner": combiner, "padding_idx": padding}
    return named(helper.name, _ops.fused_embedding_seq_pool, table, input, **more)


def fused_bn_add_act(
    x: Any,
    y: Any,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """relu(batch_norm(x) + y), with the channels in the last dimension (Paddle 2.0:
    paddle.fluid.contrib.layers.fused_bn_add_act).

    Args:
        x, y (Variable): float16, float32 or float64 of the same shape. Paddle supports GPUs and float16 only.
        momentum (float): the decay of the running statistics.
        epsilon (float): added to the variance, 0 to 0.001.
        param_attr, bias_attr (ParamAttr, optional): of scale and shift.
        moving_mean_name, moving_variance_name (str, optional): names of the running statistics.
        act (str, optional): ignored: the activation is relu.
        name (str, optional): a name for the output.

    Returns:
        Variable: of the shape of `x`.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x, y = fluid.data("x", [None, 4, 4, 3]), fluid.data("y", [None, 4, 4, 3])
        >>> fluid.contrib.layers.fused_bn_add_act(x, y).shape
        (-1, 4, 4, 3)
    """
    helper = LayerHelper("fused_bn_add_act", **locals())
    for value in (x, y):
        check_variable_and_dtype(value, "input", takes("fused_bn_add_activation"), "fused_bn_add_act")
    kind = "float64" if str(x.dtype).endswith("FP64") else "float32"
    shape = [x.shape[-1]]
    scale = helper.create_parameter(attr=helper.param_attr, shape=shape, dtype=kind, default_initializer=Constant(1.0))
    bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=kind, is_bias=True)
    running = []
    for own, start in ((moving_mean_name, 0.0), (moving_variance_name, 1.0)):
        attr = ParamAttr(name=own, initializer=Constant(start), trainable=False)
        running.append(helper.create_parameter(attr=attr, shape=shape, dtype=kind))
        running[-1].stop_gradient = True
    return named(
        helper.name,
        _ops.fused_bn_add_activation,
        x,
        y,
        scale,
        bias,
        momentum=momentum,
        epsilon=epsilon,
        MeanOut=running[0],
        VarianceOut=running[1],
    )[0]


def shuffle_batch(x: Any, seed: Any = None) -> Any:
    """A derangement of the rows (all dimensions but the last): no row keeps its position (Paddle 2.0:
    paddle.fluid.contrib.layers.shuffle_batch).

    Args:
        x (Variable): float32, float64, int32 or int64.
        seed (int|Variable, optional): seed of the first run; each run computes the seed of the next
            one. Default: the Program's seed, or a random one.

    Returns:
        Variable: of the shape and LoD of `x`.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [-1, 4])
        >>> fluid.contrib.layers.shuffle_batch(x).shape
        (-1, 4)
    """
    helper = LayerHelper("shuffle_batch", **locals())
    if seed is None:
        seed = helper.main_program.random_seed or int(np.random.randint(-65536, 65535))
    start = {}
    if isinstance(seed, int):
        start["startup_seed"] = seed
        seed = helper.create_variable(
            name=unique_name.generate("shuffle_batch_seed"), dtype="int64", persistable=True, shape=[1]
        )
    return named(helper.name, _ops.shuffle_batch, x, seed, SeedOut=seed, **start)[0]
