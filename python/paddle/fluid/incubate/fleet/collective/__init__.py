"""fleet of workers that talk to each other, as 1.x has it."""

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
