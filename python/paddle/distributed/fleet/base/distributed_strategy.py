"""DistributedStrategy: the settings of a distributed training job, and their file format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddle._basics import flags
from paddle._basics.message import Field, Message
from paddle.static import BuildStrategy, ExecutionStrategy

from .. import meta_optimizers as _registers  # noqa: F401 (its modules register their strategies)
from .strategy_registry import Flag, StrategyFields, add_field, add_flag, message_schema, schema

__all__ = ["DistributedStrategy"]

#: the fields that are global flags of the process: a new strategy starts from their values, `_enable_env` sets them
_GLOBAL_FLAGS = {
    "cudnn_batchnorm_spatial_persistent": "FLAGS_cudnn_batchnorm_spatial_persistent",
    "conv_workspace_size_limit": "FLAGS_conv_workspace_size_limit",
    "cudnn_exhaustive_search": "FLAGS_cudnn_exhaustive_search",
    "sync_nccl_allreduce": "FLAGS_sync_nccl_allreduce",
}

# The fields that belong to no strategy of fleet/meta_optimizers.
add_field(Field("mode", ("COLLECTIVE", "PS", "PIPELINE", "HETER"), "COLLECTIVE", number=1))
for _flag in (
    Flag("elastic", 10, "bool: kept, and without effect, as in 2.0.2. False by default."),
    Flag("auto", 11, "bool: fleet chooses, if no other field was set. False by default."),
    Flag("sync_nccl_allreduce", 13, "bool: operators wait for their all_reduce. True by default.", True),
    Flag("nccl_comm_num", 14, "int: communicators that are used in turn. 1 by default.", 1),
    Flag("use_hierarchical_allreduce", 15, "bool: all_reduce within a host, then between hosts. False by default."),
    Flag(
        "hierarchical_allreduce_inter_nranks", 16, "int: ranks of a host in a hierarchical all_reduce. 1 by default.", 1
    ),
    Flag("sync_batch_norm", 17, "bool: batch_norm over the batches of all ranks. False by default."),
    Flag("fuse_all_reduce_ops", 18, "bool: gradients are averaged in buckets. True by default.", True),
    Flag("fuse_grad_size_in_MB", 19, "int: megabytes of a bucket. 32 by default.", 32),
    Flag("cudnn_exhaustive_search", 21, "bool: of cuDNN; no effect here. False by default."),
    Flag("conv_workspace_size_limit", 22, "int: megabytes, of cuDNN; no effect here.", 512),
    Flag("cudnn_batchnorm_spatial_persistent", 23, "bool: a flag of cuDNN; no effect here. False by default."),
):
    add_flag(_flag)
add_flag(Flag("fuse_grad_size_in_TFLOPS", 20, "float", 50.0), attribute="_fuse_grad_size_in_TFLOPS")
add_field(Field("last_comm_group_size_MB", float, 1.0, number=27))
add_field(
    Field(
        "build_strategy",
        message_schema(
            "BuildStrategy",
            enable_sequential_execution=False,
            fuse_elewise_add_act_ops=False,
            fuse_bn_act_ops=False,
            fuse_relu_depthwise_conv=False,
            fuse_broadcast_ops=False,
            fuse_all_optimizer_ops=False,
            enable_inplace=False,
            enable_backward_optimizer_op_deps=True,
            cache_runtime_context=False,
            fuse_bn_add_act_ops=True,
            enable_auto_fusion=False,
            enable_addto=False,
        ),
        number=201,
    )
)
add_field(
    Field(
        "execution_strategy",
        message_schema(
            "ExecutionStrategy",
            num_threads=1,
            num_iteration_per_drop_scope=10,
            num_iteration_per_run=1,
            use_thread_barrier=False,
        ),
        number=202,
    )
)


class DistributedStrategy(StrategyFields):
    """The settings of a distributed training job: the argument of `fleet.init` and `fleet.distributed_optimizer`.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/DistributedStrategy_en.html

    Every field has the type and the default of 2.0.2. A flag set to a value of another type keeps its value, with a
    warning (`a_sync` raises a ValueError, `fp16_allreduce` a TypeError); an unknown name raises a TypeError.

    Examples:
        >>> from paddle.distributed import fleet
        >>> strategy = fleet.DistributedStrategy()
        >>> strategy.recompute = True
        >>> strategy.recompute_configs = {"checkpoints": ["x"]}
        >>> strategy.recompute_configs["checkpoints"]
        ['x']
        >>> strategy.nccl_comm_num
        1
    """

    def __init__(self) -> None:
        object.__setattr__(self, "strategy", Message(schema))
        for field, name in _GLOBAL_FLAGS.items():
            value = flags._values.get(name, schema[field].default)
            if value != schema[field].default:
                self.strategy.set(field, value)

    def __setattr__(self, key: str, value: Any) -> None:
        """Sets a field. TypeError for an unknown name."""
        if not hasattr(type(self), key) and key != "strategy":
            raise TypeError(f"{key} is not an attribute of {type(self).__name__}")
        object.__setattr__(self, key, value)

    def save_to_prototxt(self, output: str) -> None:
        """Writes the fields that were set to the file `output`, in protobuf's text format.

        Examples:
            >>> import os, tempfile
            >>> from paddle.distributed import fleet
            >>> strategy = fleet.DistributedStrategy()
            >>> strategy.dgc = True
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     strategy.save_to_prototxt(os.path.join(folder, "strategy.prototxt"))
            ...     other = fleet.DistributedStrategy()
            ...     other.load_from_prototxt(os.path.join(folder, "strategy.prototxt"))
            >>> other.dgc
            True
        """
        Path(output).write_text(self.strategy.to_text(), encoding="utf-8")

    def load_from_prototxt(self, pb_file: str) -> None:
        """Sets the fields of the file `pb_file`, in protobuf's text format.

        Raises:
            ValueError: naming the line with a syntax error, an unknown field, or a value of another type.
        """
        try:
            self.strategy.merge_text(Path(pb_file).read_text(encoding="utf-8"))
        except ValueError as e:
            raise ValueError(f"{pb_file}, {e}") from None

    @property
    def execution_strategy(self) -> ExecutionStrategy:
        """ExecutionStrategy: how Programs are run: threads, iterations per run and per dropped scope."""
        return self._copied(ExecutionStrategy(), "execution_strategy")

    @execution_strategy.setter
    def execution_strategy(self, strategy: ExecutionStrategy) -> None:
        self._set_message(strategy, "execution_strategy")

    @property
    def build_strategy(self) -> BuildStrategy:
        """BuildStrategy: how Programs are built; without the fields that concern several processes."""
        return self._copied(BuildStrategy(), "build_strategy")

    @build_strategy.setter
    def build_strategy(self, strategy: BuildStrategy) -> None:
        self._set_message(strategy, "build_strategy")

    def _copied(self, to: Any, field: str) -> Any:
        for name, value in self.strategy.get(field).as_dict().items():
            setattr(to, name, value)
        return to

    def _set_message(self, strategy: Any, field: str) -> None:
        message = self.strategy.get(field)
        for name in message.schema:
            value = getattr(strategy, name)
            # None: the engine's default
            if value is not None:
                message.set(name, value)

    @property
    def last_comm_group_size_MB(self) -> float:
        """float: megabytes of the bucket that backward fills last; above 0 (ValueError). 1 by default."""
        return self.strategy.get("last_comm_group_size_MB")

    @last_comm_group_size_MB.setter
    def last_comm_group_size_MB(self, value: float) -> None:
        if not value > 0:
            raise ValueError(f"DistributedStrategy.last_comm_group_size_MB must be above 0, got {value!r}")
        self.strategy.set("last_comm_group_size_MB", value)

    def _enable_env(self) -> None:
        """Sets the global flags of the process to the strategy's values."""
        flags.set_flags({name: self.strategy.get(f) for f, name in _GLOBAL_FLAGS.items() if name in flags._values})

    def _is_strict_auto(self) -> bool:
        """Whether `auto` is the only field that was set."""
        others = {k for k, v in self.strategy._values.items() if k != "auto" and k not in _GLOBAL_FLAGS}
        return self.auto and not others

    def __repr__(self) -> str:
        """A table of the fields: enabled strategies with their settings, flags, build and execution strategy."""
        width = 38
        border, line = f"    +{'=' * (2 * width + 2)}+", f"    +{'-' * (2 * width + 2)}+"

        def title(text: str) -> str:
            return f"    |{text:^{2 * width + 2}}|"

        def row(name: str, value: Any) -> list[str]:
            values = [str(v) for v in value] if isinstance(value, list) else [str(value)]
            return [f"    |{name if i == 0 else '':>{width}}  {v:^{width}}|" for i, v in enumerate(values)]

        top = [border, title(""), title("DistributedStrategy Overview"), title("")]
        rest: list[str] = []
        for name, field in schema.items():
            if not isinstance(field.kind, type) and not isinstance(field.kind, tuple):
                continue  # a message
            if f"{name}_configs" not in schema:
                rest += row(name, self.strategy.get(name))
            elif self.strategy.get(name):
                top += [border, title(f"{name}=True <-> {name}_configs"), line]
                for key, value in self.strategy.get(f"{name}_configs").as_dict().items():
                    top += row(key, value)
        text = [*top, border, title("Environment Flags, Communication Flags"), line, *rest]
        for heading, name in (("Build Strategy", "build_strategy"), ("Execution Strategy", "execution_strategy")):
            text += [border, title(heading), line]
            for key, value in self.strategy.get(name).as_dict().items():
                text += row(key, value)
        return "\n".join([*text, border]) + "\n"
