"""The strategies of fleet: meta-optimizers, each of which rewrites the Program that its inner optimizer makes."""

from .amp_optimizer import AMPOptimizer
from .dgc_optimizer import DGCOptimizer
from .fp16_allreduce_optimizer import FP16AllReduceOptimizer
from .gradient_merge_optimizer import GradientMergeOptimizer
from .graph_execution_optimizer import GraphExecutionOptimizer
from .lamb_optimizer import LambOptimizer
from .lars_optimizer import LarsOptimizer
from .localsgd_optimizer import AdaptiveLocalSGDOptimizer, LocalSGDOptimizer
from .parameter_server_optimizer import ParameterServerGraphOptimizer, ParameterServerOptimizer
from .pipeline_optimizer import PipelineOptimizer
from .recompute_optimizer import RecomputeOptimizer
from .sharding_optimizer import ShardingOptimizer

__all__ = [
    "AMPOptimizer",
    "AdaptiveLocalSGDOptimizer",
    "DGCOptimizer",
    "FP16AllReduceOptimizer",
    "GradientMergeOptimizer",
    "GraphExecutionOptimizer",
    "LambOptimizer",
    "LarsOptimizer",
    "LocalSGDOptimizer",
    "ParameterServerGraphOptimizer",
    "ParameterServerOptimizer",
    "PipelineOptimizer",
    "RecomputeOptimizer",
    "ShardingOptimizer",
]
