"""fluid.dygraph's learning rates: objects that an optimizer of fluid calls once for each step that it makes."""

from paddle.fluid.rates.base import LearningRateDecay
from paddle.fluid.rates.decays import (
    CosineDecay,
    ExponentialDecay,
    InverseTimeDecay,
    LinearLrWarmup,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
    ReduceLROnPlateau,
)
from paddle.fluid.rates.epochs import LambdaDecay, MultiStepDecay, StepDecay, _LearningRateEpochDecay

__all__ = [
    "NoamDecay",
    "PiecewiseDecay",
    "NaturalExpDecay",
    "ExponentialDecay",
    "InverseTimeDecay",
    "PolynomialDecay",
    "CosineDecay",
    "LinearLrWarmup",
    "ReduceLROnPlateau",
    "StepDecay",
    "MultiStepDecay",
    "LambdaDecay",
]
