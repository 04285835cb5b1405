"""Collective transpilers: a Program of one process is rewritten for several, with collective operators."""

from __future__ import annotations

from typing import Any

from paddle._basics.mode import _dygraph_guard
from paddle._basics.names import OP_ROLE, OP_ROLE_VAR, OpRole
from paddle._basics.place import cuda_device_count
from paddle._programs.guards import default_main_program, default_startup_program
from paddle.distributed.checkport import wait_server_ready
from paddle.distributed.program_rings import (
    append_broadcasts,
    append_ring,
    append_syncs,
    append_world,
    is_loss_grad,
    is_update,
)

__all__ = ["GradAllReduce", "LocalSGD", "prepare_nccl2", "transpile_collective", "transpile_nccl2"]


class Collective:
    """The base of collective transpilers: the startup Program creates `nrings` rings and broadcasts the parameters.

    Args:
        nrings (int): the number of rings, used round robin.

    Attributes:
        rank, nranks, endpoints, current_endpoint: the processes, after :meth:`transpile`.
        startup_program, main_program (Program): the transpiled Programs.
    """

    mode = ""

    def __init__(self, nrings):
        self.nrings = nrings
        self.endpoints = None
        self.current_endpoint = None
        self.nranks = None
        self.rank = None
        self.startup_program = None
        self.main_program = None
        self.op_role_key = OP_ROLE
        self.op_role_var_key = OP_ROLE_VAR

    @_dygraph_guard(None)
    def transpile(self, startup_program, main_program, rank, endpoints, current_endpoint, wait_port):
        """Rewrites both Programs for this process, in place; each keeps a copy of the original as ``_origin_program``.

        Args:
            startup_program, main_program (Program, optional): the default ones when None.
            rank (int): the rank of this process.
            endpoints (str|list of str): ``ip:port`` of every process, comma-separated in a str.
            current_endpoint (str): this process's.
            wait_port (bool): whether rank 0 waits until the others listen.

        Raises:
            ValueError: for one process alone, a negative rank, or an endpoint that is not in the list.

        Examples:
            >>> import paddle
            >>> import paddle.fluid as fluid
            >>> from paddle.fluid.transpiler.collective import GradAllReduce
            >>> paddle.enable_static()
            >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
            >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
            >>> ends = ["127.0.0.1:6174", "127.0.0.1:6175"]
            >>> GradAllReduce(nrings=1).transpile(None, None, 0, ends, ends[0], False)
            >>> [op.type for op in fluid.default_main_program().global_block().ops].count("c_allreduce_sum")
            2
        """
        if isinstance(endpoints, str):
            endpoints = endpoints.split(",")
        self.startup_program = default_startup_program() if startup_program is None else startup_program
        self.main_program = default_main_program() if main_program is None else main_program
        if len(endpoints) == 1 and self.mode not in ("single_process_multi_thread", "box"):
            raise ValueError(f"several endpoints are needed, got {endpoints}")
        if rank < 0:
            raise ValueError(f"rank must not be negative, got {rank}")
        if current_endpoint not in endpoints:
            raise ValueError(f"current_endpoint {current_endpoint} is not among {', '.join(endpoints)}")
        self.nranks, self.rank = len(endpoints), rank
        self.endpoints, self.current_endpoint, self.wait_port = endpoints, current_endpoint, wait_port
        self.startup_program._origin_program = self.startup_program.clone()
        self._transpile_startup_program()
        self.main_program._origin_program = self.main_program.clone()
        self._transpile_main_program()

    def _transpile_main_program(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} must override _transpile_main_program")

    def _transpile_startup_program(self) -> None:
        self._make_rings()
        self._broadcast_params()

    def _make_rings(self) -> None:
        for ring in range(self.nrings):
            self._init_communicator(
                self.startup_program, self.current_endpoint, self.endpoints, self.rank, ring, self.wait_port
            )

    def _init_communicator(self, program, current_endpoint, endpoints, rank, ring_id, wait_port):
        append_ring(program, current_endpoint, endpoints, rank, ring_id, wait_port)

    def _broadcast_params(self):
        block = self.startup_program.global_block()
        append_broadcasts(block, list(block.iter_parameters()), self.nrings)

    def _is_loss_grad_op(self, op):
        return is_loss_grad(op)

    def _is_backward_op(self, op):
        return op._has_role(OpRole.Backward)

    def _is_update_op(self, op):
        return is_update(op)

    def _is_optimizer_op(self, op):
        return op._has_role(OpRole.Optimize)

    def _insert(self, at: int, kind: str, var: Any, role: OpRole, **attrs: Any) -> None:
        """Inserts an operator into the main Program: in place on a variable, or on a dict of slots."""
        slots = var if isinstance(var, dict) else {"X": [var], "Out": [var]}
        self.main_program.global_block()._insert_op(
            at,
            type=kind,
            inputs={slot: names for slot, names in slots.items() if slot != "Out"},
            outputs={"Out": slots["Out"]},
            attrs={**attrs, OP_ROLE: role},
        )


