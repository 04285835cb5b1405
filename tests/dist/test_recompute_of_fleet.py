"""fleet.utils.recompute in dygraph mode: gradients equal those of a plain call, with less memory."""

from __future__ import annotations

import gc
import warnings

import launching
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
import pytest
from launching import launch
from paddle import _core
from paddle.distributed.fleet.utils import recompute

WIDTH = 16


@pytest.fixture(autouse=True)
def _dygraph():
    paddle.disable_static()
    paddle.seed(11)


def plain(function, *args, **_):
    return function(*args)


class Network(nn.Layer):
    def __init__(self, blocks=3, width=WIDTH):
        super().__init__()
        self.blocks = nn.LayerList(
            [
                nn.Sequential(
                    nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.3), nn.Linear(2 * width, width), nn.Tanh()
                )
                for _ in range(blocks)
            ]
        )

    def forward(self, x, call=plain):
        for block in self.blocks:
            x = call(block, x)
        return x


def results(work, seed=5):
    """A loss, its gradients, and the random numbers after them."""
    paddle.seed(seed)
    return [np.asarray(v) for v in work()]


def same(work):
    for a, b in zip(results(lambda: work(plain)), results(lambda: work(recompute)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_network_with_dropout():
    network, data = Network(), np.random.RandomState(0).uniform(-1, 1, [4, WIDTH]).astype("float32")

    def work(call):
        network.clear_gradients()
        x = paddle.to_tensor(data, stop_gradient=False)
        loss = network(x, call).square().sum()
        loss.backward()
        return loss, x.grad, *(p.grad for p in network.parameters()), paddle.rand([3])

    same(work)


def test_inputs_that_need_no_gradient():
    """In 2.1 parameters get no gradients then; here they do."""
    layer = nn.Linear(3, 2)

    def work(call):
        layer.clear_gradients()
        call(layer, paddle.ones([2, 3])).sum().backward()
        return layer.weight.grad, layer.bias.grad

    same(work)


def test_several_outputs_and_inputs():
    w = paddle.create_parameter([3, 3], "float32")
    outside = paddle.to_tensor(np.arange(3, dtype="float32"), stop_gradient=False)
    inner = outside * 2

    def function(x, y, n, flag):
        hidden = paddle.matmul(x, w) * inner
        return {"a": [hidden.sin(), y * hidden], "b": (hidden.detach(), n, x.astype("int64"))}, hidden.sum() * flag

    def work(call):
        for v in (w, outside):
            v.clear_grad()
        x = paddle.to_tensor(np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3), stop_gradient=False)
        y = paddle.to_tensor([[2.0, 3.0, 4.0]])
        found, total = call(function, x, y, 7, True)
        assert found["b"][1] == 7 and found["b"][0].stop_gradient
        (found["a"][0].sum() + (found["a"][1] * found["b"][0]).sum() + total).backward(retain_graph=True)
        assert y.grad is None
        return x.grad, w.grad, outside.grad, total, *found["a"]

    same(work)


def test_an_output_without_a_consumer_and_one_that_is_an_input():
    def function(x):
        return x, x * 3, x.exp()

    def work(call):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        first, second, _ = call(function, x * 1)
        (first * second).sum().backward()
        return x.grad, second

    same(work)


def test_nested():
    network, data = Network(4), np.random.RandomState(1).uniform(-1, 1, [4, WIDTH]).astype("float32")
    a, b = network.blocks[:2], network.blocks[2:]

    def work(call):
        network.clear_gradients()
        x = paddle.to_tensor(data, stop_gradient=False)

        def half(blocks):
            def run_half(x):
                for block in blocks:
                    x = call(block, x)
                return x

            return run_half

        call(half(b), call(half(a), x)).sum().backward()
        return x.grad, *(p.grad for p in network.parameters())

    same(work)


def test_partial_gradients():
    layer, x = nn.Linear(3, 2), paddle.to_tensor([[1.0, 2.0, 3.0]], stop_gradient=False)

    def work(call):
        return paddle.grad(call(lambda v: F.sigmoid(layer(v)), x), [x, layer.weight])

    same(work)
    assert x.grad is None and layer.weight.grad is None


def test_the_state_of_random_numbers_is_left_alone_on_demand():
    drop, x = nn.Dropout(0.5), paddle.ones([1000])
    x.stop_gradient = False
    recompute(drop, x).sum().backward()
    kept = x.grad
    x.clear_grad()
    out = recompute(drop, x, preserve_rng_state=False)
    out.sum().backward()
    assert (x.grad != out.numpy()).any()
    assert set(np.unique(kept)) == {0, 2}


def test_no_grad_and_evaluation():
    layer = nn.Linear(3, 2)
    with paddle.no_grad():
        assert recompute(layer, paddle.ones([1, 3])).stop_gradient
    # a backward within no_grad records the recomputation
    out = recompute(layer, paddle.ones([1, 3])).sum()
    with paddle.no_grad():
        out.backward()
    np.testing.assert_array_equal(layer.bias.grad, [1, 1])


def peak(call, blocks=8, width=256, rows=2048):
    network, x = Network(blocks, width), paddle.ones([rows, width])
    x.stop_gradient = False
    network(x, call).sum().backward()
    network.clear_gradients()
    gc.collect()
    _core.reset_peak_memory()
    before = _core.memory_stats()[0]
    network(x, call).sum().backward()
    return _core.memory_stats()[1] - before


def test_memory_falls():
    less, all_ = peak(recompute), peak(plain)
    assert less < 0.7 * all_, (less, all_)


def test_nothing_is_left_behind():
    network = Network()

    def step():
        network(paddle.ones([64, WIDTH]), recompute).sum().backward()
        network.clear_gradients()

    step()
    gc.collect()
    before = _core.memory_stats()[0]
    for _ in range(5):
        step()
    assert _core.memory_stats()[0] <= before


class TestWrong:
    def test_calls(self):
        x = paddle.ones([2])
        with pytest.raises(ValueError, match="recompute takes no keyword argument but preserve_rng_state, got axis"):
            recompute(paddle.sum, x, axis=0)
        with pytest.raises(TypeError, match="recompute: the function must be callable, got 3"):
            recompute(3, x)
        paddle.enable_static()
        try:
            with pytest.raises(RuntimeError, match="recompute is for dygraph mode; a Program has DistributedStrategy"):
                recompute(paddle.sum, x)
        finally:
            paddle.disable_static()

    def test_an_argument_that_has_changed(self):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        y = x * 1
        out = recompute(lambda v: v * v, y)
        with paddle.no_grad():
            y[0] = 5.0
        with pytest.raises(
            RuntimeError, match="argument 0, a Tensor of shape .2.*has been modified by an inplace operation"
        ):
            out.sum().backward()

    def test_a_function_that_changes_its_argument(self):
        def function(v):
            v[0] = 0.0
            return v * 2

        with pytest.raises(
            RuntimeError, match="argument 0, a Tensor of shape .2.*has been modified by the function itself"
        ):
            recompute(function, paddle.to_tensor([1.0, 2.0]))

    def test_a_function_with_another_number_of_outputs(self):
        x, calls = paddle.to_tensor([1.0, 2.0], stop_gradient=False), []

        def function(v):
            calls.append(1)
            return [v * 2] * len(calls)

        (out,) = recompute(function, x)
        with pytest.raises(
            (ValueError, RuntimeError), match="the function gave 1 tensors first, and 2 when it ran again"
        ):
            out.sum().backward()

    def test_an_error_of_the_function(self):
        x, calls = paddle.to_tensor([1.0, 2.0], stop_gradient=False), []

        def function(v):
            calls.append(1)
            if len(calls) > 1:
                raise KeyError("mine")
            return v * 2

        out = recompute(function, x).sum()
        with pytest.raises(KeyError, match="mine"):
            out.backward()

    def test_a_second_backward(self):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        out = recompute(lambda v: v * v, x).sum()
        out.backward()
        with pytest.raises(RuntimeError, match="a second time|twice|freed"):
            out.backward()

    def test_second_derivatives(self):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        out = recompute(lambda v: v * v, x)
        with pytest.raises((NotImplementedError, RuntimeError), match="recompute has no second gradient"):
            paddle.grad(out.sum(), x, create_graph=True)


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recompute(nn.Linear(3, 2), paddle.ones([1, 3])).sum().backward()


def test_two_ranks(tmp_path, monkeypatch):
    """Under DataParallel gradients are the mean over ranks, bitwise equal to plain calls."""
    monkeypatch.setattr(launching, "SCRIPT", __file__)
    done = launch(["--nproc_per_node=2"], str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ranks = [np.load(tmp_path / f"{rank}.npz") for rank in range(2)]
    for name in ranks[0].files:
        np.testing.assert_array_equal(ranks[0][name], ranks[1][name])
        kind, number = name.split(".")
        np.testing.assert_array_equal(ranks[0][f"plain.{number}"], ranks[0][name])


def main(folder: str) -> None:
    import paddle.distributed as dist

    dist.init_parallel_env()
    rank, found = dist.get_rank(), {}
    for name, call in (("plain", plain), ("recompute", recompute)):
        paddle.seed(3)
        model = paddle.DataParallel(Network())
        sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        for step in range(3):
            x = np.random.RandomState(10 * step + rank).uniform(-1, 1, [4, WIDTH]).astype("float32")
            model(paddle.to_tensor(x), call).square().sum().backward()
            sgd.step()
            sgd.clear_grad()
        found |= {f"{name}.{i}": p.numpy() for i, p in enumerate(model.parameters())}
    np.savez(f"{folder}/{rank}.npz", **found)


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
