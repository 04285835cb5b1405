"""Replacement of a model's Layers by quantized ones, and measurement of output scales."""

from __future__ import annotations

from typing import Any, NoReturn

from paddle._basics.dtypes import VarType
from paddle._basics.missing import OperatorMissing
from paddle._programs.variable import Variable
from paddle.fluid.dygraph.nn import BatchNorm, Pool2D
from paddle.nn import (
    BatchNorm1D,
    BatchNorm2D,
    BatchNorm3D,
    Conv2D,
    LeakyReLU,
    Linear,
    MaxPool1D,
    MaxPool2D,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    Softmax,
    Swish,
    Tanh,
)
from paddle.nn.layer.layers import Layer

from ..inserting import check_kinds
from . import quant_nn

__all__ = ["ImperativeQuantAware", "ImperativeCalcOutScale"]

_KINDS = ("abs_max", "moving_average_abs_max", "channel_wise_abs_max")
_LAYERS = {k.__name__: k for k in (Conv2D, Linear, Pool2D, ReLU, LeakyReLU, ReLU6, Softmax, Tanh, Swish)}
_ROUNDED = {Conv2D: quant_nn.QuantizedConv2D, Linear: quant_nn.QuantizedLinear}
_MEASURED = (
    *(BatchNorm, BatchNorm1D, BatchNorm2D, BatchNorm3D, Conv2D, LeakyReLU, Linear, PReLU, Pool2D, MaxPool1D, MaxPool2D),
    *(ReLU, ReLU6, Sigmoid, Softmax, Tanh, Swish),
)


class ImperativeQuantAware:
    """Replaces Layers of a model by ones that quantize their inputs, for quantization-aware training.

    Layers whose attribute ``skip_quant`` is True are kept.

    Args:
        weight_bits, activation_bits (int): bit widths.
        weight_quantize_type (str): how the scale is computed: "abs_max", "moving_average_abs_max", or
            "channel_wise_abs_max".
        activation_quantize_type (str): "abs_max" or "moving_average_abs_max".
        moving_rate (float): decay of the moving average.
        quantizable_layer_type (list of str): Layers to replace: Conv2D, Linear, Pool2D, ReLU, LeakyReLU, ReLU6,
            Softmax, Tanh and Swish.
        weight_preprocess_layer, act_preprocess_layer (type): a Layer applied before quantization.
        weight_quantize_layer, act_quantize_layer (type): a Layer that quantizes, instead of the default one.

    Raises:
        ValueError: for an unknown type.

    Examples:
        >>> import paddle
        >>> from paddle.fluid.contrib.slim.quantization import ImperativeQuantAware
        >>> model = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.ReLU())
        >>> ImperativeQuantAware().quantize(model)
        >>> type(model[0]).__name__
        'QuantizedLinear'
    """

    def __init__(
        self,
        weight_bits=8,
        activation_bits=8,
        weight_quantize_type="abs_max",
        activation_quantize_type="moving_average_abs_max",
        moving_rate=0.9,
        quantizable_layer_type=["Conv2D", "Linear"],  # noqa: B006 (Paddle's default)
        weight_preprocess_layer=None,
        act_preprocess_layer=None,
        weight_quantize_layer=None,
        act_quantize_layer=None,
    ) -> None:
        own = {
            "weight_preprocess": weight_preprocess_layer,
            "act_preprocess": act_preprocess_layer,
            "weight_quantize": weight_quantize_layer,
            "act_quantize": act_quantize_layer,
        }
        for what, kind in own.items():
            assert kind is None or issubclass(kind, Layer), f"{what} should be nn.Layer"
        check_kinds(activation_quantize_type, weight_quantize_type, _KINDS)
        for layer in quantizable_layer_type:
            assert not isinstance(layer, str) or layer in _LAYERS, f"{layer} is not supported to be quantized."
        self._layers = tuple(_LAYERS[n] if isinstance(n, str) else n for n in quantizable_layer_type)
        self._how = (weight_bits, activation_bits, moving_rate, weight_quantize_type, activation_quantize_type)
        self._own = (weight_preprocess_layer, act_preprocess_layer, weight_quantize_layer, act_quantize_layer)
        self._out_scale = ImperativeCalcOutScale()

    def quantize(self, model) -> None:
        """Replaces the Layers of `model` in place, and measures the scales of its Layers' outputs.

        Args:
            model (Layer): the model.
        """
        found = [
            (owner, name, layer)
            for owner in (model, *model.sublayers())
            for name, layer in owner.named_children()
            if isinstance(layer, self._layers) and not getattr(layer, "skip_quant", False)
        ]
        for owner, name, layer in found:
            kind: Any = next((r for k, r in _ROUNDED.items() if isinstance(layer, k)), quant_nn.QuantizedNoweightLayer)
            rounding = kind(layer, *self._how, *self._own)
            rounding.layer_name = layer.full_name()
            owner._sub_layers[name] = rounding
        self._out_scale.calc_out_scale(model)

    def save_quantized_model(self, layer, path, input_spec=None, **config) -> None:
        """Not implemented (jit.save is missing): raises OperatorMissing."""
        self._out_scale.save_quantized_model(layer, path, input_spec, **config)


class ImperativeCalcOutScale:
    """Measures the outputs of a model's Layers: a moving average of the largest magnitude.

    Args:
        moving_rate (float): decay of the moving average.
    """

    def __init__(self, moving_rate=0.9) -> None:
        self._moving_rate = moving_rate
        self._register_hook_handle_list: list = []
        #: name of a Layer -> the average after the last call
        self._out_scale_dict: dict[str, Any] = {}

    def calc_out_scale(self, model) -> None:
        """Registers hooks that measure at every call.

        Args:
            model (Layer): the model.
        """
        assert isinstance(model, Layer), f"calc_out_scale: a Layer is expected, got {type(model)}"
        for layer in model.sublayers():
            if isinstance(layer, _MEASURED) or "quantized_" in layer.full_name():
                self._register_hook_handle_list.append(layer.register_forward_post_hook(self._look))

    def save_quantized_model(self, layer, path, input_spec=None, **config) -> None:
        """Not implemented (jit.save is missing): raises OperatorMissing."""
        assert isinstance(layer, Layer), f"save_quantized_model: a Layer is expected, got {type(layer)}"
        _refuse()

    def _look(self, layer: Any, given: Any, output: Any) -> None:
        assert isinstance(output, Variable), "ImperativeCalcOutScale: a layer with several outputs can not be measured"
        if output.dtype not in (VarType.FP32, VarType.FP64):
            return
        if not hasattr(layer, "_out_scale"):
            layer._out_scale = quant_nn.MovingAverageAbsMaxScale(output.name, self._moving_rate, output.dtype)
        self._out_scale_dict[getattr(layer, "layer_name", layer.full_name())] = layer._out_scale(output)


def _refuse() -> NoReturn:
    raise OperatorMissing(
        "save_quantized_model needs paddle.jit.save, which is not implemented; a Program that "
        "QuantizationFreezePass made can be saved with fluid.io.save_inference_model"
    )
