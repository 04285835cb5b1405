"""`paddle.vision.ops` of Paddle 2.1 to 2.6: regions of interest, non-maximum suppression, boxes, JPEG files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

import paddle
from paddle._basics.mode import in_static_mode
from paddle.nn.layer.layers import Layer

__all__: list[str] = []


def _size(output_size: Any) -> tuple[int, int]:
    return (output_size, output_size) if isinstance(output_size, int) else (output_size[0], output_size[1])


def roi_align(x, boxes, boxes_num, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=True, name=None):
    """Means of bilinear samples in the bins of each box.

    Args:
        x (Tensor): [N, C, H, W].
        boxes (Tensor): [R, 4]: x1, y1, x2, y2, those of the first image first.
        boxes_num (Tensor): int32, [N]: the number of boxes of each image.
        output_size (int|tuple): bins, [height, width].
        spatial_scale (float): from the boxes' coordinates to those of `x`.
        sampling_ratio (int): samples of a bin per dimension; at most 0: as many as its size rounded up.
        aligned (bool): the centre of a pixel is at its coordinates plus a half.

    Raises:
        ValueError: with `aligned`, for a box smaller than one pixel of `x` (dygraph mode).

    Source: He et al., "Mask R-CNN".

    Examples:
        >>> import paddle
        >>> x, boxes = paddle.ones([1, 2, 8, 8]), paddle.to_tensor([[0.0, 0.0, 4.0, 4.0]])
        >>> paddle.vision.ops.roi_align(x, boxes, paddle.to_tensor([1], dtype="int32"), 2).shape
        [1, 2, 2, 2]
    """
    height, width = _size(output_size)
    if aligned:
        if not in_static_mode():
            sides = boxes.numpy() * spatial_scale
            if len(sides) and (sides[:, 2:] - sides[:, :2]).min() < 1:
                raise ValueError(
                    "roi_align: aligned=True needs boxes of at least one pixel of x here, the smallest side is "
                    f"{(sides[:, 2:] - sides[:, :2]).min():.3g}"
                )
        boxes = boxes - 0.5 / spatial_scale
    return paddle.fluid.layers.roi_align(x, boxes, height, width, spatial_scale, sampling_ratio, boxes_num)


def roi_pool(x, boxes, boxes_num, output_size, spatial_scale=1.0, name=None):
    """The maximum in each bin of each box; see `roi_align` for the arguments.

    Source: Girshick, "Fast R-CNN".

    Examples:
        >>> import paddle
        >>> x, boxes = paddle.ones([1, 2, 8, 8]), paddle.to_tensor([[0.0, 0.0, 4.0, 4.0]])
        >>> paddle.vision.ops.roi_pool(x, boxes, paddle.to_tensor([1], dtype="int32"), 2).shape
        [1, 2, 2, 2]
    """
    height, width = _size(output_size)
    out = paddle.fluid.layers.roi_pool(x, boxes, height, width, spatial_scale, boxes_num)
    return out[0] if isinstance(out, tuple) else out  # dygraph mode: with the positions of the maxima


class _OfBoxes(Layer):
    """Base of the layers of regions: output size and scale."""

    def __init__(self, output_size: Any, spatial_scale: float = 1.0) -> None:
        super().__init__()
        self._output_size, self._spatial_scale = output_size, spatial_scale

    def extra_repr(self) -> str:
        """The arguments."""
        return f"output_size={self._output_size}, spatial_scale={self._spatial_scale}"


class RoIAlign(_OfBoxes):
    """`roi_align` as a layer.

    Examples:
        >>> import paddle
        >>> layer = paddle.vision.ops.RoIAlign(2)
        >>> boxes = paddle.to_tensor([[0.0, 0.0, 4.0, 4.0]])
        >>> layer(paddle.ones([1, 2, 8, 8]), boxes, paddle.to_tensor([1], dtype="int32")).shape
        [1, 2, 2, 2]
    """

    def forward(self, x: Any, boxes: Any, boxes_num: Any, aligned: bool = True) -> Any:
        """The bins of the boxes."""
        return roi_align(x, boxes, boxes_num, self._output_size, self._spatial_scale, aligned=aligned)


class RoIPool(_OfBoxes):
    """`roi_pool` as a layer.

    Examples:
        >>> import paddle
        >>> layer = paddle.vision.ops.RoIPool(2)
        >>> boxes = paddle.to_tensor([[0.0, 0.0, 4.0, 4.0]])
        >>> layer(paddle.ones([1, 2, 8, 8]), boxes, paddle.to_tensor([1], dtype="int32")).shape
        [1, 2, 2, 2]
    """

    def forward(self, x: Any, boxes: Any, boxes_num: Any) -> Any:
        """The bins of the boxes."""
        return roi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


def _kept(boxes: np.ndarray, threshold: float) -> list[int]:
    """Indices of the boxes, in the order given, that overlap no kept earlier one by more than `threshold`."""
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    alive = np.ones(len(boxes), bool)
    kept: list[int] = []
    for i in range(len(boxes)):
        if not alive[i]:
            continue
        kept.append(i)
        low, high = np.maximum(boxes[:, :2], boxes[i, :2]), np.minimum(boxes[:, 2:], boxes[i, 2:])
        common = np.prod(np.maximum(high - low, 0), axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            alive &= ~(common / (areas + areas[i] - common) > threshold)
    return kept


def nms(boxes, iou_threshold=0.3, scores=None, category_idxs=None, categories=None, top_k=None):
    """Indices of the boxes that non-maximum suppression keeps. Dygraph only.

    Args:
        boxes (Tensor): [R, 4]: x1, y1, x2, y2; without `scores` in falling order of their scores.
        iou_threshold (float): boxes that overlap a better one by more are dropped.
        scores (Tensor, optional): [R].
        category_idxs, categories (Tensor, list): the category of each box, and all of them; boxes of different
            categories do not compete. top_k (int, optional): the number of indices at most.

    Returns:
        Tensor: int64, in falling order of scores.

    Examples:
        >>> import paddle
        >>> boxes = paddle.to_tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [4.0, 4.0, 5.0, 5.0]])
        >>> paddle.vision.ops.nms(boxes, 0.5).numpy().tolist()
        [0, 2]
    """
    corners = boxes.numpy().astype("float64").reshape(-1, 4)
    if scores is None:
        return paddle.to_tensor(np.array(_kept(corners, iou_threshold), "int64"))
    ranks = scores.numpy()
    if category_idxs is None:
        order = np.argsort(-ranks, kind="stable")
        kept = order[_kept(corners[order], iou_threshold)]
    else:
        if categories is None:
            raise AssertionError("nms: categories must be given with category_idxs")
        parts = []
        for category in categories:
            members = np.flatnonzero(category_idxs.numpy() == category)
            members = members[np.argsort(-ranks[members], kind="stable")]
            parts.append(members[_kept(corners[members], iou_threshold)])
        kept = np.concatenate(parts) if parts else np.zeros(0, "int64")
        kept = kept[np.argsort(-ranks[kept], kind="stable")]
    return paddle.to_tensor(kept[:top_k].astype("int64"))


def box_coder(
    prior_box,
    prior_box_var,
    target_box,
    code_type="encode_center_size",
    box_normalized=True,
    axis=0,
    name=None,
):
    """`paddle.fluid.layers.box_coder`: boxes as offsets from priors, or back.

    Examples:
        >>> import paddle
        >>> box = paddle.to_tensor([[0.0, 0.0, 1.0, 1.0]])
        >>> paddle.vision.ops.box_coder(box, [1.0, 1.0, 1.0, 1.0], box).numpy().ravel().tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    return paddle.fluid.layers.box_coder(
        prior_box, prior_box_var, target_box, code_type, box_normalized, name=name, axis=axis
    )


