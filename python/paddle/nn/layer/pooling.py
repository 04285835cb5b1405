"""Pooling layers: each keeps the arguments of its function."""
from __future__ import annotations

from typing import Any

from paddle.nn import functional as F
from paddle.nn.layer.layers import Layer

__all__ = [
    "AdaptiveAvgPool1D",
    "AdaptiveAvgPool2D",
    "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D",
    "AvgPool1D",
    "AvgPool2D",
    "MaxPool1D",
    "MaxPool2D",
]


class _Pool(Layer):
    """Pools with a kernel size."""

    def __init__(self, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, name: str | None) -> None:
        super().__init__()
        self.ksize = self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.name = name

    def extra_repr(self) -> str:
        """The sizes."""
        return f"kernel_size={self.ksize}, stride={self.stride}, padding={self.padding}"


class AvgPool1D(_Pool):
    """Averages of windows of [N, C, L]; the arguments of `functional.avg_pool1d`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, name)
        self.exclusive = exclusive

    def forward(self, x: Any) -> Any:
        """The averages."""
        return F.avg_pool1d(x, self.ksize, self.stride, self.padding, self.exclusive, self.ceil_mode, self.name)


class AvgPool2D(_Pool):
    """Averages of windows of [N, C, H, W]; the arguments of `functional.avg_pool2d`.

    Examples:
        >>> import paddle
        >>> paddle.nn.AvgPool2D(2)(paddle.ones([1, 2, 4, 4])).shape
        [1, 2, 2, 2]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, name)
        self.exclusive = exclusive
        self.divisor = divisor_override
        self.data_format = data_format

    def forward(self, x: Any) -> Any:
        """The averages."""
        return F.avg_pool2d(
            x,
            self.ksize,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.exclusive,
            self.divisor,
            self.data_format,
            self.name,
        )


class MaxPool1D(_Pool):
    """Maxima of windows of [N, C, L]; the arguments of `functional.max_pool1d`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, name)
        self.return_mask = return_mask

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The maxima."""
        return F.max_pool1d(
            input, self.ksize, self.stride, self.padding, self.return_mask, self.ceil_mode, self.name
        )


class MaxPool2D(_Pool):
    """Maxima of windows of [N, C, H, W]; the arguments of `functional.max_pool2d`.

    Examples:
        >>> import paddle
        >>> paddle.nn.MaxPool2D(3, 2, 1)(paddle.ones([1, 2, 5, 5])).shape
        [1, 2, 3, 3]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, name)
        self.return_mask = return_mask
        self.data_format = data_format

    def forward(self, x: Any) -> Any:
        """The maxima."""
        return F.max_pool2d(
            x,
            self.ksize,
            self.stride,
            self.padding,
            self.return_mask,
            self.ceil_mode,
            self.data_format,
            self.name,
        )


class AdaptiveAvgPool1D(Layer):
    """Averages of `output_size` windows of [N, C, L]: `functional.adaptive_avg_pool1d` as a layer."""

    def __init__(self, output_size: int, name: str | None = None) -> None:
        super().__init__()
        self.output_size = output_size
        self.name = name

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The averages."""
        return F.adaptive_avg_pool1d(input, self.output_size, self.name)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2D(Layer):
    """Averages that make an image of `output_size`: `functional.adaptive_avg_pool2d` as a layer."""

    def __init__(self, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self._output_size = output_size
        self._data_format = data_format
        self._name = name

    def forward(self, x: Any) -> Any:
        """The averages."""
        return F.adaptive_avg_pool2d(x, self._output_size, self._data_format, self._name)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self._output_size}"


class AdaptiveMaxPool1D(Layer):
    """Maxima of `output_size` windows of [N, C, L]: `functional.adaptive_max_pool1d` as a layer."""

    def __init__(self, output_size: int, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_mask = return_mask
        self.name = name

    def forward(self, input: Any) -> Any:  # noqa: A002
        """The maxima."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_mask, self.name)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"output_size={self.output_size}, return_mask={self.return_mask}"


class AdaptiveMaxPool2D(Layer):
    """Maxima that make an image of `output_size`: `functional.adaptive_max_pool2d` as a layer."""

    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__()
        self._output_size = output_size
        self._return_mask = return_mask
        self._name = name

    def forward(self, x: Any) -> Any:
        """The maxima."""
        return F.adaptive_max_pool2d(x, self._output_size, self._return_mask, self._name)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"output_size={self._output_size}, return_mask={self._return_mask}"
