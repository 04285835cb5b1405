"""`paddle.fft` of Paddle 2.1 to 2.6.

Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/fft/Overview_en.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle
from paddle._basics.default_dtype import get_default_dtype
from paddle._basics.dtypes import convert_dtype

from .fourier import SWAPPED, complex_transform, one, pair, real_transform, to_real

__all__: list[str] = []


def fft(x, n=None, axis=-1, norm="backward", name=None):
    """The discrete Fourier transform.

    Args:
        x (Tensor): real or complex; integers count as the default type.
        n (int, optional): the number of points along the axis; `x` is cropped or padded with zeros.
        axis (int): the axis.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.fft(paddle.to_tensor([1.0, 0.0, 0.0, 0.0])).numpy().real.tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    return complex_transform("fft", x, one(n), [axis], norm, inverse=False)


def ifft(x, n=None, axis=-1, norm="backward", name=None):
    """The inverse discrete Fourier transform.

    Args:
        x (Tensor): real or complex; integers count as the default type.
        n (int, optional): the number of points along the axis; `x` is cropped or padded with zeros.
        axis (int): the axis.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.ifft(paddle.ones([4])).numpy().real.tolist()
        [1.0, 0.0, 0.0, 0.0]
    """
    return complex_transform("ifft", x, one(n), [axis], norm, inverse=True)


def rfft(x, n=None, axis=-1, norm="backward", name=None):
    """The Fourier transform of real numbers: the non-negative frequencies along the last axis.

    Args:
        x (Tensor): real; integers count as the default type.
        n (int, optional): the number of points along the axis; `x` is cropped or padded with zeros.
        axis (int): the axis.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for complex numbers.

    Examples:
        >>> import paddle
        >>> paddle.fft.rfft(paddle.ones([4])).numpy().real.tolist()
        [4.0, 0.0, 0.0]
    """
    return real_transform("rfft", x, one(n), [axis], norm)


def irfft(x, n=None, axis=-1, norm="backward", name=None):
    """The inverse of `rfft`: real numbers, 2 * (size - 1) along the last axis unless stated.

    Args:
        x (Tensor): the coefficients of the non-negative frequencies; real or complex.
        n (int, optional): the number of points along the axis; `x` is cropped or padded with zeros.
        axis (int): the axis.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.irfft(paddle.to_tensor([4.0, 0.0, 0.0])).numpy().tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    return to_real("irfft", x, one(n), [axis], norm)


def hfft(x, n=None, axis=-1, norm="backward", name=None):
    """The Fourier transform of a Hermitian signal, given by its non-negative half: real numbers.

    Args:
        x (Tensor): the coefficients of the non-negative frequencies; real or complex.
        n (int, optional): the number of points along the axis; `x` is cropped or padded with zeros.
        axis (int): the axis.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.hfft(paddle.to_tensor([1.0, 0.0, 0.0])).numpy().tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    return to_real("hfft", paddle.conj(x) if paddle.is_complex(x) else x, one(n), [axis], SWAPPED.get(norm, norm))


def ihfft(x, n=None, axis=-1, norm="backward", name=None):
    """The inverse of `hfft`: the non-negative half of the Hermitian signal.

    Args:
        x (Tensor): real; integers count as the default type.
        n (int, optional): the number of points along the axis; `x` is cropped or padded with zeros.
        axis (int): the axis.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for complex numbers.

    Examples:
        >>> import paddle
        >>> paddle.fft.ihfft(paddle.ones([4])).numpy().real.tolist()
        [1.0, 0.0, 0.0]
    """
    return paddle.conj(real_transform("ihfft", x, one(n), [axis], SWAPPED.get(norm, norm)))


def fft2(x, s=None, axes=(-2, -1), norm="backward", name=None):
    """The discrete Fourier transform, over two axes.

    Args:
        x (Tensor): real or complex; integers count as the default type.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.fft2(paddle.ones([4, 4])).shape
        [4, 4]
    """
    pair("fft2", x, s, axes)
    return complex_transform("fft2", x, s, axes, norm, inverse=False)


