"""fc_gru_fuse_pass, mul_gru_fuse_pass, mul_lstm_fuse_pass: recurrent layers over LoD include their input product."""

from __future__ import annotations

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__: list[str] = []

_GRU = {
    "outputs": ("BatchGate", "BatchResetHiddenPrev", "BatchHidden"),
    "attrs": ("activation", "gate_activation", "is_reverse", "origin_mode"),
}
_LSTM = {
    "outputs": ("BatchGate", "BatchCellPreAct"),
    "attrs": ("use_peepholes", "is_reverse", "gate_activation", "cell_activation", "candidate_activation"),
}


def _product_before(graph: Graph, node: Node, with_bias: bool) -> tuple[list[Node], str, str, np.ndarray | None] | None:
    """The operators that compute the layer's input, the matrix that they read, their weights and bias."""
    last = graph.writer(node.one("Input"))
    if last is None or graph.reader(node.one("Input") or "") is not node:
        return None
    gone, bias = [last], None
    if with_bias:
        name = last.one("Y")
        if last.type != "elementwise_add" or name is None or not graph.is_param(name):
            return None
        bias, before = graph.value(name).reshape(1, -1), last.one("X")
        mul = graph.writer(before)
        if mul is None or graph.reader(before or "") is not last:
            return None
        gone.append(mul)
    else:
        mul = last
    x, w = mul.one("X"), mul.one("Y")
    if mul.type != "mul" or x is None or w is None or not graph.is_param(w) or not graph.steady(x):
        return None
    if mul.attr("x_num_col_dims", 1) != 1 or len(graph.shape(w)) != 2 or len(graph.shape(x)) != 2:
        return None
    if graph.dtype(w) != VarType.FP32 or (bias is not None and bias.shape[1] != graph.shape(w)[1]):
        return None
    return gone, x, w, bias


def _fuse(graph: Graph, kind: str, with_bias: bool) -> int:
    count, rows = 0, _GRU if kind == "gru" else _LSTM
    for node in graph.find(kind):
        found = _product_before(graph, node, with_bias)
        wh, b = node.one("Weight"), node.one("Bias")
        if found is None or wh is None or not graph.is_param(wh) or not graph.unread(node, *rows["outputs"]):
            continue
        gone, x, w, bias = found
        if b is not None and not graph.is_param(b):
            continue
        ins = {"X": [x], "WeightX": [w], "WeightH": [wh]}
        width = graph.shape(w)[1]
        whole = graph.value(b).reshape(1, -1) if b is not None else np.zeros((1, width), np.float32)
        if bias is not None:
            # peephole weights of an LSTM follow the biases of its gates
            whole[:, :width] += bias
        ins["Bias"] = [graph.new_param(b or w, whole.astype(np.float32))]
        for slot in ("H0", "C0"):
            if node.ins.get(slot):
                ins[slot] = node.ins[slot]
        outs = {"Hidden": node.outs["Hidden"]}
        if kind == "lstm":
            outs["Cell"] = node.outs["Cell"]
        for slot in _buffers(kind):
            outs[slot] = [graph.new_var(node.out("Hidden"), [-1, width], VarType.FP32)]
        attrs = {**node.attrs(*rows["attrs"]), "use_seq": True}
        graph.replace([*gone, node], Node(f"fusion_{kind}", ins, outs, None, attrs))
        count += 1
    return count


def _buffers(kind: str) -> list[str]:
    if kind == "gru":
        return ["ReorderedH0", "XX", "BatchedInput", "BatchedOut"]
    return ["XX", "BatchedInput", "BatchedHidden", "BatchedCell", "ReorderedH0", "ReorderedC0", "CheckedCell"]


@register("fc_gru_fuse_pass")
def fc_gru(graph: Graph) -> int:
    """mul, elementwise_add, gru -> fusion_gru."""
    return _fuse(graph, "gru", True)


@register("mul_gru_fuse_pass")
def mul_gru(graph: Graph) -> int:
    """mul, gru -> fusion_gru."""
    return _fuse(graph, "gru", False)


@register("mul_lstm_fuse_pass")
def mul_lstm(graph: Graph) -> int:
    """mul, lstm -> fusion_lstm."""
    return _fuse(graph, "lstm", False)
