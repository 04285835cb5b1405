"""fluid.dygraph: dygraph mode by its 1.x names."""
from . import base, checkpoint, container, layers
from .base import (
    disable_dygraph,
    enable_dygraph,
    enabled,
    grad,
    guard,
    no_grad,
    no_grad_,
    to_variable,
)
from .checkpoint import load_dygraph, save_dygraph
from .container import LayerList, ParameterList, Sequential
from .layers import Layer

__all__ = [
    "Layer", "LayerList", "ParameterList", "Sequential", "disable_dygraph", "enable_dygraph", "enabled", "grad",
    "guard", "load_dygraph", "no_grad", "no_grad_", "save_dygraph", "to_variable",
]
