"""ParallelExecutor: the predecessor of CompiledProgram.with_data_parallel."""

from __future__ import annotations

from paddle._basics.mode import choose_static, cpu_places, cuda_places
from paddle._programs import guards
from paddle._programs.scope import global_scope

from .compiler import CompiledProgram
from .executor import Executor
from .strategies import BuildStrategy, ExecutionStrategy

__all__ = ["ParallelExecutor"]


class ParallelExecutor:
    """Runs a Program over all places: all GPUs, or as many CPU places as CPU_NUM specifies.

    Args:
        use_cuda (bool): CUDA devices, else CPU places.
        loss_name (str, optional): needed when the program has a backward pass.
        main_program (Program, optional): the default one when None.
        share_vars_from (ParallelExecutor, optional): share the variables of this one.
        exec_strategy (ExecutionStrategy), build_strategy (BuildStrategy), optional: options of run and build.
        num_trainers, trainer_id (int): number of processes of a distributed run, and rank of this one.
        scope (Scope, optional): the global one when None.
    """

    def __init__(
        self,
        use_cuda,
        loss_name=None,
        main_program=None,
        share_vars_from=None,
        exec_strategy=None,
        build_strategy=None,
        num_trainers=1,
        trainer_id=0,
        scope=None,
    ) -> None:
        choose_static()
        build_strategy = BuildStrategy() if build_strategy is None else build_strategy
        build_strategy.num_trainers = num_trainers
        build_strategy.trainer_id = trainer_id
        self._places = cuda_places() if use_cuda else cpu_places()
        self._scope = scope if scope is not None else global_scope()
        if main_program is None:
            main_program = guards.default_main_program()
        self._compiled_program = CompiledProgram(main_program)
        self._compiled_program.with_data_parallel(
            loss_name=loss_name,
            build_strategy=build_strategy,
            exec_strategy=ExecutionStrategy() if exec_strategy is None else exec_strategy,
            share_vars_from=share_vars_from._compiled_program if share_vars_from is not None else None,
            places=self._places,
        )
        self._exe = Executor(self._places[0])
        self._dropped = True

    def run(self, fetch_list, feed=None, feed_dict=None, return_numpy=True):
        """Run the program; `fetch_list` and `feed` as for :meth:`Executor.run`."""
        self._dropped = False
        return self._exe.run(
            program=self._compiled_program,
            scope=self._scope,
            feed=feed if feed is not None else feed_dict,
            fetch_list=fetch_list,
            return_numpy=return_numpy,
        )

    @property
    def device_count(self) -> int:
        """The number of places."""
        return len(self._places)

    def drop_local_exe_scopes(self) -> None:
        """Drop the local scopes; the variables of a run are dropped after each run."""
        self._scope.drop_kids()
        self._dropped = True

    def _need_create_local_exe_scopes(self) -> bool:
        """Whether there was no run since the start or the last `drop_local_exe_scopes`."""
        return self._dropped
