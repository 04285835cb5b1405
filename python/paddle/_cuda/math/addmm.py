"""Products to which a matrix or a row is added: addmm, its gradient, and fc."""

from __future__ import annotations

import math

from .. import formula, strided
from ..call import Call, Declined, ctype, same_dtype
from ..units import FLOATS
from . import binary
from .gemm import product
from .matmul import sum_to


def _addmm(call: Call) -> dict:
    added, x, y = call.array("Input"), call.array("X"), call.array("Y")
    same_dtype(added, x, y)
    out, beta = call.out("Out"), call.attrs["Beta"]
    if beta != 0:
        steps = [0 if n == 1 else s for n, s in zip(added.shape, strided.strides_of(added.shape), strict=True)]
        strided.move(call, added, out, out.shape, steps, strided.strides_of(out.shape))
    return {"Out": product(call, x, y, alpha=call.attrs["Alpha"], beta=beta, out=out)}


def _addmm_grad(call: Call) -> dict:
    x, y, d = call.array("X"), call.array("Y"), call.array("Out@GRAD")
    same_dtype(x, y, d)
    a, made = call.attrs, {}
    if call.wanted["Input@GRAD"]:
        added = sum_to(call, d, tuple(call.ins["Input"].shape))
        made["Input@GRAD"] = formula.apply(call, "scale", [added], [a["Beta"], 0.0])
    if call.wanted["X@GRAD"]:
        made["X@GRAD"] = product(call, d, y, ty=True, alpha=a["Alpha"])
    if call.wanted["Y@GRAD"]:
        made["Y@GRAD"] = product(call, x, d, tx=True, alpha=a["Alpha"])
    return made


def _fc(call: Call) -> dict:
    x, w, a = call.array("Input"), call.array("W"), call.attrs
    same_dtype(x, w)
    has_bias, relu = call.ins.get("Bias") is not None, a["activation_type"] == "relu"
    if a["padding_weights"] or x.size == 0 or a["activation_type"] not in ("", "relu") or relu and not has_bias:
        raise Declined
    rows, width = math.prod(x.shape[: a["in_num_col_dims"]]), w.shape[1]
    out, _ = call.out("Out"), ctype(x, FLOATS)
    made = product(call, x.reshape(rows, -1), w, out=out.reshape(rows, width))
    if has_bias:
        bias = call.array("Bias")
        same_dtype(x, bias)
        binary.apply(call, "RectifiedPlus" if relu else "Plus", made, bias.reshape(1, width), (1, width), made)
    return {"Out": out}


LAUNCHERS = {"addmm": _addmm, "addmm_grad": _addmm_grad, "fc": _fc}
