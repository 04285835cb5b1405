"""yolov3_loss: sigmoid cross entropy of centers, objectness and classes, absolute differences of sizes. Objects are
assigned to cells by index maps; of several objects of one cell the last one counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ids, sticky
from ..call import Call, Declined
from ..shape.indexing import _last_of_each


def _iou(xp, a, b):
    """Of boxes by center and size: x, y, width, height."""

    def side(c1, w1, c2, w2):
        return xp.minimum(c1 + w1 / 2, c2 + w2 / 2) - xp.maximum(c1 - w1 / 2, c2 - w2 / 2)

    w, h = side(a[0], a[2], b[0], b[2]), side(a[1], a[3], b[1], b[3])
    shared = xp.where((w < 0) | (h < 0), w * 0, w * h)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def _entropy(xp, x, label):
    return xp.maximum(x, x.dtype.type(0)) - x * label + xp.log1p(xp.exp(-abs(x)))


def _slope(xp, x, label):
    return 1 / (1 + xp.exp(-x)) - label


class _Loss:
    def __init__(self, call: Call) -> None:
        self.x, self.boxes = call.filled("X", "GTBox")
        a, self.call, self.xp, self.of = call.attrs, call, call.xp, self.x.dtype.type
        xp, of = self.xp, self.of
        self.classes, self.mask = a["class_num"], list(a["anchor_mask"])
        self.n, _, self.rows, self.columns = self.x.shape
        self.anchors = np.asarray(a["anchors"], np.float64).reshape(-1, 2)
        self.count = self.boxes.shape[1]
        self.labels = call.array("GTLabel")
        score = call.ins.get("GTScore")
        self.scores = xp.ones((self.n, self.count), self.x.dtype) if score is None else score
        self.input = of(a["downsample_ratio"] * self.rows)
        self.v = self.x.reshape(self.n, len(self.mask), 5 + self.classes, self.rows, self.columns)
        smooth = min(1 / self.classes, 1 / 40) if a["use_label_smooth"] else 0.0
        self.targets = of(1 - smooth), of(smooth)
        self.objects = [self.boxes[..., k] for k in range(4)]
        self.valid = ~((self.objects[2] < 1e-6) | (self.objects[3] < 1e-6))

    def predictions(self):
        """Boxes of all cells: four arrays [images, anchors, rows, columns]."""
        xp, of, v = self.xp, self.of, self.v
        factor = self.call.attrs["scale_x_y"]
        scale, bias = of(factor), of(np.float32(-0.5 * (factor - 1)))
        own = [xp.asarray(self.anchors[self.mask, k].astype(self.x.dtype)).reshape(1, -1, 1, 1) for k in (0, 1)]
        places = xp.arange(self.columns).astype(v.dtype), xp.arange(self.rows).astype(v.dtype).reshape(-1, 1)
        centers = [(at + 1 / (1 + xp.exp(-v[:, :, k])) * scale + bias) / of(self.rows) for k, at in enumerate(places)]
        return [*centers, *(xp.exp(v[:, :, 2 + k]) * own[k] / self.input for k in (0, 1))]

    def ignored(self):
        """Cells whose prediction overlaps an object well."""
        xp = self.xp
        objects = [v[:, None, None, None, :] for v in self.objects]
        share = _iou(xp, [p[..., None] for p in self.predictions()], objects)
        share = xp.where(self.valid[:, None, None, None, :], share, self.of(0))
        best = xp.where(share > 0, share, self.of(0)).max(axis=-1)  # NaN is no overlap
        return best > self.of(self.call.attrs["ignore_thresh"])

    def matches(self):
        """The index in anchor_mask of the anchor closest to each object, -1 if another output has it."""
        xp, zero = self.xp, self.objects[0] * 0
        sizes = (self.anchors / float(self.input)).astype(self.x.dtype)
        shares = [_iou(xp, [zero, zero, *(zero + s for s in size)], [zero, zero, *self.objects[2:]]) for size in sizes]
        share = xp.stack(shares, -1)
        best = xp.argmax(xp.where(share > 0, share, self.of(0)), axis=-1)
        found = xp.full(best.shape, -1, "int32")
        for i in reversed(range(len(self.mask))):
            found = xp.where(best == self.mask[i], np.int32(i), found)
        return xp.where(self.valid, found, np.int32(-1))

    def assign(self, matched) -> None:
        """Sets the cells of objects [images, objects], targets, weights and the numbers of their cells."""
        xp, of = self.xp, self.of
        x, y, w, h = self.objects

        def spot(c, n: int):
            at = xp.where(c == c, c * of(n), of(0))
            return xp.clip(at, 0, n - 1).astype("int64")

        i, j = spot(x, self.columns), spot(y, self.rows)
        self.used = matched >= 0
        own = xp.maximum(matched, 0).astype("int64")
        image = xp.arange(self.n, dtype="int64").reshape(-1, 1) * len(self.mask)
        self.cells = ((image + own) * self.rows + j) * self.columns + i
        sides = [xp.take(xp.asarray(self.anchors[self.mask, k].astype(self.x.dtype)), own) for k in (0, 1)]
        safe = [xp.where(self.used, v, of(1)) for v in (w, h)]
        size = of(self.rows)
        logs = [xp.log(v * self.input / side) for v, side in zip(safe, sides, strict=True)]
        self.place = xp.stack([x * size - i.astype(w.dtype), y * size - j.astype(w.dtype), *logs], -1)
        self.weight = (of(2) - w * h) * self.scores
        self.numbers = xp.take(self.cell_rows(), self.cells, axis=0)
        same = self.labels[..., None] == xp.arange(self.classes)
        self.classes_wanted = xp.where(same, self.targets[0], self.targets[1])

    def cell_rows(self):
        """The numbers of each cell in a row."""
        return self.xp.ascontiguousarray(self.v.transpose(0, 1, 3, 4, 2)).reshape(-1, 5 + self.classes)


def _forward(call: Call) -> dict:
    s, xp = _Loss(call), call.xp
    zero, matched = s.of(0), s.matches()
    s.assign(matched)
    target = xp.where(s.ignored(), s.of(-1), zero).reshape(-1)
    # Cells of objects; those without one share a last row.
    at = xp.where(s.used, s.cells, target.size).reshape(-1)
    last = _last_of_each(call, at, target.size + 1)[: target.size]
    target = xp.where(last >= 0, xp.take(s.scores.reshape(-1), xp.maximum(last, 0)), target)
    x, place = s.numbers, s.place
    each = (_entropy(xp, x[..., :2], place[..., :2]) + abs(place[..., 2:] - x[..., 2:4])).sum(axis=-1) * s.weight
    each = each + _entropy(xp, x[..., 5:], s.classes_wanted).sum(axis=-1) * s.scores
    loss = xp.where(s.used, each, zero).sum(axis=1)
    target = target.reshape(s.n, len(s.mask), s.rows, s.columns)
    object_ = s.v[:, :, 4]
    there = target > 1e-5
    cost = xp.where(there, _entropy(xp, object_, s.of(1)) * target, _entropy(xp, object_, zero))
    loss = loss + xp.where(there | (target > -0.5), cost, zero).sum(axis=(1, 2, 3))
    return {"Loss": loss, "ObjectnessMask": target, "GTMatchMask": matched}


def _backward(call: Call) -> dict:
    s, xp = _Loss(call), call.xp
    target, matched, d = call.array("ObjectnessMask"), call.array("GTMatchMask"), call.array("Loss@GRAD")
    if matched.dtype.name != "int32" or d.dtype != s.x.dtype:
        raise Declined
    sticky.check_ids(call, matched, -1, len(s.mask))
    s.assign(xp.minimum(matched, len(s.mask) - 1))
    x, place, zero = s.numbers, s.place, s.of(0)
    center = _slope(xp, x[..., :2], place[..., :2])
    size = xp.where(x[..., 2:4] > place[..., 2:], s.of(1), s.of(-1))
    first = xp.concatenate([center, size], -1) * s.weight[..., None]
    classes = _slope(xp, x[..., 5:], s.classes_wanted) * s.scores[..., None]
    row = xp.concatenate([first, classes[..., :1] * 0, classes], -1) * d.reshape(-1, 1, 1)
    row = xp.where(s.used[..., None], row, zero).reshape(-1, 5 + s.classes)
    cells = xp.where(s.used, s.cells, 0).reshape(-1)
    dx = ids.sum_at(call, s.n * len(s.mask) * s.rows * s.columns, cells, row)
    dx = dx.reshape(s.n, len(s.mask), s.rows, s.columns, -1).transpose(0, 1, 4, 2, 3)
    there, object_ = target > 1e-5, s.v[:, :, 4]
    slope = xp.where(there, _slope(xp, object_, s.of(1)) * target, _slope(xp, object_, zero))
    slope = xp.where(there | (target > -0.5), slope, zero) * d.reshape(-1, 1, 1, 1)
    dx = xp.concatenate([dx[:, :, :4], slope[:, :, None], dx[:, :, 5:]], 2)
    return {"X@GRAD": dx.reshape(s.x.shape)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"yolov3_loss": _forward, "yolov3_loss_grad": _backward}
