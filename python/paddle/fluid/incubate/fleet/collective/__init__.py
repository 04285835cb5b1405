"""fleet of 1.x for collective training."""

from .workers import (
    Collective,
    CollectiveOpBasedOptimizer,
    CollectiveOptimizer,
    DistFCConfig,
    DistributedStrategy,
    LambConfig,
    fleet,
)

__all__ = [
    "Collective",
    "CollectiveOpBasedOptimizer",
    "CollectiveOptimizer",
    "DistFCConfig",
    "DistributedStrategy",
    "LambConfig",
    "fleet",
]
