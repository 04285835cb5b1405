"""fluid.optimizer: the optimizers of Paddle 1.x, built on the update rules of paddle.optimizer."""

from paddle.incubate.optimizer.gradient_merge import GradientMergeOptimizer as GradientMergeOptimizer
from paddle.incubate.optimizer.pipeline import PipelineOptimizer
from paddle.incubate.optimizer.recompute import RecomputeOptimizer
from paddle.optimizer.regularization import append_regularization_ops as append_regularization_ops

from .adaptive import AdadeltaOptimizer, AdagradOptimizer, DecayedAdagradOptimizer, FtrlOptimizer, RMSPropOptimizer
from .averages import ExponentialMovingAverage, ModelAverage
from .base import Optimizer as Optimizer
from .dgc import DGCMomentumOptimizer as DGCMomentumOptimizer
from .merging import LookaheadOptimizer
from .momenta import (
    AdamaxOptimizer,
    AdamOptimizer,
    DpsgdOptimizer,
    LambOptimizer,
    LarsMomentumOptimizer,
    MomentumOptimizer,
    SGDOptimizer,
)

__all__ = [
    "SGD",
    "Momentum",
    "Adagrad",
    "Adam",
    "Adamax",
    "Dpsgd",
    "DecayedAdagrad",
    "Ftrl",
    "SGDOptimizer",
    "MomentumOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AdamaxOptimizer",
    "DpsgdOptimizer",
    "DecayedAdagradOptimizer",
    "RMSPropOptimizer",
    "FtrlOptimizer",
    "Adadelta",
    "AdadeltaOptimizer",
    "ModelAverage",
    "LarsMomentum",
    "LarsMomentumOptimizer",
    "LambOptimizer",
    "ExponentialMovingAverage",
    "PipelineOptimizer",
    "LookaheadOptimizer",
    "RecomputeOptimizer",
]

SGD = SGDOptimizer
Momentum = MomentumOptimizer
Adagrad = AdagradOptimizer
Adam = AdamOptimizer
Adamax = AdamaxOptimizer
Dpsgd = DpsgdOptimizer
DecayedAdagrad = DecayedAdagradOptimizer
Adadelta = AdadeltaOptimizer
RMSProp = RMSPropOptimizer
Ftrl = FtrlOptimizer
LarsMomentum = LarsMomentumOptimizer
Lamb = LambOptimizer