class GradAllReduce(Collective):
    """Synchronous data parallelism: gradients, scaled by 1 / nranks, are summed over all processes.

    Examples:
        >>> from paddle.fluid.transpiler.collective import GradAllReduce
        >>> GradAllReduce(nrings=2).mode
        'grad_allreduce'
    """

    mode = "grad_allreduce"

    def __init__(self, nrings=2):
        super().__init__(nrings)

    def _transpile_main_program(self):
        self._insert_scale_loss_grad_ops()
        self._insert_allreduce_ops()

    def _insert_scale_loss_grad_ops(self):
        block = self.main_program.global_block()
        for index, op in reversed(list(enumerate(block.ops))):
            if is_loss_grad(op):
                grad = block.vars[op.output_arg_names[0]]
                self._insert(index + 1, "scale", grad, OpRole.Backward, scale=1.0 / self.nranks)

    def _insert_allreduce_ops(self):
        block = self.main_program.global_block()
        number, grad = 0, None
        for index, op in reversed(list(enumerate(block.ops))):
            if not (op._has_role(OpRole.Backward) and op.has_attr(OP_ROLE_VAR)):
                continue
            names = op.attr(OP_ROLE_VAR)
            at = index + 1
            for name, grad_name in zip(names[::2], names[1::2], strict=True):
                grad = block.vars[grad_name]
                if block.vars[name].is_distributed:
                    continue
                if at == index + 1:
                    self._insert(at, "c_sync_calc_stream", grad, OpRole.Backward)
                    at += 1
                # Each is inserted before the earlier ones of this operator; rings alternate in the order of insertion.
                self._insert(at, "c_allreduce_sum", grad, OpRole.Backward, ring_id=number % self.nrings)
                number += 1
        first = next((i for i, op in enumerate(block.ops) if op._has_role(OpRole.Optimize)), None)
        if grad is not None and first is not None:
            append_syncs(block, grad, self.nrings, OpRole.Backward, first)


class LocalSGD(Collective):
    """Local SGD: every process updates its own parameters; after each step they become the mean over all.

    The value of a parameter before the step is kept in a variable ``NAME@SNAPSHOT``.

    Examples:
        >>> from paddle.fluid.transpiler.collective import LocalSGD
        >>> LocalSGD().snapshot_name("fc_0.w_0")
        'fc_0.w_0@SNAPSHOT'
    """

    mode = "local_sgd"

    def __init__(self, nrings=2):
        super().__init__(nrings)
        self.snapshot_key = "@SNAPSHOT"

    def snapshot_name(self, param_name):
        """The name of the snapshot variable of a parameter."""
        return param_name + self.snapshot_key

    def _snapshot(self, block: Any, param: Any) -> Any:
        return block.create_var(
            name=self.snapshot_name(param.name),
            shape=param.shape,
            persistable=True,
            stop_gradient=True,
            dtype=param.dtype,
        )

    def _transpile_startup_program(self):
        super()._transpile_startup_program()
        block = self.startup_program.global_block()
        for param in [p for p in block.iter_parameters() if not p.is_distributed]:
            block.append_op(
                type="assign",
                inputs={"X": [param]},
                outputs={"Out": [self._snapshot(block, param)]},
                attrs={OP_ROLE: OpRole.Forward},
            )

    def _transpile_main_program(self):
        block, role = self.main_program.global_block(), OpRole.Optimize
        pairs = []
        for index, op in reversed(list(enumerate(block.ops))):
            if not is_update(op):
                continue
            param = block.vars[op.input("Param")[0]]
            if param.is_distributed:
                continue
            snapshot = self._snapshot(block, param)
            self._insert(index + 1, "elementwise_sub", {"X": [snapshot], "Y": [param], "Out": [param]}, role)
            self._insert(index + 2, "c_sync_calc_stream", param, role)
            self._insert(index + 3, "c_allreduce_sum", param, role, ring_id=len(pairs) % self.nrings)
            pairs.append((param, snapshot))
        if not pairs:
            return
        append_syncs(block, pairs[-1][0], self.nrings, role)
        for param, snapshot in reversed(pairs):
            for kind, slots, attrs in (
                ("scale", {"X": [param], "Out": [param]}, {"scale": 1.0 / self.nranks}),
                ("elementwise_sub", {"X": [snapshot], "Y": [param], "Out": [param]}, {}),
                ("assign", {"X": [param], "Out": [snapshot]}, {}),
            ):
                self._insert(len(block.ops), kind, slots, role, **attrs)


