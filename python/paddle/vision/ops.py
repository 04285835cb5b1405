"""Vision operators: deformable convolution, YOLOv3 loss and boxes."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import named
from paddle._dispatch.arguments import convert_to_list
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional.conv import filters_of, run_deformable
from paddle.nn.layer.layers import Layer

__all__ = ["deform_conv2d", "DeformConv2D", "yolo_box", "yolo_loss"]


def deform_conv2d(
    x: Any,
    offset: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    mask: Any = None,
    name: str | None = None,
) -> Tensor:
    """Deformable convolution: each sampling point is displaced by `offset` and, with a `mask`, its value is scaled.
    Values between pixels are interpolated, values outside of the image are zero.

    Args:
        x: float32 or float64 Tensor of shape [N, C, H, W].
        offset: Tensor of shape [N, 2 * filter height * filter width, height, width]: row and column offsets of each
            filter element.
        weight: Tensor of shape [filters, C / groups, filter height, filter width].
        bias: Tensor of shape [filters], or None.
        stride, padding, dilation: an int, or [height, width].
        groups: number of groups that channels and filters are split into.
        mask: Tensor of shape [N, filter height * filter width, height, width], or None (version 1).
        name: a name for the outputs.

    Returns:
        Tensor of shape [N, filters, height, width]. ValueError for shapes that do not match.

    Examples:
        >>> import paddle
        >>> x, weight = paddle.ones([2, 1, 8, 8]), paddle.ones([4, 1, 3, 3])
        >>> offset, mask = paddle.zeros([2, 18, 6, 6]), paddle.ones([2, 9, 6, 6])
        >>> paddle.vision.ops.deform_conv2d(x, offset, weight, mask=mask).shape
        [2, 4, 6, 6]
    """
    if in_static_mode():
        check_variable_and_dtype(x, "x", FLOATS, "deform_conv2d")
        check_variable_and_dtype(offset, "offset", FLOATS, "deform_conv2d")
    operands = (x, offset, weight) if mask is None else (x, offset, mask, weight)
    attrs = {"groups": groups, "deformable_groups": 1, "im2col_step": 1}
    out = run_deformable(name, operands, stride, padding, dilation, **attrs)
    return out if bias is None else named(name, _ops.elementwise_add, out, bias, axis=1)


class DeformConv2D(Layer):
    """A deformable convolution with learned filters and bias; the arguments of `deform_conv2d`.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, padding, dilation: an int, or [height, width].
        groups: must divide the channels (ValueError otherwise).
        weight_attr: of the filters (default: normal with deviation sqrt(2 / (in_channels * height * width))).
        bias_attr: of the bias (default: zeros); False for no bias.

    Examples:
        >>> import paddle
        >>> layer = paddle.vision.ops.DeformConv2D(1, 4, 3)
        >>> layer(paddle.ones([2, 1, 8, 8]), paddle.zeros([2, 18, 6, 6])).shape
        [2, 4, 6, 6]
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        assert weight_attr is not False, "DeformConv2D: weight_attr can not be False"
        if groups < 1 or in_channels % groups:
            raise ValueError("in_channels must be divisible by groups.")
        self._weight_attr = weight_attr
        self._bias_attr = bias_attr
        self._groups = groups
        self._in_channels = in_channels
        self._out_channels = out_channels
        self._stride = convert_to_list(stride, 2, "stride")
        self._padding = convert_to_list(padding, 2, "padding")
        self._dilation = convert_to_list(dilation, 2, "dilation")
        self._kernel_size = convert_to_list(kernel_size, 2, "kernel_size")
        shape, normal = filters_of(in_channels, out_channels, groups, self._kernel_size)
        self.weight = self.create_parameter(shape=shape, attr=weight_attr, default_initializer=normal)
        self.bias = self.create_parameter(attr=bias_attr, shape=[out_channels], is_bias=True)

    def forward(self, x: Any, offset: Any, mask: Any = None) -> Any:
        """The deformable convolution of `x` with the layer's filters, plus its bias."""
        return deform_conv2d(
            x, offset, self.weight, self.bias, self._stride, self._padding, self._dilation, self._groups, mask
        )


