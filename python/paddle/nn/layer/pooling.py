"""Pooling layers: each stores the arguments of its function."""

from __future__ import annotations

from typing import Any

from paddle.nn import functional as F
from paddle.nn.layer.function_layer import UnaryFunctionLayer

__all__ = [
    "AdaptiveAvgPool1D",
    "AdaptiveAvgPool2D",
    "AdaptiveAvgPool3D",
    "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D",
    "AdaptiveMaxPool3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
]


class _Pool(UnaryFunctionLayer):
    """Pooling with a kernel size."""

    _prefix = ""
    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, **arguments: Any) -> None:
        super().__init__(kernel_size=kernel_size, **arguments)
        self.ksize = kernel_size


class AvgPool1D(_Pool):
    """Average pooling of [N, C, L]; the arguments of `functional.avg_pool1d`."""

    _function = staticmethod(F.avg_pool1d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size, stride=stride, padding=padding, exclusive=exclusive, ceil_mode=ceil_mode, name=name
        )


class AvgPool2D(_Pool):
    """Average pooling of [N, C, H, W]; the arguments of `functional.avg_pool2d`.

    Examples:
        >>> import paddle
        >>> paddle.nn.AvgPool2D(2)(paddle.ones([1, 2, 4, 4])).shape
        [1, 2, 2, 2]
    """

    _function = staticmethod(F.avg_pool2d)

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
        super().__init__(
            kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            exclusive=exclusive,
            divisor_override=divisor_override,
            data_format=data_format,
            name=name,
        )
        self.divisor = divisor_override


class AvgPool3D(_Pool):
    """Average pooling of [N, C, D, H, W]; the arguments of `functional.avg_pool3d`.

    Examples:
        >>> import paddle
        >>> paddle.nn.AvgPool3D(2)(paddle.ones([1, 2, 4, 4, 6])).shape
        [1, 2, 2, 2, 3]
    """

    _function = staticmethod(F.avg_pool3d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            exclusive=exclusive,
            divisor_override=divisor_override,
            data_format=data_format,
            name=name,
        )
        self.divisor = divisor_override


class MaxPool1D(_Pool):
    """Max pooling of [N, C, L]; the arguments of `functional.max_pool1d`."""

    _function = staticmethod(F.max_pool1d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size, stride=stride, padding=padding, return_mask=return_mask, ceil_mode=ceil_mode, name=name
        )

    def forward(self, input: Any) -> Any:  # type: ignore[override]  # noqa: A002
        """The pooled input."""
        return self._function(input, **self._arguments)


class MaxPool2D(_Pool):
    """Max pooling of [N, C, H, W]; the arguments of `functional.max_pool2d`.

    Examples:
        >>> import paddle
        >>> paddle.nn.MaxPool2D(3, 2, 1)(paddle.ones([1, 2, 5, 5])).shape
        [1, 2, 3, 3]
    """

    _function = staticmethod(F.max_pool2d)

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
        super().__init__(
            kernel_size,
            stride=stride,
            padding=padding,
            return_mask=return_mask,
            ceil_mode=ceil_mode,
            data_format=data_format,
            name=name,
        )


class MaxPool3D(_Pool):
    """Max pooling of [N, C, D, H, W]; the arguments of `functional.max_pool3d`.

    Examples:
        >>> import paddle
        >>> paddle.nn.MaxPool3D(2)(paddle.ones([1, 2, 4, 4, 6])).shape
        [1, 2, 2, 2, 3]
    """

    _function = staticmethod(F.max_pool3d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size,
            stride=stride,
            padding=padding,
            return_mask=return_mask,
            ceil_mode=ceil_mode,
            data_format=data_format,
            name=name,
        )


class AdaptiveAvgPool1D(UnaryFunctionLayer):
    """Average pooling of [N, C, L] to `output_size`: `functional.adaptive_avg_pool1d` as a layer."""

    _function = staticmethod(F.adaptive_avg_pool1d)
    _prefix = ""
    _shown = ("output_size", "return_mask")

    def __init__(self, output_size: int, name: str | None = None) -> None:
        super().__init__(output_size=output_size, name=name)

    def forward(self, input: Any) -> Any:  # type: ignore[override]  # noqa: A002
        """The pooled input."""
        return self._function(input, **self._arguments)


class AdaptiveAvgPool2D(UnaryFunctionLayer):
    """Average pooling of images to `output_size`: `functional.adaptive_avg_pool2d` as a layer."""

    _function = staticmethod(F.adaptive_avg_pool2d)
    _shown = ("output_size", "return_mask")

    def __init__(self, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(output_size=output_size, data_format=data_format, name=name)


class AdaptiveAvgPool3D(UnaryFunctionLayer):
    """Average pooling of volumes to `output_size`: `functional.adaptive_avg_pool3d` as a layer."""

    _function = staticmethod(F.adaptive_avg_pool3d)
    _shown = ("output_size", "return_mask")

    def __init__(self, output_size: Any, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__(output_size=output_size, data_format=data_format, name=name)


class AdaptiveMaxPool1D(UnaryFunctionLayer):
    """Max pooling of [N, C, L] to `output_size`: `functional.adaptive_max_pool1d` as a layer."""

    _function = staticmethod(F.adaptive_max_pool1d)
    _prefix = ""
    _shown = ("output_size", "return_mask")

    def __init__(self, output_size: int, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__(output_size=output_size, return_mask=return_mask, name=name)

    def forward(self, input: Any) -> Any:  # type: ignore[override]  # noqa: A002
        """The pooled input."""
        return self._function(input, **self._arguments)


class AdaptiveMaxPool2D(UnaryFunctionLayer):
    """Max pooling of images to `output_size`: `functional.adaptive_max_pool2d` as a layer."""

    _function = staticmethod(F.adaptive_max_pool2d)
    _shown = ("output_size", "return_mask")

    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__(output_size=output_size, return_mask=return_mask, name=name)


class AdaptiveMaxPool3D(UnaryFunctionLayer):
    """Max pooling of volumes to `output_size`: `functional.adaptive_max_pool3d` as a layer."""

    _function = staticmethod(F.adaptive_max_pool3d)
    _shown = ("output_size", "return_mask")

    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__(output_size=output_size, return_mask=return_mask, name=name)
