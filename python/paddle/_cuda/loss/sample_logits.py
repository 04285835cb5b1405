"""sample_logits: scores of a row's labels and of classes sampled from a log-uniform distribution, minus the logarithms
of their expected counts. A block draws distinct classes one after another, as the number of draws is a result."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import ids
from ..call import Call, Declined
from ..random.philox import SOURCE as PHILOX
from ..random.philox import seed_of
from ..units import Unit

SOURCE = (
    PHILOX.split("// kind 0")[0]
    + r"""
// `count` distinct classes of [0, classes), and the number of draws. One block.
__global__ void draw_classes(i64* drawn, i64* tries, i64 count, i64 classes, unsigned long long seed, double range) {
    i64 found = 0, n = 0;
    while (found < count) {
        unsigned r[4];
        philox(seed, (unsigned long long)n, r);
        n++;
        i64 c = (i64)exp(unit(r, 0.0) * range) - 1;
        c = (c < 0 ? 0 : c) % classes;
        int known = 0;
        for (i64 i = threadIdx.x; i < found; i += blockDim.x) known |= drawn[i] == c;
        if (!block_join<Max>(known)) {
            if (threadIdx.x == 0) drawn[found] = c;
            found++;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) tries[0] = n;
}
"""
)
UNIT = Unit("sample_logits", SOURCE, ("draw_classes",))


def _finite(xp, v):
    most = v.dtype.type(1e20)
    return xp.where(v == xp.inf, most, xp.where(v == -xp.inf, -most, v))


def _drawn(call: Call, labels, classes: int, dtype):
    """The classes of each row, and their probabilities over all draws."""
    xp, count = call.xp, call.attrs["num_samples"]
    drawn, tries = call.empty((count,), "int64"), xp.zeros((1,), "int64")
    if count:
        span = np.float64(np.float32(math.log(classes + 1)))
        numbers = (np.int64(count), np.int64(classes), seed_of(call), span)
        call.launch(UNIT, "draw_classes", 1, 128, drawn, tries, *numbers)
    rows = labels.shape[0]
    samples = xp.concatenate([labels, xp.broadcast_to(drawn, (rows, count))], 1)
    c = samples.astype("float64")
    once = (xp.log((c + 2) / (c + 1)) / float(np.float32(math.log(classes + 1)))).astype("float32").astype(dtype)
    n = tries.astype(dtype)
    return samples, xp.where(tries == count, once * dtype.type(count), -xp.expm1(n * xp.log1p(-once)))


def _forward(call: Call) -> dict:
    (x,), labels, a, xp = call.floats("Logits"), call.array("Labels"), call.attrs, call.xp
    if x.size == 0 or labels.dtype.name != "int64" or labels.size == 0:
        raise Declined
    (rows, classes), own = x.shape, labels.shape[1]
    if a["use_customized_samples"]:
        samples, p = call.array("CustomizedSamples"), call.array("CustomizedProbabilities")
    else:
        samples, p = _drawn(call, labels, classes, x.dtype)
    at = ids.checked(call, samples, classes)
    score = xp.take_along_axis(x, at, 1)
    if a["remove_accidental_hits"]:
        hit = (at[:, :, None] == at[:, None, :own]).any(axis=2) & (xp.arange(at.shape[1]) >= own)
        score = xp.where(hit, score - x.dtype.type(1e20), score)
    tags = xp.broadcast_to(xp.arange(own, dtype="int64"), (rows, own))
    return {
        "Samples": samples.copy(),
        "Probabilities": p.copy(),
        "SampledLogits": _finite(xp, score - _finite(xp, xp.log(p))),
        "SampledLabels": xp.ascontiguousarray(tags),
        "LogitsDim": xp.empty((rows, classes, 0), x.dtype),
        "LabelsDim": xp.empty((rows, own, 0), x.dtype),
    }


def _backward(call: Call) -> dict:
    (d,), shape = call.floats("SampledLogits@GRAD"), call.shape("Logits@GRAD")
    if d.size == 0 or 0 in shape:
        raise Declined
    at = ids.checked(call, call.array("Samples"), shape[1])
    return {"Logits@GRAD": ids.sum_along(call, shape, at, d, 1)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"sample_logits": _forward, "sample_logits_grad": _backward}
