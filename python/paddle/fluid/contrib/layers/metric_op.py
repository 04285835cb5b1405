"""ctr_metric_bundle: running sums from which metrics of click models are computed."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper

__all__ = ["ctr_metric_bundle"]


def ctr_metric_bundle(input: Any, label: Any) -> tuple[Any, ...]:  # noqa: A002
    """Sums over all batches (Paddle 2.0: paddle.fluid.contrib.layers.ctr_metric_bundle). The metrics, after an
    all_reduce for several processes: MAE = abserr / instances, RMSE = sqrt(sqrerr / instances), predicted
    CTR = prob / instances, q = q / instances, the actual CTR = positives / instances.

    Args:
        input (Variable): [N, 1], float32: the click probabilities.
        label (Variable): of the shape of `input`: 1 for a click, else 0.

    Returns:
        tuple: the persistable sums, [1] each: sqrerr, abserr, prob, q (of sigmoid(input)), positives, instances.

    Raises:
        AssertionError: if the shapes differ.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x, label = fluid.data("x", [None, 1]), fluid.data("label", [None, 1])
        >>> len(fluid.contrib.layers.ctr_metric_bundle(x, label))
        6
    """
    assert input.shape == label.shape, f"ctr_metric_bundle: shapes differ: {input.shape} and {label.shape}"
    check_variable_and_dtype(input, "input", ["float32"], "ctr_metric_bundle")
    helper = LayerHelper("ctr_metric_bundle", **locals())

    def count_up(of_batch: Any) -> Any:
        total = helper.create_global_variable(persistable=True, dtype="float32", shape=[1])
        helper.set_variable_initializer(total, Constant(0.0))
        return _ops.elementwise_add(of_batch, total, Out=total)

    off = _ops.elementwise_sub(input, label)
    ones = _ops.fill_constant_batch_size_like(label, shape=[-1, 1], value=1.0, dtype=label.dtype)
    parts = (
        _ops.squared_l2_norm(off),
        _ops.l1_norm(off),
        _ops.reduce_sum(input),
        _ops.reduce_sum(_ops.sigmoid(input)),
        _ops.reduce_sum(label),
        _ops.reduce_sum(ones),
    )
    return tuple(count_up(part) for part in parts)
