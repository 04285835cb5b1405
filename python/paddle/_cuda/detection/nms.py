"""Non-maximum suppression: multiclass_nms, multiclass_nms2, multiclass_nms3, matrix_nms, locality_aware_nms,
generate_proposals and generate_proposals_v2. A block suppresses the ranked boxes of a class; the numbers of boxes are
LoD and shapes, so that what is kept is read by the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import strided
from ..call import Call, Declined, ctype
from ..units import REALS, Unit, instances

#: the measure of overlap of boxes [xmin, ymin, xmax, ymax] and of polygons [x1, y1, x2, y2, ..]
OVERLAP = r"""
template <typename T> __device__ T box_overlap(const T* a, const T* b, T pixel) {
    if (b[0] > a[2] || b[2] < a[0] || b[1] > a[3] || b[3] < a[1]) return T(0);
    T of_a = a[2] < a[0] || a[3] < a[1] ? T(0) : (a[2] - a[0] + pixel) * (a[3] - a[1] + pixel);
    T of_b = b[2] < b[0] || b[3] < b[1] ? T(0) : (b[2] - b[0] + pixel) * (b[3] - b[1] + pixel);
    T w = (b[2] < a[2] ? b[2] : a[2]) - (a[0] < b[0] ? b[0] : a[0]) + pixel;
    T h = (b[3] < a[3] ? b[3] : a[3]) - (a[1] < b[1] ? b[1] : a[1]) + pixel;
    return w * h / (of_a + of_b - w * h);
}

// Corner k of the polygons a and b, one after the other, and the corner after it.
template <typename T> struct Edge {
    double x, y, u, v;
    __device__ Edge(const T* a, const T* b, int n, int k) {
        const T* p = k < n ? a : b;
        int i = k < n ? k : k - n, j = i + 1 < n ? i + 1 : 0;
        x = p[2 * i], y = p[2 * i + 1], u = p[2 * j], v = p[2 * j + 1];
    }
};

template <typename T> __device__ double polygon_area(const T* p, int n) {
    double sum = 0;
    for (int k = 0; k < n; k++) {
        Edge<T> e(p, p, n, k);
        sum += e.x * e.v - e.y * e.u;
    }
    return fabs(sum / 2);
}

// The next height above `low` of a corner or of a crossing of edges; `low` if there is none.
template <typename T> __device__ double next_height(const T* a, const T* b, int n, double low, bool any) {
    double best = low;
    bool has = false;
    for (int i = 0; i < 2 * n; i++) {
        Edge<T> e(a, b, n, i);
        if ((any || e.y > low) && (!has || e.y < best)) best = e.y, has = true;
        double rx = e.u - e.x, ry = e.v - e.y;
        for (int j = i + 1; j < 2 * n; j++) {
            Edge<T> f(a, b, n, j);
            double sx = f.u - f.x, sy = f.v - f.y, turn = rx * sy - ry * sx;
            double t = ((f.x - e.x) * sy - (f.y - e.y) * sx) / turn, s = ((f.x - e.x) * ry - (f.y - e.y) * rx) / turn;
            if (turn == 0 || !(t >= 0 && t <= 1 && s >= 0 && s <= 1)) continue;
            double y = e.y + t * ry;
            if ((any || y > low) && (!has || y < best)) best = y, has = true;
        }
    }
    return best;
}

// The intersection over union of polygons of n corners by the even-odd rule: strips between heights, within which edges
// do not cross. 0 if an area is 0 or a coordinate is not finite.
template <typename T> __device__ T polygon_overlap(const T* a, const T* b, int n) {
    for (int k = 0; k < 2 * n; k++)
        if (!(a[k] - a[k] == T(0)) || !(b[k] - b[k] == T(0))) return T(0);
    double sum = 0, low = next_height(a, b, n, 0.0, true), high;
    for (; (high = next_height(a, b, n, low, false)) > low; low = high) {
        double middle = low + (high - low) / 2, from = 0;
        bool in_a = false, in_b = false;
        // Cuts of edges in ascending order; equal ones in the order of edges.
        double last = 0;
        int last_edge = -1;
        for (;;) {
            double cut = 0;
            int edge = -1;
            for (int k = 0; k < 2 * n; k++) {
                Edge<T> e(a, b, n, k);
                if ((e.y <= middle) == (e.v <= middle)) continue;
                double x = e.x + (middle - e.y) * (e.u - e.x) / (e.v - e.y);
                if (last_edge >= 0 && !(x > last || (x == last && k > last_edge))) continue;
                if (edge < 0 || x < cut) cut = x, edge = k;
            }
            if (edge < 0) break;
            if (in_a && in_b) sum += (cut - from) * (high - low);
            if (edge < n) in_a = !in_a;
            else in_b = !in_b;
            from = last = cut, last_edge = edge;
        }
    }
    double first = polygon_area(a, n), second = polygon_area(b, n);
    return first == 0 || second == 0 || sum == 0 ? T(0) : T(sum / (first + second - sum));
}

