"""Synchronization strategies of trainers and parameter servers: sets of consistent configurations."""

from __future__ import annotations

import os
import sys
from typing import Any

from paddle.distributed.ps.config import DistributeTranspilerConfig, ServerRuntimeConfig
from paddle.fluid.incubate.fleet.parameter_server.mode import DistributedMode
from paddle.static.strategies import BuildStrategy, ExecutionStrategy

__all__ = [
    "TrainerRuntimeConfig",
    "DistributedStrategy",
    "SyncStrategy",
    "AsyncStrategy",
    "HalfAsyncStrategy",
    "GeoStrategy",
    "StrategyFactory",
]

#: (flag of the communicator, its default; None is the number of threads)
_FLAGS: tuple[tuple[str, str | None], ...] = (
    ("communicator_max_merge_var_num", None),
    ("communicator_send_queue_size", None),
    ("communicator_independent_recv_thread", "1"),
    ("communicator_min_send_grad_num_before_recv", None),
    ("communicator_thread_pool_size", "5"),
    ("communicator_send_wait_times", "5"),
    ("communicator_is_sgd_optimizer", "1"),
    ("rpc_deadline", "180000"),
    ("rpc_retry_times", "3"),
)
#: the flags of modes in which trainers wait for each other
_IN_STEP = (
    "communicator_max_merge_var_num",
    "communicator_send_wait_times",
    "communicator_thread_pool_size",
    "communicator_send_queue_size",
)
_AS_THREADS = ("communicator_max_merge_var_num", "communicator_send_queue_size")


def _threads() -> str:
    return os.getenv("CPU_NUM", "1")


class TrainerRuntimeConfig:
    """The flags of a trainer's Communicator; defaults are ``FLAGS_`` of the environment and CPU_NUM.

    Attributes:
        mode (int, optional): one of DistributedMode.
        runtime_configs (dict): flags by name, str.

    Examples:
        >>> from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import TrainerRuntimeConfig
        >>> TrainerRuntimeConfig().runtime_configs["communicator_send_wait_times"]
        '5'
    """

    def __init__(self):
        self.mode: int | None = None
        self.runtime_configs = {
            name: os.getenv(f"FLAGS_{name}", _threads() if default is None else default) for name, default in _FLAGS
        }

    def get_communicator_flags(self):
        """The flags of this mode, as a dict of str.

        In synchronous modes merges and queues are as long as the number of threads; other values are changed and
        logged.

        Raises:
            ValueError: for an unknown mode.
        """
        modes = (DistributedMode.SYNC, DistributedMode.HALF_ASYNC, DistributedMode.GEO)
        if self.mode not in (None, DistributedMode.ASYNC, *modes):
            raise ValueError(f"mode must be one of DistributedMode, got {self.mode!r}")
        if self.mode in (DistributedMode.SYNC, DistributedMode.HALF_ASYNC):
            for name in _AS_THREADS:
                if self.runtime_configs[name] != _threads():
                    given = self.runtime_configs[name]
                    sys.stderr.write(f"{name} becomes CPU_NUM = {_threads()}, not {given}: trainers keep step\n")
                    self.runtime_configs[name] = _threads()
        names = _IN_STEP if self.mode in modes else tuple(self.runtime_configs)
        return {name: str(self.runtime_configs[name]) for name in names}

    def display(self, configs):
        """A table of flags."""
        lines = [f"{name:<45s}{value:<5s}" for name, value in configs.items()]
        head = f"{'TrainerRuntimeConfig Overview':^45s}{'Value':<5s}"
        return "\n".join(["", "=" * 50, head, "-" * 50, *lines, "=" * 50, ""])

    def __repr__(self) -> str:
        return self.display(self.get_communicator_flags())


class PSLibRuntimeConfig:
    """The configuration of PSLib's servers."""

    def __init__(self):
        self.runtime_configs = {}

    def get_runtime_configs(self):
        """The dict."""
        return self.runtime_configs


