"""`paddle.audio.functional` of Paddle 2.4 to 2.6: mel scales, filter banks, decibels, cosine transforms.

Constants are computed in float64 and rounded once to the requested type.
Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/audio/Overview_en.html
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import paddle
from paddle._basics.mode import in_static_mode

__all__: list[str] = []

# Slaney's scale: linear below 1000 Hz, 200/3 Hz a mel, and logarithmic above, 27 mels for a factor of 6.4.
_LINEAR = 200.0 / 3
_BREAK_HZ = 1000.0
_BREAK_MEL = _BREAK_HZ / _LINEAR
_STEP = math.log(6.4) / 27.0
_TINY = 1e-10


def constant(values: np.ndarray) -> Any:
    """The values as a Tensor, or as a variable of the Program."""
    if not in_static_mode():
        return paddle.to_tensor(values)
    if values.dtype != np.float64:
        return paddle.assign(values)
    # assign has no float64: a sum of two float32 numbers has 48 bits.
    high = values.astype("float32")
    parts = [paddle.cast(paddle.assign(part), "float64") for part in (high, (values - high).astype("float32"))]
    return parts[0] + parts[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number))


def _split(x: Any, edge: float, below: Any, above: Any) -> Any:
    """`below` where x is at most the edge, else `above`."""
    mask = paddle.cast(x > edge, x.dtype)
    return above * mask + below * (1.0 - mask)


def hz_to_mel(freq, htk=False):
    """Frequencies in mels, on Slaney's scale or HTK's.

    Args:
        freq (Tensor|float): in Hz, any shape.
        htk (bool): whether the scale is `2595 * log10(1 + freq / 700)`.

    Returns:
        Tensor|float: as `freq`.

    Examples:
        >>> import paddle
        >>> paddle.audio.functional.hz_to_mel(200.0)
        3.0
    """
    if htk:
        return 2595.0 * (math.log10(1.0 + freq / 700.0) if _is_number(freq) else paddle.log10(1.0 + freq / 700.0))
    if not _is_number(freq):
        above = _BREAK_MEL + paddle.log(freq / _BREAK_HZ + _TINY) / _STEP
        return _split(freq, _BREAK_HZ, freq / _LINEAR, above)
    return freq / _LINEAR if freq < _BREAK_HZ else _BREAK_MEL + math.log(freq / _BREAK_HZ + _TINY) / _STEP


def mel_to_hz(mel, htk=False):
    """Frequencies in Hz: the inverse of `hz_to_mel`.

    Args:
        mel (Tensor|float): any shape.
        htk (bool): whether the scale is HTK's.

    Returns:
        Tensor|float: as `mel`.

    Examples:
        >>> import paddle
        >>> paddle.audio.functional.mel_to_hz(3.0)
        200.0
    """
    if htk:
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    if not _is_number(mel):
        return _split(mel, _BREAK_MEL, _LINEAR * mel, _BREAK_HZ * paddle.exp(_STEP * (mel - _BREAK_MEL)))
    return _LINEAR * mel if mel < _BREAK_MEL else _BREAK_HZ * math.exp(_STEP * (mel - _BREAK_MEL))


def _mel_frequencies(n_mels: int, f_min: float, f_max: float, htk: bool) -> np.ndarray:
    mels = np.linspace(hz_to_mel(float(f_min), htk), hz_to_mel(float(f_max), htk), n_mels)
    return np.array([mel_to_hz(mel, htk) for mel in mels])


def mel_frequencies(n_mels=64, f_min=0.0, f_max=11025.0, htk=False, dtype="float32"):
    """Frequencies that are evenly spaced in mels.

    Args:
        n_mels (int): their number.
        f_min (float): the first one, in Hz.
        f_max (float): the last one, in Hz.
        htk (bool): whether the scale is HTK's.
        dtype (str): "float32" or "float64".

    Returns:
        Tensor: shape [n_mels], in Hz.

    Examples:
        >>> import paddle
        >>> paddle.audio.functional.mel_frequencies(3, 0.0, 400.0).tolist()
        [0.0, 200.0, 400.0]
    """
    return constant(_mel_frequencies(n_mels, f_min, f_max, htk).astype(dtype))


def fft_frequencies(sr, n_fft, dtype="float32"):
    """The frequencies of a one-sided Fourier transform.

    Args:
        sr (int): samples a second.
        n_fft (int): samples of a frame.
        dtype (str): "float32" or "float64".

    Returns:
        Tensor: shape [n_fft // 2 + 1], from 0 to `sr / 2` Hz.

    Examples:
        >>> import paddle
        >>> paddle.audio.functional.fft_frequencies(8, 4).tolist()
        [0.0, 2.0, 4.0]
    """
    return constant(np.linspace(0, sr / 2, 1 + n_fft // 2).astype(dtype))


def compute_fbank_matrix(sr, n_fft, n_mels=64, f_min=0.0, f_max=None, htk=False, norm="slaney", dtype="float32"):
    """The filters that take a spectrum to mels: triangles, each from the centre before it to the one after it.

    Args:
        sr (int): samples a second.
        n_fft (int): samples of a frame.
        n_mels (int): the number of filters.
        f_min (float): where the first one starts, in Hz.
        f_max (float, optional): where the last one ends; `sr / 2` by default.
        htk (bool): whether the scale is HTK's.
        norm (str|float|None): "slaney" gives each filter an area of 1 Hz, a number p divides it by its p-norm.
        dtype (str): "float32" or "float64".

    Returns:
        Tensor: shape [n_mels, n_fft // 2 + 1].

    Raises:
        ValueError: for another `norm`.

    Examples:
        >>> import paddle
        >>> paddle.audio.functional.compute_fbank_matrix(16000, 512).shape
        [64, 257]
    """
    if not (norm is None or norm == "slaney" or _is_number(norm)):
        raise ValueError(f"compute_fbank_matrix: norm must be 'slaney', a number or None, got {norm!r}")
    bins = np.linspace(0, sr / 2, 1 + n_fft // 2)
    edges = _mel_frequencies(n_mels + 2, f_min, sr / 2 if f_max is None else f_max, htk)
    width, distance = np.diff(edges)[:, None], edges[:, None] - bins
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.maximum(0, np.minimum(-distance[:-2] / width[:-1], distance[2:] / width[1:]))
    if norm == "slaney":
        weights *= 2.0 / (edges[2:] - edges[:-2])[:, None]
    elif norm is not None:
        weights /= np.maximum(np.linalg.norm(weights, norm, axis=1, keepdims=True), 1e-12)
    return constant(weights.astype(dtype))


def power_to_db(spect, ref_value=1.0, amin=1e-10, top_db=80.0):
    """A power spectrum in decibels, `10 * log10(spect / ref_value)`.

    Args:
        spect (Tensor): powers, any shape.
        ref_value (float): the power of 0 dB, above 0.
        amin (float): smaller powers count as this, above 0.
        top_db (float, optional): the result is at most this far below its maximum.

    Returns:
        Tensor: shape of `spect`.

    Raises:
        ValueError: for arguments out of range.

    Examples:
        >>> import paddle
        >>> paddle.audio.functional.power_to_db(paddle.to_tensor([1.0, 100.0])).tolist()
        [0.0, 20.0]
    """
    for name, value in (("amin", amin), ("ref_value", ref_value)):
        if value <= 0:
            raise ValueError(f"power_to_db: {name} must be strictly positive, got {value!r}")
    if top_db is not None and top_db < 0:
        raise ValueError(f"power_to_db: top_db must be non-negative, got {top_db!r}")
    spect = spect if not _is_number(spect) else paddle.to_tensor(float(spect))
    ones = paddle.ones_like(spect)
    found = 10.0 * paddle.log10(paddle.maximum(spect, ones * amin)) - 10.0 * math.log10(max(amin, ref_value))
    return found if top_db is None else paddle.maximum(found, ones * (paddle.max(found) - top_db))


def create_dct(n_mfcc, n_mels, norm="ortho", dtype="float32"):
    """The matrix of a discrete cosine transform, type II.

    Args:
        n_mfcc (int): the number of coefficients.
        n_mels (int): the number of values that are transformed.
        norm (str, optional): "ortho" for orthonormal columns; None for twice the cosines.
        dtype (str): "float32" or "float64".

    Returns:
        Tensor: shape [n_mels, n_mfcc].

    Raises:
        ValueError: for another `norm`.

    Examples:
        >>> import paddle
        >>> paddle.audio.functional.create_dct(2, 4).shape
        [4, 2]
    """
    if norm not in (None, "ortho"):
        raise ValueError(f"create_dct: norm must be 'ortho' or None, got {norm!r}")
    found = np.cos(math.pi / n_mels * (np.arange(n_mels)[:, None] + 0.5) * np.arange(n_mfcc))
    if norm is None:
        found *= 2.0
    else:
        found[:, 0] *= math.sqrt(0.5)
        found *= math.sqrt(2.0 / n_mels)
    return constant(found.astype(dtype))
