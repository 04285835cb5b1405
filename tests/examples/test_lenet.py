"""The examples' training functions, for a few steps: the same initial values give one curve three ways."""

import importlib
import os
import sys

import numpy as np
import paddle
import pytest

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
pytest.importorskip("sklearn")


@pytest.fixture
def examples(monkeypatch):
    """(digits, dygraph, static, fluid) as modules."""
    monkeypatch.syspath_prepend(FOLDER)
    names = ("digits", "lenet_dygraph", "lenet_static", "lenet_fluid")
    yield [importlib.import_module(name) for name in names]
    paddle.disable_static()
    for name in names:
        sys.modules.pop(name, None)


def test_three_ways(examples, tmp_path):
    digits, dygraph, static, fluid = examples
    images, labels, held_out, names = digits.load_data()
    images, labels = images[: 12 * digits.BATCH], labels[: 12 * digits.BATCH]

    model, _ = dygraph.train(images, labels, 2, str(tmp_path / "dygraph"))
    again = dygraph.test(dygraph.load(str(tmp_path / "dygraph")), held_out, names)
    assert again == dygraph.test(model, held_out, names)
    init = str(tmp_path / "dygraph" / "init.npz")

    paddle.enable_static()
    static.train(images, labels, 2, str(tmp_path / "static"), init)
    with paddle.static.scope_guard(paddle.static.Scope()):
        # the parameters come from the files, not from the scope that was trained in
        assert static.test(str(tmp_path / "static"), held_out, names) == pytest.approx(again, abs=0.01)
    with fluid.fluid.scope_guard(fluid.fluid.Scope()):
        fluid.train(images, labels, 2, str(tmp_path / "fluid"), init)
    with fluid.fluid.scope_guard(fluid.fluid.Scope()):
        assert fluid.test(str(tmp_path / "fluid"), held_out, names) == pytest.approx(again, abs=0.01)

    curves = {kind: np.load(tmp_path / kind / "losses.npy") for kind in ("dygraph", "static", "fluid")}
    assert len(curves["dygraph"]) == 24
    assert curves["dygraph"][-1] < 0.6 * curves["dygraph"][0]
    for kind in ("static", "fluid"):
        np.testing.assert_allclose(curves[kind], curves["dygraph"], rtol=0, atol=1e-5)


def test_initial_values_are_paddles(examples, tmp_path):
    """The first loss that real Paddle 2.6.2 computes from this seed."""
    digits, dygraph, _, _ = examples
    images, labels, _, _ = digits.load_data()
    dygraph.train(images[: digits.BATCH], labels[: digits.BATCH], 1, str(tmp_path))
    recorded = [2.41559291]
    np.testing.assert_allclose(np.load(tmp_path / "losses.npy"), recorded, rtol=0, atol=1e-5)


def test_same_order_as_loader(examples):
    digits = examples[0]
    images = np.arange(200, dtype="float32").reshape(200, 1)
    np.random.seed(3)
    ours = [int(v) for x, _ in digits.shuffled_batches(images, images) for v in x.reshape(-1)]
    np.random.seed(3)
    loader = paddle.io.DataLoader(
        paddle.io.TensorDataset([paddle.to_tensor(images)]), batch_size=digits.BATCH, shuffle=True
    )
    assert ours == [int(v) for batch in loader for v in batch[0].numpy().reshape(-1)]