// Of boxes of `size` numbers, polygons if these are more than four.
template <typename T> __device__ T overlap(const T* a, const T* b, int size, T pixel) {
    return size == 4 ? box_overlap(a, b, pixel) : polygon_overlap(a, b, size / 2);
}
"""
SOURCE = r"""
// Of the boxes order[group][0..n) (numbers of boxes by descending score, -1 at the end) keep[group] gets those whose
// overlap with every kept box before is at most the bound: `first`, times eta after each kept box while above 0.5.
template <typename T> __global__ void suppress(const T* boxes, const i64* order, i64* keep, i64* count, i64 n,
                                               int size, T pixel, T first, T eta) {
    const i64* own = order + blockIdx.x * n;
    i64 *to = keep + blockIdx.x * n, kept = 0;
    T bound = first;
    for (i64 k = 0; k < n && own[k] >= 0; k++) {
        const T* b = boxes + own[k] * size;
        int over = 0;
        for (i64 i = threadIdx.x; i < kept && !over; i += blockDim.x)
            over |= !(overlap(boxes + to[i] * size, b, size, pixel) <= bound);  // NaN is an overlap
        if (block_join<Max>(over)) continue;
        if (threadIdx.x == 0) to[kept] = own[k];
        kept++;
        if (eta < T(1) && bound > T(0.5)) bound = bound * eta;
        __syncthreads();
    }
    if (threadIdx.x == 0) count[blockIdx.x] = kept;
}

