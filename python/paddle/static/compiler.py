"""CompiledProgram and the strategies it takes."""

from __future__ import annotations

import enum
from typing import Any

from paddle._basics import mode
from paddle._basics.place import CUDAPlace
from paddle._programs.program import Program

__all__ = ["CompiledProgram", "ExecutionStrategy", "BuildStrategy"]


#: what the engine does to a plan (rust/graph/passes)
_PASSES = ("dead", "fade", "fuse", "inplace", "schedule")


class _Options:
    """An object whose attributes are exactly those of the table `_defaults`."""

    _defaults: dict[str, Any] = {}

    _given: set[str]  # the options that were set

    def __init__(self) -> None:
        object.__setattr__(self, "_given", set())
        for name, value in self._defaults.items():
            object.__setattr__(self, name, list(value) if isinstance(value, (list, set)) else value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}")
        default = self._defaults[name]
        wanted = type(default)
        if wanted is bool and not isinstance(value, bool) or wanted is int and not isinstance(value, int):
            raise TypeError(f"{type(self).__name__}.{name} is {wanted.__name__}, but received {value!r}")
        object.__setattr__(self, name, value)
        self._given.add(name)

    def _refuses(self, name: str) -> bool:
        """Was this option set to False? (Its default may be False too.)"""
        return name in self._given and getattr(self, name) is False

    def __repr__(self) -> str:
        changed = {k: getattr(self, k) for k, v in self._defaults.items() if getattr(self, k) != v}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"


class ExecutionStrategy(_Options):
    """How a CompiledProgram is run; what does not apply to this engine is kept and has no effect.

    With `num_threads` 1 operators run one after the other (each of them may still use several threads).

    Examples:
        >>> import paddle.static as static
        >>> strategy = static.ExecutionStrategy()
        >>> strategy.num_threads = 4
    """

    _defaults = {
        "num_threads": 0,
        "allow_op_delay": False,
        "num_iteration_per_drop_scope": 100,
        "num_iteration_per_run": 1,
        "use_thread_barrier": False,
        "use_experimental_executor": True,
        "_use_device": None,
        "_dry_run": False,
    }


class BuildStrategy(_Options):
    """How a CompiledProgram is built; what does not apply to this engine is kept and has no effect.

    What the engine does to a program by itself never changes its results; it can be turned off: `enable_inplace` False
    (operators write over operands that nobody reads any more), `memory_optimize` False (nor is memory of which only the
    shape is still needed given back early), `fuse_elewise_add_act_ops` False (chains of elementwise operators
    run as one), `enable_sequential_execution` True (independent operators do not run at the same time). The environment
    variable OAR_PLAN_PASSES does the same for the whole process.

    Examples:
        >>> import paddle.static as static
        >>> strategy = static.BuildStrategy()
        >>> strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    """

    class ReduceStrategy(enum.IntEnum):
        """Whether gradients are reduced everywhere, or each on one place."""

        AllReduce = 0
        Reduce = 1
        _NoReduce = 2

    class GradientScaleStrategy(enum.IntEnum):
        """What the gradient of the loss starts from on several places."""

        CoeffNumDevice = 0
        One = 1
        Customized = 2

    _defaults = {
        "reduce_strategy": ReduceStrategy.AllReduce,
        "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
        "debug_graphviz_path": "",
        "enable_sequential_execution": False,
        "remove_unnecessary_lock": True,
        "num_trainers": 1,
        "trainers_endpoints": [],
        "trainer_id": 0,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
        "fuse_elewise_add_act_ops": False,
        "fuse_bn_act_ops": False,
        "fuse_bn_add_act_ops": True,
        "enable_auto_fusion": False,
        "fuse_relu_depthwise_conv": False,
        "fuse_broadcast_ops": None,
        "fuse_all_optimizer_ops": False,
        "sync_batch_norm": False,
        "memory_optimize": None,
        "is_distribution": False,
        "async_mode": False,
        "enable_inplace": True,
        "enable_addto": False,
        "fuse_all_reduce_ops": None,
        "enable_backward_optimizer_op_deps": True,
        "cache_runtime_context": False,
        "mkldnn_enabled_op_types": [],
    }


