"""retinanet_detection_output: the best boxes of several feature levels are decoded on the device and suppressed by
class; which are kept is read by the host, as their number is a LoD."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined, Rows, Shape, same_dtype
from .boxes import away_from_zero, center, moved
from .nms import Found, best, ranked, read, suppress


def _listed(call: Call, *slots: str) -> list[list]:
    """The tensors of duplicable slots, of one data type."""
    lists = [call.ins[slot] for slot in slots]
    values = [v for of_slot in lists for v in of_slot]
    if not values or any(v is None or isinstance(v, (Rows, Shape)) for v in values):
        raise Declined
    same_dtype(*values)
    return lists


def _decoded(call: Call, anchors, deltas, info):
    """The anchors moved by their deltas, in the coordinates of the image, clipped to it: [count, 4]."""
    xp, of = call.xp, deltas.dtype.type
    delta = [deltas[:, k] for k in range(4)]
    boxes = moved(xp, center(anchors, of(1)), delta, of(1)) / info[2]
    ends = [away_from_zero(xp, info[k] / info[2]) - of(1) for k in (1, 0)]
    return xp.stack([xp.maximum(xp.minimum(boxes[:, k], ends[k % 2]), of(0)) for k in range(4)], 1)


class _Candidates:
    """The candidates of an image, level by level: class, box and score, on the host."""

    def __init__(self) -> None:
        self.classes: list[np.ndarray] = []
        self.boxes: list[np.ndarray] = []
        self.scores: list[np.ndarray] = []

    def kept(self, call: Call, boxes, classes: int) -> tuple[np.ndarray, ...]:
        """Labels, boxes and scores of those that no better box of their class suppresses, the best first."""
        a = call.attrs
        label, box, score = (np.concatenate(v) for v in (self.classes, self.boxes, self.scores))
        groups = [np.flatnonzero(label == c) for c in range(classes)]
        groups = [g[best(score[g], -1)] for g in groups]
        order = np.full((classes, max(len(g) for g in groups)), -1, np.int64)
        for of_class, g in zip(order, groups, strict=True):
            of_class[: len(g)] = box[g]
        found = []
        for g, kept in zip(
            groups, suppress(call, boxes, call.upload(order), 1.0, a["nms_threshold"], a["nms_eta"]), strict=True
        ):
            found.append(g[np.isin(box[g], kept)])  # a box occurs once in a class
        at = np.concatenate(found)
        at = at[best(score[at], a["keep_top_k"])]
        return label[at] + 1, box[at], score[at]  # class 0 is the background, without scores


def _retinanet(call: Call) -> dict:
    all_deltas, all_scores, all_anchors = _listed(call, "BBoxes", "Scores", "Anchors")
    (info,), a, xp = call.floats("ImInfo"), call.attrs, call.xp
    same_dtype(info, all_scores[0])
    if any(v.size == 0 for of_slot in (all_deltas, all_scores, all_anchors) for v in of_slot) or info.size == 0:
        raise Declined
    classes, found, decoded = all_scores[0].shape[2], Found(), []
    per_image = sum(v.shape[0] for v in all_anchors)
    for image in range(info.shape[0]):
        candidates, boxes, at = _Candidates(), [], 0
        for level, (deltas, scores, anchors) in enumerate(zip(all_deltas, all_scores, all_anchors, strict=True)):
            # On the last level all scores above 0 are candidates.
            threshold = a["score_threshold"] if level + 1 < len(all_scores) else 0.0
            flat = scores[image].reshape(1, -1)
            order = ranked(call, flat, xp.arange(flat.size).reshape(1, -1), threshold, a["nms_top_k"])
            order, values = read(call, order, flat)
            chosen = order[order >= 0]
            candidates.classes.append(chosen % classes)
            candidates.boxes.append(at + chosen // classes)
            candidates.scores.append(values[0, chosen])
            boxes.append(_decoded(call, anchors, deltas[image], info[image]))
            at += anchors.shape[0]
        decoded.append(xp.concatenate(boxes))
        label, box, score = candidates.kept(call, decoded[-1], classes)
        found.add(label, box + image * per_image, score)
    return found.finish(call, found.rows(call, xp.concatenate(decoded), None), None)


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"retinanet_detection_output": _retinanet}
