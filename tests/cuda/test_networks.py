"""Training steps of networks on the device, without an operator that falls back and without hidden transfers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest

nn, functional = paddle.nn, paddle.nn.functional


class Net(nn.Layer):
    """A function of Layers and a batch."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Layer) -> None:
        super().__init__()
        self.function, self.parts = function, nn.LayerList(parts)

    def forward(self, x: Any) -> Any:
        return self.function(*self.parts, x)


def ids(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape)


def real(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


def lenet():
    """LeNet on smaller images."""

    def forward(first, second, *dense_and_x):
        *dense, x = dense_and_x
        x = functional.max_pool2d(functional.relu(first(x)), 2, 2)
        x = paddle.flatten(functional.max_pool2d(functional.relu(second(x)), 2, 2), 1)
        for layer in dense:
            x = layer(x)
        return x

    parts = nn.Conv2D(1, 3, 3, padding=1), nn.Conv2D(3, 4, 3), nn.Linear(16, 12), nn.Linear(12, 10)
    return Net(forward, *parts), real(2, 1, 12, 12), 10


def ctr():
    """The CTR network of PaddleRec: embeddings of fields, and dense layers."""
    parts = nn.Embedding(30, 8), nn.Linear(32, 16), nn.Linear(16, 2)
    return Net(lambda e, a, b, x: b(functional.relu(a(paddle.reshape(e(x), [-1, 32])))), *parts), ids(30, 4, 4), 2


def word2vec():
    """The N-gram model of the book."""
    parts = nn.Embedding(30, 8), nn.Linear(32, 16), nn.Linear(16, 30)
    return Net(lambda e, a, b, x: b(functional.sigmoid(a(paddle.reshape(e(x), [-1, 32])))), *parts), ids(30, 4, 4), 30


def deepfm():
    def forward(first, embedding, a, b, x):
        v = embedding(x)
        total, squares = paddle.sum(v, 1), paddle.sum(v * v, 1)
        pairs = 0.5 * paddle.sum(total * total - squares, 1, keepdim=True)
        return b(functional.relu(a(paddle.reshape(v, [-1, 32])))) + pairs + paddle.sum(first(x), 1)

    parts = nn.Embedding(30, 1), nn.Embedding(30, 8), nn.Linear(32, 16), nn.Linear(16, 2)
    return Net(forward, *parts), ids(30, 4, 4), 2


def bert():
    """A small encoder; its dropouts are off."""
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu"), 2)
    parts = nn.Embedding(30, 8), layers, nn.Linear(8, 2)
    return Net(lambda e, t, o, x: o(t(e(x))[:, 0]), *parts), ids(30, 2, 5), 2


def transformer():
    """A small encoder and decoder; their dropouts are off."""
    parts = nn.Embedding(30, 8), nn.Transformer(8, 2, 1, 1, 16, dropout=0.0), nn.Linear(8, 2)
    return Net(lambda e, t, o, x: o(t(e(x), e(x))[:, 0]), *parts), ids(30, 2, 5), 2


NETWORKS = (lenet, ctr, word2vec, deepfm, bert, transformer)
OPTIMIZERS = {
    "SGD": lambda net: paddle.optimizer.SGD(0.1, parameters=net.parameters()),
    "Adam": lambda net: paddle.optimizer.Adam(1e-2, parameters=net.parameters()),
}


def losses(make: Callable, optimizer: str, after_first: Callable[[], None] = lambda: None) -> list[float]:
    """The losses of three steps; `after_first` is called once the states exist."""
    paddle.seed(3)
    net, data, classes = make()
    for i, p in enumerate(net.parameters()):
        p.set_value(np.random.default_rng(i).normal(scale=0.3, size=p.shape).astype("float32"))
    x, label = paddle.to_tensor(data), paddle.to_tensor(ids(classes, len(data), 1))
    opt, found = OPTIMIZERS[optimizer](net), []
    for step in range(3):
        loss = functional.cross_entropy(net(x), label)
        loss.backward()
        opt.step()
        opt.clear_grad()
        found.append(loss)
        if step == 0:
            after_first()
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make", NETWORKS, ids=lambda make: make.__name__)
def test_a_training_step_stays_on_the_device(make, optimizer, shim):
    want = [float(loss) for loss in losses(make, optimizer)]
    paddle.set_device("gpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            found = losses(make, optimizer, shim.forget)
        assert not shim.uploads and not shim.downloads
    finally:
        paddle.set_device("cpu")
    np.testing.assert_allclose([float(loss) for loss in found], want, rtol=1e-4)
