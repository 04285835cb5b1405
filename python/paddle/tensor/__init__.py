"""paddle.tensor: functions on Tensors, most of them methods too."""
from .tensor import to_tensor

__all__ = ["to_tensor"]
