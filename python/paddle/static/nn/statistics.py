"""data_norm: normalisation by statistics accumulated over all batches."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._dispatch.append import named
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.param_attr import ParamAttr

__all__ = ["data_norm"]


def data_norm(
    input: Any,  # noqa: A002
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Any:
    """(input - batch_sum / batch_size) * sqrt(batch_size / batch_square_sum), column by column (Paddle 2.0:
    paddle.static.nn.data_norm).

    Size, sum and sum of squares are parameters. Their gradients are the batch's contributions, which an optimizer of a
    parameter server accumulates.

    Args:
        input (Variable): [N, columns], float32 or float64.
        act (str, optional): an activation operator.
        epsilon (float): added to the batch's contribution to the squares, for each row.
        param_attr (dict, optional): initial values of the parameters: batch_size (1e4), batch_sum (0), batch_square
            (1e4), scale_w (1), bias (0).
        data_layout (str): NCHW or NHWC (a ValueError otherwise); both are equivalent for rows of one dimension.
        in_place (bool): write the result to `input`.
        name (str, optional): prefix of the names of the parameters (default "dn").
        slot_dim (int): if positive, the number of columns of a slot; a slot whose first column is 0 has no shows: it
            becomes 0 and is not counted.
        sync_stats, summary_decay_rate: for GPUs; not used.
        enable_scale_and_shift (bool): multiply the result by scale_w and add bias.
        moving_mean_name, moving_variance_name, do_model_average_for_mean_and_var: not used.

    Returns:
        Variable: of the shape of `input`.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [32, 100])
        >>> paddle.static.nn.data_norm(x).shape
        (32, 100)
    """
    helper = LayerHelper("data_norm", **locals())
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"unsupported data layout: {data_layout}")
    columns = input.shape[1 if data_layout == "NCHW" else -1]
    starts = param_attr if isinstance(param_attr, dict) else {}
    prefix = "dn" if name is None else name

    def parameter(suffix: str, start: float) -> Any:
        attr = ParamAttr(name=f"{prefix}.{suffix}", initializer=Constant(float(start)), trainable=True)
        return helper.create_parameter(attr=attr, shape=[columns], dtype=input.dtype)

    scale_w = bias = None
    if enable_scale_and_shift:
        scale_w = parameter("scale_w", starts.get("scale_w", 1.0))
        bias = parameter("bias", starts.get("bias", 0.0))
    size = parameter("batch_size", starts.get("batch_size", 1e4))
    total = parameter("batch_sum", starts.get("batch_sum", 0.0))
    squares = parameter("batch_square_sum", starts.get("batch_square", 1e4))
    out = named(
        helper.name,
        _ops.data_norm,
        scale_w,
        bias,
        input,
        size,
        total,
        squares,
        epsilon=epsilon,
        slot_dim=slot_dim,
        sync_stats=sync_stats,
        summary_decay_rate=summary_decay_rate,
        enable_scale_and_shift=enable_scale_and_shift,
        **({"Y": input} if in_place else {}),
    )[0]
    return helper.append_activation(out)