def yolo_loss(
    x: Any,
    gt_box: Any,
    gt_label: Any,
    anchors: Any,
    anchor_mask: Any,
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Any = None,
    use_label_smooth: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> Tensor:
    """The loss of one output layer of YOLOv3.

    For each object, at its cell and best matching anchor: cross entropies of center and classes, and the L1 error of
    the logarithms of its size; plus the cross entropy of the objectness, except for predictions that overlap with an
    object by more than `ignore_thresh`.

    Args:
        x: float32 or float64 Tensor of shape [N, len(anchor_mask) * (5 + class_num), H, H].
        gt_box: Tensor of shape [N, B, 4], (center x, center y, width, height) relative to the image; rows with zero
            width or height are padding.
        gt_label: int32 Tensor of shape [N, B].
        anchors: widths and heights of all anchors in pixels, alternating.
        anchor_mask: indices of the anchors of this output.
        class_num: the number of classes.
        ignore_thresh: see above.
        downsample_ratio: pixels of the network's input per cell, along each side.
        gt_score: Tensor of shape [N, B], weights of the objects (for mixup); None: 1.
        use_label_smooth: class targets are 1 - s and s instead of 1 and 0; s is 1 / class_num, at most 1 / 40.
        name: a name for the output.
        scale_x_y: scale of the center coordinates relative to the cell.

    Returns:
        Tensor of shape [N]; only `x` has a gradient. ValueError for shapes that do not match, in static mode TypeError
        for arguments of other types.

    Examples:
        >>> import paddle
        >>> x, box = paddle.zeros([1, 7, 2, 2]), paddle.to_tensor([[[0.25, 0.25, 0.5, 0.5]]])
        >>> label = paddle.zeros([1, 1], "int32")
        >>> loss = paddle.vision.ops.yolo_loss(x, box, label, [32, 32], [0], 2, 0.7, 32)
        >>> round(float(loss), 4)
        6.5849
    """
    if in_static_mode():
        check_variable_and_dtype(x, "x", FLOATS, "yolo_loss")
        check_variable_and_dtype(gt_box, "gt_box", FLOATS, "yolo_loss")
        check_variable_and_dtype(gt_label, "gt_label", ["int32"], "yolo_loss")
        check_type(class_num, "class_num", int, "yolo_loss")
    check_type(anchors, "anchors", (list, tuple), "yolo_loss")
    check_type(anchor_mask, "anchor_mask", (list, tuple), "yolo_loss")
    check_type(ignore_thresh, "ignore_thresh", float, "yolo_loss")
    check_type(use_label_smooth, "use_label_smooth", bool, "yolo_loss")
    return named(
        name,
        _ops.yolov3_loss,
        x,
        gt_box,
        gt_label,
        gt_score,
        anchors=list(anchors),
        anchor_mask=list(anchor_mask),
        class_num=class_num,
        ignore_thresh=ignore_thresh,
        downsample_ratio=downsample_ratio,
        use_label_smooth=use_label_smooth,
        scale_x_y=scale_x_y,
    )[0]


def yolo_box(
    x: Any,
    img_size: Any,
    anchors: Any,
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The boxes of one output layer of YOLOv3.

    Args:
        x: float32 or float64 Tensor of shape [N, anchors * (5 + class_num), H, W].
        img_size: int32 Tensor of shape [N, 2], heights and widths of the original images.
        anchors: widths and heights of the anchors in pixels, alternating.
        class_num: the number of classes.
        conf_thresh: boxes and scores with a lower objectness are 0.
        downsample_ratio: pixels of the network's input per cell, along each side.
        clip_bbox: clip the boxes to the images.
        name: a name for the outputs.
        scale_x_y: scale of the center coordinates relative to the cell.

    Returns:
        (boxes [N, anchors * H * W, 4] in pixels of the original images, scores [N, anchors * H * W, class_num]).
        ValueError for shapes that do not match, in static mode TypeError for arguments of other types.

    Examples:
        >>> import paddle
        >>> x, size = paddle.zeros([1, 7, 1, 1]), paddle.to_tensor([[64, 64]], "int32")
        >>> boxes, scores = paddle.vision.ops.yolo_box(x, size, [16, 16], 2, 0.01, 32)
        >>> boxes.numpy().tolist(), scores.numpy().tolist()
        ([[[16.0, 16.0, 48.0, 48.0]]], [[[0.25, 0.25]]])
    """
    if in_static_mode():
        check_variable_and_dtype(x, "x", FLOATS, "yolo_box")
        check_variable_and_dtype(img_size, "img_size", ["int32"], "yolo_box")
    check_type(anchors, "anchors", (list, tuple), "yolo_box")
    check_type(conf_thresh, "conf_thresh", float, "yolo_box")
    return named(
        name,
        _ops.yolo_box,
        x,
        img_size,
        anchors=list(anchors),
        class_num=class_num,
        conf_thresh=conf_thresh,
        downsample_ratio=downsample_ratio,
        clip_bbox=clip_bbox,
        scale_x_y=scale_x_y,
    )
