"""DownpourServer and DownpourWorker: descriptions of the servers' tables, and of the trainers' pulls and pushes."""

from __future__ import annotations

import math
from typing import Any

from . import ps_pb2 as pslib

__all__ = ["Server", "Worker", "DownpourServer", "DownpourWorker"]

_SPARSE_KEYS = frozenset(
    [
        "embedx_sparse_" + key
        for key in (
            "optimizer",
            "learning_rate",
            "weight_bounds",
            "initial_range",
            "initial_g2sum",
            "beta1_decay_rate",
            "beta2_decay_rate",
        )
    ]
    + [
        "embed_sparse_" + key
        for key in (
            "optimizer",
            "learning_rate",
            "weight_bounds",
            "initial_range",
            "initial_g2sum",
            "beta1_decay_rate",
            "beta2_decay_rate",
        )
    ]
    + [
        "sparse_" + key
        for key in (
            "table_class",
            "compress_in_save",
            "shard_num",
            "accessor_class",
            "learning_rate",
            "initial_g2sum",
            "initial_range",
            "weight_bounds",
            "embedx_dim",
            "embedx_threshold",
            "nonclk_coeff",
            "click_coeff",
            "base_threshold",
            "delta_threshold",
            "delta_keep_days",
            "delete_after_unseen_days",
            "show_click_decay_rate",
            "delete_threshold",
            "converter",
            "deconverter",
            "enable_cache",
            "cache_rate",
            "cache_file_num",
            "beta1_decay_rate",
            "beta2_decay_rate",
            "ada_epsilon",
            "optimizer",
            "ssd_unseenday_threshold",
        )
    ]
)
_DENSE_KEYS = frozenset(
    "dense_table_class dense_compress_in_save dense_accessor_class dense_optimizer dense_learning_rate dense_avg_decay "
    "dense_ada_decay dense_ada_epsilon dense_mom_decay dense_naive_lr".split()
)
_NORM_KEYS = frozenset(
    "datanorm_table_class datanorm_compress_in_save datanorm_accessor_class datanorm_operation "
    "datanorm_decay_rate".split()
)
_TABLES = ("DownpourSparseTable", "DownpourSparseSSDTable")
#: accessors with counts of shows and clicks, and one optimizer rule for a whole row
_OF_CLICKS = ("DownpourFeatureValueAccessor", "DownpourCtrAccessor", "DownpourCtrDoubleAccessor")
_ACCESSORS = (*_OF_CLICKS, "DownpourSparseValueAccessor", "DownpourUnitAccessor")
#: field of DownpourTableAccessorParameter, its default (the key is "sparse_" and the field's name)
_CLICKS = {
    "nonclk_coeff": 0.1,
    "click_coeff": 1,
    "base_threshold": 1.5,
    "delta_threshold": 0.25,
    "delta_keep_days": 16,
    "delete_after_unseen_days": 30,
    "show_click_decay_rate": 0.98,
    "delete_threshold": 0.8,
}
#: rule of a row: field, its default
_RULES: dict[str, dict[str, float]] = {
    "naive": {"learning_rate": 0.05, "initial_range": 1e-4},
    "adagrad": {"learning_rate": 0.05, "initial_range": 1e-4, "initial_g2sum": 3},
    "adam": {
        "learning_rate": 0.001,
        "initial_range": 1e-4,
        "beta1_decay_rate": 0.9,
        "beta2_decay_rate": 0.999,
        "ada_epsilon": 1e-8,
    },
}
_BOUNDS = (-10, 10)
_CONVERTER = "(scripts/xbox_compressor_mf.py | bin/xbox_pb_converter)"
_DECONVERTER = "(bin/xbox_pb_deconverter | scripts/xbox_decompressor_mf.awk)"

Strategy = dict[str, Any]


class Server:
    """The base of servers' descriptions."""


class Worker:
    """The base of trainers' descriptions."""


def _known(strategy: Strategy | None, keys: frozenset[str]) -> Strategy:
    strategy = {} if strategy is None else strategy
    for key in strategy:
        if key not in keys:
            raise ValueError(f"the strategy of a table has no key {key!r}, only {', '.join(sorted(keys))}")
    return strategy


