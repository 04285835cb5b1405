"""paddle.optimizer: optimizers and learning rate schedulers."""
from paddle._basics.missing import getter as _getter

from . import lr
from .adam import Adam, AdamW
from .momentum import Momentum
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Momentum", "Optimizer", "lr"]

# optimizer: the operator it waits for
__getattr__ = _getter(
    __name__, {"Adadelta": "adadelta", "Adagrad": "adagrad", "Adamax": "adamax", "Lamb": "lamb", "RMSProp": "rmsprop"}
)
