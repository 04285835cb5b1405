"""simplify_with_basic_ops_pass, identity_scale_op_clean_pass: dropout in test and scale by 1 disappear."""

from __future__ import annotations

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__ = ["bypass"]


def bypass(graph: Graph, node: Node, source: str, result: str) -> bool:
    """Removes an operator whose output `result` equals its input `source`; False where a name must stay."""
    if not graph.steady(source, result) or source == result:
        return False
    if result not in graph.pinned:
        readers = graph.readers(result)
        graph.replace([node], None, at=node)
        for reader in readers:
            graph.rename_input(reader, result, source)
        return True
    writer = graph.writer(source)
    if writer is None or graph.reader(source) is not node or source in writer.reads():
        return False
    # the writer of `source` writes `result` instead
    outs = {slot: [result if n == source else n for n in names] for slot, names in writer.outs.items()}
    new = writer.copied(writer.type, writer.ins, outs, {})
    if writer.desc is not None:
        new.desc = writer.desc
        new._new_attrs = dict(writer._new_attrs)
    graph.replace([writer, node], new, at=writer)
    return True


@register("simplify_with_basic_ops_pass")
def remove_dropout(graph: Graph) -> int:
    """Removes dropout: in test it copies its input, or multiplies it by 1 - dropout_prob."""
    count = 0
    for node in graph.find("dropout"):
        x, out = node.one("X"), node.out()
        if x is None or not out or not node.attr("is_test", False) or not graph.unread(node, "Mask"):
            continue
        if node.attr("dropout_implementation", "downgrade_in_infer") == "upscale_in_train":
            count += bypass(graph, node, x, out)
            continue
        if node.ins.get("Seed"):
            continue
        scale = Node("scale", {"X": [x]}, {"Out": [out]}, None, {"scale": 1.0 - node.attr("dropout_prob", 0.5)})
        graph.replace([node], scale)
        count += 1
    return count


@register("identity_scale_op_clean_pass")
def remove_identity_scale(graph: Graph) -> int:
    """Removes scale operators of floats that multiply by 1 and add 0; a saved model ends with one for each output."""
    count = 0
    for node in graph.find("scale"):
        x, out = node.one("X"), node.out()
        if x is None or not out or node.ins.get("ScaleTensor"):
            continue
        if node.attr("scale", 1.0) != 1.0 or node.attr("bias", 0.0) != 0.0:
            continue
        if graph.dtype(x) in (VarType.FP32, VarType.FP64):
            count += bypass(graph, node, x, out)
    return count
