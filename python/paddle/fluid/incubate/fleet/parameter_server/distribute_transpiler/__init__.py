"""fleet of 1.x with parameter servers, by DistributeTranspiler."""

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
