"""CompiledProgram: a Program with strategies for building and running it."""

from __future__ import annotations

from typing import Any

from paddle._basics import mode
from paddle._basics.op_proto import is_gradient
from paddle._basics.place import CUDAPlace
from paddle._programs.program import Program
from paddle._programs.runners import Runnable, assign

from .multi_place import MultiPlaceExecutor
from .strategies import ExecutionStrategy

__all__ = ["CompiledProgram"]

#: the engine's passes over a plan
_PASSES = ("dead", "release", "fuse", "inplace", "schedule")


class CompiledProgram(Runnable):
    """A Program with strategies for building and running it.

    The engine compiles every Program at its first run; this class adds data parallelism over several places.

    Args:
        program_or_graph (Program|core.Graph): the program, or a graph, which is converted at the first run.
        build_strategy (BuildStrategy, optional): options of the build.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> compiled = paddle.static.CompiledProgram(paddle.static.default_main_program())
    """

    _runner_kind = "compiled"

    def __init__(self, program_or_graph, build_strategy=None) -> None:
        # a core.Graph, tested by a method: `import paddle` does not load its module
        self._graph: Any = program_or_graph if hasattr(program_or_graph, "_to_desc") else None
        if self._graph is None and not isinstance(program_or_graph, Program):
            raise TypeError(f"CompiledProgram: a Graph or a Program is expected, got {type(program_or_graph)}")
        self._program: Program = Program() if self._graph is not None else program_or_graph
        self._scope = None
        self._place = None
        self._executor: Any = None
        self._compiled = False
        self._is_data_parallel = False
        self._is_inference = False
        self._loss_name: str | None = None
        self._share_vars_from: CompiledProgram | None = None
        self._places: list | None = None
        self._build_strategy = build_strategy
        self._exec_strategy: ExecutionStrategy | None = None

    def _with_inference_optimize(self, config) -> CompiledProgram:
        """Run the saved model of a NativeConfig instead of the Program; feeds and results are PaddleTensors."""
        assert not self._is_data_parallel, "CompiledProgram: data parallel and inference exclude each other"
        assert not self._is_inference, "this CompiledProgram is for inference: it cannot be compiled again"
        self._is_inference = True
        assign(self, "inference", config._predictor())
        return self

    def with_data_parallel(
        self, loss_name=None, build_strategy=None, exec_strategy=None, share_vars_from=None, places=None
    ) -> CompiledProgram:
        """Run data-parallel: the batch is split over several places.

        Args:
            loss_name (str, optional): needed when the program has a backward pass.
            build_strategy (BuildStrategy), exec_strategy (ExecutionStrategy), optional: options of build and run.
            share_vars_from (CompiledProgram, optional): share the variables of this one, which has run in parallel.
            places (list, optional): by default all CUDA devices, or as many CPU places as CPU_NUM specifies.

        Returns:
            CompiledProgram: itself. More than one GPU is not implemented: the run raises NotImplementedError.
        """
        assert not self._is_data_parallel, "this CompiledProgram is data parallel: it cannot be compiled again"
        assert not self._is_inference, "CompiledProgram: data parallel and inference exclude each other"
        self._is_data_parallel = True
        if build_strategy is not None:
            self._build_strategy = build_strategy
        self._exec_strategy = exec_strategy
        self._loss_name = loss_name
        self._share_vars_from = share_vars_from
        if isinstance(places, (list, tuple)):
            self._places = mode._get_paddle_place_list(places)
        elif places is not None:
            self._places = [mode._get_paddle_place(places)]
        if self._graph is None and any(is_gradient(op.type) for block in self._program.blocks for op in block.ops):
            assert self._loss_name is not None, (
                "CompiledProgram: loss_name must be given, as the Program has a backward part"
            )
        return self

    def _passes(self) -> str | None:
        """The passes that the strategies permit, for `core.Executor.run`; None for all."""
        build: Any = self._build_strategy
        run: Any = self._exec_strategy
        off = set()
        if build is not None:
            if build._refuses("enable_inplace"):
                off.add("inplace")
            if build._refuses("memory_optimize"):
                off |= {"inplace", "release"}
            if build._refuses("fuse_elewise_add_act_ops"):
                off.add("fuse")
            if build.enable_sequential_execution:
                off.add("schedule")
        if run is not None and run.num_threads == 1:
            off.add("schedule")
        return ",".join(p for p in _PASSES if p not in off) if off else None

    def _threads(self) -> int:
        """The number of threads for operators of several places; 0: one for each place."""
        how: Any = self._exec_strategy
        return 0 if how is None else int(how.num_threads)

    def _dry_run(self) -> bool:
        """Whether runs have no effect (`ExecutionStrategy._dry_run`)."""
        return self._exec_strategy is not None and self._exec_strategy._dry_run  # type: ignore[attr-defined]

    def _compile(self, scope, place) -> CompiledProgram:
        if self._compiled:
            if scope is not None and self._scope is not scope:
                raise ValueError("a CompiledProgram stays with the scope of its first run")
            if place is not None and not _same_place(self._place, place):
                raise ValueError("a CompiledProgram stays with the place of its first run")
            return self
        if self._graph is not None:
            self._program = Program._construct_from_desc(self._graph._to_desc())
        if self._share_vars_from is not None:
            if not self._share_vars_from._is_data_parallel:
                raise ValueError("share_vars_from is not data parallel, so its variables can not be shared")
            if not self._share_vars_from._compiled:
                raise ValueError("share_vars_from has not run yet, so it has no variables to share")
        places = self._get_places(place)
        trainers = self._build_strategy.num_trainers if self._is_data_parallel and self._build_strategy else 1
        repeats = self._build_strategy._repeats() if self._is_data_parallel and self._build_strategy else 1
        if len(places) > 1 or trainers > 1 or repeats > 1:
            if len(places) > 1 and isinstance(place, CUDAPlace):
                raise NotImplementedError(
                    f"data parallelism over {len(places)} GPUs of one process is not implemented: give one place, "
                    "or start several processes with paddle.distributed.launch"
                )
            shares = self._share_vars_from is not None
            self._executor = MultiPlaceExecutor(self._build_strategy, self._loss_name, scope, places, shares)
        self._places, self._scope, self._place, self._compiled = places, scope, place, True
        return self

    def _get_places(self, place) -> list:
        if not self._is_data_parallel:
            return [place]
        if self._places is not None:
            for p in self._places:
                assert type(p) is type(place), (
                    "places: the places of this run are not those the CompiledProgram was made for"
                )
            places = self._places
        else:
            places = mode.cuda_places() if isinstance(place, CUDAPlace) else mode.cpu_places()
        assert places, "CompiledProgram: places has no entry"
        return places


def _same_place(a, b) -> bool:
    return a is b or a == b
