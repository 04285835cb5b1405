"""The first DownpourServer and DownpourWorker of 1.x: tables with fixed settings."""

from __future__ import annotations

import math
from typing import Any

from paddle.distributed.ps.pslib import node as pslib_node

from . import ps_pb2 as pslib

__all__ = ["Server", "Worker", "DownpourServer", "DownpourWorker"]

Server, Worker = pslib_node.Server, pslib_node.Worker

#: settings of accessors
_CLICKS = {
    "nonclk_coeff": 0.1,
    "click_coeff": 2,
    "base_threshold": 0.2,
    "delta_threshold": 0.15,
    "delta_keep_days": 31,
    "show_click_decay_rate": 0.999,
    "delete_threshold": 0.8,
}
_ADAM = {"avg_decay_rate": 0.999993, "ada_decay_rate": 0.9999, "ada_epsilon": 1e-8, "mom_decay_rate": 0.99}


def _without_embeddings(variables: Any) -> list[Any]:
    return [v for v in variables if "embedding" not in v.name]


class DownpourServer(pslib_node.DownpourServer):
    """The tables of the servers.

    Examples:
        >>> from paddle.fluid.distributed.node import DownpourServer
        >>> server = DownpourServer()
        >>> server.add_sparse_table(0, 0.1, [], [])
        >>> server.get_desc().downpour_server_param.downpour_table_param[0].accessor.embedx_dim
        8
    """

    def add_sparse_table(self, table_id, learning_rate, slot_key_vars, slot_value_var):  # type: ignore[override]
        """Adds a table of rows that are looked up by id.

        Args:
            table_id (int): its id. learning_rate (float): of its rule.
            slot_key_vars, slot_value_var: not read.
        """
        table, _ = self._table(table_id, pslib.PS_SPARSE_TABLE)
        table.table_class = "DownpourSparseTable"
        accessor = table.accessor
        accessor.accessor_class = "DownpourFeatureValueAccessor"
        rule = accessor.sparse_sgd_param
        rule.learning_rate, rule.initial_g2sum, rule.initial_range = learning_rate, 3, 1e-4
        rule.weight_bounds.extend([-10, 10])
        accessor.embedx_dim, accessor.embedx_threshold, accessor.fea_dim = 8, 5, 11
        for field, value in _CLICKS.items():
            setattr(accessor.downpour_accessor_param, field, value)

    def _add(self, table_id: int, params: Any) -> Any:
        """Adds a dense table as wide as the parameters without embeddings; returns its rule."""
        table, _ = self._table(table_id, pslib.PS_DENSE_TABLE)
        table.table_class = "DownpourDenseTable"
        table.accessor.accessor_class = "DownpourDenseValueAccessor"
        table.accessor.fea_dim = sum(math.prod(p.shape) for p in _without_embeddings(params))
        return table.accessor.dense_sgd_param

    def add_dense_table(self, table_id, learning_rate, param_var, grad_var):  # type: ignore[override]
        """Adds a table of whole parameters, with the rule Adam.

        Args:
            table_id (int): its id. learning_rate (float): Adam's.
            param_var, grad_var (list of Variable): parameters and gradients; embeddings (by name) are excluded.
        """
        rule = self._add(table_id, param_var)
        rule.name = "adam"
        rule.adam.learning_rate, rule.naive.learning_rate = learning_rate, 0.0002
        for field, value in _ADAM.items():
            setattr(rule.adam, field, value)

    def add_data_norm_table(self, table_id, learning_rate, param_var, grad_var):  # type: ignore[override]
        """Adds a table of the sums of `data_norm`; arguments as of :meth:`add_dense_table`, the rate is not read."""
        rule = self._add(table_id, param_var)
        rule.name = "summary"
        rule.summary.summary_decay_rate = 0.999999


class DownpourWorker(pslib_node.DownpourWorker):
    """The description of a trainer's pulls and pushes.

    Args:
        window (int): pushes between pulls.
    """

    def add_sparse_table(self, table_id, learning_rate, slot_key_vars, slot_value_vars):  # type: ignore[override]
        """Adds the lookups of a table: slots of ids and outputs, all of which have gradients."""
        super().add_sparse_table(table_id, slot_key_vars, slot_value_vars)

    def add_dense_table(self, table_id, learning_rate, param_vars, grad_vars):  # type: ignore[override]
        """The parameters of a dense table, and their gradients, in the order given; embeddings are excluded."""
        table = self._worker.dense_table.add()
        table.table_id = table_id
        table.dense_variable_name.extend(p.name for p in _without_embeddings(param_vars))
        table.dense_gradient_variable_name.extend(g.name for g in _without_embeddings(grad_vars))
