"""fluid.contrib.slim.quantization: int8 quantization in training, after training, and as Layers in dygraph mode."""

from . import imperative, quantization_pass
from .imperative import *  # noqa: F403
from .mkldnn import Quant2Int8MkldnnPass, QuantInt8MkldnnPass
from .post_training_quantization import PostTrainingQuantization
from .quantization_pass import *  # noqa: F403
from .quantization_strategy import QuantizationStrategy
from .weight_quantization import WeightQuantization

__all__ = [
    *quantization_pass.__all__,
    "QuantInt8MkldnnPass",
    "Quant2Int8MkldnnPass",
    "PostTrainingQuantization",
    "QuantizationStrategy",
    "WeightQuantization",
    *imperative.__all__,
]
