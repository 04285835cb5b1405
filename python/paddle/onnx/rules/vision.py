"""Operators of vision models: rearranged channels, grids, boxes."""

from __future__ import annotations

import math

import numpy as np

from ..call import Call
from ..registry import rule
from .convolution import channels_last, to_first, to_last


@rule("pixel_shuffle")
def _pixel_shuffle(c: Call) -> None:
    last, rank = channels_last(c), c.rank()
    x = to_first(c, c.x(), rank) if last else c.x()
    out = c.op("DepthToSpace", x, blocksize=c.attr("upscale_factor"), mode="CRD")
    c.set("Out", to_last(c, out, rank) if last else out)


def _known_sizes(c: Call) -> list[int]:
    """Sizes of X, of which the first may be unknown."""
    shape = c.shape()
    if -1 in shape[1:]:
        c.fail("sizes have to be known")
    return shape


@rule("shuffle_channel")
def _shuffle_channel(c: Call) -> None:
    _, channels, height, width = _known_sizes(c)
    groups = c.attr("group")
    parts = c.reshape(c.x(), [0, groups, channels // groups, height, width])
    c.set("Out", c.reshape(c.transpose(parts, [0, 2, 1, 3, 4]), [0, channels, height, width]))


@rule("temporal_shift")
def _temporal_shift(c: Call) -> None:
    _, channels, height, width = _known_sizes(c)
    steps, ratio = c.attr("seg_num"), c.attr("shift_ratio")
    first, second = int(channels * ratio), int(channels * 2 * ratio)
    parts = c.reshape(c.x(), [-1, steps, channels, height, width])
    moved = []
    for begin, end, by in ((0, first, 1), (first, second, -1), (second, channels, 0)):
        if begin == end:
            continue
        part = c.slice(parts, [2], [begin], [end])
        if by:
            pads = [0] * 10
            pads[1 if by > 0 else 6] = 1
            part = c.op("Pad", part, c.const(pads), c.like(0.0))
            part = c.slice(part, [1], [0 if by > 0 else 1], [steps if by > 0 else steps + 1])
        moved.append(part)
    out = c.op("Concat", *moved, axis=2) if len(moved) > 1 else moved[0]
    c.set("Out", c.reshape(out, [-1, channels, height, width]))


@rule("grid_sampler")
def _grid_sampler(c: Call) -> None:
    if c.opset < 16:
        c.fail("it requires opset 16 or later")
    mode = c.attr("mode")
    if mode == "bilinear" and c.opset >= 20:
        mode = "linear"
    attrs = {"mode": mode, "padding_mode": c.attr("padding_mode"), "align_corners": int(c.attr("align_corners"))}
    c.set("Output", c.op("GridSample", c.x(), c.x("Grid"), **attrs))


@rule("affine_grid")
def _affine_grid(c: Call) -> None:
    shape = c.constant_ints("the output's shape", c.ints("output_shape", "OutputShape"))
    corners = c.attr("align_corners")

    def places(n: int) -> np.ndarray:
        if n == 1:
            return np.array([-1.0 if corners else 0.0])
        return np.linspace(-1, 1, n) if corners else (np.arange(n) * 2 + 1) / n - 1

    height, width = shape[2:]
    y, x = np.meshgrid(places(height), places(width), indexing="ij")
    points = np.stack([x, y, np.ones_like(x)], -1).reshape(-1, 3)
    out = c.op("MatMul", c.const(points[None], c.dtype("Theta")), c.transpose(c.x("Theta"), [0, 2, 1]))
    c.set("Output", c.reshape(out, [0, height, width, 2]))


@rule("cvm")
def _cvm(c: Call) -> None:
    x = c.x()
    if not c.attr("use_cvm"):
        c.set("Y", c.slice(x, [1], [2], [2**62]))
        return
    counts = c.op("Log", c.op("Add", c.slice(x, [1], [0], [2]), c.like(1.0)))
    show, click = c.split(counts, [1, 1], 1)
    c.set("Y", c.op("Concat", show, c.op("Sub", click, show), c.slice(x, [1], [2], [2**62]), axis=1))


@rule("prior_box")
def _prior_box(c: Call) -> None:
    (_, _, rows, columns), (_, _, height, width) = c.shape("Input"), c.shape("Image")
    if -1 in (rows, columns, height, width):
        c.fail("sizes have to be known")
    ratios = [1.0]
    for ratio in c.attr("aspect_ratios"):
        if not any(abs(ratio - known) < 1e-6 for known in ratios):
            ratios += [ratio, 1 / ratio] if c.attr("flip") else [ratio]
    step_x = c.attr("step_w") or width / columns
    step_y = c.attr("step_h") or height / rows
    sizes: list[tuple[float, float]] = []
    largest = c.attr("max_sizes")
    for i, size in enumerate(c.attr("min_sizes")):
        square = [(math.sqrt(size * largest[i]),) * 2] if largest else []
        others = [(size * math.sqrt(r), size / math.sqrt(r)) for r in ratios if abs(r - 1) >= 1e-6]
        own = [(size, size)]
        sizes += own + square + others if c.attr("min_max_aspect_ratios_order") else own + others + square
    x = (np.arange(columns) + c.attr("offset")) * step_x
    y = (np.arange(rows) + c.attr("offset")) * step_y
    centers = np.stack(np.broadcast_arrays(x[None, :, None], y[:, None, None]), -1)
    half = np.array(sizes)[None, None] / 2
    scale = np.array([width, height])
    boxes = np.concatenate(np.broadcast_arrays((centers - half) / scale, (centers + half) / scale), -1)
    boxes = np.clip(boxes, 0, 1) if c.attr("clip") else boxes
    dtype = c.dtype("Input")
    c.set("Boxes", c.const(boxes, dtype))
    c.set("Variances", c.const(np.broadcast_to(np.array(c.attr("variances")), boxes.shape), dtype))


@rule("yolo_box")
def _yolo_box(c: Call) -> None:
    _, _, rows, columns = c.shape()
    if -1 in (rows, columns):
        c.fail("sizes have to be known")
    anchors = np.array(c.attr("anchors"), "float64").reshape(-1, 2)
    count, classes, dtype = len(anchors), c.attr("class_num"), c.dtype()
    scale, down = c.attr("scale_x_y"), c.attr("downsample_ratio")
    parts = c.reshape(c.x(), [0, count, 5 + classes, rows * columns])
    parts = c.transpose(parts, [0, 1, 3, 2])  # [batch, anchors, cells, 5 + classes]
    sizes = c.cast(c.x("ImgSize"), dtype)  # height, width
    img = c.op("Gather", sizes, c.const([1, 0]), axis=1)
    img = c.reshape(img, [-1, 1, 1, 2])  # width, height
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    cells = np.stack([x, y], -1).reshape(1, 1, -1, 2)
    cells = cells - 0.5 * (scale - 1)
    center = c.op("Mul", c.op("Sigmoid", c.slice(parts, [3], [0], [2])), c.like(scale))
    center = c.op("Mul", c.op("Add", center, c.const(cells, dtype)), img)
    center = c.op("Div", center, c.const([columns, rows], dtype))
    extent = c.op("Mul", c.op("Exp", c.slice(parts, [3], [2], [4])), c.const(anchors[None, :, None], dtype))
    extent = c.op("Div", c.op("Mul", extent, img), c.const([down * columns, down * rows], dtype))
    half = c.op("Div", extent, c.like(2.0))
    low, high = c.op("Sub", center, half), c.op("Add", center, half)
    if c.attr("clip_bbox"):
        low = c.op("Max", low, c.like(0.0))
        high = c.op("Min", high, c.op("Sub", img, c.like(1.0)))
    confidence = c.op("Sigmoid", c.slice(parts, [3], [4], [5]))
    kept = c.op("Not", c.op("Less", confidence, c.like(c.attr("conf_thresh"))))
    boxes = c.op("Where", kept, c.op("Concat", low, high, axis=3), c.like(0.0))
    scores = c.op("Mul", c.op("Sigmoid", c.slice(parts, [3], [5], [5 + classes])), confidence)
    scores = c.op("Where", kept, scores, c.like(0.0))
    c.set("Boxes", c.reshape(boxes, [0, count * rows * columns, 4]))
    c.set("Scores", c.reshape(scores, [0, count * rows * columns, classes]))


def _corners(c: Call, boxes: str, axis: int) -> list[str]:
    """The four coordinates, each without the dimension of coordinates."""
    return [c.squeeze(part, [axis]) for part in c.split(boxes, [1] * 4, axis)]


@rule("iou_similarity")
def _iou_similarity(c: Call) -> None:
    extra = 0.0 if c.attr("box_normalized") else 1.0

    def size(low: str, high: str) -> str:
        length = c.op("Sub", high, low)
        return c.op("Add", length, c.like(extra)) if extra else length

    x = [c.unsqueeze(v, [1]) for v in _corners(c, c.x(), 1)]
    y = [c.unsqueeze(v, [0]) for v in _corners(c, c.x("Y"), 1)]
    wide = c.op("Relu", size(c.op("Max", x[0], y[0]), c.op("Min", x[2], y[2])))
    high = c.op("Relu", size(c.op("Max", x[1], y[1]), c.op("Min", x[3], y[3])))
    inner = c.op("Mul", wide, high)
    areas = [c.op("Mul", size(b[0], b[2]), size(b[1], b[3])) for b in (x, y)]
    ratio = c.op("Div", inner, c.op("Sub", c.op("Add", *areas), inner))
    # boxes without an area have none in common
    c.set("Out", c.op("Where", c.op("Greater", inner, c.like(0.0)), ratio, c.like(0.0)))


@rule("box_coder")
def _box_coder(c: Call) -> None:
    extra = 0.0 if c.attr("box_normalized") else 1.0

    def place(boxes: list[str]) -> tuple[str, str, str, str]:
        """Width, height and center of boxes."""
        wide, high = c.op("Sub", boxes[2], boxes[0]), c.op("Sub", boxes[3], boxes[1])
        if extra:
            wide, high = c.op("Add", wide, c.like(extra, "PriorBox")), c.op("Add", high, c.like(extra, "PriorBox"))
        two = c.like(2.0, "PriorBox")
        return wide, high, c.op("Add", boxes[0], c.op("Div", wide, two)), c.op("Add", boxes[1], c.op("Div", high, two))

    encode = c.attr("code_type").lower() == "encode_center_size"
    axis = 0 if encode else c.attr("axis")
    width, height, x, y = (c.unsqueeze(v, [axis]) for v in place(_corners(c, c.x("PriorBox"), 1)))
    if c.has("PriorBoxVar"):
        variance = [c.unsqueeze(v, [axis]) for v in _corners(c, c.x("PriorBoxVar"), 1)]
    else:
        given = c.attr("variance") or [1.0] * 4
        variance = [c.like(v, "PriorBox") for v in given]
    if encode:
        corners = _corners(c, c.x("TargetBox"), 1)
        wide, high, *_ = (c.unsqueeze(v, [1]) for v in place(corners))
        two = c.like(2.0, "PriorBox")
        x0, y0 = (c.unsqueeze(c.op("Div", c.op("Add", corners[i], corners[i + 2]), two), [1]) for i in (0, 1))
        codes = [
            c.op("Div", c.op("Sub", x0, x), width),
            c.op("Div", c.op("Sub", y0, y), height),
            c.op("Log", c.op("Abs", c.op("Div", wide, width))),
            c.op("Log", c.op("Abs", c.op("Div", high, height))),
        ]
        out = [c.op("Div", code, v) for code, v in zip(codes, variance, strict=True)]
    else:
        t = [c.op("Mul", v, code) for v, code in zip(variance, _corners(c, c.x("TargetBox"), 2), strict=True)]
        x0, y0 = c.op("Add", c.op("Mul", t[0], width), x), c.op("Add", c.op("Mul", t[1], height), y)
        two = c.like(2.0, "PriorBox")
        wide = c.op("Div", c.op("Mul", c.op("Exp", t[2]), width), two)
        high = c.op("Div", c.op("Mul", c.op("Exp", t[3]), height), two)
        far = [c.op("Add", x0, wide), c.op("Add", y0, high)]
        if extra:
            far = [c.op("Sub", v, c.like(extra, "PriorBox")) for v in far]
        out = [c.op("Sub", x0, wide), c.op("Sub", y0, high), *far]
    c.set("OutputBox", c.op("Concat", *(c.unsqueeze(v, [2]) for v in out), axis=2))


@rule("roi_align")
def _roi_align(c: Call) -> None:
    aligned = c.attr("aligned")
    if c.opset < 16 and aligned:
        c.fail("aligned=True requires opset 16 or later")
    rois = c.x("ROIs")
    if c.has("RoisNum"):
        ends = c.op("CumSum", c.cast(c.x("RoisNum"), "int64"), c.const(0))
        count = c.reshape(c.slice(c.op("Shape", rois), [0], [0], [1]), [])
        numbers = c.unsqueeze(c.op("Range", c.const(0), count, c.const(1)), [1])
        behind = c.op("Not", c.op("Less", numbers, c.unsqueeze(ends, [0])))
        batch = c.reduce("Sum", c.cast(behind, "int64"), [1], False)
    else:
        c.fail("the images of ROIs have to be given by rois_num: ONNX tensors have no LoD")
    attrs: dict = {
        "output_height": c.attr("pooled_height"),
        "output_width": c.attr("pooled_width"),
        "sampling_ratio": max(c.attr("sampling_ratio"), 0),
        "spatial_scale": float(c.attr("spatial_scale")),
    }
    if c.opset >= 16:
        attrs["coordinate_transformation_mode"] = "half_pixel" if aligned else "output_half_pixel"
    c.set("Out", c.op("RoiAlign", c.x(), rois, batch, **attrs))
