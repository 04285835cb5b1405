"""`paddle.audio.load`, `save`, `info` and `paddle.audio.backends` of Paddle 2.4 to 2.6: WAV files of 16-bit samples."""

from __future__ import annotations

import os
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from paddle._basics.dtypes import convert_dtype

from .audio_functional import constant

__all__: list[str] = []

_BACKEND = "wave_backend"


class AudioInfo:
    """What `info` returns: `sample_rate`, `num_samples`, `num_channels`, `bits_per_sample` and `encoding` of a file."""

    def __init__(self, sample_rate, num_samples, num_channels, bits_per_sample, encoding):
        self.sample_rate = sample_rate
        self.num_samples = num_samples
        self.num_channels = num_channels
        self.bits_per_sample = bits_per_sample
        self.encoding = encoding

    def __repr__(self):
        return f"AudioInfo({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@contextmanager
def _opened(function: str, filepath: Any) -> Iterator[wave.Wave_read]:
    named = not hasattr(filepath, "read")
    try:
        # A path is opened here: wave.open takes only str, and leaves the file open after an error.
        file = open(filepath, "rb") if named else filepath  # noqa: SIM115
        try:
            with wave.open(file, "rb") as sound:
                yield sound
        finally:
            if named:
                file.close()
    except (wave.Error, EOFError) as error:
        raise NotImplementedError(f"{function}: only WAV files of PCM are supported, {filepath!r}: {error}") from None


def info(filepath):
    """The facts of a WAV file.

    Args:
        filepath (str|Path|file): a path, or a file opened for reading bytes.

    Returns:
        AudioInfo: `sample_rate`, `num_samples`, `num_channels`, `bits_per_sample`, `encoding` ("PCM_S").

    Raises:
        NotImplementedError: for a file of another format.

    Examples:
        >>> import paddle
        >>> paddle.audio.save("tone.wav", paddle.zeros([1, 800]), 8000)
        >>> paddle.audio.info("tone.wav").num_samples
        800
    """
    with _opened("info", filepath) as sound:
        facts = sound.getframerate(), sound.getnframes(), sound.getnchannels(), sound.getsampwidth() * 8
    return AudioInfo(*facts, "PCM_S")


def load(filepath, frame_offset=0, num_frames=-1, normalize=True, channels_first=True):
    """The samples of a WAV file.

    Args:
        filepath (str|Path|file): a path, or a file opened for reading bytes.
        frame_offset (int): samples of each channel that are skipped.
        num_frames (int): samples of each channel that are read; -1 for the rest.
        normalize (bool): whether samples are in [-1, 1), otherwise in [-32768, 32767]; float32 both.
        channels_first (bool): the shape, [channels, samples] or [samples, channels].

    Returns:
        tuple: a Tensor, and the samples a second.

    Raises:
        NotImplementedError: for a file of another format, or of other samples than 16 bits.
        ValueError: for a negative offset.

    Examples:
        >>> import paddle
        >>> paddle.audio.save("tone.wav", paddle.full([1, 800], 0.5), 8000)
        >>> samples, rate = paddle.audio.load("tone.wav", num_frames=3)
        >>> samples.tolist(), rate
        ([[0.5, 0.5, 0.5]], 8000)
    """
    if frame_offset < 0 or num_frames < -1:
        raise ValueError(f"load: frame_offset and num_frames must not be negative, got {frame_offset}, {num_frames}")
    with _opened("load", filepath) as sound:
        if sound.getsampwidth() != 2:
            raise NotImplementedError(f"load: only 16-bit samples are supported, got {8 * sound.getsampwidth()} bits")
        channels, rate, frames = sound.getnchannels(), sound.getframerate(), sound.getnframes()
        sound.setpos(min(frame_offset, frames))
        content = sound.readframes(frames if num_frames == -1 else num_frames)
    samples = np.frombuffer(content, "<i2").reshape(-1, channels).astype("float32")
    if normalize:
        samples /= 32768.0
    return constant(np.ascontiguousarray(samples.T) if channels_first else samples), rate


def save(filepath, src, sample_rate, channels_first=True, encoding=None, bits_per_sample=16):
    """Writes a WAV file of 16-bit samples.

    Args:
        filepath (str|Path|file): a path, or a file opened for writing bytes.
        src (Tensor): [channels, samples] or [samples, channels]; float32 and float64 in [-1, 1], beyond which samples
            are cut, or int16.
        sample_rate (int): samples a second.
        channels_first (bool): whether the channels are the first dimension.
        encoding (str, optional): "PCM_16" or "PCM_S", which is the only one.
        bits_per_sample (int, optional): 16.

    Raises:
        ValueError: for another rank, encoding or number of bits.
        TypeError: for another data type.

    Examples:
        >>> import paddle
        >>> paddle.audio.save("tone.wav", paddle.zeros([1, 800]), 8000)
    """
    if len(src.shape) != 2:
        raise ValueError(f"save: src must have two dimensions, got shape {list(src.shape)}")
    if bits_per_sample not in (None, 16):
        raise ValueError(f"save: bits_per_sample must be 16, got {bits_per_sample!r}")
    if encoding not in (None, "PCM_16", "PCM_S"):
        raise ValueError(f"save: encoding must be 'PCM_16' or 'PCM_S', got {encoding!r}")
    dtype, samples = convert_dtype(src.dtype), src.numpy()
    if dtype in ("float32", "float64"):
        samples = np.clip(samples * 32768.0, -32768, 32767)
    elif dtype != "int16":
        raise TypeError(f"save: src must be float32, float64 or int16, got {dtype}")
    samples = (samples.T if channels_first else samples).astype("<i2")
    with wave.open(filepath if hasattr(filepath, "write") else os.fspath(filepath), "wb") as sound:
        sound.setnchannels(samples.shape[1])
        sound.setsampwidth(2)
        sound.setframerate(int(sample_rate))
        sound.writeframes(samples.tobytes())


def list_available_backends():
    """The libraries that read and write audio files.

    Examples:
        >>> import paddle
        >>> paddle.audio.backends.list_available_backends()
        ['wave_backend']
    """
    return [_BACKEND]


def get_current_backend():
    """The library in use.

    Examples:
        >>> import paddle
        >>> paddle.audio.backends.get_current_backend()
        'wave_backend'
    """
    return _BACKEND


def set_backend(backend_name):
    """Selects the library; there is one, the standard library's `wave`.

    Args:
        backend_name (str): "wave_backend".

    Raises:
        NotImplementedError: for another one.

    Examples:
        >>> import paddle
        >>> paddle.audio.backends.set_backend("wave_backend")
    """
    if backend_name != _BACKEND:
        raise NotImplementedError(f"set_backend: only {_BACKEND!r} is available, got {backend_name!r}")