class CompiledProgram:
    """A Program with strategies of running it.

    Every Program is compiled when it is run; this class adds data parallelism over several places.

    Args:
        program_or_graph (Program): the program.
        build_strategy (BuildStrategy, optional): how to build it.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> compiled = paddle.static.CompiledProgram(paddle.static.default_main_program())
    """

    def __init__(self, program_or_graph, build_strategy=None) -> None:
        if not isinstance(program_or_graph, Program):
            raise TypeError(f"CompiledProgram: a Graph or a Program is expected, got {type(program_or_graph)}")
        self._program = program_or_graph
        self._graph = None
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
        assert not self._is_inference, "this CompiledProgram is for inference: it can not be compiled anew"
        from .predictor import NativePredictor

        self._predictor = NativePredictor(config)
        self._is_inference = True
        return self

    def with_data_parallel(
        self, loss_name=None, build_strategy=None, exec_strategy=None, share_vars_from=None, places=None
    ) -> CompiledProgram:
        """Deal the batch out to several places.

        Args:
            loss_name (str, optional): needed when the program has a backward pass.
            build_strategy (BuildStrategy), exec_strategy (ExecutionStrategy), optional: how.
            share_vars_from (CompiledProgram, optional): one already run in parallel, whose variables to share.
            places (list, optional): by default all CUDA devices, or as many CPU places as CPU_NUM says.

        Returns:
            CompiledProgram: itself. Running over more than one GPU is not there yet and raises NotImplementedError.
        """
        assert not self._is_data_parallel, "this CompiledProgram is data parallel: it can not be compiled anew"
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
        if any(op.type.endswith("_grad") for block in self._program.blocks for op in block.ops):
            assert self._loss_name is not None, (
                "CompiledProgram: loss_name must be given, as the Program has a backward part"
            )
        return self

    def _passes(self) -> str | None:
        """The passes that the strategies leave, for `core.Executor.run`; None for all."""
        build: Any = self._build_strategy
        run: Any = self._exec_strategy
        off = set()
        if build is not None:
            if build._refuses("enable_inplace"):
                off.add("inplace")
            if build._refuses("memory_optimize"):
                off |= {"inplace", "fade"}
            if build._refuses("fuse_elewise_add_act_ops"):
                off.add("fuse")
            if build.enable_sequential_execution:
                off.add("schedule")
        if run is not None and run.num_threads == 1:
            off.add("schedule")
        return ",".join(p for p in _PASSES if p not in off) if off else None

    def _dry_run(self) -> bool:
        """Whether runs are to do nothing (`ExecutionStrategy._dry_run`)."""
        return self._exec_strategy is not None and self._exec_strategy._dry_run  # type: ignore[attr-defined]

    def _compile(self, scope, place) -> CompiledProgram:
        if self._compiled:
            if scope is not None and self._scope is not scope:
                raise ValueError("a CompiledProgram stays with the scope of its first run")
            if place is not None and not _same_place(self._place, place):
                raise ValueError("a CompiledProgram stays with the place of its first run")
            return self
        if self._share_vars_from is not None:
            if not self._share_vars_from._is_data_parallel:
                raise ValueError("share_vars_from is not data parallel, so its variables can not be shared")
            if not self._share_vars_from._compiled:
                raise ValueError("share_vars_from has not run yet, so it has no variables to share")
        places = self._get_places(place)
        if len(places) > 1:
            if isinstance(place, CUDAPlace):
                raise NotImplementedError(
                    f"data parallelism over {len(places)} GPUs of one process is not there yet: give one place, "
                    "or start several processes with paddle.distributed.launch"
                )
            from .multi_place import MultiPlaceExecutor

            self._executor = MultiPlaceExecutor(self, scope, places)
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
