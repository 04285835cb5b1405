"""is_test_pass: operators that differ between training and test (dropout, batch_norm) compute as in test."""

from __future__ import annotations

from paddle.inference.graph import Graph

from .registry import register

__all__: list[str] = []


@register("is_test_pass")
def set_is_test(graph: Graph) -> int:
    """Sets is_test of the operators that have it and do not have it set."""
    changed = [node for node in graph.nodes if node.attr("is_test") is False]
    for node in changed:
        graph.set_attr(node, "is_test", True)
    return len(changed)