def _one_of(strategy: Strategy, key: str, known: tuple[str, ...], default: str) -> str:
    """A choice of the strategy; the default for None."""
    given = default if strategy.get(key) is None else strategy[key]
    if given not in known:
        raise ValueError(f"{key} is one of {', '.join(known)}, got {given!r}")
    return given


def _rule(message: Any, strategy: Strategy, prefix: str) -> None:
    """Sets the optimizer rule of rows, and its settings."""
    name = strategy.get(prefix + "sparse_optimizer", "adam")
    message.name = name
    if name not in _RULES:
        return
    made = message.get(name)
    for field, default in _RULES[name].items():
        setattr(made, field, strategy.get(f"{prefix}sparse_{field}", default))
    bounds = strategy.get(prefix + "sparse_weight_bounds")
    made.weight_bounds.extend(_BOUNDS if bounds is None else bounds)


def _with_clicks(accessor: Any, strategy: Strategy) -> None:
    """Sets the widths of a row with counts of shows and clicks, and the thresholds for saving and deleting it."""
    accessor.embedx_dim = strategy.get("sparse_embedx_dim", 8)
    accessor.embedx_threshold = strategy.get("sparse_embedx_threshold", 10)
    accessor.fea_dim = int(accessor.embedx_dim) + 3
    for field, default in _CLICKS.items():
        setattr(accessor.downpour_accessor_param, field, strategy.get(f"sparse_{field}", default))


def _saved(accessor: Any, strategy: Strategy) -> None:
    """Sets the converters of files saved with the modes 1 and 2."""
    for mode in (1, 2):
        how = accessor.table_accessor_save_param.add()
        how.param = mode
        how.converter = strategy.get("sparse_converter", _CONVERTER)
        how.deconverter = strategy.get("sparse_deconverter", _DECONVERTER)


def _dense(variables: Any, sparse: Any) -> list[Any]:
    return [v for v in variables if v.name not in sparse]


