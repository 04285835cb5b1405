"""Layers on images: upsampling, padding, pixel shuffle."""

from __future__ import annotations

from typing import Any

from paddle._basics.checks import INTS
from paddle.nn import functional as F
from paddle.nn.layer.function_layer import UnaryFunctionLayer

__all__ = ["Upsample", "UpsamplingNearest2D", "UpsamplingBilinear2D", "Pad1D", "Pad2D", "Pad3D", "PixelShuffle"]


class _Resize(UnaryFunctionLayer):
    _function = staticmethod(F.interpolate)
    _prefix = ""

    def extra_repr(self) -> str:
        """The arguments; of size and scale_factor the one that is set."""
        other = "scale_factor" if self._arguments.get("scale_factor") is None else "size"
        shown = {k: v for k, v in self._arguments.items() if k != other and (k != "name" or v)}
        return ", ".join(f"{k}={v}" for k, v in shown.items())


class Upsample(_Resize):
    """`paddle.nn.functional.interpolate` as a layer, with its arguments.

    Examples:
        >>> import paddle
        >>> paddle.nn.Upsample(scale_factor=2, mode="bilinear")(paddle.ones([1, 3, 4, 4])).shape
        [1, 3, 8, 8]
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool = False,
        align_mode: int = 0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            size=size,
            scale_factor=scale_factor,
            mode=mode.lower(),
            align_corners=align_corners,
            align_mode=align_mode,
            data_format=data_format,
            name=name,
        )


class _Resize2D(_Resize):
    _fixed: dict[str, Any] = {}

    def __init__(
        self, size: Any = None, scale_factor: Any = None, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(size=size, scale_factor=scale_factor, data_format=data_format, name=name)

    def forward(self, x: Any) -> Any:
        """The resized images."""
        return self._function(x, **self._fixed, **self._arguments)


class UpsamplingNearest2D(_Resize2D):
    """Resizes images [N, C, H, W] by nearest neighbour; arguments of `paddle.nn.functional.interpolate`.

    Examples:
        >>> import paddle
        >>> paddle.nn.UpsamplingNearest2D(size=[6, 8])(paddle.ones([1, 3, 3, 4])).shape
        [1, 3, 6, 8]
    """

    _fixed = {"mode": "nearest", "align_corners": False, "align_mode": 0}


class UpsamplingBilinear2D(_Resize2D):
    """Resizes images [N, C, H, W] by bilinear interpolation with aligned corners; arguments of
    `paddle.nn.functional.interpolate`.

    Examples:
        >>> import paddle
        >>> paddle.nn.UpsamplingBilinear2D(size=[1, 3])(paddle.to_tensor([[[[1.0, 3.0]]]])).numpy().tolist()
        [[[[1.0, 2.0, 3.0]]]]
    """

    _fixed = {"mode": "bilinear", "align_corners": True, "align_mode": 0}


class _Pad(UnaryFunctionLayer):
    _function = staticmethod(F.pad)

    def __init__(self, padding: Any, mode: str, value: float, data_format: str, name: str | None) -> None:
        super().__init__(pad=padding, mode=mode, value=value, data_format=data_format, name=name)

    def extra_repr(self) -> str:
        """The arguments."""
        return super().extra_repr().replace("pad=", "padding=", 1)


class Pad1D(_Pad):
    """`paddle.nn.functional.pad` of [N, C, L] as a layer: `padding` is [left, right].

    Examples:
        >>> import paddle
        >>> paddle.nn.Pad1D([1, 2], mode="replicate")(paddle.to_tensor([[[1.0, 2.0]]])).numpy().tolist()
        [[[1.0, 1.0, 2.0, 2.0, 2.0]]]
    """

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format, name)


class Pad2D(_Pad):
    """`paddle.nn.functional.pad` of [N, C, H, W] as a layer: `padding` is [left, right, top, bottom].

    Examples:
        >>> import paddle
        >>> paddle.nn.Pad2D([1, 0, 0, 1], value=5.0)(paddle.ones([1, 1, 1, 2])).numpy().tolist()
        [[[[5.0, 1.0, 1.0], [5.0, 5.0, 5.0]]]]
    """

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format, name)


class Pad3D(_Pad):
    """`paddle.nn.functional.pad` of [N, C, D, H, W] as a layer: `padding` is [left, right, top, bottom, front, back].

    Examples:
        >>> import paddle
        >>> paddle.nn.Pad3D([1, 1, 0, 0, 2, 0])(paddle.ones([1, 1, 2, 2, 2])).shape
        [1, 1, 4, 2, 4]
    """

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format, name)


class PixelShuffle(UnaryFunctionLayer):
    """`paddle.nn.functional.pixel_shuffle` as a layer, with its arguments (checked in `__init__`).

    Examples:
        >>> import paddle
        >>> paddle.nn.PixelShuffle(3)(paddle.ones([2, 9, 4, 4])).shape
        [2, 1, 12, 12]
    """

    _function = staticmethod(F.pixel_shuffle)

    def __init__(self, upscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> None:
        if not isinstance(upscale_factor, INTS):
            raise TypeError(f"PixelShuffle: upscale_factor must be int type, got {type(upscale_factor)}")
        if data_format not in ("NCHW", "NHWC"):
            raise ValueError(f"PixelShuffle: data_format should be NCHW or NHWC, got {data_format!s:.200}")
        super().__init__(upscale_factor=upscale_factor, data_format=data_format, name=name)

    def extra_repr(self) -> str:
        """The main arguments."""
        shown = super().extra_repr()
        return shown.replace(", data_format=NCHW", "")
