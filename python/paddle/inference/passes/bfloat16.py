"""cpu_bfloat16_pass: products and convolutions of operands that are rounded to bfloat16, added in float32.

With AMX the kernels round operands while they pack them for the matrix unit: an operator has the attribute
`mkldnn_data_type` "bfloat16". `mul` has none: its constant operand is rounded at load and its input by two casts, and
the unit takes one of the six products that float32 needs. With AVX512-BF16 alone all operands are rounded so.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__ = ["rounded", "supported"]

#: operators that round their operands
_ROUNDING = ("fc", "multihead_matmul", "conv2d", "conv2d_fusion")

#: operator: the slot of its input, and that of its constant operand
_SLOTS = {
    "fc": ("Input", "W"),
    "mul": ("X", "Y"),
    "multihead_matmul": ("Input", "W"),
    "conv2d": ("Input", "Filter"),
    "conv2d_fusion": ("Input", "Filter"),
}


@cache
def _features() -> frozenset[str]:
    """The processor's features that multiply bfloat16 numbers."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        return frozenset()
    return frozenset(flags) & {"amx_bf16", "avx512_bf16"}


def supported() -> bool:
    """Whether the processor multiplies bfloat16 numbers (AMX or AVX512-BF16)."""
    return bool(_features())


def rounded(array: np.ndarray) -> np.ndarray:
    """float32 numbers rounded to bfloat16, ties to even, as float32; infinities and NaN stay."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    up = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(array), up.view(np.float32), array).astype(np.float32)


@register("cpu_bfloat16_pass")
def use_bfloat16(graph: Graph) -> int:
    """Marks products and convolutions, or rounds their operands; nothing on processors without bfloat16."""
    if not supported():
        return 0
    count, weights, inputs = 0, {}, {}
    for node in graph.find(*_SLOTS):
        if graph.bfloat16_ops and not graph.bfloat16_ops & ({node.type} | _names(node.type)):
            continue
        if "amx_bf16" in _features() and node.type in _ROUNDING:
            graph.set_attr(node, "mkldnn_data_type", "bfloat16")
            count += 1
            continue
        slot, constant = _SLOTS[node.type]
        x, w = node.one(slot), node.one(constant)
        if x is None or w is None or not graph.is_param(w) or not graph.steady(x) or not _suits(graph, node, w):
            continue
        if w not in weights:
            weights[w] = graph.new_param(w, rounded(graph.value(w)))
        if x not in inputs:
            inputs[x] = _cast_there_and_back(graph, node, x)
        graph.rename_input(node, w, weights[w])
        graph.rename_input(node, x, inputs[x])
        count += 1
    return count


def _names(kind: str) -> set[str]:
    """The types that a model has in place of a fused one."""
    return {"fc": {"mul", "matmul", "matmul_v2"}, "conv2d_fusion": {"conv2d"}}.get(kind, set())


def _suits(graph: Graph, node: Node, w: str) -> bool:
    """float32 products; convolutions of one pixel, which are products."""
    if graph.dtype(w) != VarType.FP32:
        return False
    if not node.type.startswith("conv"):
        return True
    plain = [1, 1]
    return (
        graph.shape(w)[2:] == plain
        and list(node.attr("strides", plain)) == plain
        and not any(node.attr("paddings", [0, 0]))
        and node.attr("groups", 1) == 1
    )


def _cast_there_and_back(graph: Graph, before: Node, x: str) -> str:
    shape = graph.shape(x)
    half, back = graph.new_var(x, shape, VarType.BF16), graph.new_var(x, shape, VarType.FP32)
    for source, to, old, new in ((x, half, VarType.FP32, VarType.BF16), (half, back, VarType.BF16, VarType.FP32)):
        attrs = {"in_dtype": int(old), "out_dtype": int(new)}
        graph.insert_before(before, Node("cast", {"X": [source]}, {"Out": [to]}, None, attrs))
    return back
