"""`paddle.audio.features` of Paddle 2.4 to 2.6: layers that compute spectra of waveforms."""

from __future__ import annotations

from typing import Any

import paddle
import paddle._ops as _ops
from paddle import nn

from .audio_functional import compute_fbank_matrix, create_dct, power_to_db
from .audio_windows import get_window

__all__: list[str] = []


class Spectrogram(nn.Layer):
    """Magnitudes of the short-time Fourier transform, to a power.

    Args:
        n_fft (int): samples of a frame.
        hop_length (int, optional): samples from frame to frame; a quarter of `n_fft` by default for None.
        win_length (int, optional): length of the window, `n_fft` by default.
        window (str|tuple): see `paddle.audio.functional.get_window`.
        power (float): the exponent, above 0.
        center (bool): whether frame t has sample `t * hop_length` in its middle.
        pad_mode (str): "reflect" or "constant".
        dtype (str): type of the window.

    Shape:
        input [batch, samples], output [batch, n_fft // 2 + 1, frames].

    Raises:
        ValueError: for a power that is not positive, and as `get_window` and `paddle.signal.stft`.

    Examples:
        >>> import paddle
        >>> paddle.audio.features.Spectrogram(n_fft=64, hop_length=32)(paddle.ones([2, 320])).shape
        [2, 33, 11]
    """

    def __init__(
        self,
        n_fft=512,
        hop_length=512,
        win_length=None,
        window="hann",
        power=1.0,
        center=True,
        pad_mode="reflect",
        dtype="float32",
    ):
        super().__init__()
        if not power > 0:
            raise ValueError(f"Spectrogram: power must be positive, got {power!r}")
        self.power = power
        length = n_fft if win_length is None else win_length
        self._settings = {
            "n_fft": n_fft,
            "hop_length": hop_length,
            "win_length": length,
            "center": center,
            "pad_mode": pad_mode,
        }
        _constant(self, "fft_window", get_window(window, length, fftbins=True, dtype=dtype))

    def forward(self, x):
        """The spectrogram of waveforms."""
        # The operator itself: in a Program paddle.abs refuses complex numbers, as in 2.0.2.
        return _ops.abs(paddle.signal.stft(x, window=self.fft_window, **self._settings)) ** self.power


def _constant(layer: nn.Layer, name: str, value: Any) -> None:
    """A buffer; in static mode a variable that the Program computes."""
    if isinstance(value, paddle.Tensor):
        layer.register_buffer(name, value)
    else:
        setattr(layer, name, value)


class MelSpectrogram(nn.Layer):
    """A spectrogram in mels: `Spectrogram`, times the filters of `paddle.audio.functional.compute_fbank_matrix`.

    Args:
        sr (int): samples a second.
        n_fft, hop_length, win_length, window, power, center, pad_mode, dtype: as in `Spectrogram`.
        n_mels (int): the number of filters.
        f_min (float): where the first one starts, in Hz.
        f_max (float, optional): where the last one ends; `sr // 2` by default.
        htk (bool): whether the scale is HTK's.
        norm (str|float|None): of the filters.

    Shape:
        input [batch, samples], output [batch, n_mels, frames].

    Examples:
        >>> import paddle
        >>> paddle.audio.features.MelSpectrogram(8000, 64, 32, n_mels=8)(paddle.ones([2, 320])).shape
        [2, 8, 11]
    """

    def __init__(
        self,
        sr=22050,
        n_fft=2048,
        hop_length=512,
        win_length=None,
        window="hann",
        power=2.0,
        center=True,
        pad_mode="reflect",
        n_mels=64,
        f_min=50.0,
        f_max=None,
        htk=False,
        norm="slaney",
        dtype="float32",
    ):
        super().__init__()
        self._spectrogram = Spectrogram(n_fft, hop_length, win_length, window, power, center, pad_mode, dtype)
        self.n_mels, self.f_min, self.f_max, self.htk, self.norm = n_mels, f_min, f_max, htk, norm
        end = sr // 2 if f_max is None else f_max
        _constant(self, "fbank_matrix", compute_fbank_matrix(sr, n_fft, n_mels, f_min, end, htk, norm, dtype))

    def forward(self, x):
        """The mel spectrogram of waveforms."""
        return paddle.matmul(self.fbank_matrix, self._spectrogram(x))


