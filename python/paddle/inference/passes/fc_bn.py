"""fc_bn_fuse_pass: batch_norm of the columns that an fc computes goes into its weights and bias."""

from __future__ import annotations

import numpy as np

from paddle.inference.graph import Graph

from .conv_bn import factors
from .registry import register

__all__: list[str] = []


@register("fc_bn_fuse_pass")
def fuse_fc_bn(graph: Graph) -> int:
    """fc, batch_norm of a matrix -> fc."""
    count = 0
    for fc in graph.find("fc"):
        norm = graph.reader(fc.out())
        if norm is None or norm.type not in ("batch_norm", "sync_batch_norm") or fc.attr("activation_type", ""):
            continue
        w, b = fc.one("W"), fc.one("Bias")
        if w is None or b is None or fc.attr("in_num_col_dims", 1) != 1 or fc.attr("padding_weights", False):
            continue
        found = factors(graph, norm) if graph.is_param(w) and graph.is_param(b) else None
        if found is None:
            continue
        weights, bias, (k, c) = graph.value(w), graph.value(b).reshape(-1), found
        if len(k) != weights.shape[1]:
            continue
        ins = {
            **fc.ins,
            "W": [graph.new_param(w, (weights * k).astype(np.float32))],
            "Bias": [graph.new_param(b, (bias * k + c).astype(np.float32))],
        }
        graph.replace([fc, norm], fc.copied("fc", ins, {"Out": [norm.out("Y")]}, {}))
        count += 1
    return count
