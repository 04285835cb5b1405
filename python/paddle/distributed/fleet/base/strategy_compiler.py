"""StrategyCompiler: the nesting of the meta-optimizers that a strategy's flags select."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

__all__: list[str] = []


def _longest_chain(optimizers: list[Any]) -> list[Any]:
    """The longest chain in which each optimizer may wrap the next one.

    A chain from i to j passes only through optimizers that i may wrap and that may wrap j. Of chains of equal length
    the first in the order of `optimizers` is taken.

    Raises:
        AssertionError: for optimizers that may wrap each other in a cycle.
    """
    count = range(len(optimizers))
    allowed = {(i, j) for i in count for j in count if optimizers[i]._can_update(optimizers[j])}
    left = set(count)
    while left:
        free = {j for j in left if not any((i, j) in allowed for i in left)}
        assert free, f"these meta-optimizers may wrap each other in a cycle: {[type(o).__name__ for o in optimizers]}"
        left -= free

    @cache
    def between(i: int, j: int) -> tuple[int, ...]:
        """The longest path from i to j, without i."""
        best: tuple[int, ...] = (j,)
        for k in count:
            if (i, k) in allowed and (k, j) in allowed:
                path = between(i, k) + between(k, j)
                best = path if len(path) > len(best) else best
        return best

    chains = [(i, *between(i, j)) for i, j in sorted(allowed)]
    return [optimizers[i] for i in max(chains, key=len, default=(0,))]


def _chained(optimizers: list[Any]) -> list[Any]:
    if not optimizers:
        return []
    chain = _longest_chain(optimizers)
    for outer, inner in zip(chain, chain[1:], strict=False):
        outer._update_inner_optimizer(inner)
    return chain


class StrategyCompiler:
    """Selects meta-optimizers among the applicable ones, and nests them."""

    def __init__(self) -> None:
        self._meta_optimizers: list[Any] = []
        self._graph_optimizers: list[Any] = []
        self._candidates: list[Any] = []

    def _get_applied_meta_optimizer(self) -> list[Any]:
        return self._meta_optimizers

    def _get_applied_meta_list(self) -> list[str]:
        return [type(o).__name__ for o in self._meta_optimizers]

    def _get_applied_graph_list(self) -> list[str]:
        return [type(o).__name__ for o in self._graph_optimizers]

    def _get_valid_strategy(self, dist_strategy: Any, can_not_apply_optimizer_list: list[Any]) -> Any:
        """A copy of the strategy with the flags of meta-optimizers cleared that were not applied."""
        valid = copy.deepcopy(dist_strategy)
        applied = set(self._get_applied_meta_list())
        for one in [c for c in self._candidates if type(c).__name__ not in applied] + can_not_apply_optimizer_list:
            one._disable_strategy(valid)
        return valid

    def generate_optimizer(
        self,
        loss: Any,
        role_maker: Any,
        optimizer: Any,
        user_defined_strategy: Any,
        meta_optimizer_list: list[Any],
        graph_optimizer_list: list[Any],
    ) -> tuple[Any, Any]:
        """The outermost meta-optimizer of Programs and that of compiled Programs; None where there is none."""
        self._candidates = meta_optimizer_list
        if not meta_optimizer_list and not graph_optimizer_list:
            return optimizer, None
        meta, graph = _chained(meta_optimizer_list), _chained(graph_optimizer_list)
        self._meta_optimizers, self._graph_optimizers = meta, graph
        if any(isinstance(g, one.conflicts) for one in meta for g in graph):
            graph = []
        return (meta[0] if meta else None), (graph[0] if graph else None)
