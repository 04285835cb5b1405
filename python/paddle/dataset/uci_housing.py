"""Prices of houses: readers of (13 normalised features, the price), as arrays of float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from . import common

__all__ = ["train", "test"]

URL = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"


@cache
def _load(path: str, columns: int = 14, ratio: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train with and the others; features are shifted by their mean and divided by their range."""
    data = np.fromfile(path, sep=" ")
    data = data.reshape(-1, columns)
    features = data[:, :-1]
    features[...] = (features - features.mean(axis=0)) / (features.max(axis=0) - features.min(axis=0))
    cut = int(len(data) * ratio)
    return data[:cut], data[cut:]


def _reader(part: int) -> Callable:
    rows = _load(common.download(URL, "uci_housing", MD5))[part]
    return lambda: ((row[:-1], row[-1:]) for row in rows)


def train() -> Callable:
    """The reader of the first four fifths."""
    return _reader(0)


def test() -> Callable:
    """The reader of the last fifth."""
    return _reader(1)


def fetch() -> None:
    """Fetch the file."""
    common.download(URL, "uci_housing", MD5)