def ifft2(x, s=None, axes=(-2, -1), norm="backward", name=None):
    """The inverse discrete Fourier transform, over two axes.

    Args:
        x (Tensor): real or complex; integers count as the default type.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.ifft2(paddle.ones([4, 4])).shape
        [4, 4]
    """
    pair("ifft2", x, s, axes)
    return complex_transform("ifft2", x, s, axes, norm, inverse=True)


def rfft2(x, s=None, axes=(-2, -1), norm="backward", name=None):
    """The Fourier transform of real numbers: the non-negative frequencies along the last axis, over two axes.

    Args:
        x (Tensor): real; integers count as the default type.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for complex numbers.

    Examples:
        >>> import paddle
        >>> paddle.fft.rfft2(paddle.ones([4, 4])).shape
        [4, 3]
    """
    pair("rfft2", x, s, axes)
    return real_transform("rfft2", x, s, axes, norm)


def irfft2(x, s=None, axes=(-2, -1), norm="backward", name=None):
    """The inverse of `rfft2`: real numbers, 2 * (size - 1) along the last axis unless stated, over two axes.

    Args:
        x (Tensor): the coefficients of the non-negative frequencies; real or complex.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.irfft2(paddle.ones([4, 4])).shape
        [4, 6]
    """
    pair("irfft2", x, s, axes)
    return to_real("irfft2", x, s, axes, norm)


def hfft2(x, s=None, axes=(-2, -1), norm="backward", name=None):
    """The Fourier transform of a Hermitian signal, given by its non-negative half: real numbers, over two axes.

    Args:
        x (Tensor): the coefficients of the non-negative frequencies; real or complex.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.hfft2(paddle.ones([4, 4])).shape
        [4, 6]
    """
    pair("hfft2", x, s, axes)
    return to_real("hfft2", paddle.conj(x) if paddle.is_complex(x) else x, s, axes, SWAPPED.get(norm, norm))


def ihfft2(x, s=None, axes=(-2, -1), norm="backward", name=None):
    """The inverse of `hfft2`: the non-negative half of the Hermitian signal, over two axes.

    Args:
        x (Tensor): real; integers count as the default type.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for complex numbers.

    Examples:
        >>> import paddle
        >>> paddle.fft.ihfft2(paddle.ones([4, 4])).shape
        [4, 3]
    """
    pair("ihfft2", x, s, axes)
    return paddle.conj(real_transform("ihfft2", x, s, axes, SWAPPED.get(norm, norm)))


def fftn(x, s=None, axes=None, norm="backward", name=None):
    """The discrete Fourier transform (several axes).

    Args:
        x (Tensor): real or complex; integers count as the default type.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple, optional): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.fftn(paddle.ones([4, 4])).shape
        [4, 4]
    """
    return complex_transform("fftn", x, s, axes, norm, inverse=False)


def ifftn(x, s=None, axes=None, norm="backward", name=None):
    """The inverse discrete Fourier transform (several axes).

    Args:
        x (Tensor): real or complex; integers count as the default type.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple, optional): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.ifftn(paddle.ones([4, 4])).shape
        [4, 4]
    """
    return complex_transform("ifftn", x, s, axes, norm, inverse=True)


def rfftn(x, s=None, axes=None, norm="backward", name=None):
    """The Fourier transform of real numbers: the non-negative frequencies along the last axis (several axes).

    Args:
        x (Tensor): real; integers count as the default type.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple, optional): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for complex numbers.

    Examples:
        >>> import paddle
        >>> paddle.fft.rfftn(paddle.ones([4, 4])).shape
        [4, 3]
    """
    return real_transform("rfftn", x, s, axes, norm)


def irfftn(x, s=None, axes=None, norm="backward", name=None):
    """The inverse of `rfftn`: real numbers, 2 * (size - 1) along the last axis unless stated (several axes).

    Args:
        x (Tensor): the coefficients of the non-negative frequencies; real or complex.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple, optional): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.irfftn(paddle.ones([4, 4])).shape
        [4, 6]
    """
    return to_real("irfftn", x, s, axes, norm)


