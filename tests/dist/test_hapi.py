"""paddle.Model on three processes: each trains on its part of every batch, all evaluate and predict together."""

from __future__ import annotations

import warnings

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.static import InputSpec

RANDOM = np.random.RandomState(0)
X = RANDOM.rand(24, 5).astype("float32")
Y = RANDOM.randint(0, 3, (24, 1)).astype("int64")


class Samples(paddle.io.Dataset):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def __getitem__(self, index):
        return X[index], Y[index]

    def __len__(self):
        return self.count


def run(static: bool, batch: int, folder: str):
    """(parameters after training, accuracy and predictions of 20 samples, which three processes do not share evenly)"""
    warnings.simplefilter("ignore")
    if static:
        paddle.enable_static()
    try:
        guard = paddle.static.program_guard(paddle.static.Program(), paddle.static.Program())
        with guard, paddle.static.scope_guard(paddle.static.Scope()):
            paddle.seed(4 + paddle.distributed.get_rank())  # rank 0's parameters are broadcast
            net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
            model = paddle.Model(net, InputSpec([None, 5], "float32", "x"), InputSpec([None, 1], "int64", "y"))
            adam = paddle.optimizer.Adam(0.05, parameters=net.parameters())
            model.prepare(adam, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
            model.fit(Samples(24), batch_size=batch, epochs=3, shuffle=False, verbose=0)
            result = model.evaluate(Samples(20), batch_size=batch, verbose=0)
            (out,) = model.predict(Samples(20), batch_size=batch, stack_outputs=True)
            name = f"{folder}/{'static' if static else 'dygraph'}"
            model.save(name)  # by rank 0
            return result["acc"], out
    finally:
        paddle.disable_static()


@pytest.mark.parametrize("static", [False, True])
def test_three_are_one(three, tmp_path, static):
    alone = run(static, 12, str(tmp_path))
    name = f"{tmp_path}/{'static' if static else 'dygraph'}.pdparams"
    expected = paddle.load(name)
    assert alone[1].shape == (20, 3)
    for accuracy, out in three.run(run, static, 4, str(tmp_path)):
        assert accuracy == pytest.approx(alone[0])
        assert out.shape == (20, 3)
        np.testing.assert_allclose(out, alone[1], rtol=1e-4, atol=1e-5)
    found = paddle.load(name)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-5)