class LogMelSpectrogram(nn.Layer):
    """A spectrogram in mels and decibels: `MelSpectrogram`, then `paddle.audio.functional.power_to_db`.

    Args:
        sr, n_fft, hop_length, win_length, window, power, center, pad_mode, n_mels, f_min, f_max, htk, norm, dtype: as
            in `MelSpectrogram`.
        ref_value, amin, top_db: as in `power_to_db`.

    Shape:
        input [batch, samples], output [batch, n_mels, frames].

    Examples:
        >>> import paddle
        >>> paddle.audio.features.LogMelSpectrogram(8000, 64, 32, n_mels=8)(paddle.ones([2, 320])).shape
        [2, 8, 11]
    """

    def __init__(
        self,
        sr=22050,
        n_fft=512,
        hop_length=None,
        win_length=None,
        window="hann",
        power=2.0,
        center=True,
        pad_mode="reflect",
        n_mels=64,
        f_min=50.0,
        f_max=None,
        htk=False,
        norm="slaney",
        ref_value=1.0,
        amin=1e-10,
        top_db=None,
        dtype="float32",
    ):
        super().__init__()
        spectrum = (n_fft, hop_length, win_length, window, power, center, pad_mode)
        self._melspectrogram = MelSpectrogram(sr, *spectrum, n_mels, f_min, f_max, htk, norm, dtype)
        self.ref_value, self.amin, self.top_db = ref_value, amin, top_db

    def forward(self, x):
        """The mel spectrogram of waveforms, in decibels."""
        return power_to_db(self._melspectrogram(x), self.ref_value, self.amin, self.top_db)


class MFCC(nn.Layer):
    """Mel-frequency cepstral coefficients: the cosine transform of `LogMelSpectrogram`.

    Args:
        sr (int): samples a second.
        n_mfcc (int): the number of coefficients, at most `n_mels`.
        n_fft, hop_length, win_length, window, power, center, pad_mode, n_mels, f_min, f_max, htk, norm, ref_value,
            amin, top_db, dtype: as in `LogMelSpectrogram`.

    Shape:
        input [batch, samples], output [batch, n_mfcc, frames].

    Raises:
        ValueError: for more coefficients than filters.

    Examples:
        >>> import paddle
        >>> paddle.audio.features.MFCC(8000, 4, 64, 32, n_mels=8)(paddle.ones([2, 320])).shape
        [2, 4, 11]
    """

    def __init__(
        self,
        sr=22050,
        n_mfcc=40,
        n_fft=512,
        hop_length=None,
        win_length=None,
        window="hann",
        power=2.0,
        center=True,
        pad_mode="reflect",
        n_mels=64,
        f_min=50.0,
        f_max=None,
        htk=False,
        norm="slaney",
        ref_value=1.0,
        amin=1e-10,
        top_db=None,
        dtype="float32",
    ):
        super().__init__()
        if n_mfcc > n_mels:
            raise ValueError(f"MFCC: n_mfcc must be at most n_mels ({n_mels}), got {n_mfcc}")
        spectrum = (n_fft, hop_length, win_length, window, power, center, pad_mode)
        decibels = (n_mels, f_min, f_max, htk, norm, ref_value, amin, top_db)
        self._log_melspectrogram = LogMelSpectrogram(sr, *spectrum, *decibels, dtype)
        _constant(self, "dct_matrix", create_dct(n_mfcc, n_mels, dtype=dtype))

    def forward(self, x):
        """The coefficients of waveforms."""
        mels = paddle.transpose(self._log_melspectrogram(x), [0, 2, 1])
        return paddle.transpose(paddle.matmul(mels, self.dct_matrix), [0, 2, 1])
