"""Layers of fluid.contrib."""

from __future__ import annotations

from paddle import _ops

__all__ = ["sequence_topk_avg_pooling"]


def sequence_topk_avg_pooling(input, row, col, topks, channel_num):  # noqa: A002
    """Of every row of every channel's matrix the averages of its k largest elements, for each k of `topks`.

    Args:
        input (Variable): [elements, 1], float32 or float64; each sequence holds the matrices of `channel_num` channels.
        row, col (Variable): their LoD says how many rows and columns the matrices of each sequence have.
        topks (list of int): rising; where a row has fewer elements, what is missing counts as 0.
        channel_num (int): channels.

    Returns:
        Variable: [rows of all sequences, channel_num * len(topks)], the LoD of `row`.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x, row, col = (fluid.data(n, [None, 1], lod_level=1) for n in ("x", "row", "col"))
        >>> fluid.contrib.layers.sequence_topk_avg_pooling(x, row, col, topks=[1, 3], channel_num=5).shape
        (-1, 10)
    """
    out, pos = _ops.sequence_topk_avg_pooling(input, row, col, topks=list(topks), channel_num=channel_num)
    pos.stop_gradient = True
    return out
