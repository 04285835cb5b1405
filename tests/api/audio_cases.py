"""Results of `paddle.audio` and of topologies: the functions of `CASES` run with Oar and with Paddle.

python tests/api/audio_cases.py tests/api/audio_values.json    # with Paddle 2.6.2
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import paddle
from paddle.audio import features
from paddle.audio import functional as F
from paddle.distributed.fleet.base.topology import CommunicateTopology

WAVES = np.random.RandomState(8).uniform(-0.9, 0.9, (2, 96)).astype("float32")
HZ = [0.0, 3.0, 440.0, 999.0, 1001.0, 8000.0]
WINDOWS = [
    *("hamming", "hann", "blackman", "bohman", "cosine", "triang", "taylor", "tukey"),
    *(("gaussian", 3.0), ("exponential", None, 2.0), ("tukey", 0.3), ("tukey", 1.0), ("tukey", 0.0)),
    *(("general_gaussian", 1.5, 4.0), ("general_hamming", 0.7), ("general_cosine", [0.3, 0.5, 0.2])),
    *(("taylor", 5, 35), ("taylor", 4, 30, False)),
]
SPECTRUM = {"n_fft": 32, "hop_length": 12, "win_length": 24}
MELS = {"sr": 800, "n_mels": 6, "f_min": 10.0, **SPECTRUM}


def _listed(*tensors: Any) -> list:
    return [np.asarray(t).astype("float64").round(7).tolist() for t in tensors]


def window(name: Any, length: int, bins: bool) -> list:
    return _listed(F.get_window(name, length, fftbins=bins))


def scale(htk: bool) -> list:
    given = paddle.to_tensor(HZ, dtype="float64", stop_gradient=False)
    mels = F.hz_to_mel(given, htk)
    back = F.mel_to_hz(mels, htk)
    (mels * mels + back).sum().backward()
    numbers = [F.hz_to_mel(hz, htk) for hz in HZ]
    return [*_listed(mels, back, given.grad), [*numbers, *(F.mel_to_hz(mel, htk) for mel in numbers)]]


def filters(**arguments: Any) -> list:
    return _listed(F.compute_fbank_matrix(**{"sr": 800, "n_fft": 32, "n_mels": 6, "dtype": "float64", **arguments}))


def feature(name: str, **arguments: Any) -> list:
    """The result, the gradient of the waveform, names and shapes of the state."""
    layer = getattr(features, name)(**arguments)
    waves = paddle.to_tensor(WAVES, stop_gradient=False)
    out = layer(waves)
    (out * out).mean().backward()
    state = layer.state_dict()
    return [*_listed(out, waves.grad), [[key, list(state[key].shape)] for key in sorted(state)]]


def decibels(**arguments: Any) -> list:
    x = paddle.to_tensor([[1e-12, 0.5, 3.0], [1e4, 2e-3, 0.0]], dtype="float64", stop_gradient=False)
    y = F.power_to_db(x, **arguments)
    y.sum().backward()
    return _listed(y, x.grad)


def grid(names: list[str], dims: list[int]) -> list:
    grid, last = CommunicateTopology(names, dims), names[-1]
    size = grid.world_size()
    places = [list(grid.get_coord(rank)) for rank in range(size)]
    ranks = [grid.get_rank(**grid.get_coord(rank)._asdict()) for rank in range(size)]
    lists = [[grid.get_comm_list(name), grid.get_axis_list(name, 0), grid.get_dim(name)] for name in names]
    fused = sorted(grid.get_fused_ranks(names[:2]))
    return [size, places, ranks, lists, fused, grid.get_rank_from_stage(size - 1, **{last: 0})]


CASES = {
    **{
        f"window {name} {length} {bins}": lambda name=name, length=length, bins=bins: window(name, length, bins)
        for name in WINDOWS
        for length, bins in ((12, True), (11, False))
    },
    "scale": lambda: scale(False),
    "scale htk": lambda: scale(True),
    "frequencies": lambda: _listed(F.mel_frequencies(9, 20.0, 4000.0, dtype="float64"), F.fft_frequencies(800, 12)),
    "frequencies htk": lambda: _listed(F.mel_frequencies(9, 20.0, 4000.0, True), F.fft_frequencies(801, 13, "float64")),
    "filters": lambda: filters(),
    "filters htk": lambda: filters(htk=True, f_max=300.0, norm=None),
    "filters norm": lambda: filters(norm=2.0, f_min=30.0),
    "filters float32": lambda: filters(dtype="float32"),
    "decibels": lambda: decibels(),
    "decibels all": lambda: decibels(ref_value=2.0, amin=1e-3, top_db=None),
    "decibels top": lambda: decibels(top_db=20.0),
    "dct": lambda: _listed(F.create_dct(4, 6, dtype="float64"), F.create_dct(5, 6, norm=None)),
    "spectrogram": lambda: feature("Spectrogram", **SPECTRUM),
    "spectrogram power": lambda: feature("Spectrogram", n_fft=32, power=3.0, window="hamming", hop_length=None),
    "spectrogram ends": lambda: feature("Spectrogram", n_fft=32, center=False, hop_length=16),
    "spectrogram zeros": lambda: feature("Spectrogram", pad_mode="constant", **SPECTRUM),
    "mel": lambda: feature("MelSpectrogram", **MELS),
    "mel htk": lambda: feature("MelSpectrogram", htk=True, norm=1.0, f_max=350.0, **MELS),
    "log mel": lambda: feature("LogMelSpectrogram", **MELS),
    "log mel top": lambda: feature("LogMelSpectrogram", top_db=30.0, ref_value=0.5, **MELS),
    "mfcc": lambda: feature("MFCC", n_mfcc=4, **MELS),
    "grid": lambda: grid(["data", "pipe", "sharding", "model"], [2, 3, 1, 2]),
    "grid sep": lambda: grid(["data", "pipe", "sharding", "sep", "model"], [2, 1, 2, 2, 2]),
}


if __name__ == "__main__":
    values = {name: function() for name, function in CASES.items()}
    with open(sys.argv[1], "w") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in values.items()) + "\n}\n")