def hfftn(x, s=None, axes=None, norm="backward", name=None):
    """The Fourier transform of a Hermitian signal, given by its non-negative half: real numbers (several axes).

    Args:
        x (Tensor): the coefficients of the non-negative frequencies; real or complex.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple, optional): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for float16.

    Examples:
        >>> import paddle
        >>> paddle.fft.hfftn(paddle.ones([4, 4])).shape
        [4, 6]
    """
    return to_real("hfftn", paddle.conj(x) if paddle.is_complex(x) else x, s, axes, SWAPPED.get(norm, norm))


def ihfftn(x, s=None, axes=None, norm="backward", name=None):
    """The inverse of `hfftn`: the non-negative half of the Hermitian signal (several axes).

    Args:
        x (Tensor): real; integers count as the default type.
        s (list, optional): the numbers of points along the axes; `x` is cropped or padded with zeros.
        axes (tuple, optional): the axes; the last one is transformed first.
        norm (str): "backward" divides the inverse by the number of points, "forward" the transform, "ortho" both by its
            square root.
        name (str, optional): ignored.

    Raises:
        ValueError: for another norm, sizes below 1, axes that are out of range or repeated.
        TypeError: for complex numbers.

    Examples:
        >>> import paddle
        >>> paddle.fft.ihfftn(paddle.ones([4, 4])).shape
        [4, 3]
    """
    return paddle.conj(real_transform("ihfftn", x, s, axes, SWAPPED.get(norm, norm)))


def _frequencies(function: str, values: Any, n: int, d: float, dtype: Any) -> Any:
    if d * n == 0:
        raise ValueError(f"{function}: n and d must not be 0, got {n} and {d}")
    return paddle.to_tensor(values(n, d).astype(convert_dtype(dtype or get_default_dtype())))


def fftfreq(n, d=1.0, dtype=None, name=None):
    """The frequencies of the coefficients of `fft`: 0, 1, ..., -2, -1, divided by n * d.

    Args:
        n (int): the number of points.
        d (float): the distance of two samples.
        dtype (str, optional): by default the default type.

    Raises:
        ValueError: if `n` or `d` is 0.

    Examples:
        >>> import paddle
        >>> paddle.fft.fftfreq(4).numpy().tolist()
        [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype)


def rfftfreq(n, d=1.0, dtype=None, name=None):
    """The frequencies of the coefficients of `rfft`: 0, 1, ..., n // 2, divided by n * d.

    Args:
        n (int): the number of points.
        d (float): the distance of two samples.
        dtype (str, optional): by default the default type.

    Raises:
        ValueError: if `n` or `d` is 0.

    Examples:
        >>> import paddle
        >>> paddle.fft.rfftfreq(4).numpy().tolist()
        [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype)


def _shifted(x: Any, axes: Any, forward: bool) -> Any:
    rank = len(x.shape)
    axes = list(range(rank)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    shifts = [x.shape[a] // 2 if forward else -(x.shape[a] // 2) for a in axes]
    return paddle.roll(x, shifts, axes)


def fftshift(x, axes=None, name=None):
    """Moves the frequency 0 to the middle.

    Args:
        x (Tensor): coefficients in the order of `fft`.
        axes (int|tuple, optional): by default all axes.

    Examples:
        >>> import paddle
        >>> paddle.fft.fftshift(paddle.fft.fftfreq(4)).numpy().tolist()
        [-0.5, -0.25, 0.0, 0.25]
    """
    return _shifted(x, axes, True)


def ifftshift(x, axes=None, name=None):
    """The inverse of `fftshift`.

    Args:
        x (Tensor): coefficients with the frequency 0 in the middle.
        axes (int|tuple, optional): by default all axes.

    Examples:
        >>> import paddle
        >>> paddle.fft.ifftshift(paddle.to_tensor([-1.0, 0.0, 1.0])).numpy().tolist()
        [0.0, 1.0, -1.0]
    """
    return _shifted(x, axes, False)
