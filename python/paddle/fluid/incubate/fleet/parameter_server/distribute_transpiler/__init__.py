"""fleet with parameter servers by DistributeTranspiler, as 1.x has it."""

from .distributed_strategy import (
    AsyncStrategy,
    DistributedStrategy,
    GeoStrategy,
    HalfAsyncStrategy,
    StrategyFactory,
    SyncStrategy,
    TrainerRuntimeConfig,
)
from .transpiled import FleetTranspiler, ParameterServerOptimizer, fleet

__all__ = [
    "AsyncStrategy",
    "DistributedStrategy",
    "FleetTranspiler",
    "GeoStrategy",
    "HalfAsyncStrategy",
    "ParameterServerOptimizer",
    "StrategyFactory",
    "SyncStrategy",
    "TrainerRuntimeConfig",
    "fleet",
]
