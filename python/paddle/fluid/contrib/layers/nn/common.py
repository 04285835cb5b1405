"""Pooling, NMS, correlation and bilateral_slice of fluid.contrib.layers.nn."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.element_types import takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.static.nn.common import sparse_embedding

__all__ = ["correlation", "multiclass_nms2", "sequence_topk_avg_pooling", "sparse_embedding", "bilateral_slice"]


def sequence_topk_avg_pooling(input, row, col, topks, channel_num):  # noqa: A002
    """For every row of each channel's matrix, the averages of its k largest elements, for each k of `topks`.

    Args:
        input (Variable): [elements, 1], float32 or float64; a sequence holds the matrices of `channel_num` channels.
        row, col (Variable): their LoD gives the rows and columns of the matrices of each sequence.
        topks (list of int): ascending; in a shorter row the missing elements are 0.
        channel_num (int): number of channels.

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


def multiclass_nms2(
    bboxes,
    scores,
    score_threshold,
    nms_top_k,
    keep_top_k,
    nms_threshold=0.3,
    normalized=True,
    nms_eta=1.0,
    background_label=0,
    return_index=False,
    name=None,
):
    """As `fluid.layers.multiclass_nms`, but the result has no rows if no box is kept, and the indices of the boxes are
    available.

    Args:
        return_index (bool): also return the indices of the boxes.

    The other arguments are those of `fluid.layers.multiclass_nms`.

    Returns:
        Variable: [kept boxes, 2 + coordinates of a box] with LoD by images; with `return_index` also int32
        [kept boxes, 1], indices over all images.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> boxes, scores = paddle.to_tensor([[[0.0, 0.0, 0.5, 0.5]]]), paddle.to_tensor([[[0.5]]])
        >>> nms = fluid.contrib.multiclass_nms2
        >>> out, index = nms(boxes, scores, 0.0, -1, -1, background_label=-1, return_index=True)
        >>> out.shape, index.numpy().tolist()
        ([1, 6], [[0]])
    """
    out, index = named(
        name,
        _ops.multiclass_nms2,
        bboxes,
        scores,
        background_label=background_label,
        score_threshold=score_threshold,
        nms_top_k=nms_top_k,
        nms_threshold=nms_threshold,
        keep_top_k=keep_top_k,
        nms_eta=nms_eta,
        normalized=normalized,
    )
    out.stop_gradient = index.stop_gradient = True
    return (out, index) if return_index else out


def correlation(x, y, pad_size, kernel_size, max_displacement, stride1, stride2, corr_type_multiply=1):
    """Correlation of neighbourhoods in one feature map with displaced neighbourhoods in another (FlowNet): the mean of
    the products over channels and neighbourhood. Paddle has only a GPU kernel.

    Args:
        x, y (Variable): [N, C, H, W], float32 or float64.
        pad_size (int): zero padding of both.
        kernel_size (int): side of a neighbourhood.
        max_displacement (int): maximum displacement in each direction; `stride2` is the step between displacements.
        stride1 (int): step between positions.
        stride2 (int): see above.
        corr_type_multiply (int): ignored.

    Returns:
        Variable: [N, displacements, height, width].

    Raises:
        ValueError: for invalid sizes and strides.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> x = paddle.ones([1, 2, 4, 4])
        >>> fluid.contrib.correlation(x, x, 1, 1, 1, 1, 1).shape
        [1, 9, 4, 4]
    """
    return _ops.correlation(
        x,
        y,
        pad_size=pad_size,
        kernel_size=kernel_size,
        max_displacement=max_displacement,
        stride1=stride1,
        stride2=stride2,
        corr_type_multiply=corr_type_multiply,
    )


def bilateral_slice(x, guide, grid, has_offset, name=None):
    """An affine map of the channels for every pixel, interpolated from a coarse grid.

    Args:
        x (Variable): [N, C, H, W], float32 or float64.
        guide (Variable): [N, H, W]: the depth at which a pixel reads the grid, from 0 to 1.
        grid (Variable): [N, channels, depth, rows, columns]: for each output channel C factors of the input channels,
            and with `has_offset` an offset.
        has_offset (bool): whether the grid has offsets.

    Returns:
        Variable: [N, channels of the grid / (C or C + 1), H, W]. All three inputs have gradients.

    Raises:
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle
        >>> x, guide, grid = paddle.ones([1, 3, 4, 4]), paddle.ones([1, 4, 4]), paddle.ones([1, 6, 2, 2, 2])
        >>> paddle.fluid.contrib.bilateral_slice(x, guide, grid, False).shape
        [1, 2, 4, 4]
    """
    for what, value in (("x", x), ("guide", guide), ("grid", grid)):
        check_variable_and_dtype(value, what, takes("bilateral_slice"), "bilateral_slice")
    return named(name, _ops.bilateral_slice, x, grid, guide, has_offset=has_offset)
