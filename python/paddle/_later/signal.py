"""`paddle.signal` of Paddle 2.1 to 2.6: frames of a signal, and the short-time Fourier transform.

Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/signal/Overview_en.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle
from paddle._basics.dtypes import convert_dtype
from paddle._basics.mode import in_static_mode

from .host import Host, call

__all__: list[str] = []


def _indices(n: int, frame_length: int, hop_length: int, pad: int, pad_mode: str) -> np.ndarray:
    """For each place of each frame, [frame_length, frames], the sample there; -1 for a padded zero."""
    samples = np.pad(np.arange(n), pad, **({"mode": "reflect"} if pad_mode == "reflect" else {"constant_values": -1}))
    return np.lib.stride_tricks.sliding_window_view(samples, frame_length)[::hop_length].T


def _frames(x: np.ndarray, **attributes: Any) -> list:
    at = _indices(x.shape[-1], **attributes)
    return [np.where(at >= 0, x[..., at], 0)]


def _frames_grad(inputs: list, _outputs: list, grads: list, **attributes: Any) -> list:
    at = _indices(inputs[0].shape[-1], **attributes)
    flat = grads[0].reshape(-1, *at.shape)
    found = np.zeros((len(flat), inputs[0].shape[-1]), flat.dtype)
    for total, grad in zip(found, flat, strict=True):
        np.add.at(total, at[at >= 0], grad[at >= 0])
    return [found.reshape(inputs[0].shape)]


def _overlap(x: np.ndarray, hop_length: int) -> list:
    length, count = x.shape[-2:]
    out = np.zeros((*x.shape[:-2], (count - 1) * hop_length + length), x.dtype)
    for i in range(count):
        out[..., i * hop_length : i * hop_length + length] += x[..., i]
    return [out]


def _overlap_grad(inputs: list, _outputs: list, grads: list, hop_length: int) -> list:
    at = _indices(grads[0].shape[-1], inputs[0].shape[-2], hop_length, 0, "constant")
    return [grads[0][..., at]]


_FRAMES = Host("frame", _frames, _frames_grad)
_OVERLAP = Host("overlap_add", _overlap, _overlap_grad)


def _size(name: str, argument: str, value: Any) -> int:
    if not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name}: {argument} must be a positive integer, got {value!r}")
    return int(value)


def _framed(name: str, x: Any, length: int, hop: int, pad: int = 0, pad_mode: str = "constant") -> Any:
    n = x.shape[-1]
    if n >= 0 and n + 2 * pad < length:
        raise ValueError(
            f"{name}: a frame has {length} samples, but x, of shape {list(x.shape)}, has only {n + 2 * pad}"
        )
    if pad_mode == "reflect" and 0 <= n <= pad:
        raise ValueError(f"{name}: pad_mode 'reflect' by {pad} needs more than {pad} samples, x has {n}")
    count = -1 if n < 0 else (n + 2 * pad - length) // hop + 1
    attributes = {"frame_length": length, "hop_length": hop, "pad": pad, "pad_mode": pad_mode}
    return call(_FRAMES, [x], [([*x.shape[:-1], length, count], convert_dtype(x.dtype))], **attributes)[0]


def _overlapped(x: Any, hop: int) -> Any:
    length, count = x.shape[-2:]
    total = -1 if min(length, count) < 0 else (count - 1) * hop + length
    return call(_OVERLAP, [x], [([*x.shape[:-2], total], convert_dtype(x.dtype))], hop_length=hop)[0]


def _moved(x: Any, sources: tuple[int, ...], targets: tuple[int, ...]) -> Any:
    rank = len(x.shape)
    order = [i for i in range(rank) if i not in {s % rank for s in sources}]
    for target, source in sorted((t % rank, s % rank) for s, t in zip(sources, targets, strict=True)):
        order.insert(target, source)
    return paddle.transpose(x, order)


def frame(x, frame_length, hop_length, axis=-1, name=None):
    """Cuts a signal into frames that overlap.

    Args:
        x (Tensor): shape [..., samples] for `axis=-1`, [samples, ...] for `axis=0`.
        frame_length (int): samples of a frame.
        hop_length (int): samples from the start of a frame to that of the next one.
        axis (int): -1 or 0, the axis of the samples.
        name (str, optional): ignored.

    Returns:
        Tensor: shape [..., frame_length, frames], or [frames, frame_length, ...] for `axis=0`.

    Raises:
        ValueError: for sizes below 1, more samples in a frame than x has, another axis.

    Examples:
        >>> import paddle
        >>> paddle.signal.frame(paddle.arange(6), frame_length=4, hop_length=2).tolist()
        [[0, 2], [1, 3], [2, 4], [3, 5]]
    """
    length, hop = _size("frame", "frame_length", frame_length), _size("frame", "hop_length", hop_length)
    if axis not in (0, -1):
        raise ValueError(f"frame: axis must be 0 or -1, got {axis!r}")
    if axis == -1:
        return _framed("frame", x, length, hop)
    framed = _framed("frame", _moved(x, (0,), (-1,)), length, hop)
    return _moved(framed, (-1, -2), (0, 1))


def overlap_add(x, hop_length, axis=-1, name=None):
    """Adds up frames that overlap: the adjoint of `frame`.

    Args:
        x (Tensor): shape [..., frame_length, frames] for `axis=-1`, [frames, frame_length, ...] for `axis=0`.
        hop_length (int): samples from the start of a frame to that of the next one.
        axis (int): -1 or 0.
        name (str, optional): ignored.

    Returns:
        Tensor: shape [..., samples], or [samples, ...] for `axis=0`; samples is
            (frames - 1) * hop_length + frame_length.

    Raises:
        ValueError: for a hop below 1, another axis, less than two dimensions.

    Examples:
        >>> import paddle
        >>> paddle.signal.overlap_add(paddle.ones([4, 2]), hop_length=2).tolist()
        [1.0, 1.0, 2.0, 2.0, 1.0, 1.0]
    """
    hop = _size("overlap_add", "hop_length", hop_length)
    if axis not in (0, -1):
        raise ValueError(f"overlap_add: axis must be 0 or -1, got {axis!r}")
    if len(x.shape) < 2:
        raise ValueError(f"overlap_add: x must have two dimensions or more, got shape {list(x.shape)}")
    if axis == -1:
        return _overlapped(x, hop)
    return _moved(_overlapped(_moved(x, (0, 1), (-1, -2)), hop), (-1,), (0,))


def _window(name: str, window: Any, n_fft: int, win_length: int, dtype: str) -> Any:
    """The window, of `n_fft` values: that of `win_length` values in the middle of zeros."""
    if window is None:
        window = paddle.ones([win_length], dtype)
    elif list(window.shape) != [win_length]:
        raise ValueError(f"{name}: window must have the shape [{win_length}] of win_length, got {list(window.shape)}")
    missing = n_fft - win_length
    if not missing:
        return window
    kind = convert_dtype(window.dtype)
    sides = [paddle.zeros([n], kind) for n in (missing // 2, missing - missing // 2)]
    return paddle.concat([part for part in (sides[0], window, sides[1]) if part.shape[0]])


def _lengths(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    n_fft = _size(name, "n_fft", n_fft)
    hop = _size(name, "hop_length", n_fft // 4 if hop_length is None else hop_length)
    win = _size(name, "win_length", n_fft if win_length is None else win_length)
    if win > n_fft:
        raise ValueError(f"{name}: win_length must be at most n_fft ({n_fft}), got {win}")
    return n_fft, hop, win


def stft(
    x,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=True,
    name=None,
):
    """The short-time Fourier transform: the transforms of windowed frames.

    Args:
        x (Tensor): shape [samples] or [batch, samples]; float32, float64 or complex.
        n_fft (int): samples of a frame.
        hop_length (int, optional): samples from frame to frame; a quarter of `n_fft` by default.
        win_length (int, optional): length of the window, at most `n_fft`, its default.
        window (Tensor, optional): shape [win_length]; ones by default.
        center (bool): whether frame t has sample `t * hop_length` in its middle: both ends are padded.
        pad_mode (str): "reflect" or "constant" (zeros).
        normalized (bool): whether the transform is divided by the square root of `n_fft`.
        onesided (bool): whether negative frequencies are left out; False for complex `x`.
        name (str, optional): ignored.

    Returns:
        Tensor: complex, shape [..., n_fft // 2 + 1 (or n_fft), frames].

    Raises:
        ValueError: for sizes that do not fit, another pad_mode, `onesided=True` for complex numbers, integers with a
            window.

    Examples:
        >>> import paddle
        >>> paddle.signal.stft(paddle.ones([16]), n_fft=8).shape
        [5, 9]
    """
    if len(x.shape) not in (1, 2):
        raise ValueError(f"stft: x must have one or two dimensions, got shape {list(x.shape)}")
    n_fft, hop, win = _lengths("stft", n_fft, hop_length, win_length)
    if pad_mode not in ("reflect", "constant"):
        raise ValueError(f"stft: pad_mode must be 'reflect' or 'constant', got {pad_mode!r}")
    complex_x = paddle.is_complex(x)
    if complex_x and onesided:
        raise ValueError("stft: onesided must be False for complex numbers")
    real = convert_dtype(x.dtype).replace("complex64", "float32").replace("complex128", "float64")
    if window is not None and not complex_x and not paddle.is_floating_point(x):
        raise ValueError(f"stft: x must be floating-point or complex where a window is given, got {real}")
    weights = _window("stft", window, n_fft, win, real)
    frames = _framed("stft", x, n_fft, hop, n_fft // 2 if center else 0, pad_mode)
    frames = frames * paddle.unsqueeze(weights, [1])
    norm = "ortho" if normalized else "backward"
    return (paddle.fft.rfft if onesided else paddle.fft.fft)(frames, axis=-2, norm=norm)


def istft(
    x,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=True,
    length=None,
    return_complex=False,
    name=None,
):
    """The inverse of `stft`: overlapping inverse transforms, divided by the sum of the squared windows.

    Args:
        x (Tensor): complex, shape [..., n_fft // 2 + 1 (or n_fft), frames], with at most one more dimension.
        n_fft, hop_length, win_length, window, center, normalized, onesided: as in `stft`.
        length (int, optional): samples of the result; by default those that all frames cover.
        return_complex (bool): whether the result is complex; needs `onesided=False`.
        name (str, optional): ignored.

    Returns:
        Tensor: shape [samples] or [batch, samples].

    Raises:
        ValueError: for sizes that do not fit, and windows whose squares add up to zero somewhere.

    Examples:
        >>> import paddle
        >>> x = paddle.arange(16, dtype="float32")
        >>> paddle.signal.istft(paddle.signal.stft(x, n_fft=8), n_fft=8).numpy().round(3).tolist() == x.tolist()
        True
    """
    if len(x.shape) not in (2, 3):
        raise ValueError(f"istft: x must have two or three dimensions, got shape {list(x.shape)}")
    n_fft, hop, win = _lengths("istft", n_fft, hop_length, win_length)
    rows, count = n_fft // 2 + 1 if onesided else n_fft, x.shape[-1]
    if x.shape[-2] != rows:
        raise ValueError(
            f"istft: x must have {rows} frequencies (n_fft {n_fft}, onesided {onesided}), got {x.shape[-2]}"
        )
    if return_complex and onesided:
        raise ValueError("istft: onesided must be False where return_complex is True")
    if count < 1:
        raise ValueError("istft: the number of frames must be known, got -1")
    real = "float64" if convert_dtype(x.dtype) in ("complex128", "float64") else "float32"
    weights = paddle.unsqueeze(_window("istft", window, n_fft, win, real), [1])
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = paddle.fft.ifft(x, axis=-2, norm=norm)
    else:
        half = x if onesided else _first(x, n_fft // 2 + 1)
        frames = paddle.fft.irfft(half, n=n_fft, axis=-2, norm=norm)
    out = _overlapped(frames * weights, hop)
    envelope = _overlapped(paddle.tile(weights * weights, [1, count]), hop)
    start, total = n_fft // 2 if center else 0, (count - 1) * hop + n_fft
    stop = total - start if length is None else min(start + _size("istft", "length", length), total)
    out, envelope = _samples(out, start, stop), _samples(envelope, start, stop)
    if not in_static_mode() and float(paddle.min(paddle.abs(envelope))) < 1e-11:
        raise ValueError(
            "istft: the squared windows add up to zero at some samples: window, hop_length and center leave gaps"
        )
    return out / envelope


def _first(x: Any, rows: int) -> Any:
    return x[:rows] if len(x.shape) == 2 else x[:, :rows]


def _samples(x: Any, start: int, stop: int) -> Any:
    return x[start:stop] if len(x.shape) == 1 else x[:, start:stop]
