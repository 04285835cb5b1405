"""DistributedStrategy: how a job trains, field by field, with its file format."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddle._basics import flags
from paddle._basics.message import Message, assign
from paddle.static import BuildStrategy, ExecutionStrategy

from .strategy_fields import CONFIGS, STRATEGY

__all__ = ["DistributedStrategy"]

#: the flags of the process that a strategy starts from, and sets again by `_enable_env`
_OF_PROCESS = {
    "cudnn_batchnorm_spatial_persistent": "FLAGS_cudnn_batchnorm_spatial_persistent",
    "conv_workspace_size_limit": "FLAGS_conv_workspace_size_limit",
    "cudnn_exhaustive_search": "FLAGS_cudnn_exhaustive_search",
    "sync_nccl_allreduce": "FLAGS_sync_nccl_allreduce",
}


def _flag(name: str, doc: str, wrong: type[Exception] | None = None, of: str | None = None) -> property:
    """A field of one value. What has another type is left out with a warning, or raises `wrong`."""
    field = STRATEGY[of or name]

    def set_(self: DistributedStrategy, value: Any) -> None:
        if not isinstance(value, field.kind) or field.kind is int and isinstance(value, bool):
            text = f"DistributedStrategy.{name} takes a {field.kind.__name__}, got {value!r}"
            if wrong is not None:
                raise wrong(text)
            warnings.warn(f"{text}: it stays {self.strategy.get(field.name)!r}", stacklevel=2)
            return
        self._set(field.name, value)

    return property(lambda self: self.strategy.get(field.name), set_, doc=doc)


def _configs(name: str, doc: str) -> property:
    """The settings below a flag, as a dict. Setting a dict changes the fields that it names."""
    field = f"{name}_configs"
    settings = "\n".join(
        f"        {f.name} ({f'list[{f.kind.__name__}]' if f.repeated else f.kind.__name__})"
        + ("" if f.repeated else f": {f.default!r} by default.")
        for f in CONFIGS[name].values()
    )

    def set_(self: DistributedStrategy, values: Mapping[str, Any]) -> None:
        self._given = True
        assign(self.strategy.get(field), values, field)

    return property(
        lambda self: self.strategy.get(field).as_dict(),
        set_,
        doc=f"{doc}\n\n    A dict of\n{settings}\n\n    Raises:\n        AssertionError: for a name that is none of "
        "these. TypeError: for a value of another type.",
    )


class DistributedStrategy:
    """How a job trains: what `fleet.init` and `fleet.distributed_optimizer` are given.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/DistributedStrategy_en.html

    Every field has the type and the default of 2.0.2. A flag set to a value of another type keeps what it had, with a
    warning (`a_sync` raises a ValueError, `fp16_allreduce` a TypeError); a name that is no field raises a TypeError.

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

    strategy: Message

    def __init__(self) -> None:
        object.__setattr__(self, "strategy", Message(STRATEGY))
        # whether a field was set by hand: `auto` alone leaves all to fleet
        object.__setattr__(self, "_given", False)
        for field, name in _OF_PROCESS.items():
            value = flags._values.get(name, STRATEGY[field].default)
            if value != STRATEGY[field].default:
                self.strategy.set(field, value)

    def __setattr__(self, key: str, value: Any) -> None:
        """Sets a field. TypeError for a name that is none."""
        if not hasattr(type(self), key) and key not in ("_given", "strategy"):
            raise TypeError(f"{key} is not an attribute of {type(self).__name__}")
        object.__setattr__(self, key, value)

    def _set(self, name: str, value: Any) -> None:
        self._given = True
        self.strategy.set(name, value)

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
        """Takes over the fields that the file `pb_file` has, in protobuf's text format.

        Raises:
            ValueError: naming the line that is no such text, an unknown field, or a value of another type.
        """
        try:
            self.strategy.merge_text(Path(pb_file).read_text(encoding="utf-8"))
        except ValueError as e:
            raise ValueError(f"{pb_file}, {e}") from None

    # ----------------------------------------------------------------------------------------- whole strategies

    @property
    def execution_strategy(self) -> ExecutionStrategy:
        """How Programs are run, as an ExecutionStrategy: threads, iterations per run and per dropped scope."""
        return self._copied(ExecutionStrategy(), "execution_strategy")

    @execution_strategy.setter
    def execution_strategy(self, strategy: ExecutionStrategy) -> None:
        self._take(strategy, "execution_strategy")

    @property
    def build_strategy(self) -> BuildStrategy:
        """How Programs are built, as a BuildStrategy; of its fields those that are not about several processes."""
        return self._copied(BuildStrategy(), "build_strategy")

    @build_strategy.setter
    def build_strategy(self, strategy: BuildStrategy) -> None:
        self._take(strategy, "build_strategy")

    def _copied(self, to: Any, field: str) -> Any:
        for name, value in self.strategy.get(field).as_dict().items():
            setattr(to, name, value)
        return to

    def _take(self, strategy: Any, field: str) -> None:
        self._given = True
        message = self.strategy.get(field)
        for name in message.schema:
            value = getattr(strategy, name)
            # None: the engine decides, as it does by default
            if value is not None:
                message.set(name, value)

    # ---------------------------------------------------------------------------------------- parameter server

    @property
    def a_sync(self) -> bool:
        """bool: whether trainers of a parameter server go on without waiting for each other. True by default.

        Setting it sets `a_sync_configs["k_steps"]` to 0. ValueError for what is no bool.
        """
        return self.strategy.get("a_sync")

    @a_sync.setter
    def a_sync(self, flag: bool) -> None:
        if not isinstance(flag, bool):
            raise ValueError(f"DistributedStrategy.a_sync takes a bool, got {type(flag)}")
        self._set("a_sync", flag)
        self.a_sync_configs = {"k_steps": 0}

    a_sync_configs = _configs("a_sync", "Settings of asynchronous training; `k_steps` above 0 means geo.")

    # ----------------------------------------------------------------------------------------------- training

    amp = _flag("amp", "bool: mixed precision. False by default.")
    amp_configs = _configs("amp", "Settings of mixed precision.")
    recompute = _flag("recompute", "bool: backward computes activations again, to save memory. False by default.")
    recompute_configs = _configs("recompute", "Settings of recomputation; `checkpoints` names what is kept.")
    sharding = _flag("sharding", "bool: each rank keeps a part of parameters and optimizer state. False by default.")
    sharding_configs = _configs("sharding", "Settings of sharding.")
    pipeline = _flag("pipeline", "bool: the Program is cut into stages by device_guard. False by default.")
    pipeline_configs = _configs("pipeline", "Settings of the pipeline.")
    localsgd = _flag("localsgd", "bool: ranks average their parameters every `k_steps` steps only. False by default.")
    localsgd_configs = _configs("localsgd", "Settings of local SGD.")
    adaptive_localsgd = _flag("adaptive_localsgd", "bool: `localsgd`, steps follow the loss. False by default.")
    adaptive_localsgd_configs = _configs("adaptive_localsgd", "Settings of adaptive local SGD.")
    dgc = _flag("dgc", "bool: deep gradient compression, the largest entries are sent. False by default.")
    dgc_configs = _configs("dgc", "Settings of deep gradient compression.")
    gradient_merge = _flag("gradient_merge", "bool: gradients of `k_steps` batches make one update. False by default.")
    gradient_merge_configs = _configs("gradient_merge", "Settings of merged gradients.")
    lars = _flag("lars", "bool: Momentum becomes LARS. False by default.")
    lars_configs = _configs("lars", "Settings of LARS.")
    lamb = _flag("lamb", "bool: Adam becomes LAMB. False by default.")
    lamb_configs = _configs("lamb", "Settings of LAMB.")
    fp16_allreduce = _flag("fp16_allreduce", "bool: gradients travel as float16. False by default.", TypeError)
    elastic = _flag("elastic", "bool: kept, and without effect, as in 2.0.2. False by default.")
    auto = _flag("auto", "bool: fleet chooses, if no other field was set. False by default.")

    # ------------------------------------------------------------------------------------------ communication

    sync_nccl_allreduce = _flag("sync_nccl_allreduce", "bool: operators wait for their all_reduce. True by default.")
    use_hierarchical_allreduce = _flag(
        "use_hierarchical_allreduce", "bool: all_reduce within a host, then between hosts. False by default."
    )
    hierarchical_allreduce_inter_nranks = _flag(
        "hierarchical_allreduce_inter_nranks", "int: ranks of a host where all_reduce is hierarchical. 1 by default."
    )
    sync_batch_norm = _flag("sync_batch_norm", "bool: batch_norm over the batches of all ranks. False by default.")
    fuse_all_reduce_ops = _flag("fuse_all_reduce_ops", "bool: gradients are averaged in buckets. True by default.")
    fuse_grad_size_in_MB = _flag("fuse_grad_size_in_MB", "int: megabytes of a bucket. 32 by default.")
    _fuse_grad_size_in_TFLOPS = _flag("_fuse_grad_size_in_TFLOPS", "float", of="fuse_grad_size_in_TFLOPS")
    nccl_comm_num = _flag("nccl_comm_num", "int: communicators that take turns. 1 by default.")

    @property
    def last_comm_group_size_MB(self) -> float:
        """float: megabytes of the bucket that backward fills last; above 0 (ValueError). 1 by default."""
        return self.strategy.get("last_comm_group_size_MB")

    @last_comm_group_size_MB.setter
    def last_comm_group_size_MB(self, value: float) -> None:
        if not value > 0:
            raise ValueError(f"DistributedStrategy.last_comm_group_size_MB must be above 0, got {value!r}")
        self._set("last_comm_group_size_MB", value)

    cudnn_exhaustive_search = _flag("cudnn_exhaustive_search", "bool: of cuDNN; no effect here. False by default.")
    conv_workspace_size_limit = _flag("conv_workspace_size_limit", "int: megabytes, of cuDNN; no effect here.")
    cudnn_batchnorm_spatial_persistent = _flag(
        "cudnn_batchnorm_spatial_persistent", "bool: a flag of cuDNN; no effect here. False by default."
    )

    def _enable_env(self) -> None:
        """Sets the flags of the process as the strategy says."""
        flags.set_flags({name: self.strategy.get(f) for f, name in _OF_PROCESS.items() if name in flags._values})

    def _is_strict_auto(self) -> bool:
        """Whether `auto` is all that was asked for."""
        others = {k for k, v in self.strategy._values.items() if k != "auto" and k not in _OF_PROCESS}
        return self.auto and not others

    def __repr__(self) -> str:
        """A table of the fields: what is on with its settings, then flags, then how Programs are built and run."""
        width = 38
        border, line = f"    +{'=' * (2 * width + 2)}+", f"    +{'-' * (2 * width + 2)}+"

        def title(text: str) -> str:
            return f"    |{text:^{2 * width + 2}}|"

        def row(name: str, value: Any) -> list[str]:
            values = [str(v) for v in value] if isinstance(value, list) else [str(value)]
            return [f"    |{name if i == 0 else '':>{width}}  {v:^{width}}|" for i, v in enumerate(values)]

        top = [border, title(""), title("DistributedStrategy Overview"), title("")]
        rest: list[str] = []
        for name, field in STRATEGY.items():
            if not isinstance(field.kind, type) and not isinstance(field.kind, tuple):
                continue  # a message
            if name not in CONFIGS:
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
