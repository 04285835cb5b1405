"""BuildStrategy and ExecutionStrategy: the options of CompiledProgram and ParallelExecutor."""

from __future__ import annotations

import enum
from typing import Any

from .pass_builder import PassBuilder

__all__ = ["ExecutionStrategy", "BuildStrategy"]


class _Options:
    """An object whose attributes are exactly those of the table `_defaults`."""

    _defaults: dict[str, Any] = {}

    _given: set[str]  # the options that the user set

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
        """Whether the user set this option to False; its default may be False as well."""
        return name in self._given and getattr(self, name) is False

    def __repr__(self) -> str:
        changed = {k: getattr(self, k) for k, v in self._defaults.items() if getattr(self, k) != v}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"


class ExecutionStrategy(_Options):
    """The options of running a CompiledProgram; options that do not apply to this engine have no effect.

    Operators of several places run on `num_threads` threads, by default one for each place, and at most one for each
    core. With 1 they run sequentially (a single operator may use several threads).

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
    """The options of building a CompiledProgram; options that do not apply to this engine have no effect.

    The engine's passes never change results. They can be turned off: `enable_inplace` False (no operator writes its
    result over an operand without later readers), `memory_optimize` False (in addition, memory of which only the shape
    is needed is not freed early), `fuse_elewise_add_act_ops` False (chains of elementwise operators are not fused),
    `enable_sequential_execution` True (independent operators do not run in parallel). The environment variable
    OAR_PLAN_PASSES does the same for the whole process.

    Examples:
        >>> import paddle.static as static
        >>> strategy = static.BuildStrategy()
        >>> strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    """

    class ReduceStrategy(enum.IntEnum):
        """Whether each place gets the reduced gradients, or one place each."""

        AllReduce = 0
        Reduce = 1
        _NoReduce = 2

    class GradientScaleStrategy(enum.IntEnum):
        """The start of the loss's gradient on several places."""

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
        """The PassBuilder, created at the first call."""
        if self._builder is None:
            object.__setattr__(self, "_builder", PassBuilder())
        assert self._builder is not None
        return self._builder

    def _repeats(self) -> int:
        """The number of batches of one update at a place."""
        return self._builder.repeats() if self._builder is not None else 1
