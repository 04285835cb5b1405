"""Non-maximum suppression: multiclass_nms, multiclass_nms2, multiclass_nms3, matrix_nms, generate_proposals and
generate_proposals_v2. A block suppresses the ranked boxes of a class; the numbers of boxes are LoD and shapes, so that
what is kept is read by the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined, ctype
from ..units import REALS, Unit, instances

SOURCE = r"""
// Of the boxes order[group][0..size) (numbers of boxes by descending score, -1 at the end) keep[group] gets those whose
// overlap with every kept box before is at most the bound: `first`, times eta after each kept box while above 0.5.
template <typename T> __global__ void suppress(const T* boxes, const i64* order, i64* keep, i64* count, i64 size,
                                               T pixel, T first, T eta) {
    const i64* own = order + blockIdx.x * size;
    i64 *to = keep + blockIdx.x * size, kept = 0;
    T bound = first;
    for (i64 k = 0; k < size && own[k] >= 0; k++) {
        const T* b = boxes + own[k] * 4;
        T area = b[2] < b[0] || b[3] < b[1] ? T(0) : (b[2] - b[0] + pixel) * (b[3] - b[1] + pixel);
        int over = 0;
        for (i64 i = threadIdx.x; i < kept && !over; i += blockDim.x) {
            const T* o = boxes + to[i] * 4;
            if (b[0] > o[2] || b[2] < o[0] || b[1] > o[3] || b[3] < o[1]) {
                over |= !(T(0) <= bound);
                continue;
            }
            T of = o[2] < o[0] || o[3] < o[1] ? T(0) : (o[2] - o[0] + pixel) * (o[3] - o[1] + pixel);
            T w = (o[2] < b[2] ? o[2] : b[2]) - (b[0] < o[0] ? o[0] : b[0]) + pixel;
            T h = (o[3] < b[3] ? o[3] : b[3]) - (b[1] < o[1] ? o[1] : b[1]) + pixel;
            over |= !(w * h / (area + of - w * h) <= bound);  // NaN is an overlap
        }
        if (block_join<Max>(over)) continue;
        if (threadIdx.x == 0) to[kept] = own[k];
        kept++;
        if (eta < T(1) && bound > T(0.5)) bound = bound * eta;
        __syncthreads();
    }
    if (threadIdx.x == 0) count[blockIdx.x] = kept;
}
"""
UNIT = Unit("nms", SOURCE, instances("suppress", REALS))


def _read(call: Call, *arrays) -> list[np.ndarray]:
    return [np.asarray(call.machine.download(call.xp.ascontiguousarray(a))) for a in arrays]


def suppress(call: Call, boxes, order, pixel: float, bound: float, eta: float) -> list[np.ndarray]:
    """The kept boxes of each row of `order`, on the host."""
    groups, size = order.shape
    if not groups or not size:
        return [np.zeros(0, np.int64)] * groups
    keep, count, of = call.empty((groups, size), "int64"), call.empty((groups,), "int64"), boxes.dtype.type
    kernel, order = f"suppress<{ctype(boxes, REALS)}>", call.xp.ascontiguousarray(order.astype("int64"))
    numbers = (np.int64(size), of(pixel), of(bound), of(eta))
    call.launch(UNIT, kernel, groups, 128, call.xp.ascontiguousarray(boxes), order, keep, count, *numbers)
    kept, counts = _read(call, keep, count)
    return [kept[g, : counts[g]] for g in range(groups)]


def _ranked(call: Call, scores, numbers, threshold: float, top: int):
    """Numbers of the boxes of each row above the threshold, by descending score in float32, and -1 after them."""
    xp, of = call.xp, scores.dtype.type
    some = scores > of(threshold)
    key = xp.where(some, -scores.astype("float32"), np.float32(np.inf))
    order = xp.argsort(key, axis=1, kind="stable")
    # A candidate may have the key of the others: it comes before them.
    last = xp.argsort(xp.take_along_axis(~some, order, 1), axis=1, kind="stable")
    order = xp.take_along_axis(order, last, 1)
    ranked = xp.where(xp.take_along_axis(some, order, 1), xp.take_along_axis(numbers, order, 1), -1)
    return ranked[:, :top] if top >= 0 else ranked


def _best(scores: np.ndarray, most: int) -> np.ndarray:
    """Positions by descending score, NaN last, at most `most`."""
    s = scores.astype(np.float32)
    order = np.argsort(np.where(s == s, -s, np.inf), kind="stable")
    return order if most < 0 else order[:most]


class _Found:
    """The selected boxes of all images: classes, numbers of scores, of boxes, and the index that is returned."""

    def __init__(self) -> None:
        self.classes: list[np.ndarray] = []
        self.boxes: list[np.ndarray] = []
        self.scores: list[np.ndarray] = []
        self.ends = [0]

    def add(self, classes, boxes, scores) -> None:
        self.classes.append(classes)
        self.boxes.append(boxes)
        self.scores.append(scores)
        self.ends.append(self.ends[-1] + len(boxes))

    def rows(self, call: Call, boxes, scores) -> dict:
        """Out, Index and the numbers of boxes of the images."""
        xp = call.xp
        classes, numbers, of_scores = (
            np.concatenate(v) if v else np.zeros(0) for v in (self.classes, self.boxes, self.scores)
        )
        device = call.upload(numbers.astype(np.int64))
        label = call.upload(classes.astype(boxes.dtype)).reshape(-1, 1)
        score = scores if scores is not None else call.upload(of_scores.astype(boxes.dtype))
        if scores is not None:
            score = xp.take(scores.reshape(-1), call.upload(of_scores.astype(np.int64)))
        out = xp.concatenate([label, score.reshape(-1, 1), xp.take(boxes, device, axis=0)], 1)
        counts = call.upload(np.diff(self.ends).astype(np.int32))
        return {"Out": out, "Index": device.astype("int32").reshape(-1, 1), "counts": counts}

    def finish(self, call: Call, made: dict, counts: str | None) -> dict:
        call.set_lod("Out", [self.ends])
        if "Index" in call.wanted:
            call.set_lod("Index", [self.ends])
        if counts in call.wanted:
            made[counts] = made["counts"]
        del made["counts"]
        return made


def _groups(call: Call, boxes, scores):
    """For each image: scores by class [classes, count], the numbers of their boxes, and those of their scores."""
    xp = call.xp
    if scores.ndim == 3:
        images, classes, n = scores.shape
        for i in range(images):
            at = xp.broadcast_to(xp.arange(n) + i * n, (classes, n))
            yield scores[i], at
        return
    rows, classes = scores.shape
    given = call.ins.get("RoisNum")
    if given is None:
        level = call.level("BBoxes", last=True)
    else:
        level = np.concatenate([[0], np.cumsum(_read(call, given.astype("int64"))[0])])
    if level[-1] != rows:
        raise Declined
    for first, end in zip(level[:-1], level[1:], strict=True):
        at = xp.arange(int(first), int(end)).reshape(1, -1) * classes + xp.arange(classes).reshape(-1, 1)
        yield scores[int(first) : int(end)].T, at


def _multiclass(call: Call) -> dict:
    boxes, scores = call.floats("BBoxes", "Scores")
    a = call.attrs
    if boxes.shape[-1] != 4 or boxes.size == 0 or scores.size == 0:
        raise Declined
    flat, found, whole = boxes.reshape(-1, 4), _Found(), scores.ndim == 3
    pixel = 0.0 if a["normalized"] else 1.0
    for image, (of_class, numbers) in enumerate(_groups(call, boxes, scores)):
        order = _ranked(call, of_class, numbers, a["score_threshold"], a["nms_top_k"])
        kept = suppress(call, flat, order, pixel, a["nms_threshold"], a["nms_eta"])
        classes = [c for c in range(len(kept)) if c != a["background_label"]]
        at = [kept[c] if whole else np.sort(kept[c]) for c in classes]
        label = np.repeat(np.asarray(classes, np.int64), [len(k) for k in at])
        box = np.concatenate([*at, np.zeros(0, np.int64)]).astype(np.int64)
        score = (image * scores.shape[1] + label) * scores.shape[2] + box % scores.shape[2] if whole else box
        if 0 <= a["keep_top_k"] < len(box):
            (values,) = _read(call, call.xp.take(scores.reshape(-1), call.upload(score)))
            best = _best(values, a["keep_top_k"])
            best = best[np.argsort(label[best], kind="stable")]
            label, box, score = label[best], box[best], score[best]
        if not whole:
            by = np.lexsort((box, label))
            label, box, score = label[by], box[by], score[by]
        found.add(label, box, score)
    if call.op == "multiclass_nms" and found.ends[-1] == 0:
        call.set_lod("Out", [[0, 1]])  # one row of -1 marks that there is none
        return {"Out": call.xp.full((1, 1), -1, boxes.dtype)}
    return found.finish(call, found.rows(call, flat, scores), "NmsRoisNum")


def _overlaps(xp, boxes, pixel):
    """[groups, n, n] of boxes [groups, n, 4]."""
    a, b = boxes[:, :, None], boxes[:, None]

    def area(v):
        empty = (v[..., 2] < v[..., 0]) | (v[..., 3] < v[..., 1])
        return xp.where(empty, v.dtype.type(0), (v[..., 2] - v[..., 0] + pixel) * (v[..., 3] - v[..., 1] + pixel))

    w = xp.minimum(a[..., 2], b[..., 2]) - xp.maximum(a[..., 0], b[..., 0]) + pixel
    h = xp.minimum(a[..., 3], b[..., 3]) - xp.maximum(a[..., 1], b[..., 1]) + pixel
    apart = (b[..., 0] > a[..., 2]) | (b[..., 2] < a[..., 0]) | (b[..., 1] > a[..., 3]) | (b[..., 3] < a[..., 1])
    return xp.where(apart, boxes.dtype.type(0), w * h / (area(a) + area(b) - w * h))


def _matrix(call: Call) -> dict:
    boxes, scores = call.floats("BBoxes", "Scores")
    xp, a, of = call.xp, call.attrs, boxes.dtype.type
    if boxes.size == 0 or scores.size == 0:
        raise Declined
    flat, found = boxes.reshape(-1, 4), _Found()
    for image, (of_class, numbers) in enumerate(_groups(call, boxes, scores)):
        order = _ranked(call, of_class, numbers, a["score_threshold"], a["nms_top_k"])
        there, at = order >= 0, xp.maximum(order, 0)
        n = order.shape[1]
        share = _overlaps(xp, xp.take(flat, at, axis=0), of(0 if a["normalized"] else 1))
        # Overlaps with better boxes; rows and columns are ranks.
        better = xp.tril(xp.ones((n, n), "bool"), -1)
        highest = xp.where(better, share, of(0)).max(axis=2)
        if a["use_gaussian"]:
            factor = xp.exp((highest[:, None] ** 2 - share**2) * of(a["gaussian_sigma"]))
        else:
            factor = ((1 - share.astype("float64")) / (1 - highest[:, None].astype("float64"))).astype(boxes.dtype)
        least = xp.where(better & (factor == factor), factor, of(1)).min(axis=2)
        own = xp.take_along_axis(of_class, at - image * boxes.shape[1], 1)
        score = xp.minimum(least, of(1)) * own
        keep = there & (score > of(a["post_threshold"]))
        kept, numbers_, values = _read(call, keep, at, score)
        if 0 <= a["background_label"] < len(kept):
            kept[a["background_label"]] = False
        label = np.nonzero(kept)[0]
        box, value = numbers_[kept], values[kept]
        best = _best(value, a["keep_top_k"])
        found.add(label[best], box[best], value[best])
    return found.finish(call, found.rows(call, flat, None), "RoisNum")


def _moved(call: Call, deltas, anchors, variances, height, width, pixel):
    """Anchors moved by their deltas and clipped to the image: [count, 4]."""
    xp, of = call.xp, anchors.dtype.type
    parts: list = [None] * 4
    for k, end in enumerate((width, height)):
        size = anchors[:, k + 2] - anchors[:, k] + pixel
        center = variances[:, k] * deltas[:, k] * size + (anchors[:, k] + of(0.5) * size)
        grown = xp.minimum(variances[:, k + 2] * deltas[:, k + 2], of(np.log(1000.0 / 16.0)))
        grown = xp.exp(grown) * size
        parts[k] = xp.maximum(xp.minimum(center - grown / 2, end - pixel), of(0))
        parts[k + 2] = xp.maximum(xp.minimum(center + grown / 2 - pixel, end - pixel), of(0))
    return xp.stack(parts, 1)


def _proposals(call: Call) -> dict:
    scores, deltas, anchors, variances = call.floats("Scores", "BboxDeltas", "Anchors", "Variances")
    v2, xp, a, of = call.op.endswith("v2"), call.xp, call.attrs, scores.dtype.type
    info = call.array("ImShape" if v2 else "ImInfo")
    if scores.size == 0 or info.dtype != scores.dtype:
        raise Declined
    pixels = a["pixel_offset"] if v2 else True
    pixel, least = of(1 if pixels else 0), of(max(a["min_size"], 1.0))
    images, count = scores.shape[0], scores.shape[1]
    rows, probs, ends = [], [], [0]
    anchors, variances = anchors.reshape(-1, 4), variances.reshape(-1, 4)
    for i in range(images):
        score = scores[i].transpose(1, 2, 0).reshape(-1)
        delta = deltas[i].reshape(count, 4, *deltas.shape[2:]).transpose(2, 3, 0, 1).reshape(-1, 4)
        order = xp.argsort(-score, kind="stable")  # NaN comes last
        order = order[: a["pre_nms_topN"]] if a["pre_nms_topN"] > 0 else order
        boxes = _moved(call, delta[order], anchors[order], variances[order], info[i, 0], info[i, 1], pixel)
        w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        scale = of(1) if v2 else info[i, 2]
        good = (w / scale + pixel >= least) & (h / scale + pixel >= least)
        if pixels:
            middle = [boxes[:, k] + (s + pixel) / 2 for k, s in ((0, w), (1, h))]
            good = good & (middle[0] <= info[i, 1]) & (middle[1] <= info[i, 0])
        places = xp.nonzero(good)[0]
        if places.size == 0:
            rows.append(xp.zeros((1, 4), scores.dtype))
            probs.append(xp.zeros((1,), scores.dtype))
        else:
            boxes, score = boxes[places], xp.take(score, order[places])
            if a["nms_thresh"] > 0:
                # Among equal scores the last one comes first.
                back = xp.flip(xp.arange(places.size), 0)
                rank = back[xp.argsort(-score[back], kind="stable")]
                (kept,) = suppress(call, boxes, rank.reshape(1, -1), float(pixel), a["nms_thresh"], a["eta"])
                kept = call.upload(kept[: a["post_nms_topN"]] if a["post_nms_topN"] > 0 else kept)
                boxes, score = boxes[kept], score[kept]
            rows.append(boxes)
            probs.append(score)
        ends.append(ends[-1] + rows[-1].shape[0])
    for slot in ("RpnRois", "RpnRoiProbs"):
        call.set_lod(slot, [ends])
    counts = call.upload(np.diff(ends).astype(np.int32))
    made = {"RpnRois": xp.concatenate(rows, 0), "RpnRoiProbs": xp.concatenate(probs, 0).reshape(-1, 1)}
    return {**made, "RpnRoisNum": counts}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(("multiclass_nms", "multiclass_nms2", "multiclass_nms3"), _multiclass),
    "matrix_nms": _matrix,
    **dict.fromkeys(("generate_proposals", "generate_proposals_v2"), _proposals),
}
