"""ParameterServerRuntime: the runtime of a job with parameter servers."""

from __future__ import annotations

from typing import Any

from paddle._basics.place import CPUPlace
from paddle._programs.guards import default_main_program, default_startup_program
from paddle._programs.program import Program
from paddle._programs.scope import global_scope
from paddle.distributed.ps import job_programs
from paddle.static import CompiledProgram, Executor
from paddle.static.inference_folder import save_inference_model

from .runtime_base import RuntimeBase

__all__: list[str] = []

#: the states of an optimizer: those that are split with the parameter, and those that stay whole
_STATES = {
    "adam": (["moment1_0", "moment2_0"], ["beta1_pow_acc_0", "beta2_pow_acc_0"]),
    "adamax": (["moment_0", "inf_norm_0"], ["beta1_pow_acc_0"]),
    "rmsprop": (["momentum_0", "mean_square_0", "mean_grad_0"], []),
    "adagrad": (["moment_0"], []),
    "decayed_adagrad": (["moment_0"], []),
    "momentum": (["velocity_0"], []),
    "lars_momentum": (["velocity_0"], []),
    "sgd": ([], []),
    "ftrl": (["squared_0", "linear_0"], []),
}


class ParameterServerRuntime(RuntimeBase):
    """Starts, runs and stops workers and servers, and saves the servers' variables."""

    _executor: Any = None
    _communicator: Any = None

    def _exe(self) -> Executor:
        if self._executor is None:
            self._executor = Executor(CPUPlace())
        return self._executor

    def _programs(self) -> Any:
        """The Programs that the strategy made, or None for a single process."""
        return self.context.get("server_programs")

    def _init_worker(self, *args: Any, **kwargs: Any) -> None:
        """Starts the Communicator, if there is one; the startup Program has received the parameters before."""
        made = self._programs()
        self._communicator = made.communicator() if made is not None else None
        if self._communicator is not None:
            self._communicator.start()

    def _init_server(self, *args: Any, **kwargs: Any) -> None:
        """Runs the server's startup Program, and loads the model of a folder where one is given."""
        if len(args) > 1:
            raise TypeError(f"fleet.init_server takes at most the folder of a model, got {len(args)} arguments")
        dirname = kwargs.get("dirname", args[0] if args else None)
        self._exe().run(default_startup_program())
        if dirname is not None:
            self._programs().load(self._exe(), dirname, global_scope())

    def _run_server(self, *args: Any, **kwargs: Any) -> None:
        """Serves requests until all workers have stopped."""
        self._exe().run(default_main_program())

    def _stop_worker(self, *args: Any, **kwargs: Any) -> None:
        """Sends queued gradients, and reports to the servers that this worker is complete."""
        if self._communicator is not None:
            self._communicator.stop()
            self._communicator = None
        self._exe().close()
        self._executor = None

    def _shrink(self, threshold: Any) -> None:
        made = self._programs()
        ops = [] if made is None else made.origin.global_block().ops
        if not any(op.has_attr("remote_prefetch") and op.attr("remote_prefetch") for op in ops):
            return  # no sparse table
        raise NotImplementedError("fleet.shrink: the servers' tables have no scores yet by which rows could be removed")

    def _checked(self, what: str, executor: Any, main_program: Any) -> Any:
        if not isinstance(executor, Executor):
            raise TypeError(f"fleet.{what}: executor must be an Executor, got {type(executor)}")
        if isinstance(main_program, CompiledProgram):
            raise TypeError(f"fleet.{what}: main_program must be a Program, got a CompiledProgram")
        if main_program is not None and not isinstance(main_program, Program):
            raise TypeError(f"fleet.{what}: main_program must be a Program, got {type(main_program)}")
        return self.context["origin_main_program"] if main_program is None else main_program

    def _save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: list[str],
        target_vars: list[Any],
        main_program: Any = None,
        export_for_deployment: bool = True,
    ) -> None:
        program = self._checked("save_inference_model", executor, main_program)
        made = self._programs()
        if made is None:
            save_inference_model(
                dirname, feeded_var_names, target_vars, executor, program, None, None, export_for_deployment
            )
            return
        # Remote lookups become local ones, with the whole tables.
        job_programs.save_for_inference(
            executor, dirname, feeded_var_names, target_vars, made.origin, made.fetch(executor), export_for_deployment
        )

    def _save_persistables(self, executor: Any, dirname: str, main_program: Any = None) -> None:
        program, made = self._checked("save_persistables", executor, main_program), self._programs()
        job_programs.save(executor, dirname, program, (None, []) if made is None else made.fetch(executor))

    @staticmethod
    def _get_optimizer_status(op: str, param_name: str | None) -> tuple[list[str], list[str]]:
        """The names of an optimizer's states for a parameter: those split with it, and the others.

        Raises:
            ValueError: for an unsupported optimizer.
        """
        if op not in _STATES:
            raise ValueError(f"fleet: the states of the operator {op!r} are not known to parameter servers")
        cut, whole = _STATES[op]
        return [f"{param_name}_{name}" for name in cut], [f"{param_name}_{name}" for name in whole]
