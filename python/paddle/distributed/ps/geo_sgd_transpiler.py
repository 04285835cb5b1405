"""GeoSgdTranspiler: trainers update their own parameters and exchange the changes every few steps."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import paddle._core as core
from paddle._programs.guards import default_main_program, default_startup_program
from paddle._programs.program import Program
from paddle._programs.variable import Parameter
from paddle.distributed.checkport import wait_server_ready
from paddle.distributed.port_files import remove_stale_port_files

from . import server_program, trainer_program
from .blocks import cut, height_sections
from .communication import of_geo
from .config import DistributedMode, DistributeTranspilerConfig
from .distribute_transpiler import DistributeTranspiler, _in_static_mode

__all__ = ["GeoSgdTranspiler"]

_ROWS = core.VarDesc.VarType.SELECTED_ROWS


class GeoSgdTranspiler(DistributeTranspiler):
    """Rewrites a Program for GEO-SGD: trainers run the optimizer, servers sum the trainers' changes.

    A trainer runs its Program between ``start`` and ``stop`` of a
    :class:`~paddle.fluid.communicator.Communicator` of it, which exchanges differences every
    ``config.geo_sgd_need_push_nums`` steps.

    Args:
        config (DistributeTranspilerConfig, optional): the settings; the defaults when None.

    Raises:
        ValueError: for a `min_block_size` below 8192, or a `split_method` that is not a PSDispatcher.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> from paddle.fluid.transpiler.geo_sgd_transpiler import GeoSgdTranspiler
        >>> paddle.enable_static()
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
        >>> _ = fluid.optimizer.SGD(0.001).minimize(loss)
        >>> t = GeoSgdTranspiler()
        >>> t.transpile(0, pservers="127.0.0.1:6174", trainers=2)
        >>> main, startup = t.get_pserver_programs("127.0.0.1:6174")
        >>> [op.type for op in main.block(1).ops]
        ['sum']
    """

    def __init__(self, config=None):
        super().__init__(DistributeTranspilerConfig() if config is None else config)
        self.distributed_mode = DistributedMode.GEO

    @_in_static_mode
    def transpile(
        self,
        trainer_id,
        program=None,
        pservers="127.0.0.1:6174",
        trainers=1,
        sync_mode=False,
        startup_program=None,
        current_endpoint="127.0.0.1:6174",
    ):
        """Rewrites the Programs for this process.

        Args:
            trainer_id (int): the index of this trainer, from 0.
            program (Program, optional): the main Program, changed in place; the default one when None.
            pservers (str): ``ip:port`` of every server, comma-separated.
            trainers (int): the number of trainers.
            sync_mode (bool): not read; trainers do not synchronize.
            startup_program (Program, optional): changed in place; the default one when None.
            current_endpoint (str): this process's ``ip:port``.
        """
        program = default_main_program() if program is None else program
        startup_program = default_startup_program() if startup_program is None else startup_program
        self.origin_program, self.startup_program = program, startup_program
        self.origin_startup_program = startup_program.clone()
        self._whole = None
        self._begin(program, trainer_id, trainers, pservers, False, current_endpoint)
        self._init_splited_vars()
        endpoint_of = self._dispatch()
        program._parameters_on_pservers = self.vars_overview
        self._send_ids(program)
        trainer_program.extend_startup(self, endpoint_of)
        self._signal_initialized()
        program._communication = of_geo(self)

    def _init_splited_vars(self):
        """Splits parameters, and creates the variables of the parts and of the differences."""
        params: OrderedDict[str, Any] = OrderedDict()
        self.sparse_var_list: list[str] = []
        for p, g in self.params_grads:
            if type(p) is Parameter and not p.trainable:
                continue
            params[p.name] = p
            if g.type == _ROWS:
                self.sparse_var_list.append(p.name)
        blocks = cut(params.values(), len(self.pserver_endpoints), self.config.min_block_size)
        self.param_var_mapping = self._create_vars_from_blocklist(self.origin_program, blocks)
        self.param_opt_ep_mapping = OrderedDict((e, {"params": []}) for e in self.pserver_endpoints)
        self.vars_info: OrderedDict[str, Any] = OrderedDict()
        self.split_to_origin_mapping: OrderedDict[str, str] = OrderedDict()
        self.sparse_var_splited_list: list[str] = []
        self.delta_vars_list: list[Any] = []
        for name, parts in self.param_var_mapping.items():
            self._declare_parts(params[name], parts)

    def _declare_parts(self, param: Any, parts: list[Any]) -> None:
        block, sparse = self.origin_program.global_block(), param.name in self.sparse_var_list
        kind = _ROWS if sparse else param.type
        self.vars_info[param.name] = OrderedDict(
            var_names=[v.name for v in parts],
            sections=[str(n) for n in height_sections(parts)],
            epmap=[],
            is_sparse=[str(sparse)],
        )
        kept = {"persistable": False, "dtype": param.dtype, "type": kind}
        self.delta_vars_list.append(block.create_var(name=f"{param.name}.delta", shape=param.shape, **kept))
        for part in parts:
            is_slice, number, offset = self._get_slice_var_info(part)
            self.vars_overview.add_distributed_var(
                origin_var=param, slice_var=part, block_id=number, offset=offset, is_slice=is_slice, vtype="Param"
            )
            self.split_to_origin_mapping[part.name] = param.name
            if sparse:
                self.sparse_var_splited_list.append(part.name)
            if len(parts) > 1:
                block.create_var(name=f"{part.name}.delta", shape=part.shape, **kept)

    def _dispatch(self) -> dict[str, str]:
        """Assigns the parts to servers; returns the server of each part by name."""
        parts = [v for some in self.param_var_mapping.values() for v in some]
        endpoints = self.config.split_method(self.pserver_endpoints).dispatch(parts)
        for part, endpoint in zip(parts, endpoints, strict=True):
            self.param_opt_ep_mapping[endpoint]["params"].append(part)
            self.vars_overview.get_distributed_var_by_slice(part.name).endpoint = endpoint
            self.vars_info[self.split_to_origin_mapping[part.name]]["epmap"].append(endpoint)
        return {part.name: endpoint for part, endpoint in zip(parts, endpoints, strict=True)}

    def _send_ids(self, program: Any) -> None:
        """Appends a send that passes the looked-up ids of sparse tables to the Communicator at the end of each step."""
        block = program.global_block()
        pairs: dict[tuple[str, str], None] = {}
        for op in block.ops:
            if not op.has_attr("is_sparse"):
                continue
            if op.has_attr("remote_prefetch"):
                op._set_attr("remote_prefetch", False)
            if "W" in op.input_names and "Ids" in op.input_names:
                for ids, table in zip(op.input("Ids"), op.input("W"), strict=False):
                    if table in self.sparse_var_list:
                        pairs[ids, table] = None
        self.sparse_var = [block.var(ids) for ids, _ in pairs]
        self.sparse_tables = [table for _, table in pairs]
        block.append_op(
            type="send",
            inputs={"X": self.sparse_var},
            outputs={"Out": trainer_program.control_var(program)},
            attrs={"send_varnames": self.sparse_tables, "endpoints": [], "trainer_id": self.trainer_id},
        )

    def _signal_initialized(self) -> None:
        """Appends to the startup Program the send that signals initialized parameters to the Communicator."""
        startup = self.trainer_startup_program = self.startup_program
        block = startup.global_block()
        for v in self.delta_vars_list:
            kept = {k: getattr(v, k) for k in ("name", "persistable", "dtype", "type", "shape")}
            block.create_var(**kept)
        done = trainer_program.control_var(startup)
        start = block.create_var(name="param_init")
        block.append_op(
            type="send",
            inputs={"X": [start]},
            outputs={"Out": done},
            attrs={"send_varnames": [start.name], "endpoints": []},
        )

    def _get_vars_info(self):
        return self.vars_info

    def get_trainer_program(self, wait_port=True):
        """The Program of this trainer: the one that was transpiled.

        Args:
            wait_port (bool): wait until every server listens.

        Returns:
            Program
        """
        if wait_port:
            wait_server_ready(self.pserver_endpoints)
        return self.origin_program

    @_in_static_mode
    def get_pserver_program(self, endpoint):
        """The main Program of a server: a block for each parameter, which adds the received change.

        Args:
            endpoint (str): ``ip:port`` of the server, one of those given to :meth:`transpile`.

        Returns:
            Program
        """
        if endpoint not in self.pserver_endpoints:
            raise ValueError(f"{endpoint} is not among the servers {', '.join(self.pserver_endpoints)}")
        remove_stale_port_files()
        server_program.set_layout_flag(self, endpoint)
        program = Program()
        program.random_seed = self.origin_program.random_seed
        program._copy_dist_param_info_from(self.origin_program)
        program._ps_endpoint = endpoint
        top, blocks, of_delta, of_rows = program.global_block(), [], [], []
        params = [top._clone_variable(v) for v in self.param_opt_ep_mapping[endpoint]["params"]]
        for param in params:
            block = program._create_block(0)
            name, sparse = f"{param.name}.delta", param.name in self.sparse_var_splited_list
            delta = top.create_var(
                name=name, persistable=False, type=_ROWS if sparse else param.type, dtype=param.dtype, shape=param.shape
            )
            block.append_op(type="sum", inputs={"X": [param, delta]}, outputs={"Out": param})
            blocks.append(block)
            of_delta.append(f"{name}:{block.idx}")
            of_rows += [f"{name}:{param.name}"] if sparse else []
        top.append_op(
            type="listen_and_serv",
            inputs={"X": []},
            outputs={},
            attrs={
                "optimize_blocks": blocks,
                "endpoint": endpoint,
                "Fanin": self.trainer_num,
                "distributed_mode": DistributedMode.GEO,
                "grad_to_block_id": of_delta,
                "sparse_grad_to_param": of_rows,
                "rpc_get_thread_num": self.server_config._rpc_get_thread_num,
                "rpc_send_thread_num": self.server_config._rpc_send_thread_num,
                "rpc_prefetch_thread_num": self.server_config._rpc_prefetch_thread_num,
            },
        )
        program._sync_with_cpp()
        self.pserver_program = program
        return program

    @_in_static_mode
    def get_startup_program(self, endpoint, pserver_program=None, startup_program=None):
        """The startup Program of a server.

        Args:
            endpoint (str): ``ip:port`` of the server.
            pserver_program (Program, optional): its main Program; created when None.
            startup_program: not read.

        Returns:
            Program
        """
        self.param_grad_ep_mapping = self.param_opt_ep_mapping
        main = self.get_pserver_program(endpoint) if pserver_program is None else pserver_program
        return server_program.startup_program(self, endpoint, main)
