"""constant_folding_pass: operators that read parameters and constants only run once, at load."""

from __future__ import annotations

import math

import numpy as np

import paddle._core as core
from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__: list[str] = []

#: operators without effects, randomness and LoD
_PURE = frozenset(
    """
    abs assign assign_value cast clip concat cos elementwise_add elementwise_div elementwise_floordiv elementwise_max
    elementwise_min elementwise_mod elementwise_mul elementwise_pow elementwise_sub equal exp expand expand_v2 eye
    fill_constant flatten2 flatten_contiguous_range floor greater_equal greater_than index_select less_equal less_than
    linspace log logical_and logical_not logical_or not_equal pow range reciprocal reduce_max reduce_mean reduce_min
    reduce_prod reduce_sum reshape reshape2 rsqrt scale sign sin slice split sqrt square squeeze squeeze2 stack tile
    transpose transpose2 tril_triu unsqueeze unsqueeze2 unstack where
    """.split()
)
#: a result above this size is computed in each run
_LARGEST = 64 << 20
#: outputs that only gradients read
_UNUSED = ("XShape",)


def _constant(graph: Graph, node: Node) -> bool:
    if node.type not in _PURE or not all(graph.is_param(name) for name in node.reads()):
        return False
    outputs = [n for slot, names in node.outs.items() if slot not in _UNUSED for n in names]
    if not outputs or not graph.unread(node, *_UNUSED):
        return False
    for name in outputs:
        var = graph.block.find_var(name)
        if var is None or var.type() != VarType.LOD_TENSOR or var.persistable() or name in graph.pinned:
            return False
        shape = var.shape()
        if not graph.steady(name) or any(d < 0 for d in shape) or math.prod(shape) * 8 > _LARGEST:
            return False
    return True


@register("constant_folding_pass")
def fold_constants(graph: Graph) -> int:
    """Runs operators whose inputs do not change, in order, and makes their results parameters."""
    count = 0
    for node in list(graph.nodes):
        if not _constant(graph, node):
            continue
        scope = core._Scope()
        for name in node.reads():
            scope.var(name).get_tensor()._share_data_with(graph.scope.find_var(name).get_tensor())
        names = [n for slot, each in node.outs.items() if slot not in _UNUSED for n in each]
        op = core.OpDesc()
        if node.desc is not None:
            op.copy_from(node.desc)
        for slot, each in node.outs.items():
            op.set_output(slot, each)
        try:
            core.run_op(op, scope)
        except Exception:  # noqa: BLE001 -- the run raises it, with the operator's name
            continue
        values = [scope.find_var(name) for name in names]
        if any(v is None or not v.get_tensor()._is_initialized() for v in values):
            continue
        graph.replace([node], None, at=node)
        for name, var in zip(names, values, strict=True):
            array = np.array(var.get_tensor())
            graph.scope.var(name).get_tensor().set(array)
            desc = graph.block.find_var(name)
            desc.set_shape(list(array.shape))
            desc.set_persistable(True)
        count += 1
    return count
