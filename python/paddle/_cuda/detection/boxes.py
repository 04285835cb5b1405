"""Boxes: box_coder, box_clip, box_decoder_and_assign, iou_similarity, anchors and priors, yolo_box,
polygon_box_transform."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from ..call import Call, Declined
from ..maps import images_of


def center(b, pixel):
    """Width, height and centre of boxes."""
    w, h = b[..., 2] - b[..., 0] + pixel, b[..., 3] - b[..., 1] + pixel
    return w, h, b[..., 0] + w / 2, b[..., 1] + h / 2


def moved(xp, size, delta, pixel):
    w, h, x, y = size
    cx, cy = delta[0] * w + x, delta[1] * h + y
    dw, dh = xp.exp(delta[2]) * w / 2, xp.exp(delta[3]) * h / 2
    return xp.stack([cx - dw, cy - dh, cx + dw - pixel, cy + dh - pixel], -1)


def _coder(call: Call) -> dict:
    (prior, target), a, xp = call.floats("PriorBox", "TargetBox"), call.attrs, call.xp
    of = prior.dtype.type
    pixel = of(0 if a["box_normalized"] else 1)
    encode = a["code_type"] == "encode_center_size"
    if target.size == 0:
        raise Declined
    if call.ins.get("PriorBoxVar") is not None:
        v = call.array("PriorBoxVar")
    else:
        v = xp.asarray(np.asarray(a["variance"] or [1.0] * 4, prior.dtype)).reshape(1, 4)
    if encode:
        w, h, x, y = center(prior, pixel)
        tw, th, _, _ = center(target, pixel)
        middle = (target[:, 2] + target[:, 0]) / 2, (target[:, 3] + target[:, 1]) / 2
        parts = [
            (middle[0][:, None] - x) / w / v[:, 0],
            (middle[1][:, None] - y) / h / v[:, 1],
            xp.log(abs(tw[:, None] / w)) / v[:, 2],
            xp.log(abs(th[:, None] / h)) / v[:, 3],
        ]
        return {"OutputBox": xp.stack(parts, -1)}
    axis = a["axis"]
    boxes, v = (xp.expand_dims(t, axis) for t in (prior, xp.broadcast_to(v, prior.shape)))
    delta = [v[..., k] * target[..., k] for k in range(4)]
    return {"OutputBox": moved(xp, center(boxes, pixel), delta, pixel)}


def _decode_and_assign(call: Call) -> dict:
    prior, v, target, score = call.floats("PriorBox", "PriorBoxVar", "TargetBox", "BoxScore")
    xp, of = call.xp, prior.dtype.type
    if target.size == 0:
        raise Declined
    n, classes = score.shape
    d, v = target.reshape(n, classes, 4), v.reshape(-1)
    most = of(call.attrs["box_clip"])
    delta = [v[0] * d[..., 0], v[1] * d[..., 1], *(xp.minimum(v[k] * d[..., k], most) for k in (2, 3))]
    size = [s[:, None] for s in center(prior, of(1))]
    boxes = moved(xp, size, delta, of(1))
    # Class 0 is the background.
    best = xp.argmax(score[:, 1:], axis=1) + 1 if classes > 1 else xp.zeros(n, "int64")
    found = xp.take_along_axis(boxes, best.reshape(n, 1, 1), 1)[:, 0]
    if classes > 1:
        positive = xp.max(score[:, 1:], axis=1) > -1
        found = xp.where(positive[:, None], found, prior)
    else:
        found = prior.copy()
    return {"DecodeBox": boxes.reshape(target.shape), "OutputAssignBox": found}


def _similarity(call: Call) -> dict:
    (x, y), xp = call.floats("X", "Y"), call.xp
    if x.size == 0 or y.size == 0:
        raise Declined
    of = x.dtype.type
    pixel = of(0 if call.attrs["box_normalized"] else 1)
    a, b = x[:, None, :], y[None, :, :]

    def area(v):
        return (v[..., 2] - v[..., 0] + pixel) * (v[..., 3] - v[..., 1] + pixel)

    w = xp.maximum(xp.minimum(a[..., 2], b[..., 2]) - xp.maximum(a[..., 0], b[..., 0]) + pixel, of(0))
    h = xp.maximum(xp.minimum(a[..., 3], b[..., 3]) - xp.maximum(a[..., 1], b[..., 1]) + pixel, of(0))
    shared = w * h
    return {"Out": shared / (area(a) + area(b) - shared + of(1e-10))}


def _places(call: Call, shape, dtype):
    """Column and row numbers of a feature map: [height, width, 1]."""
    xp, (h, w) = call.xp, shape
    return xp.arange(w).astype(dtype).reshape(1, w, 1), xp.arange(h).astype(dtype).reshape(h, 1, 1)


def _variances(call: Call, slot: str, dtype):
    shape = call.shape(slot)
    given = call.xp.asarray(np.asarray(call.attrs["variances"], dtype))
    return call.xp.ascontiguousarray(call.xp.broadcast_to(given, shape))


def _corners(xp, left, top, right, bottom):
    shape = xp.broadcast_shapes(left.shape, top.shape)
    return xp.stack([xp.broadcast_to(v, shape) for v in (left, top, right, bottom)], -1)


def _anchors(call: Call) -> dict:
    x, a, xp = call.array("Input"), call.attrs, call.xp
    if x.dtype.kind != "f":
        raise Declined
    of = x.dtype.type
    stride = [of(v) for v in a["stride"]]
    sizes = []
    for ratio in a["aspect_ratios"]:
        width = of(math.floor(math.sqrt(float(stride[0] * stride[1] / of(ratio))) + 0.5))
        height = of(math.floor(float(width * of(ratio)) + 0.5))
        sizes += [(of(s) / stride[0] * width, of(s) / stride[1] * height) for s in a["anchor_sizes"]]
    half = [xp.asarray(np.asarray([of(0.5) * (s[k] - of(1)) for s in sizes], x.dtype)) for k in (0, 1)]
    columns, rows = _places(call, x.shape[2:], x.dtype)
    cx = columns * stride[0] + of(a["offset"]) * (stride[0] - of(1))
    cy = rows * stride[1] + of(a["offset"]) * (stride[1] - of(1))
    boxes = _corners(xp, cx - half[0], cy - half[1], cx + half[0], cy + half[1])
    return {"Anchors": boxes, "Variances": _variances(call, "Variances", x.dtype)}


@functools.lru_cache(maxsize=64)
def _halves(ratios: tuple, flip: bool, least: tuple, most: tuple, squares_first: bool) -> tuple:
    """Half widths and heights of the priors of a position."""
    known: list = [np.float32(1)]
    for r in map(np.float32, ratios):
        if not any(abs(float(r - k)) < 1e-6 for k in known):
            known.append(r)
            if flip:
                known.append(np.float32(1) / r)
    found: list = []
    for i, low in enumerate(map(np.float32, least)):
        square = [(low / 2, low / 2)]
        greater = [(np.sqrt(low * np.float32(most[i])) / 2,) * 2] if i < len(most) else []
        sides = [(low * np.sqrt(r) / 2, low / np.sqrt(r) / 2) for r in known]
        if squares_first:
            others = [s for s, r in zip(sides, known, strict=True) if abs(float(r) - 1) >= 1e-6]
            found += square + greater + others
        else:
            found += sides + greater
    return tuple(found)


def _prior_grid(call: Call, x):
    a, of = call.attrs, x.dtype.type
    image = call.ins["Image"].shape
    size = of(image[3]), of(image[2])
    if a["step_w"] == 0 or a["step_h"] == 0:
        step = size[0] / of(x.shape[3]), size[1] / of(x.shape[2])
    else:
        step = of(a["step_w"]), of(a["step_h"])
    columns, rows = _places(call, x.shape[2:], x.dtype)
    return (columns + of(a["offset"])) * step[0], (rows + of(a["offset"])) * step[1], size, step


def _priors(call: Call) -> dict:
    x, a, xp = call.array("Input"), call.attrs, call.xp
    if x.dtype.kind != "f":
        raise Declined
    first = a["min_max_aspect_ratios_order"]
    pairs = _halves(tuple(a["aspect_ratios"]), a["flip"], tuple(a["min_sizes"]), tuple(a["max_sizes"]), first)
    shape = call.shape("Boxes")
    if len(pairs) != shape[2]:
        raise Declined
    w, h = (xp.asarray(np.asarray([p[k] for p in pairs], x.dtype)) for k in (0, 1))
    cx, cy, size, _ = _prior_grid(call, x)
    boxes = _corners(xp, (cx - w) / size[0], (cy - h) / size[1], (cx + w) / size[0], (cy + h) / size[1])
    if a["clip"]:
        boxes = xp.clip(boxes, x.dtype.type(0), x.dtype.type(1))
    return {"Boxes": boxes, "Variances": _variances(call, "Variances", x.dtype)}


def _density_priors(call: Call) -> dict:
    x, a, xp = call.array("Input"), call.attrs, call.xp
    if x.dtype.kind != "f":
        raise Declined
    cx, cy, size, step = _prior_grid(call, x)
    average = int((float(step[0]) + float(step[1])) * 0.5)
    first, shifts, sides = [], [], []
    for fixed, density in zip(a["fixed_sizes"], a["densities"], strict=True):
        shift = average // density
        for ratio in map(np.float32, a["fixed_ratios"]):
            pair = np.float32(fixed) * np.sqrt(ratio) / 2, np.float32(fixed) / np.sqrt(ratio) / 2
            for k in range(density * density):
                first.append(shift / 2 - average / 2)
                shifts.append((k % density * shift, k // density * shift))
                sides.append(pair)
    start = xp.asarray(np.asarray(first))
    middles = []
    for k, centre in ((0, cx), (1, cy)):
        near = (centre.astype("float64") + start).astype("float32")
        moved = near + xp.asarray(np.asarray([s[k] for s in shifts], "float32"))
        middles.append(moved.astype("float64"))
    half = [xp.asarray(np.asarray([float(s[k]) for s in sides])) for k in (0, 1)]
    edges = [
        xp.maximum((middles[0] - half[0]) / float(size[0]), 0.0),
        xp.maximum((middles[1] - half[1]) / float(size[1]), 0.0),
        xp.minimum((middles[0] + half[0]) / float(size[0]), 1.0),
        xp.minimum((middles[1] + half[1]) / float(size[1]), 1.0),
    ]
    boxes = _corners(xp, *edges).astype(x.dtype)
    if a["clip"]:
        boxes = xp.clip(boxes, x.dtype.type(0), x.dtype.type(1))
    return {"Boxes": boxes.reshape(call.shape("Boxes")), "Variances": _variances(call, "Variances", x.dtype)}


def _yolo(call: Call) -> dict:
    (x,), a, xp = call.floats("X"), call.attrs, call.xp
    if x.size == 0:
        raise Declined
    of = x.dtype.type
    n, _, h, w = x.shape
    anchors = np.asarray(a["anchors"]).reshape(-1, 2)
    count, classes = len(anchors), a["class_num"]
    v = x.reshape(n, count, 5 + classes, h, w)
    size = call.array("ImgSize").astype(x.dtype).reshape(n, 2, 1, 1, 1)
    image_h, image_w = size[:, 0], size[:, 1]

    def sigmoid(t):
        return 1 / (1 + xp.exp(-t))

    scale, shift = of(a["scale_x_y"]), of(-0.5 * (a["scale_x_y"] - 1))
    columns, rows = xp.arange(w).astype(x.dtype), xp.arange(h).astype(x.dtype).reshape(h, 1)
    cx = (columns + sigmoid(v[:, :, 0]) * scale + shift) * image_w / of(w)
    cy = (rows + sigmoid(v[:, :, 1]) * scale + shift) * image_h / of(h)
    aw, ah = (xp.asarray(anchors[:, k].astype(x.dtype)).reshape(1, count, 1, 1) for k in (0, 1))
    bw = xp.exp(v[:, :, 2]) * aw * image_w / of(a["downsample_ratio"] * w)
    bh = xp.exp(v[:, :, 3]) * ah * image_h / of(a["downsample_ratio"] * h)
    sure = sigmoid(v[:, :, 4])
    kept = ~(sure < of(a["conf_thresh"]))
    edges = [cx - bw / 2, cy - bh / 2, cx + bw / 2, cy + bh / 2]
    if a["clip_bbox"]:
        # Of NaN and a bound the bound is taken.
        edges[0], edges[1] = xp.fmax(edges[0], of(0)), xp.fmax(edges[1], of(0))
        edges[2] = xp.fmin(edges[2], image_w - 1)
        edges[3] = xp.fmin(edges[3], image_h - 1)
    boxes = xp.where(kept[..., None], xp.stack(edges, -1), of(0)).reshape(n, -1, 4)
    scores = sigmoid(v[:, :, 5:]) * sure[:, :, None]
    scores = xp.where(kept[:, :, None], scores, of(0)).transpose(0, 1, 3, 4, 2).reshape(n, -1, classes)
    return {"Boxes": boxes, "Scores": xp.ascontiguousarray(scores)}


def _polygon(call: Call) -> dict:
    (x,), xp = call.floats("Input"), call.xp
    n, c, h, w = x.shape
    columns = xp.broadcast_to(xp.arange(w), (h, w))
    rows = xp.broadcast_to(xp.arange(h).reshape(h, 1), (h, w))
    even = (xp.arange(c) % 2 == 0).reshape(c, 1, 1)
    return {"Output": (4 * xp.where(even, columns, rows)).astype(x.dtype) - x}


def _clip(call: Call) -> dict:
    """box_clip: within the images, by the height, width and scale of each."""
    (x, info), xp = call.floats("Input", "ImInfo"), call.xp
    level = call.level("Input")
    if x.size == 0 or info.shape[0] < len(level) - 1:
        raise Declined
    image = images_of(call, level)
    of, own = x.dtype.type, info[image]
    ends = [away_from_zero(xp, own[:, k] / own[:, 2]) - of(1) for k in (1, 0)]
    shape = (-1, *(1,) * (x.ndim - 2))
    parts = [xp.maximum(xp.minimum(x[..., k], ends[k % 2].reshape(shape)), of(0)) for k in range(4)]
    return {"Output": xp.stack(parts, -1)}


def away_from_zero(xp, v):
    """Rounded to the nearest, halves away from 0."""
    return xp.sign(v) * xp.floor(abs(v) + v.dtype.type(0.5))


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "box_coder": _coder,
    "box_clip": _clip,
    "box_decoder_and_assign": _decode_and_assign,
    "iou_similarity": _similarity,
    "anchor_generator": _anchors,
    "prior_box": _priors,
    "density_prior_box": _density_priors,
    "yolo_box": _yolo,
    "polygon_box_transform": _polygon,
}
