"""The Programs of a fleet job with parameter servers, and its models: fetching, loading and saving."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType
from paddle._basics.place import CPUPlace
from paddle._core import _Scope as executor_scope
from paddle._programs.program import Program
from paddle._programs.scope import global_scope, scope_guard
from paddle.static.inference_folder import save_inference_model
from paddle.static.vars_io import is_persistable, load_vars, save_vars

from .communicator import Communicator
from .config import DistributeTranspilerConfig
from .distribute_transpiler import DistributeTranspiler
from .geo_sgd_transpiler import GeoSgdTranspiler
from .lookup_tables import lookups_with_remote_prefetch

__all__ = ["ServerPrograms", "fetch", "load", "save", "save_for_inference"]


def _declare_dense(*programs: Any) -> None:
    """Declares SelectedRows tables and their states as dense tensors: servers hold them as blocks of rows."""
    for program in programs:
        for var in program.list_vars():
            if var.persistable and var.type == VarType.SELECTED_ROWS:
                shape, dtype = var.desc.shape(), var.desc.dtype()
                var.desc.set_type(VarType.LOD_TENSOR)
                var.desc.set_shape(shape)
                var.desc.set_dtype(dtype)


class ServerPrograms:
    """The Programs of a worker and a server of a job.

    Args:
        role (RoleMakerBase): the role of this process.
        program, startup (Program): of one process, with the update; changed in place.
        sync (bool): all workers synchronize at each step.
        push_nums (int): above 0: GEO-SGD, the number of steps between exchanges.
        settings (dict): the strategy's `a_sync_configs`.
    """

    def __init__(
        self, role: Any, program: Any, startup: Any, sync: bool, push_nums: int, settings: dict[str, Any]
    ) -> None:
        self.role, self.program, self.startup = role, program, startup
        #: the Program of one process
        self.origin = program.clone()
        self.endpoints = role._get_pserver_endpoints()
        if push_nums > 0 and role._is_worker() and not lookups_with_remote_prefetch(program):
            raise ValueError(
                f"fleet: with GEO-SGD (a_sync_configs k_steps={push_nums}) workers exchange rows of sparse embeddings, "
                "and the Program has none: give an embedding is_sparse=True, or set k_steps to 0"
            )
        # Lookups of a distributed table become those of sparse embeddings: there may be several tables.
        for op in lookups_with_remote_prefetch(program):
            op._set_attr("is_distributed", False)
        _declare_dense(program, startup)
        config = DistributeTranspilerConfig()
        config.sync_mode = sync
        config.geo_sgd_mode, config.geo_sgd_need_push_nums = push_nums > 0, max(push_nums, 1)
        self.transpiler = (GeoSgdTranspiler if push_nums > 0 else DistributeTranspiler)(config)
        self.transpiler.transpile(
            role._worker_index() if role._is_worker() else 0,
            program,
            ",".join(self.endpoints),
            role._worker_num(),
            sync,
            startup,
        )

    def of_worker(self, wait: bool) -> tuple[Any, Any]:
        """The main and the startup Program of a worker; with `wait`, returns once all servers listen."""
        return self.transpiler.get_trainer_program(wait_port=wait), self.startup

    def communicator(self) -> Communicator | None:
        """The Communicator of a GEO-SGD worker; None for the other modes."""
        geo = isinstance(self.transpiler, GeoSgdTranspiler)
        return Communicator(self.transpiler.get_trainer_program(wait_port=False)) if geo else None

    def of_server(self) -> tuple[Any, Any]:
        """The main and the startup Program of this server."""
        return self.transpiler.get_pserver_programs(self.endpoints[self.role._server_index()])

    def fetch(self, executor: Any) -> tuple[Any, list[Any]]:
        """As :func:`fetch`, for this worker."""
        return fetch(self.transpiler, executor, self.role._worker_index())

    def load(self, executor: Any, dirname: str, scope: Any) -> None:
        """As :func:`load`, for this server."""
        load(self.transpiler, self.endpoints[self.role._server_index()], executor, dirname, scope)


def fetch(transpiler: Any, executor: Any, trainer: int) -> tuple[Any, list[Any]]:
    """Receives parameters, tables and optimizer states from the servers; returns a scope, and the variables."""
    program, scope = Program(), executor_scope()
    block, found = program.global_block(), []
    if isinstance(transpiler, GeoSgdTranspiler):
        return scope, []  # each worker holds the whole model
    kinds = ["Param", "RemotePrefetch", "Optimizer"]
    held = transpiler.vars_overview.get_distributed_vars_by_vtypes(kinds, groupby=True)
    for name, parts in held.items():
        parts = sorted(parts, key=lambda v: v.block_id)
        whole = parts[0].origin
        # A variable that is not split, such as Adam's Beta1Pow, is the same on each server.
        parts = parts if parts[0].is_slice else parts[:1]
        found.append(block.create_var(name=name, shape=whole.shape, dtype=whole.dtype, persistable=True))
        outs = found[-1:]
        if len(parts) > 1:
            outs = [block.create_var(name=v.slice.name, shape=v.slice.shape, dtype=whole.dtype) for v in parts]
        # `varnames`, because a Communicator receives `recv_varnames`, into its own scope.
        attrs = {
            "epmap": [v.endpoint for v in parts],
            "varnames": [v.slice.name for v in parts],
            "trainer_id": trainer,
        }
        block.append_op(type="recv", inputs={"X": []}, outputs={"Out": outs}, attrs=attrs)
        if len(parts) > 1:
            block.append_op(type="concat", inputs={"X": outs}, outputs={"Out": found[-1:]}, attrs={"axis": 0})
    executor.run(program, scope=scope)
    return scope, found


def load(transpiler: Any, endpoint: str, executor: Any, dirname: str, scope: Any) -> None:
    """Reads a server's parts of the files of `save_persistables`; variables without a file keep their initial value.

    Raises:
        ValueError: for a missing folder.
    """
    folder = Path(dirname)
    if not folder.is_dir():
        raise ValueError(f"fleet.init_server: there is no folder {dirname}")
    for var in transpiler.vars_overview.get_distributed_vars_by_ep(endpoint):
        found = scope.find_var(var.slice.name)
        if found is None or not (folder / var.origin.name).is_file():
            continue
        block = transpiler.startup_program.global_block()
        origin = transpiler.origin_program.global_block()
        whole = block._find_var_recursive(var.origin.name) or origin.var(var.origin.name)
        load_vars(executor, dirname, vars=[whole])
        value = np.array(scope.find_var(whole.name).get_tensor())
        if var.is_slice:
            first = var.offset // math.prod(var.origin.shape[1:])
            value = value[first : first + var.slice.shape[0]]
        found.get_tensor().set(value, executor.place)


def _own(fetched: tuple[Any, list[Any]]) -> Callable[[Any], bool]:
    """A predicate: whether a variable is held by workers only, such as running averages."""
    scope, names = global_scope(), {var.name for var in fetched[1]}

    def own(var: Any) -> bool:
        found = scope.find_var(var.name) if is_persistable(var) and var.name not in names else None
        return found is not None and found.get_tensor()._is_initialized()

    return own


def save(executor: Any, dirname: str, program: Any, fetched: tuple[Any, list[Any]]) -> None:
    """Writes the variables fetched from the servers (a scope, and its variables), and those of workers only."""
    os.makedirs(dirname, exist_ok=True)
    fetched_scope, held = fetched
    if held:
        with scope_guard(fetched_scope):
            save_vars(executor, dirname, program, vars=held)
    own = _own(fetched)
    if any(map(own, program.list_vars())):
        save_vars(executor, dirname, program, predicate=own)


def save_for_inference(
    executor: Any,
    dirname: str,
    feeds: str | list[str],
    targets: Any,
    origin: Any,
    fetched: tuple[Any, list[Any]],
    export_for_deployment: bool,
) -> None:
    """Writes an inference model of `targets`: the Program of one process (`origin`), with the servers' whole tables."""
    (fetched_scope, _), own, scope = fetched, _own(fetched), global_scope()
    block = origin.global_block()
    for var in filter(own, block.vars.values()):
        value = np.array(scope.find_var(var.name).get_tensor())
        fetched_scope.var(var.name).get_tensor().set(value, CPUPlace())
    with scope_guard(fetched_scope):
        targets = targets if isinstance(targets, (list, tuple)) else [targets]
        chosen = [block.var(var.name) for var in targets]
        save_inference_model(dirname, feeds, chosen, executor, origin, None, None, export_for_deployment)
