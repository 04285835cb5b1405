"""How Programs are built and run: the options that CompiledProgram and ParallelExecutor take."""

from __future__ import annotations

import enum
from typing import Any

from .pass_builder import PassBuilder

__all__ = ["ExecutionStrategy", "BuildStrategy"]


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

    Operators of several places run on `num_threads` threads, by default on one for each place, and on no more than
    there are cores. With 1 they run one after the other (each of them may still use several threads).

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

    _builder: PassBuilder | None = None

    def _finalize_strategy_and_create_passes(self) -> PassBuilder:
        """Where passes can be added; the same every time."""
        if self._builder is None:
            object.__setattr__(self, "_builder", PassBuilder())
        assert self._builder is not None
        return self._builder

    def _repeats(self) -> int:
        """How many batches of a place make one update."""
        return self._builder.repeats() if self._builder is not None else 1
