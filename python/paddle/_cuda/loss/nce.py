"""nce: noise-contrastive estimation, a loss of the label's class against sampled classes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import ids, sticky
from ..call import Call, Declined, Rows
from ..math.gemm import product
from ..random.philox import uniforms


def _probabilities(call: Call, classes):
    """The probabilities of classes as noise, in float32."""
    xp, total = call.xp, call.attrs["num_total_classes"]
    if call.attrs["sampler"] == 0:
        return xp.full(classes.shape, 1 / total, "float32")
    if call.attrs["sampler"] == 1:
        c = classes.astype("float64")
        return (xp.log((c + 2) / (c + 1)) / float(np.float32(math.log(total)))).astype("float32")
    return xp.take(call.array("CustomDistProbs").reshape(-1), classes)


def _noise(call: Call, shape):
    """Random classes of a shape; a custom distribution by Walker's method."""
    xp, total = call.xp, call.attrs["num_total_classes"]
    if call.attrs["sampler"] == 1:
        value = xp.exp(uniforms(call, shape) * math.log(total)).astype("int64") - 1
        return xp.maximum(value, 0) % max(total - 1, 1)
    classes = xp.minimum((uniforms(call, shape) * total).astype("int64"), total - 1)
    if call.attrs["sampler"] == 0:
        return classes
    alias, kept = (call.array(slot).reshape(-1) for slot in ("CustomDistAlias", "CustomDistAliasProbs"))
    sticky.check_ids(call, alias.astype("int64"), -1, total)
    other = xp.take(alias.astype("int64"), classes)
    changes = (uniforms(call, shape, number=1) > xp.take(kept, classes)) & (other >= 0)
    return xp.where(changes, other, classes)


def _labels(call: Call):
    """[rows, classes]: those of each row, then the noise."""
    label, a, xp = call.array("Label"), call.attrs, call.xp
    rows, drawn = label.shape[0], a["num_neg_samples"]
    custom = a["custom_neg_classes"]
    noise = xp.asarray(np.asarray(custom, "int64")) if custom else None
    if noise is None:
        noise = _noise(call, (rows, drawn))
    noise = xp.broadcast_to(noise, (rows, drawn))
    given = label.reshape(rows, -1).astype("int64")
    return ids.checked(call, xp.concatenate([given, noise], 1), a["num_total_classes"])


def _expected(call: Call, labels, dtype):
    """The expected numbers of samples of the classes, and which columns are noise."""
    drawn, xp = call.attrs["num_neg_samples"], call.xp
    noise = xp.arange(labels.shape[1]) >= labels.shape[1] - drawn
    return (_probabilities(call, labels) * np.float32(drawn)).astype(dtype), noise


def _row_weights(call: Call, rows: int, dtype):
    given = call.ins.get("SampleWeight")
    return call.xp.ones((rows, 1), dtype) if given is None else given.reshape(-1)[:rows].reshape(rows, 1)


def _nce(call: Call) -> dict:
    (x, w), xp = call.floats("Input", "Weight"), call.xp
    if x.size == 0 or w.size == 0:
        raise Declined
    labels = _labels(call)
    score = product(call, xp.take(w, labels, axis=0), x.reshape(*x.shape, 1))[..., 0]
    if call.ins.get("Bias") is not None:
        score = score + xp.take(call.array("Bias").reshape(-1), labels)
    o = 1 / (1 + xp.exp(-score))
    b, noise = _expected(call, labels, x.dtype)
    cost = (-xp.log(xp.where(noise, b, o) / (o + b))).sum(axis=1, keepdims=True)
    return {"Cost": cost * _row_weights(call, x.shape[0], x.dtype), "SampleLogits": o, "SampleLabels": labels}


def _nce_grad(call: Call) -> dict:
    x, w, logits, d = call.floats("Input", "Weight", "SampleLogits", "Cost@GRAD")
    xp, (n, width) = call.xp, x.shape
    if x.size == 0 or w.size == 0:
        raise Declined
    labels = ids.checked(call, call.array("SampleLabels").reshape(n, -1), call.attrs["num_total_classes"])
    o = logits.reshape(labels.shape)
    b, noise = _expected(call, labels, x.dtype)
    slope = xp.where(noise, o * (1 - o) / (o + b), b / (o + b) * (o - 1))
    g = _row_weights(call, n, x.dtype) * slope * d.reshape(n, 1)
    made = {"Input@GRAD": product(call, g.reshape(n, 1, -1), xp.take(w, labels, axis=0)).reshape(x.shape)}
    if call.ins.get("Bias") is not None and call.wanted["Bias@GRAD"]:
        bias = call.array("Bias")
        made["Bias@GRAD"] = ids.sum_at(call, bias.size, labels.reshape(-1), g.reshape(-1)).reshape(bias.shape)
    if call.wanted["Weight@GRAD"]:
        rows = (g[..., None] * x.reshape(n, 1, width)).reshape(-1, width)
        made["Weight@GRAD"] = weight_grad(call, labels.reshape(-1), rows, w.shape[0])
    return made


def weight_grad(call: Call, labels, rows, height: int):
    """The sums of rows by label, dense or (is_sparse) as SelectedRows, whose rows are host memory."""
    if not call.attrs["is_sparse"]:
        return ids.sum_at(call, height, labels, rows)
    used = np.unique(np.asarray(call.machine.download(labels)))
    at = call.xp.searchsorted(call.xp.asarray(used), labels, side="left").astype("int64")
    return Rows(used, height, ids.sum_at(call, used.size, at, rows))


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"nce": _nce, "nce_grad": _nce_grad}
