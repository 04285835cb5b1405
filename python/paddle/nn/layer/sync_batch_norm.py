"""SyncBatchNorm: batch normalization with statistics over all processes."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.mode import in_static_mode
from paddle.nn.layer.layers import Layer
from paddle.nn.layer.norm import _BatchNormBase
from paddle.nn.param_attr import ParamAttr

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNormBase):
    """A batch norm with the statistics of the global batch, which is distributed over the processes of the job. With a
    single process it equals BatchNorm.

    Args:
        num_features: the number of channels.
        momentum: running = momentum * running + (1 - momentum) * batch.
        epsilon: added to the variance.
        weight_attr, bias_attr: ParamAttr or a form it accepts (default: ones and zeros); False: not trained.
        data_format: "NCHW" or another format with channels second, or "NHWC" or another one with channels last.
        name: prefix of the names of the running statistics.

    Examples:
        >>> import paddle
        >>> norm = paddle.nn.SyncBatchNorm(2)
        >>> norm(paddle.to_tensor([[[[0.3, 0.4]], [[0.3, 0.1]]]])).shape
        [1, 2, 1, 2]
    """

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, name=name)

    def forward(self, x: Any) -> Any:
        """The normalized input, of 2 to 5 dimensions."""
        outputs = _ops.sync_batch_norm(
            x,
            self.weight,
            self.bias,
            self._mean,
            self._variance,
            momentum=self._momentum,
            epsilon=self._epsilon,
            is_test=not self.training,
            data_layout="NCHW" if self._data_format[1] == "C" else "NHWC",
            MeanOut=self._mean,
            VarianceOut=self._variance,
        )
        if in_static_mode():
            outputs[3].stop_gradient = outputs[4].stop_gradient = True
        return outputs[0]

    @classmethod
    def convert_sync_batchnorm(cls, layer: Layer) -> Layer:
        """`layer` with each BatchNorm1D, 2D and 3D in it replaced by a SyncBatchNorm with the same parameters and
        statistics; for a batch norm itself the new layer is returned.

        Examples:
            >>> import paddle
            >>> net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 5, 3), paddle.nn.BatchNorm2D(5))
            >>> type(paddle.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]).__name__
            'SyncBatchNorm'
        """
        converted = layer
        if isinstance(layer, _BatchNormBase) and not isinstance(layer, SyncBatchNorm):
            for attr in (layer._weight_attr, layer._bias_attr):
                if isinstance(attr, ParamAttr) and attr.name is not None:
                    attr.name += "_sync"  # the new parameters exist before the old ones are replaced
            converted = SyncBatchNorm(
                layer._num_features,
                layer._momentum,
                layer._epsilon,
                layer._weight_attr,
                layer._bias_attr,
                layer._data_format,
                layer._name,
            )
            converted.weight, converted.bias = layer.weight, layer.bias
            converted._mean, converted._variance = layer._mean, layer._variance
            converted.training = layer.training
        for name, child in list(layer.named_children()):
            converted.add_sublayer(name, cls.convert_sync_batchnorm(child))
        return converted