class SingleProcessMultiThread(GradAllReduce):
    """Gradients are summed over the devices of this process: one on the CPU.

    Examples:
        >>> from paddle.fluid.transpiler.collective import SingleProcessMultiThread
        >>> SingleProcessMultiThread().nrings
        1
    """

    mode = "single_process_multi_thread"

    def __init__(self):
        super().__init__(1)

    def _transpile_startup_program(self):
        self.startup_program.global_block().append_op(type="c_comm_init_all", attrs={"ring_id": 0})


class MultiThread(GradAllReduce):
    """Gradients are summed over the processes, or over the devices of a single process.

    Parameters are not broadcast: every process must start from the same values.

    Examples:
        >>> from paddle.fluid.transpiler.collective import MultiThread
        >>> MultiThread(nrings=2).mode
        'box'
    """

    mode = "box"

    def __init__(self, nrings=1):
        super().__init__(nrings)

    def _transpile_startup_program(self):
        if len(self.endpoints) > 1:
            self._make_rings()
        else:
            self.startup_program.global_block().append_op(type="c_comm_init_all", attrs={"ring_id": 0})


# ------------------------------------------- the modes of DistributeTranspiler without parameter servers


def _must_be_endpoints(kinds: Any, trainers: Any) -> None:
    if not isinstance(trainers, kinds):
        raise TypeError(f"transpile: without servers, trainers must be a str of endpoints, got {trainers!r}")


def prepare_nccl2(config: Any, program: Any, trainers: Any) -> None:
    """Stores the endpoints and the ring settings in the Program."""
    _must_be_endpoints(str, trainers)
    program._trainers_endpoints = trainers.split(",")
    program._nccl_comm_num = config.nccl_comm_num
    program._use_hierarchical_allreduce = config.use_hierarchical_allreduce
    if not config.use_hierarchical_allreduce:
        return
    count, inner = len(program._trainers_endpoints), config.hierarchical_allreduce_inter_nranks
    if inner <= 1:
        inner = config.hierarchical_allreduce_inter_nranks = cuda_device_count()
    if count <= inner or inner < 1 or count % inner:
        raise ValueError(f"{count} trainers are not several groups of {inner} for hierarchical all-reduce")
    program._hierarchical_allreduce_inter_nranks = int(inner)


def transpile_nccl2(config: Any, trainer_id: int, trainers: str, endpoint: str, startup: Any, wait_port: bool) -> Any:
    """Appends gen_nccl_id to the startup Program."""
    if trainer_id < 0:
        raise ValueError(f"trainer_id must not be negative, got {trainer_id}")
    every = trainers.split(",")
    others = [e for e in every if e != endpoint]
    if trainer_id == 0 and wait_port:
        wait_server_ready(others)
    return append_world(startup, every, trainer_id, config)


def transpile_collective(
    mode: Any, rings: int, rank: int, trainers: Any, endpoint: str, startup: Any, main: Any, wait: bool
):
    """Rewrites both Programs by the transpiler of `collective_mode`."""
    _must_be_endpoints((str, list, tuple), trainers)
    endpoints = trainers.split(",") if isinstance(trainers, str) else trainers
    kinds: dict[Any, Any] = {
        "grad_allreduce": lambda: GradAllReduce(rings),
        "local_sgd": lambda: LocalSGD(rings),
        "single_process_multi_thread": SingleProcessMultiThread,
    }
    if mode not in kinds:
        raise ValueError(f"collective_mode must be one of {', '.join(kinds)}, got {mode!r}")
    kinds[mode]().transpile(startup, main, rank, endpoints, endpoint, wait)
