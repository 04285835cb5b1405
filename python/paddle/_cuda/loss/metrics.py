"""accuracy, auc and mean_iou."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..call import Call, Declined


def _accuracy(call: Call) -> dict:
    indices, label, xp = call.array("Indices"), call.array("Label"), call.xp
    hit = (indices == label.reshape(-1, 1)).any(axis=1).sum()
    total = int(label.size)
    correct = xp.asarray(hit).reshape(1).astype("int32")
    return {
        "Accuracy": correct.astype("float32") / np.float32(max(total, 1)),
        "Correct": correct,
        "Total": xp.full((1,), total, "int32"),
    }


def _auc(call: Call) -> dict:
    """Histograms of probabilities by class; with slide_steps the first tables are those of the latest steps."""
    predict, label, a, xp = call.array("Predict"), call.array("Label").reshape(-1), call.attrs, call.xp
    if predict.dtype.kind != "f" or predict.size == 0 or a["slide_steps"] > 0:
        raise Declined
    call.array("StatPos")
    n = a["num_thresholds"]
    at = xp.clip((predict[:, -1] * n).astype("int64"), 0, n)
    made = {}
    for slot, chosen in (("StatPosOut", label != 0), ("StatNegOut", label == 0)):
        table = call.old(slot)
        table += xp.bincount(xp.where(chosen, at, n + 1), minlength=n + 2)[: n + 1].reshape(table.shape)
        made[slot] = table
    pos, neg = (made[s].reshape(-1)[::-1].astype("float64") for s in ("StatPosOut", "StatNegOut"))
    above = xp.cumsum(pos)
    area = (neg * (above - pos / 2)).sum()
    whole = pos.sum() * neg.sum()
    return {**made, "AUC": xp.where(whole > 0, area / xp.maximum(whole, 1), 0.0).reshape(1)}


def _mean_iou(call: Call) -> dict:
    p, l, n = call.array("Predictions").reshape(-1), call.array("Labels").reshape(-1), call.attrs["num_classes"]
    xp = call.xp
    p, l = p.astype("int64"), l.astype("int64")
    same = p == l
    correct = xp.bincount(xp.where(same, l, n), minlength=n + 1)[:n].astype("int32")
    wrong = (
        xp.bincount(xp.where(same, n, l), minlength=n + 1)[:n] + xp.bincount(xp.where(same, n, p), minlength=n + 1)[:n]
    )
    wrong = wrong.astype("int32")
    for slot, total in (("InWrongs", wrong), ("InCorrects", correct)):
        for given in call.ins.get(slot) or []:
            total += given.reshape(total.shape)
    union = wrong + correct
    ratio = correct.astype("float32") / xp.maximum(union, 1).astype("float32")
    mean = ratio.sum() / xp.maximum((union > 0).sum(), 1).astype("float32")
    for given in call.ins.get("InMeanIou") or []:
        mean = mean + given.reshape(())
    mean = xp.asarray(mean).reshape(1).astype("float32")
    return {"OutMeanIou": mean.reshape(call.shape("OutMeanIou")), "OutWrong": wrong, "OutCorrect": correct}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"accuracy": _accuracy, "auc": _auc, "mean_iou": _mean_iou}
