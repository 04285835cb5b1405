"""Training steps of the networks of networks.py on the device: no operator falls back to the CPU, nothing is copied
between host and device during a step, and the losses are those of the CPU."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from agreement import tensor
from networks import NETWORKS, Network, words

STEPS = 3
#: bytes of a list of numbers of rows
SMALL = 1024


def losses(network: Network, after_first: Callable[[], None] = lambda: None) -> list:
    """The losses of the steps; `after_first` is called once the states of the optimizer exist."""
    paddle.seed(3)
    model = network.make()
    for i, p in enumerate(model.parameters()):
        p.set_value(np.random.default_rng(i).normal(scale=0.3, size=p.shape).astype("float32"))
    batch = [given(item) for item in network.batch]
    optimizer, found = network.optimizer(model.parameters()), []
    for step in range(STEPS):
        loss = network.loss(model, *batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        found.append(loss)
        if step == 0:
            after_first()
    return found


def given(item: Any) -> Any:
    """A tensor on the current device, with its LoD."""
    if not isinstance(item, tuple):
        return paddle.to_tensor(item)
    return tensor(*item, paddle.get_device() != "cpu")


def fallbacks(caught: list) -> set[str]:
    """The operators of the warnings that something runs on the CPU."""
    found = (re.search(r"operator (\w+) has no CUDA kernel", str(w.message)) for w in caught)
    return {match.group(1) for match in found if match}


def trained(network: Network, on_device: Callable[[], list], after: Callable[[], None] = lambda: None) -> None:
    """Trains on the device by `on_device`, calls `after`, and compares: only the network's operators of the host run on
    the CPU, and the losses are those of the CPU where the network draws no random numbers."""
    paddle.set_device("gpu")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            found = on_device()
        after()
        values = [float(loss) for loss in found]
    finally:
        paddle.set_device("cpu")
    assert fallbacks(caught) <= set(network.host)
    assert np.isfinite(values).all()
    if network.exact:
        np.testing.assert_allclose(values, [float(loss) for loss in losses(network)], rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_on_a_gpu(name, gpu):
    trained(NETWORKS[name], lambda: losses(NETWORKS[name]))


def check(network: Network, shim) -> None:
    transfers: list[int] = []
    arguments: list[int] = []

    def after() -> None:
        transfers.extend([*shim.uploads, *shim.downloads])
        arguments.extend(shim.arguments)

    trained(network, lambda: losses(network, shim.forget), after)
    if network.reads:
        assert max(transfers) <= SMALL, f"transfers of {transfers} bytes"
    else:
        assert network.host or not transfers, f"{len(transfers)} transfers in {STEPS - 1} steps: {transfers} bytes"
    # The tables of an optimizer and of clipping, and the factors of parameters.
    assert len(arguments) / (STEPS - 1) <= 3


@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_stays_on_the_device(name, shim):
    check(NETWORKS[name], shim)


def test_sparse_gradients_are_applied_on_the_device(shim):
    """The rows of a SelectedRows are host memory: they are read once a step."""
    dense = NETWORKS["word2vec"]
    sparse = Network(lambda: words(True), dense.batch, dense.loss, dense.optimizer)
    paddle.set_device("gpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            found = [float(loss) for loss in losses(sparse)]
    finally:
        paddle.set_device("cpu")
    np.testing.assert_allclose(found, [float(loss) for loss in losses(dense)], rtol=1e-3)
