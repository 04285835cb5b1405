"""UCI housing: readers of (13 normalized features, price), as float64 arrays."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from . import common

__all__ = ["train", "test"]

URL = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
_MODEL_URL = "https://github.com/PaddlePaddle/book/raw/develop/01.fit_a_line/fluid/fit_a_line.fluid.tar"
_MODEL_MD5 = "6e6dd637ccd5993961f68bfbde46090b"
feature_names = "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT".split()

#: the data read by :func:`load_data`
UCI_TRAIN_DATA: Any = None
UCI_TEST_DATA: Any = None


@cache
def parts(path: str, columns: int = 14, ratio: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """The training rows and the test rows; features are normalized by mean and range."""
    data = np.fromfile(path, sep=" ")
    data = data[: data.size // columns * columns].reshape(-1, columns)
    features = data[:, :-1]
    features[...] = (features - features.mean(axis=0)) / (features.max(axis=0) - features.min(axis=0))
    cut = int(len(data) * ratio)
    return data[:cut], data[cut:]


def _file() -> str:
    return common.download(URL, "uci_housing", MD5)


def load_data(filename: str, feature_num: int = 14, ratio: float = 0.8) -> None:
    """Reads a file into UCI_TRAIN_DATA and UCI_TEST_DATA, unless they are set.

    Args:
        filename (str): numbers separated by spaces.
        feature_num (int): numbers per row; the last one is the price.
        ratio (float): fraction of the rows used for training.
    """
    global UCI_TRAIN_DATA, UCI_TEST_DATA
    if UCI_TRAIN_DATA is None or UCI_TEST_DATA is None:
        UCI_TRAIN_DATA, UCI_TEST_DATA = parts(filename, feature_num, ratio)


def feature_range(maximums: Any, minimums: Any) -> None:
    """Plots the ranges of the features to image/ranges.png, by matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 6))
    names = feature_names[: len(maximums)]
    axes.bar(range(len(maximums)), np.asarray(maximums) - np.asarray(minimums), color="r", align="center")
    axes.set_title("feature scale")
    axes.set_xticks(range(len(names)), names)
    os.makedirs("image", exist_ok=True)
    figure.savefig("image/ranges.png", dpi=48)
    pyplot.close(figure)


def _reader(part: int) -> Callable:
    rows = parts(_file())[part]
    return lambda: ((row[:-1], row[-1:]) for row in rows)


def train() -> Callable:
    """The reader of the training part (the first four fifths)."""
    return _reader(0)


def test() -> Callable:
    """The reader of the test part (the last fifth)."""
    return _reader(1)


def fluid_model() -> str:
    """The folder of an inference model of Paddle 1.x trained on this data."""
    path = common.download(_MODEL_URL, "uci_housing", _MODEL_MD5, "fit_a_line.fluid.tar")
    folder = tempfile.mkdtemp()
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    return folder


def predict_reader() -> tuple[np.ndarray]:
    """The features of the first test row."""
    return (parts(_file())[1][0][:-1],)


def fetch() -> None:
    """Downloads the file."""
    _file()
