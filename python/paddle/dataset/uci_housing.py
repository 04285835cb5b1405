"""Boston housing: 13 features of a district, and the price of its houses."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import common

__all__ = ["train", "test"]

URL = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
feature_names = [
    "CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT",
]

_parts: dict[str, np.ndarray] = {}


def load_data(filename: str, feature_num: int = 14, ratio: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """(training rows, test rows) of the file, the features scaled to their ranges about their means."""
    with open(filename) as file:
        data = np.array(file.read().split(), dtype="float64").reshape(-1, feature_num)
    features = data[:, :-1]
    features[:] = (features - features.mean(axis=0)) / (features.max(axis=0) - features.min(axis=0))
    offset = int(len(data) * ratio)
    return data[:offset], data[offset:]


def _reader(which: str) -> Callable:
    if not _parts:
        _parts["train"], _parts["test"] = load_data(common.download(URL, "uci_housing", MD5))
    rows = _parts[which]

    def reader():
        for row in rows:
            yield row[:-1], row[-1:]

    return reader


def train() -> Callable:
    """A reader of the training samples: (13 features, [price]), float64."""
    return _reader("train")


def test() -> Callable:
    """A reader of the test samples; see `train`."""
    return _reader("test")


def fetch() -> None:
    """Download the file."""
    common.download(URL, "uci_housing", MD5)