def prior_box(
    input,  # noqa: A002
    image,
    min_sizes,
    max_sizes=None,
    aspect_ratios=[1.0],  # noqa: B006
    variance=[0.1, 0.1, 0.2, 0.2],  # noqa: B006
    flip=False,
    clip=False,
    steps=[0.0, 0.0],  # noqa: B006
    offset=0.5,
    min_max_aspect_ratios_order=False,
    name=None,
):
    """`paddle.fluid.layers.prior_box`: the boxes of an SSD's feature map, and their variances.

    Examples:
        >>> import paddle
        >>> x, image = paddle.ones([1, 3, 2, 2]), paddle.ones([1, 3, 8, 8])
        >>> [y.shape for y in paddle.vision.ops.prior_box(x, image, [2.0])]
        [[2, 2, 1, 4], [2, 2, 1, 4]]
    """
    return paddle.fluid.layers.prior_box(
        input,
        image,
        min_sizes,
        max_sizes,
        aspect_ratios,
        variance,
        flip,
        clip,
        steps,
        offset,
        name,
        min_max_aspect_ratios_order,
    )


def read_file(filename, name=None):
    """The bytes of a file as a uint8 Tensor.

    Examples:
        >>> import paddle
        >>> str(paddle.vision.ops.read_file(__import__("os").__file__).dtype)
        'VarType.UINT8'
    """
    with open(filename, "rb") as f:
        return paddle.to_tensor(np.frombuffer(f.read(), "uint8").copy())


def decode_jpeg(x, mode="unchanged", name=None):
    """The pixels of a JPEG file's bytes, [C, H, W] in uint8; needs Pillow.

    Args:
        mode (str): "unchanged", "gray" or "rgb".
    """
    from PIL import Image

    image = Image.open(io.BytesIO(x.numpy().tobytes()))
    modes = {"unchanged": None, "gray": "L", "rgb": "RGB"}
    if mode not in modes:
        raise ValueError(f"decode_jpeg: mode must be one of {', '.join(modes)}, got {mode!r}")
    pixels = np.asarray(image if modes[mode] is None else image.convert(modes[mode]))
    pixels = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    return paddle.to_tensor(pixels.copy())