// Block i merges each box of image i into the last kept one, if their overlap is above the bound: coordinates are
// averaged with the scores as weights, scores are added. left[image][box]: whether a box is kept.
template <typename T> __global__ void merge_neighbors(T* boxes, T* scores, bool* left, i64 n, i64 stride, int size,
                                                      T pixel, T bound) {
    T *own = boxes + blockIdx.x * n * size, *score = scores + blockIdx.x * stride;
    i64 last = -1;
    for (i64 i = 0; i < n; i++) {
        T *to = own + last * size, *from = own + i * size;
        bool merges = last >= 0 && overlap(to, from, size, pixel) > bound;
        left[blockIdx.x * n + i] = !merges;
        if (!merges) {
            last = i;
            continue;
        }
        T first = score[last], other = score[i];
        for (int k = 0; k < size; k++) to[k] = (from[k] * other + to[k] * first) / (other + first);
        score[last] = first + other;
    }
}
"""
UNIT = Unit("nms", OVERLAP + SOURCE, instances("suppress", REALS) + instances("merge_neighbors", REALS))


def read(call: Call, *arrays) -> list[np.ndarray]:
    return [np.asarray(call.machine.download(call.xp.ascontiguousarray(a))) for a in arrays]


def suppress(call: Call, boxes, order, pixel: float, bound: float, eta: float) -> list[np.ndarray]:
    """The kept boxes of each row of `order`, on the host."""
    groups, n = order.shape
    if not groups or not n:
        return [np.zeros(0, np.int64)] * groups
    keep, count, of = call.empty((groups, n), "int64"), call.empty((groups,), "int64"), boxes.dtype.type
    kernel, order = f"suppress<{ctype(boxes, REALS)}>", call.xp.ascontiguousarray(order.astype("int64"))
    numbers = (np.int64(n), np.int32(boxes.shape[1]), of(pixel), of(bound), of(eta))
    call.launch(UNIT, kernel, groups, 128, call.xp.ascontiguousarray(boxes), order, keep, count, *numbers)
    kept, counts = read(call, keep, count)
    return [kept[g, : counts[g]] for g in range(groups)]


def ranked(call: Call, scores, numbers, threshold: float, top: int):
    """Numbers of the boxes of each row above the threshold, by descending score in float32, and -1 after them."""
    xp, of = call.xp, scores.dtype.type
    some = scores > of(threshold)
    key = xp.where(some, -scores.astype("float32"), np.float32(np.inf))
    order = xp.argsort(key, axis=1, kind="stable")
    # A candidate may have the key of the others: it comes before them.
    last = xp.argsort(xp.take_along_axis(~some, order, 1), axis=1, kind="stable")
    order = xp.take_along_axis(order, last, 1)
    found = xp.where(xp.take_along_axis(some, order, 1), xp.take_along_axis(numbers, order, 1), -1)
    return found[:, :top] if top >= 0 else found


def best(scores: np.ndarray, most: int) -> np.ndarray:
    """Positions by descending score, NaN last, at most `most`."""
    s = scores.astype(np.float32)
    order = np.argsort(np.where(s == s, -s, np.inf), kind="stable")
    return order if most < 0 else order[:most]


def best_by_class(label: np.ndarray, scores: np.ndarray, most: int) -> np.ndarray:
    """The best positions, sorted by class."""
    at = best(scores, most)
    return at[np.argsort(label[at], kind="stable")]


class Found:
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
        """The results, with the numbers of boxes in the slot `counts`, if the operator has it."""
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
        level = np.concatenate([[0], np.cumsum(read(call, given.astype("int64"))[0])])
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
    flat, found, whole = boxes.reshape(-1, 4), Found(), scores.ndim == 3
    pixel = 0.0 if a["normalized"] else 1.0
    for image, (of_class, numbers) in enumerate(_groups(call, boxes, scores)):
        order = ranked(call, of_class, numbers, a["score_threshold"], a["nms_top_k"])
        kept = suppress(call, flat, order, pixel, a["nms_threshold"], a["nms_eta"])
        classes = [c for c in range(len(kept)) if c != a["background_label"]]
        at = [kept[c] if whole else np.sort(kept[c]) for c in classes]
        label = np.repeat(np.asarray(classes, np.int64), [len(k) for k in at])
        box = np.concatenate([*at, np.zeros(0, np.int64)]).astype(np.int64)
        score = (image * scores.shape[1] + label) * scores.shape[2] + box % scores.shape[2] if whole else box
        if 0 <= a["keep_top_k"] < len(box):
            (values,) = read(call, call.xp.take(scores.reshape(-1), call.upload(score)))
            kept_at = best_by_class(label, values, a["keep_top_k"])
            label, box, score = label[kept_at], box[kept_at], score[kept_at]
        if not whole:
            by = np.lexsort((box, label))
            label, box, score = label[by], box[by], score[by]
        found.add(label, box, score)
    if call.op == "multiclass_nms" and found.ends[-1] == 0:
        return _mark(call, boxes.dtype)
    return found.finish(call, found.rows(call, flat, scores), "NmsRoisNum")


def _mark(call: Call, dtype) -> dict:
    """One row of -1 says that there is no box."""
    call.set_lod("Out", [[0, 1]])
    return {"Out": strided.full(call, (1, 1), dtype, -1)}


def _locality_aware(call: Call) -> dict:
    """Boxes are shared by all classes: merges of earlier classes affect later ones."""
    boxes, scores = call.floats("BBoxes", "Scores")
    (images, classes, n), size, a, of = scores.shape, boxes.shape[2], call.attrs, scores.dtype.type
    if boxes.size == 0 or scores.size == 0:
        return _mark(call, scores.dtype)
    xp, boxes, scores = call.xp, boxes.copy(), scores.copy()
    flat, pixel, chosen = boxes.reshape(-1, size), 0.0 if a["normalized"] else 1.0, []
    numbers = xp.arange(images * n).reshape(images, n)
    for c in range(classes):
        if c == a["background_label"]:
            continue
        left = call.empty((images, n), "bool")
        sizes = np.int64(n), np.int64(classes * n), np.int32(size), of(pixel), of(a["nms_threshold"])
        of_class = scores.reshape(-1)[c * n :]
        call.launch(UNIT, f"merge_neighbors<{ctype(boxes, REALS)}>", images, 1, flat, of_class, left, *sizes)
        remaining = xp.where(left, scores[:, c], of(-np.inf))
        order = ranked(call, remaining, numbers, a["score_threshold"], a["nms_top_k"])
        chosen.append((c, suppress(call, flat, order, pixel, a["nms_threshold"], a["nms_eta"])))
    (values,), found = read(call, scores), Found()
    for image in range(images):
        label = np.concatenate([np.full(len(kept[image]), c, np.int64) for c, kept in chosen] + [np.zeros(0, np.int64)])
        box = np.concatenate([kept[image] for _, kept in chosen] + [np.zeros(0, np.int64)]).astype(np.int64)
        score = values[image, label, box - image * n]
        if 0 <= a["keep_top_k"] < len(box):
            at = best_by_class(label, score, a["keep_top_k"])
            label, box, score = label[at], box[at], score[at]
        found.add(label, box, score)
    return found.finish(call, found.rows(call, flat, None), None) if found.ends[-1] else _mark(call, scores.dtype)


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
    flat, found = boxes.reshape(-1, 4), Found()
    for image, (of_class, numbers) in enumerate(_groups(call, boxes, scores)):
        order = ranked(call, of_class, numbers, a["score_threshold"], a["nms_top_k"])
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
        kept, numbers_, values = read(call, keep, at, score)
        if 0 <= a["background_label"] < len(kept):
            kept[a["background_label"]] = False
        label = np.nonzero(kept)[0]
        box, value = numbers_[kept], values[kept]
        at = best(value, a["keep_top_k"])
        found.add(label[at], box[at], value[at])
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
    "locality_aware_nms": _locality_aware,
    **dict.fromkeys(("generate_proposals", "generate_proposals_v2"), _proposals),
}
