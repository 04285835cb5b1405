"""The older import path of the regularizers, with the older name of their argument."""

from paddle.framework.regularizer import (
    L1Decay,
    L1DecayRegularizer,
    L2Decay,
    L2DecayRegularizer,
    WeightDecayRegularizer,
    __all__,
    _create_regularization_of_grad,
    append_regularization_ops,
)
