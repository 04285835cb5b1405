"""DistributeTranspiler: rewrites the Program of one process into those of trainers and parameter servers."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from paddle._basics import mode
from paddle._basics.names import OP_NAMESCOPE, OP_ROLE, OP_ROLE_VAR, OpRole
from paddle._programs.guards import default_main_program, default_startup_program
from paddle._programs.program import Program
from paddle._programs.runners import assign
from paddle._programs.variable import Parameter
from paddle.distributed.checkport import wait_server_ready
from paddle.distributed.collective_transpiler import prepare_nccl2, transpile_collective, transpile_nccl2
from paddle.distributed.port_files import remove_stale_port_files

from . import lookup_tables, server_program, trainer_program
from .async_communication import AsyncCommunication
from .blocks import VarBlock, cut, is_part_of, name_parts, row_numel, slice_variable
from .communication import of_program
from .config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from .dispatcher import PSDispatcher, RoundRobin
from .vars_distributed import VarsDistributed, VarStruct

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "DistributedMode",
    "ServerRuntimeConfig",
    "VarBlock",
    "same_or_split_var",
    "slice_variable",
]

same_or_split_var = is_part_of

_CLIP, _CLIPS, _CLIPS_ONE = "@CLIP", "/gradient_clip", ("clip", "clip_by_norm")
_SHARED = ("Param", "Grad", "LearningRate", "Beta1Tensor", "Beta2Tensor")


def _scope(op: Any) -> str:
    return op.attr(OP_NAMESCOPE) if op.has_attr(OP_NAMESCOPE) else ""


# Without it operators would run instead of being appended, where the caller is in dygraph mode.
_in_static_mode = mode._dygraph_guard(None)


class DistributeTranspiler:
    """Rewrites a Program for data-parallel training by several processes.

    In the mode "pserver" parameters are split into blocks that are assigned to servers. Trainers send gradients to the
    servers and receive parameters; servers run the optimizer. With "nccl2" or "collective" there are no servers:
    trainers exchange gradients among themselves.

    Args:
        config (DistributeTranspilerConfig, optional): the settings; the defaults when None.

    Raises:
        ValueError: for a `min_block_size` below 8192, or a `split_method` that is not a PSDispatcher.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 13])
        >>> y = fluid.data("y", [None, 1])
        >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
        >>> _ = fluid.optimizer.SGD(0.001).minimize(loss)
        >>> servers = "192.168.0.1:6174,192.168.0.2:6174"
        >>> t = fluid.DistributeTranspiler()
        >>> t.transpile(0, pservers=servers, trainers=4)
        >>> main, startup = t.get_pserver_programs("192.168.0.1:6174")  # what the first server runs
        >>> [op.type for op in main.global_block().ops]
        ['listen_and_serv']
        >>> [op.type for op in t.get_trainer_program(wait_port=False).global_block().ops][-2:]
        ['recv', 'fetch_barrier']
    """

    def __init__(self, config=None):
        self.config = DistributeTranspilerConfig() if config is None else config
        self._set_server_config()
        if self.config.split_method is None:
            self.config.split_method = RoundRobin
        if self.config.sync_mode or self.config.completely_not_async:
            self.distributed_mode = DistributedMode.SYNC
        elif self.config.runtime_split_send_recv:
            self.distributed_mode = DistributedMode.ASYNC
        else:
            self.distributed_mode = DistributedMode.HALF_ASYNC
        if self.config.min_block_size < 8192:
            raise ValueError(f"min_block_size must be at least 8192, got {self.config.min_block_size}")
        if not issubclass(self.config.split_method, PSDispatcher):
            raise ValueError(f"split_method must be a subclass of PSDispatcher, got {self.config.split_method}")
        self.counter_var = None
        #: ``ip:port`` of the servers, once :meth:`transpile` has been called
        self.pserver_endpoints: list[str] = []

    def _set_server_config(self, server_config=None):
        if server_config is not None and not isinstance(server_config, ServerRuntimeConfig):
            raise TypeError(f"server_config must be a ServerRuntimeConfig, got {type(server_config)}")
        self.server_config = server_config or ServerRuntimeConfig()

    def _log(self, *what: Any) -> None:
        if self.config.print_log:
            print(*what)

    # ------------------------------------------------------------------ without servers

    def _transpile_nccl2(self, trainer_id, trainers, current_endpoint, startup_program=None, wait_port=True):
        return transpile_nccl2(
            self.config, trainer_id, trainers, current_endpoint, startup_program or default_startup_program(), wait_port
        )

    def _transpile_collective(
        self,
        collective_mode,
        trainer_id,
        trainers,
        current_endpoint,
        startup_program=None,
        main_program=None,
        wait_port=True,
    ):
        transpile_collective(
            collective_mode,
            self.config.nccl_comm_num,
            trainer_id,
            trainers,
            current_endpoint,
            startup_program or default_startup_program(),
            main_program or default_main_program(),
            wait_port,
        )

    # ------------------------------------------------------------------ transpile

    @_in_static_mode
    def transpile(
        self,
        trainer_id,
        program=None,
        pservers="127.0.0.1:6174",
        trainers=1,
        sync_mode=True,
        startup_program=None,
        current_endpoint="127.0.0.1:6174",
    ):
        """Rewrites the Programs for this process, by the config.

        Args:
            trainer_id (int): the index of this trainer, from 0. (Not read by servers.)
            program (Program, optional): the main Program, changed in place; the default one when None.
            pservers (str): ``ip:port`` of every server, comma-separated.
            trainers (int|str): the number of trainers; without servers ``ip:port`` of each, comma-separated.
            sync_mode (bool): whether all trainers synchronize at each step. Otherwise servers apply gradients on
                arrival;
                with ``OAR_PS_BACKGROUND=1`` each trainer sends and receives asynchronously, at most 8 steps behind.
            startup_program (Program, optional): changed in place; the default one when None.
            current_endpoint (str): without servers, and in incremental training, this process's ``ip:port``.

        Examples:
            >>> import paddle
            >>> import paddle.fluid as fluid
            >>> paddle.enable_static()
            >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
            >>> _ = fluid.optimizer.SGD(0.001).minimize(loss)
            >>> t = fluid.DistributeTranspiler()
            >>> t.transpile(0, pservers="127.0.0.1:7000", trainers=2)
        """
        program = default_main_program() if program is None else program
        startup_program = default_startup_program() if startup_program is None else startup_program
        self.origin_program, self.startup_program = program, startup_program
        self.origin_startup_program = startup_program.clone()
        self._whole: Any = None
        if self.config.mode == "nccl2":
            prepare_nccl2(self.config, program, trainers)
            self._transpile_nccl2(trainer_id, trainers, current_endpoint, startup_program, self.config.wait_port)
            return
        if self.config.mode == "collective":
            self._transpile_collective(
                self.config.collective_mode,
                trainer_id,
                trainers,
                current_endpoint,
                startup_program,
                program,
                self.config.wait_port,
            )
            return
        if self.config.mode != "pserver":
            raise ValueError(f"config.mode must be pserver, nccl2 or collective, got {self.config.mode!r}")
        self._begin(program, trainer_id, trainers, pservers, sync_mode, current_endpoint)
        self._init_splited_vars()
        trainer_program.build(self, program)
        if self.has_distributed_lookup_table:
            lookup_tables.prefetch_instead_of_lookup(self, program)
            lookup_tables.send_table_gradient(self, program)
        self._get_distributed_optimizer_vars()
        program._parameters_on_pservers = self.vars_overview
        program._communication = of_program(self._communicator_mode(), trainers, program)
        if not (self.sync_mode or self.config.runtime_split_send_recv or self.config.enable_dc_asgd):
            program._async_communication = AsyncCommunication(program, trainers)
            assign(program, "parameter_server", program._async_communication)

    def _check_transpiled(self) -> None:
        if not self.pserver_endpoints:
            raise ValueError("DistributeTranspiler: call transpile first, with servers")

    def _communicator_mode(self) -> int:
        """The mode of a Communicator of the trainer's Program."""
        if self.distributed_mode == DistributedMode.ASYNC and self.config.half_async:
            return DistributedMode.HALF_ASYNC
        return self.distributed_mode

    def _begin(
        self, program: Any, trainer_id: int, trainers: int, pservers: str, sync_mode: bool, endpoint: str
    ) -> None:
        """Checks and stores the job's processes, here and in the Program, and analyzes the Program."""
        if not isinstance(trainers, (int, np.integer)):
            raise TypeError(f"transpile: with servers, trainers must be the number of trainers, got {trainers!r}")
        self.trainer_num, self.sync_mode, self.trainer_id = trainers, sync_mode, trainer_id
        if not sync_mode and self.distributed_mode == DistributedMode.SYNC and not self.config.completely_not_async:
            # 2.0.2 reads only the config's sync_mode: its servers then wait for barriers that these trainers never
            # send.
            self.distributed_mode = DistributedMode.HALF_ASYNC
        self.pserver_endpoints = pservers.split(",")
        if len(set(self.pserver_endpoints)) != len(self.pserver_endpoints):
            raise ValueError(f"pservers names an endpoint twice: {pservers}")
        self._read_program()
        program._is_distributed, program._is_chief = True, trainer_id == 0
        program._endpoints, program._ps_endpoint = self.pserver_endpoints, endpoint
        program._distributed_lookup_table = self.table_name

    def _read_program(self) -> None:
        """Finds the optimizer's operators, the pairs of parameter and gradient, and the tables."""
        self.vars_overview = VarsDistributed()
        self.optimize_ops, self.params_grads = self._get_optimize_pass()
        self.table_name = lookup_tables.find_distributed_lookup_table(self.origin_program)
        self.has_distributed_lookup_table = self.table_name is not None
        self.param_name_to_grad_name = {p.name: g.name for p, g in self.params_grads}
        self.grad_name_to_param_name = {g.name: p.name for p, g in self.params_grads}
        self.sparse_update_ops = lookup_tables.lookups_with_remote_prefetch(self.origin_program)
        self.sparse_param_to_height_sections: dict[str, list[int]] = {}
        self.grad_name_to_send_dummy_out: dict[str, Any] = {}

    def _get_optimize_pass(self):
        """The operators of the optimizer, and pairs of parameter and gradient."""
        block = self.origin_program.global_block()
        every = [op for op in block.ops if int(op.attr(OP_ROLE)) == int(OpRole.Optimize)]
        # Clipping by a norm over several gradients cannot be split among servers: each trainer clips its own.
        scopes = {_scope(op) for op in every if _scope(op).startswith(_CLIPS) and op.type not in _CLIPS_ONE}
        ops, pairs = [], OrderedDict()
        for op in every:
            if _CLIP in _scope(op) or _scope(op) in scopes:
                op._set_attr(OP_ROLE, int(OpRole.Backward))
            else:
                ops.append(op)
        made_by = {name: op for op in reversed(ops) for name in op.output_arg_names}
        for op in ops:
            names = op.attr(OP_ROLE_VAR)
            if not names or names[0] in pairs:
                continue
            # The gradient that the trainer computes, before the servers clip it.
            grad = names[1]
            while grad in made_by and grad not in made_by[grad].input_arg_names:
                grad = made_by[grad].input("X")[0]
            self._log("parameter and gradient:", names[0], grad)
            pairs[names[0]] = [block.vars[names[0]], block.vars[grad]]
        return ops, list(pairs.values()) + self._get_distribute_update_vars()

    def _get_distribute_update_vars(self):
        """Parameters that their operator itself updates: such a variable is sent and received under one name."""
        names: list[str] = []
        for op in self.origin_program.global_block().ops:
            if op.has_attr("distribute_update_vars") and op.attr("distribute_update_vars"):
                names += op.attr("distribute_update_vars").split(",")
        found = [self.origin_program.global_block().vars[name] for name in dict.fromkeys(names)]
        return [[var, var] for var in found]

    def _init_splited_vars(self):
        """Splits parameters and gradients alike, and creates the variables of the blocks."""
        params: list[Any] = []
        grads: list[Any] = []
        for p, g in self.params_grads:
            if type(p) is Parameter and not p.trainable:
                continue
            params += [p] if all(p.name != q.name for q in params) else []
            grads += [g] if all(g.name != q.name for q in grads) else []
        params, grads = lookup_tables.split_off(self, params, grads)
        count = len(self.pserver_endpoints) if self.config.slice_var_up else 1
        grad_blocks, param_blocks = (cut(some, count, self.config.min_block_size) for some in (grads, params))
        if len(grad_blocks) != len(param_blocks):
            raise ValueError("a gradient and its parameter have different shapes")
        self.param_var_mapping = self._create_vars_from_blocklist(self.origin_program, param_blocks)
        for name, parts in self.param_var_mapping.items():
            offset = 0
            for i, part in enumerate(parts):
                self.vars_overview.add_distributed_var(
                    origin_var=self.origin_program.global_block().var(name),
                    slice_var=part,
                    block_id=i,
                    offset=offset,
                    is_slice=len(parts) > 1,
                    vtype="Param",
                )
                offset += part.shape[0] * row_numel(part.shape)
        several = self.trainer_num > 1
        self.grad_var_mapping = self._create_vars_from_blocklist(self.origin_program, grad_blocks, several)
        self.grad_param_mapping = OrderedDict(
            (self.grad_var_mapping[g.varname][g.offset], self.param_var_mapping[p.varname][p.offset])
            for g, p in zip(grad_blocks, param_blocks, strict=True)
        )
        self.param_grad_ep_mapping: dict[str, dict[str, list[Any]]] = OrderedDict(
            (e, {"params": [], "grads": []}) for e in self.pserver_endpoints
        )

    def _create_vars_from_blocklist(self, program, block_list, add_trainer_suffix=False):
        """The variables of the blocks, by the name of the whole. A variable that is not split is at most renamed."""
        block = program.global_block()
        tag = f".trainer_{self.trainer_id}" if self.sync_mode and add_trainer_suffix else ""
        sizes: OrderedDict[str, list[int]] = OrderedDict()
        for part in block_list:
            sizes.setdefault(part.varname, []).append(part.size)
        mapping: OrderedDict[str, list[Any]] = OrderedDict()
        for name, list_ in sizes.items():
            whole = block.var(name)
            if len(list_) == 1:
                mapping[name] = [block._rename_var(name, name + tag) if tag else whole]
                continue
            row, kept = row_numel(whole.shape), {"dtype": whole.dtype, "type": whole.type, "persistable": False}
            mapping[name] = [
                block.create_var(name=f"{name}.block{i}{tag}", shape=[size // row, *whole.shape[1:]], **kept)
                for i, size in enumerate(list_)
            ]
        return mapping

    def _get_distributed_optimizer_vars(self):
        """Records the placement of the optimizer's variables."""
        origin = self.origin_program.global_block().vars
        for endpoint in self.pserver_endpoints:
            for op in server_program.ops_on(self, endpoint):
                param = self.vars_overview.get_distributed_var_by_origin_and_ep(op.input("Param")[0], endpoint)
                for slot in op.input_names:
                    if slot in _SHARED or not op.input(slot):
                        continue
                    whole = origin[op.input(slot)[0]]
                    shape = server_program.optimizer_input_shape(op.type, slot, whole.shape, param.slice.shape)
                    part = VarStruct.of(whole)
                    like_param = shape == param.slice.shape
                    if like_param:
                        part.shape = shape
                    self.vars_overview.add_distributed_var(
                        origin_var=whole,
                        slice_var=part,
                        is_slice=param.is_slice and like_param,
                        block_id=param.block_id if like_param else 0,
                        offset=param.offset if like_param else 0,
                        vtype="Optimizer",
                        endpoint=endpoint,
                    )

    def _get_slice_var_info(self, slice_var):
        """Whether a variable is a block of another, its index, and the number of elements before it."""
        name, block, _ = name_parts(slice_var.name)
        if not block:
            return False, 0, 0
        number = int(block.removeprefix("block"))
        before = self.param_var_mapping[name][:number]
        return True, number, sum(part.shape[0] * row_numel(part.shape) for part in before)

    # ------------------------------------------------------------------ Programs

    @_in_static_mode
    def get_trainer_program(self, wait_port=True):
        """The Program of this trainer: it sends gradients, receives parameters, and has no optimizer.

        Args:
            wait_port (bool): wait until every server listens.

        Returns:
            Program: the one that was transpiled.

        Raises:
            TimeoutError: if a server does not listen in time.
        """
        self._check_transpiled()
        trainer_program.finish(self)
        if wait_port:
            wait_server_ready(self.pserver_endpoints)
        return self.origin_program

    @_in_static_mode
    def get_pserver_program(self, endpoint):
        """The main Program of a server.

        Its block 0 declares variables and holds ``listen_and_serv``; each block of a parameter has a block of its own
        that updates it.

        Args:
            endpoint (str): ``ip:port`` of the server, one of those given to :meth:`transpile`.

        Returns:
            Program

        Raises:
            ValueError: for another endpoint.
        """
        self._check_transpiled()
        if endpoint not in self.pserver_endpoints:
            raise ValueError(f"{endpoint} is not among the servers {', '.join(self.pserver_endpoints)}")
        remove_stale_port_files()
        self.pserver_program = server_program.main_program(self, endpoint)
        server_program.set_layout_flag(self, endpoint)
        return self.pserver_program

    @_in_static_mode
    def get_pserver_programs(self, endpoint):
        """The main and the startup Program of a server.

        Args:
            endpoint (str): ``ip:port`` of the server.

        Returns:
            tuple of two Programs
        """
        main = self.get_pserver_program(endpoint)
        return main, self.get_startup_program(endpoint, main)

    @_in_static_mode
    def get_startup_program(self, endpoint, pserver_program=None, startup_program=None):
        """The startup Program of a server.

        Args:
            endpoint (str): ``ip:port`` of the server.
            pserver_program (Program, optional): its main Program; created when None.
            startup_program: not read; it is an argument of :meth:`transpile`.

        Returns:
            Program
        """
        self._check_transpiled()
        main: Program = self.get_pserver_program(endpoint) if pserver_program is None else pserver_program
        return server_program.startup_program(self, endpoint, main)
