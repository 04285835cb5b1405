"""`paddle.audio.functional.get_window` of Paddle 2.4 to 2.6: window functions, as scipy.signal.windows defines them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .audio_functional import constant

__all__: list[str] = []


def _general_cosine(n: int, weights: Any) -> np.ndarray:
    angles = np.linspace(-math.pi, math.pi, n)
    found = np.zeros(n)
    for k, weight in enumerate(weights):
        found += weight * np.cos(k * angles)
    return found


def _general_hamming(n: int, alpha: float) -> np.ndarray:
    return _general_cosine(n, [alpha, 1.0 - alpha])


def _centred(n: int) -> np.ndarray:
    return np.arange(n) - (n - 1) / 2.0


def _general_gaussian(n: int, p: float, sig: float) -> np.ndarray:
    return np.exp(-0.5 * np.abs(_centred(n) / sig) ** (2 * p))


def _exponential(n: int, center: float | None = None, tau: float = 1.0) -> np.ndarray:
    return np.exp(-np.abs(np.arange(n) - ((n - 1) / 2 if center is None else center)) / tau)


def _triang(n: int) -> np.ndarray:
    return 1.0 - 2.0 * np.abs(_centred(n)) / (n + n % 2)


def _bohman(n: int) -> np.ndarray:
    x = np.abs(np.linspace(-1, 1, n))
    found = (1 - x) * np.cos(math.pi * x) + np.sin(math.pi * x) / math.pi
    found[[0, -1]] = 0.0
    return found


def _tukey(n: int, alpha: float = 0.5) -> np.ndarray:
    if alpha <= 0:
        return np.ones(n)
    if alpha >= 1:
        return _general_hamming(n, 0.5)
    # Distance from the nearer end, in widths of the tapered part.
    near = np.minimum(np.arange(n), np.arange(n)[::-1]) * 2.0 / alpha / (n - 1)
    taper = 0.5 * (1 - np.cos(math.pi * near))
    return np.where(np.minimum(np.arange(n), np.arange(n)[::-1]) <= int(alpha * (n - 1) / 2.0), taper, 1.0)


def _taylor(n: int, nbar: int = 4, sll: float = 30, norm: bool = True) -> np.ndarray:
    """Sidelobes at -sll dB, of which nbar are constant (Carrara and Goodman, Spotlight Synthetic Aperture Radar)."""
    level = math.acosh(10 ** (sll / 20)) / math.pi
    dilation = nbar**2 / (level**2 + (nbar - 0.5) ** 2)
    orders = np.arange(1, nbar)
    factors = []
    for m in orders:
        above = np.prod(1 - m**2 / dilation / (level**2 + (orders - 0.5) ** 2))
        below = np.prod([1 - m**2 / k**2 for k in orders if k != m])
        factors.append((-1) ** (m + 1) * above / (2 * below))

    def window(at: Any) -> Any:
        return 1 + 2 * np.dot(factors, np.cos(2 * math.pi * orders[:, None] * (at - n / 2.0 + 0.5) / n))

    found = window(np.arange(n))
    return found / window(np.array([(n - 1) / 2])) if norm else found


#: Functions of a length above 1, and of parameters.
WINDOWS: dict[str, Callable[..., np.ndarray]] = {
    "blackman": lambda n: _general_cosine(n, [0.42, 0.50, 0.08]),
    "bohman": _bohman,
    "cosine": lambda n: np.sin(math.pi / n * (np.arange(n) + 0.5)),
    "exponential": _exponential,
    "gaussian": lambda n, std: np.exp(-(_centred(n) ** 2) / (2 * std * std)),
    "general_cosine": _general_cosine,
    "general_gaussian": _general_gaussian,
    "general_hamming": _general_hamming,
    "hamming": lambda n: _general_hamming(n, 0.54),
    "hann": lambda n: _general_hamming(n, 0.5),
    "kaiser": lambda n, beta: np.kaiser(n, beta),
    "taylor": _taylor,
    "triang": _triang,
    "tukey": _tukey,
}


def get_window(window, win_length, fftbins=True, dtype="float64"):
    """A window by its name.

    Args:
        window (str|tuple): "hamming", "hann", "blackman", "bohman", "cosine", "triang", "taylor", "tukey", or a tuple
            of a name and its parameters: ("gaussian", std), ("exponential", center, tau), ("kaiser", beta), ("tukey",
            alpha), ("taylor", nbar, sll, norm), ("general_cosine", weights), ("general_hamming", alpha),
            ("general_gaussian", p, sig).
        win_length (int): the number of samples.
        fftbins (bool): True for a periodic window, False for a symmetric one.
        dtype (str): "float32" or "float64".

    Returns:
        Tensor: shape [win_length].

    Raises:
        ValueError: for another window, missing parameters, a length that is no integer of at least 0.

    Examples:
        >>> import paddle
        >>> paddle.audio.functional.get_window("hann", 4).numpy().round(6).tolist()
        [0.0, 0.5, 1.0, 0.5]
    """
    name, parameters = (window[0], window[1:]) if isinstance(window, tuple) and window else (window, ())
    if not isinstance(name, str):
        raise ValueError(f"get_window: window must be a str or a tuple that begins with one, got {window!r}")
    if name not in WINDOWS:
        raise ValueError(f"get_window: unknown window {name!r}; known are {', '.join(WINDOWS)}")
    if name == "exponential" and not parameters:
        raise ValueError("get_window: 'exponential' needs parameters: pass a tuple (name, center, tau)")
    if int(win_length) != win_length or win_length < 0:
        raise ValueError(f"get_window: win_length must be an integer of at least 0, got {win_length!r}")
    if name == "exponential" and parameters[0] is not None and not fftbins:
        raise ValueError("get_window: center of 'exponential' must be None for a symmetric window")
    n = int(win_length)
    if n <= 1:
        return constant(np.ones(n, dtype))
    try:
        found = WINDOWS[name](n + 1 if fftbins else n, *parameters)
    except TypeError as error:
        raise ValueError(f"get_window: {name!r} does not fit the parameters {parameters}: {error}") from None
    return constant(found[:n].astype(dtype))