class DistributedStrategy:
    """The base of strategies; :class:`StrategyFactory` creates them.

    Each configuration has ``get_`` and ``set_``, which takes one of its type or a dict of changes:
    ``program_config`` (DistributeTranspilerConfig), ``trainer_runtime_config``, ``server_runtime_config``,
    ``execute_strategy`` (ExecutionStrategy), ``build_strategy`` (BuildStrategy).
    """

    #: the fields of DistributeTranspilerConfig that the strategy sets, in this order
    _program: dict[str, Any] = {}
    _mode: int | None = None
    _barrier = False

    def __init__(self):
        self._program_config = DistributeTranspilerConfig()
        self._trainer_runtime_config = TrainerRuntimeConfig()
        self._pslib_runtime_config = PSLibRuntimeConfig()
        self._server_runtime_config = ServerRuntimeConfig()
        self._execute_strategy = ExecutionStrategy()
        self._build_strategy = BuildStrategy()
        self._execute_strategy.num_threads = int(_threads())
        if int(_threads()) > 1:
            self._build_strategy.reduce_strategy = BuildStrategy.ReduceStrategy.Reduce
        self.debug_opt: Any = None
        if type(self) is not DistributedStrategy:
            for check in _CHECKS:
                getattr(self, check)()

    def set_debug_opt(self, opt_info):
        """Sets the dump options, a dict."""
        self.debug_opt = opt_info

    def get_debug_opt(self):
        """The dump options, empty by default."""
        given = self.debug_opt
        if not isinstance(given, dict):
            return {}
        return {
            "dump_slot": bool(given.get("dump_slot", 0)),
            "dump_converter": str(given.get("dump_converter", "")),
            "dump_fields": given.get("dump_fields", []),
            "dump_file_num": given.get("dump_file_num", 16),
            "dump_fields_path": given.get("dump_fields_path", ""),
            "dump_param": given.get("dump_param", []),
        }

    def _set(self, name: str, kind: type, config: Any) -> None:
        if isinstance(config, kind):
            setattr(self, name, config)
        elif isinstance(config, dict):
            there = getattr(self, name)
            runtime = isinstance(there, TrainerRuntimeConfig)
            for key, value in config.items():
                if not (key in there.runtime_configs if runtime else hasattr(there, key)):
                    raise ValueError(f"{kind.__name__} has no {key!r}")
                if runtime:
                    there.runtime_configs[key] = value
                else:
                    setattr(there, key, value)
        else:
            raise TypeError(f"a dict or {kind.__name__} is needed, got {type(config)}")
        getattr(self, f"check{name}")()

    def _own(self) -> None:
        if type(self) is DistributedStrategy:
            raise NotImplementedError("StrategyFactory makes strategies; this is what they have in common")

    def get_program_config(self):
        """The DistributeTranspilerConfig."""
        return self._program_config

    def set_program_config(self, config):
        """Changes it."""
        self._set("_program_config", DistributeTranspilerConfig, config)

    def check_program_config(self):
        """Sets the fields that this strategy requires."""
        self._own()
        for name, value in self._program.items():
            setattr(self._program_config, name, value)

    def get_trainer_runtime_config(self):
        """The flags of the trainer's Communicator."""
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config):
        """Changes it."""
        self._set("_trainer_runtime_config", TrainerRuntimeConfig, config)

    def check_trainer_runtime_config(self):
        """Sets the fields that this strategy requires."""
        self._own()
        self._trainer_runtime_config.mode = self._mode

    def get_pslib_runtime_config(self):
        """The configuration of PSLib's servers."""
        return self._pslib_runtime_config

    def set_pslib_runtime_config(self, config):
        """Changes it, by a dict."""
        self._pslib_runtime_config.runtime_configs = config

    def get_server_runtime_config(self):
        """The numbers of the servers' threads."""
        return self._server_runtime_config

    def set_server_runtime_config(self, config):
        """Changes it."""
        self._set("_server_runtime_config", ServerRuntimeConfig, config)

    def check_server_runtime_config(self):
        """Does nothing: no strategy requires fields."""
        self._own()

    def get_execute_strategy(self):
        """The ExecutionStrategy of a trainer's CompiledProgram."""
        return self._execute_strategy

    def set_execute_strategy(self, config):
        """Changes it."""
        self._set("_execute_strategy", ExecutionStrategy, config)

    def check_execute_strategy(self):
        """Sets the fields that this strategy requires."""
        self._own()
        if self._barrier:
            self._execute_strategy.use_thread_barrier = True

    def get_build_strategy(self):
        """The BuildStrategy of a trainer's CompiledProgram."""
        return self._build_strategy

    def set_build_strategy(self, config):
        """Changes it."""
        self._set("_build_strategy", BuildStrategy, config)

    def check_build_strategy(self):
        """Sets the fields that this strategy requires."""
        self._own()
        self._build_strategy.async_mode = True


_CHECKS = [name for name in vars(DistributedStrategy) if name.startswith("check_")]
_BY_COMMUNICATOR = {"sync_mode": False, "runtime_split_send_recv": True}


class SyncStrategy(DistributedStrategy):
    """All trainers synchronize at each step."""

    _program = {**_BY_COMMUNICATOR, "half_async": True, "completely_not_async": True}
    _mode, _barrier = DistributedMode.SYNC, True


class AsyncStrategy(DistributedStrategy):
    """No trainer waits: servers apply gradients on arrival."""

    _program = dict(_BY_COMMUNICATOR)
    _mode = DistributedMode.ASYNC


class HalfAsyncStrategy(DistributedStrategy):
    """A trainer waits until its own gradients are sent."""

    _program = {**_BY_COMMUNICATOR, "half_async": True}
    _mode, _barrier = DistributedMode.HALF_ASYNC, True


class GeoStrategy(DistributedStrategy):
    """GEO-SGD: trainers update their own parameters and send the changes every `update_frequency` steps.

    Args:
        update_frequency (int): the number of steps between exchanges.
    """

    _program = {**_BY_COMMUNICATOR, "geo_sgd_mode": True}
    _mode = DistributedMode.GEO

    def __init__(self, update_frequency=100):
        self._update_frequency = update_frequency
        super().__init__()

    def check_program_config(self):
        """Sets the fields that this strategy requires."""
        if self._program_config.geo_sgd_need_push_nums == DistributeTranspilerConfig.geo_sgd_need_push_nums:
            self._program_config.geo_sgd_need_push_nums = self._update_frequency
        super().check_program_config()

    def check_trainer_runtime_config(self):
        """Sets the fields that this strategy requires."""
        super().check_trainer_runtime_config()
        for name in _AS_THREADS:
            self._trainer_runtime_config.runtime_configs[name] = str(self._program_config.geo_sgd_need_push_nums)


class StrategyFactory:
    """Creates strategies.

    Examples:
        >>> from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory
        >>> StrategyFactory.create_geo_strategy(5).get_program_config().geo_sgd_need_push_nums
        5
    """

    @staticmethod
    def create_sync_strategy():
        """A SyncStrategy."""
        return SyncStrategy()

    @staticmethod
    def create_half_async_strategy():
        """A HalfAsyncStrategy."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy():
        """An AsyncStrategy."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency=100):
        """A GeoStrategy with this number of steps between exchanges."""
        return GeoStrategy(update_frequency)
