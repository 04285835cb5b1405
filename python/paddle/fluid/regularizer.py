"""The older import path of the regularizers, with the older name of their argument."""

from paddle.optimizer.regularization import _create_regularization_of_grad, append_regularization_ops
from paddle.regularizer import L1DecayRegularizer, L2DecayRegularizer, WeightDecayRegularizer

__all__ = ["L1Decay", "L2Decay", "L1DecayRegularizer", "L2DecayRegularizer"]

L1Decay, L2Decay = L1DecayRegularizer, L2DecayRegularizer
