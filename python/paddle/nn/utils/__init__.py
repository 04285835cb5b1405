"""paddle.nn.utils: weight normalization of layers' parameters."""

from .weight_norm_hook import remove_weight_norm, weight_norm

__all__ = ["weight_norm", "remove_weight_norm"]