class DownpourServer(Server):
    """The tables of the servers.

    Examples:
        >>> from paddle.fluid.incubate.fleet.parameter_server.pslib.node import DownpourServer
        >>> server = DownpourServer()
        >>> server.add_sparse_table(0, {"sparse_accessor_class": "DownpourSparseValueAccessor"})
        >>> server.get_desc().downpour_server_param.downpour_table_param[0].accessor.sparse_commonsgd_param.name
        'adam'
    """

    def __init__(self):
        self._server = pslib.ServerParameter()
        service = self._server.downpour_server_param.service_param
        service.server_class = "DownpourBrpcPsServer"
        service.client_class = "DownpourBrpcPsClient"
        service.service_class = "DownpourPsService"
        service.start_server_port = 0
        service.server_thread_num = 12

    def _table(self, table_id: int, kind: str) -> tuple[Any, bool]:
        """The table of an id, and whether it is new; ValueError for an existing table of the other kind."""
        tables = self._server.downpour_server_param.downpour_table_param
        for table in tables:
            if table.table_id == table_id:
                if table.type != kind:
                    raise ValueError(f"table {table_id} is a {table.type}, not a {kind}")
                return table, False
        table = tables.add()
        table.table_id, table.type = table_id, kind
        return table, True

    def add_sparse_table(self, table_id, strategy):
        """Adds a table of rows that are looked up by id; an existing one stays unchanged.

        Args:
            table_id (int): its id. strategy (dict, optional): settings, of which 2.0.2's have the names
                ``sparse_...``, and for DownpourUnitAccessor ``embed_sparse_...`` and ``embedx_sparse_...``.

        Raises:
            ValueError: for an unknown setting, or the id of a dense table.
        """
        if self._there(table_id):
            self._table(table_id, pslib.PS_SPARSE_TABLE)
            return
        strategy = _known(strategy, _SPARSE_KEYS)
        kind = _one_of(strategy, "sparse_table_class", _TABLES, _TABLES[0])
        accessor_class = _one_of(strategy, "sparse_accessor_class", _ACCESSORS, "DownpourCtrAccessor")
        table, _ = self._table(table_id, pslib.PS_SPARSE_TABLE)
        table.table_class = kind
        table.enable_sparse_table_cache = strategy.get("sparse_enable_cache", True)
        table.sparse_table_cache_rate = strategy.get("sparse_cache_rate", 0.00055)
        table.sparse_table_cache_file_num = strategy.get("sparse_cache_file_num", 16)
        table.compress_in_save = strategy.get("sparse_compress_in_save", True)
        table.shard_num = strategy.get("sparse_shard_num", 1000)
        accessor = table.accessor
        accessor.accessor_class = accessor_class
        if accessor_class == "DownpourSparseValueAccessor":
            _rule(accessor.sparse_commonsgd_param, strategy, "")
            accessor.embedx_dim = strategy.get("sparse_embedx_dim", 8)
            accessor.fea_dim = int(accessor.embedx_dim)
        else:
            _with_clicks(accessor, strategy)
        if accessor_class in _OF_CLICKS:
            rule = accessor.sparse_sgd_param
            for field, default in _RULES["adagrad"].items():
                setattr(rule, field, strategy.get(f"sparse_{field}", default))
            bounds = strategy.get("sparse_weight_bounds")
            rule.weight_bounds.extend(_BOUNDS if bounds is None else bounds)
            unseen = strategy.get("sparse_ssd_unseenday_threshold", 1)
            accessor.downpour_accessor_param.ssd_unseenday_threshold = unseen
        elif accessor_class == "DownpourUnitAccessor":
            _rule(accessor.embed_sgd_param, strategy, "embed_")
            _rule(accessor.embedx_sgd_param, strategy, "embedx_")
        _saved(accessor, strategy)

    def _dense_table(
        self, table_id: int, params: Any, sparse: Any, strategy: Strategy, prefix: str, rule: tuple[str, str]
    ) -> Any:
        """Adds a table as wide as the parameters outside of sparse tables; returns its rule (None: it exists)."""
        table, new = self._table(table_id, pslib.PS_DENSE_TABLE)
        table.accessor.fea_dim = sum(math.prod(p.shape) for p in _dense(params, sparse))
        if not new:
            return None
        table.table_class = strategy.get(f"{prefix}_table_class", "DownpourDenseTable")
        table.compress_in_save = strategy.get(f"{prefix}_compress_in_save", True)
        table.accessor.accessor_class = strategy.get(f"{prefix}_accessor_class", "DownpourDenseValueAccessor")
        table.accessor.dense_sgd_param.name = strategy.get(*rule)
        return table.accessor.dense_sgd_param

    def _there(self, table_id: int) -> bool:
        return any(t.table_id == table_id for t in self._server.downpour_server_param.downpour_table_param)

    def add_dense_table(self, table_id, param_var, grad_var, strategy, sparse_table_names):
        """Adds a table of whole parameters; an existing table gets the width of `param_var`.

        Args:
            table_id (int): its id. param_var, grad_var (list of Variable): parameters and gradients.
            strategy (dict, optional): settings, named ``dense_...``.
            sparse_table_names (list of str): parameters of sparse tables.

        Raises:
            ValueError: for an unknown setting, or the id of a sparse table.
        """
        strategy = {} if self._there(table_id) else _known(strategy, _DENSE_KEYS)
        how = ("dense_optimizer", "adam")
        rule = self._dense_table(table_id, param_var, sparse_table_names, strategy, "dense", how)
        if rule is None:
            return
        rule.adam.learning_rate = strategy.get("dense_learning_rate", 5e-06)
        rule.adam.avg_decay_rate = strategy.get("dense_avg_decay", 0.999993)
        rule.adam.ada_decay_rate = strategy.get("dense_ada_decay", 0.9999)
        rule.adam.ada_epsilon = strategy.get("dense_ada_epsilon", 1e-8)
        rule.adam.mom_decay_rate = strategy.get("dense_mom_decay", 0.99)
        rule.naive.learning_rate = strategy.get("dense_naive_lr", 0.0002)

    def add_data_norm_table(self, table_id, learning_rate, param_var, grad_var, strategy, sparse_table_names):
        """Adds a table of the sums of `data_norm`, to which trainers add.

        Args:
            table_id (int): its id. learning_rate: not read; sums are added up.
            param_var, grad_var (list of Variable): sums, and their increments.
            strategy (dict, optional): settings, named ``datanorm_...``.
            sparse_table_names (list of str): parameters of sparse tables.

        Raises:
            ValueError: for an unknown setting, or the id of a sparse table.
        """
        strategy = {} if self._there(table_id) else _known(strategy, _NORM_KEYS)
        how = ("datanorm_operation", "summary")
        rule = self._dense_table(table_id, param_var, sparse_table_names, strategy, "datanorm", how)
        if rule is None:
            return
        rule.summary.summary_decay_rate = strategy.get("datanorm_decay_rate", 0.999999)

    def get_desc(self):
        """The message ServerParameter."""
        return self._server


