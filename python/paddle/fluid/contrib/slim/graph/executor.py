"""SlimGraphExecutor: runs a GraphWrapper on batches of samples."""

from __future__ import annotations

from typing import Any

from paddle.static import Executor
from paddle.static.feeder import DataFeeder

from .graph_wrapper import GraphWrapper

__all__ = ["SlimGraphExecutor"]


class SlimGraphExecutor:
    """Runs graphs.

    Args:
        place (Place): the device.
    """

    def __init__(self, place: Any) -> None:
        self.exe = Executor(place)
        self.place = place

    def run(self, graph: GraphWrapper, scope: Any, data: Any = None) -> list[Any]:
        """Feeds `data` to `graph.in_nodes` in their order, and returns the values of `graph.out_nodes`.

        Args:
            graph (GraphWrapper): the graph.
            scope (Scope): contains its parameters.
            data (list of tuple, list of dict, dict, or None): samples, or feeds by name, or nothing for a graph that
                reads by itself.

        Raises:
            TypeError: `graph` is not a GraphWrapper.
        """
        if not isinstance(graph, GraphWrapper):
            raise TypeError(f"SlimGraphExecutor.run: graph must be a GraphWrapper, got {type(graph).__name__}")
        feed = data
        if data is not None and not isinstance(data, dict) and not isinstance(data[0], dict):
            feed = DataFeeder(list(graph.in_nodes.values()), self.place, graph.program).feed(data)
        elif isinstance(data, list | tuple) and len(data) == 1:
            feed = data[0]
        program = graph.compiled_graph or graph.program
        return self.exe.run(program, feed, list(graph.out_nodes.values()), scope=scope)
