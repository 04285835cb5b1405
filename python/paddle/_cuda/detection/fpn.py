"""distribute_fpn_proposals (assigns RoIs to feature pyramid levels by size) and collect_fpn_proposals (selects the best
RoIs of all levels). Numbers of RoIs are LoD and shapes: levels are read by the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined


def _ends(call: Call, rois: str, counts, index: int = 0) -> np.ndarray:
    """The rows of each image, as offsets: by numbers of RoIs, else by LoD."""
    if counts is None:
        return call.level(rois, index, last=True)
    numbers = np.asarray(call.machine.download(counts)).astype(np.int64).reshape(-1)
    return np.concatenate([[0], np.cumsum(numbers)])


def _distribute(call: Call) -> dict:
    (rois,), xp, a = call.floats("FpnRois"), call.xp, call.attrs
    ends = _ends(call, "FpnRois", call.ins.get("RoisNum"))
    if ends[-1] != rois.shape[0] or rois.size == 0:
        raise Declined
    of, more = rois.dtype.type, 1 if a["pixel_offset"] else 0
    empty = (rois[:, 2] < rois[:, 0]) | (rois[:, 3] < rois[:, 1])
    area = (rois[:, 2] - rois[:, 0] + of(more)) * (rois[:, 3] - rois[:, 1] + of(more))
    scale = xp.sqrt(xp.where(empty, of(0), area)) / of(a["refer_scale"])
    level = xp.floor(xp.log2(scale + of(1e-6)) + of(a["refer_level"]))
    level = xp.where(level == level, level, of(a["min_level"]))
    count = a["max_level"] - a["min_level"] + 1
    own = np.asarray(call.machine.download(xp.clip(level, a["min_level"], a["max_level"]).astype("int64")))
    own = own - a["min_level"]
    image = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    order = np.argsort(own, kind="stable")
    restore = np.empty(order.size, np.int32)
    restore[order] = np.arange(order.size)
    picked = xp.take(rois, call.upload(order.astype(np.int64)), axis=0)
    bounds = np.searchsorted(own[order], np.arange(count + 1))
    parts = [picked[int(i) : int(j)] for i, j in zip(bounds[:-1], bounds[1:], strict=True)]
    numbers = [np.bincount(image[own == k], minlength=len(ends) - 1) for k in range(count)]
    call.set_lods("MultiFpnRois", [[np.concatenate([[0], np.cumsum(n)])] for n in numbers])
    return {
        "MultiFpnRois": parts,
        "RestoreIndex": call.upload(restore.reshape(-1, 1)),
        "MultiLevelRoIsNum": [call.upload(n.astype(np.int32)) for n in numbers],
    }


def _collect(call: Call) -> dict:
    rois, scores, counts = call.ins["MultiLevelRois"], call.ins["MultiLevelScores"], call.ins["MultiLevelRoIsNum"]
    xp, most = call.xp, call.attrs["post_nms_topN"]
    if any(r is None or not hasattr(r, "reshape") for r in (*rois, *scores)):
        raise Declined
    levels = [_ends(call, "MultiLevelRois", counts[k] if counts else None, k) for k in range(len(rois))]
    images = len(levels[0]) - 1
    if any(len(e) != images + 1 or e[-1] != r.shape[0] for e, r in zip(levels, rois, strict=True)):
        raise Declined
    image = np.concatenate([np.repeat(np.arange(images), np.diff(e)) for e in levels])
    score = xp.concatenate([s.reshape(-1) for s in scores])
    # Among equal scores the last region comes first; NaN comes last.
    back = xp.flip(xp.arange(score.size), 0)
    order = back[xp.argsort(-score[back], kind="stable")][:most]
    chosen = np.asarray(call.machine.download(order.astype("int64")))
    chosen = chosen[np.argsort(image[chosen], kind="stable")]
    numbers = np.bincount(image[chosen], minlength=images)
    call.set_lod("FpnRois", [np.concatenate([[0], np.cumsum(numbers)])])
    out = xp.take(xp.concatenate(list(rois), 0), call.upload(chosen), axis=0)
    return {"FpnRois": out, "RoisNum": call.upload(numbers.astype(np.int32))}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "distribute_fpn_proposals": _distribute,
    "collect_fpn_proposals": _collect,
}