class DownpourWorker(Worker):
    """The description of a trainer's Program: the tables that it pulls from and pushes to.

    Args:
        window (int): pushes between pulls.
    """

    def __init__(self, window):
        self.window = window
        self._worker = pslib.DownpourTrainerParameter()

    def add_sparse_table(self, table_id, slot_key_vars, slot_value_vars, slot_value_grads=None):
        """Adds the lookups of a table: slots of ids, outputs, gradients.

        Args:
            table_id (int): its id.
            slot_key_vars, slot_value_vars (list of Variable): ids, and outputs of the lookups.
            slot_value_grads (list of Variable, optional): the existing gradients; outputs without one are put last.
                None: each output has one.

        Raises:
            ValueError: when the description has other slots for this table.
        """
        pairs = list(zip(slot_key_vars, slot_value_vars, strict=True))
        if slot_value_grads is not None:
            there = {var.name for var in slot_value_grads}
            pairs.sort(key=lambda pair: f"{pair[1].name}@GRAD" not in there)
            grads = [f"{v.name}@GRAD" for _, v in pairs if f"{v.name}@GRAD" in there]
        else:
            grads = [f"{v.name}@GRAD" for _, v in pairs]
        tables = self._worker.sparse_table
        for table in tables:
            if table.table_id == table_id:
                missing = [key.name for key, _ in pairs if key.name not in table.slot_key]
                if missing:
                    raise ValueError(f"the description of sparse table {table_id} lacks the slots {missing}")
                tables.remove(table)
                break
        table = tables.add()
        table.table_id = table_id
        table.slot_key.extend(key.name for key, _ in pairs)
        table.slot_value.extend(value.name for _, value in pairs)
        table.slot_gradient.extend(grads)

    def add_dense_table(self, table_id, learning_rate, param_vars, grad_vars, dense_start_table_id, sparse_table_names):
        """Adds the parameters of a dense table, and their gradients.

        Args:
            table_id (int): its id. learning_rate, dense_start_table_id: not read.
            param_vars, grad_vars (list of Variable): parameters and gradients.
            sparse_table_names (list of str): parameters of sparse tables.

        Raises:
            ValueError: when the description has other names for this table.
        """
        params = sorted(p.name for p in _dense(param_vars, sparse_table_names))
        grads = sorted(g.name for g in _dense(grad_vars, {f"{n}@GRAD" for n in sparse_table_names}))
        for table in self._worker.dense_table:
            if table.table_id != table_id:
                continue
            for field, names in (("dense_variable_name", params), ("dense_gradient_variable_name", grads)):
                if sorted(table.get(field)) != names:
                    raise ValueError(f"the description of dense table {table_id} has another {field} than the Program")
            return
        table = self._worker.dense_table.add()
        table.table_id = table_id
        table.dense_variable_name.extend(params)
        table.dense_gradient_variable_name.extend(grads)

    def get_desc(self):
        """The message DownpourTrainerParameter."""
        return self._worker
