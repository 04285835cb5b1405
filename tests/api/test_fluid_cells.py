"""Recurrent cells of fluid.dygraph, compared with numpy."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest


@pytest.fixture(autouse=True)
def _dygraph_again():
    yield
    paddle.disable_static()


RNG = np.random.default_rng(0)
X, H, C = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def values(cell):
    """Fills every parameter with small numbers; {name: array}."""
    for parameter in cell.parameters():
        parameter.set_value((RNG.normal(size=parameter.shape) * 0.5).astype(parameter.numpy().dtype))
    return {name: t.numpy() for name, t in cell.state_dict().items()}


def both(p):
    return X @ p["_weight_ih"].T + p["_bias_ih"], H @ p["_weight_hh"].T + p["_bias_hh"]


def run(cell, *states):
    inputs = [paddle.to_tensor(a, stop_gradient=False) for a in (X, *states)]
    out = cell(*inputs)
    sum((o * o).sum() for o in (out if isinstance(out, tuple) else (out,))).backward()
    assert all(np.abs(t.grad).sum() > 0 for t in [*inputs, *cell.parameters()])
    return [o.numpy() for o in (out if isinstance(out, tuple) else (out,))]


def test_lstm_of_cudnn():
    cell = fluid.dygraph.LSTMCell(5, 3)
    p = values(cell)
    assert list(p) == ["_weight_ih", "_weight_hh", "_bias_ih", "_bias_hh"] and p["_weight_ih"].dtype == np.float64
    i, f, g, o = np.split(sum(both(p)), 4, 1)
    c = sigmoid(f) * C + sigmoid(i) * np.tanh(g)
    hidden, memory = run(cell, H, C)
    np.testing.assert_allclose(memory, c, rtol=1e-12)
    np.testing.assert_allclose(hidden, sigmoid(o) * np.tanh(c), rtol=1e-12)


@pytest.mark.parametrize("forget", [1.0, -0.5])
def test_lstm(forget):
    cell = fluid.dygraph.LSTMCell(5, 3, use_cudnn_impl=False, forget_bias=forget)
    p = values(cell)
    i, g, f, o = np.split(np.concatenate([X, H], 1) @ p["_weight"] + p["_bias"], 4, 1)
    c = sigmoid(f + forget) * C + sigmoid(i) * np.tanh(g)
    hidden, memory = run(cell, H, C)
    np.testing.assert_allclose(memory, c, rtol=1e-12)
    np.testing.assert_allclose(hidden, sigmoid(o) * np.tanh(c), rtol=1e-12)


def test_gru_of_cudnn():
    cell = fluid.dygraph.GRUCell(5, 3)
    (r, u, c), (rh, uh, ch) = (np.split(part, 3, 1) for part in both(values(cell)))
    u = sigmoid(u + uh)
    np.testing.assert_allclose(run(cell, H)[0], u * H + (1 - u) * np.tanh(c + sigmoid(r + rh) * ch), rtol=1e-12)


def test_gru():
    cell = fluid.dygraph.GRUCell(5, 3, use_cudnn_impl=False)
    p = values(cell)
    r, u = np.split(sigmoid(np.concatenate([X, H], 1) @ p["_gate_weight"] + p["_gate_bias"]), 2, 1)
    c = np.tanh(np.concatenate([X, r * H], 1) @ p["_candidate_weight"] + p["_candidate_bias"])
    np.testing.assert_allclose(run(cell, H)[0], u * H + (1 - u) * c, rtol=1e-12)


def test_other_activations():
    cell = fluid.dygraph.GRUCell(5, 3, gate_activation=fluid.layers.tanh, activation=fluid.layers.relu, dtype="float32")
    (r, u, c), (rh, uh, ch) = (np.split(part, 3, 1) for part in both(values(cell)))
    new, u = np.maximum(c + np.tanh(r + rh) * ch, 0), np.tanh(u + uh)
    out = cell(paddle.to_tensor(X.astype("float32")), paddle.to_tensor(H.astype("float32")))
    np.testing.assert_allclose(out.numpy(), u * H + (1 - u) * new, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("made", [str, fluid.ParamAttr])
def test_names_of_parameters(made):
    w = f"w_{made.__name__}"
    attr = made(w)
    gru = fluid.dygraph.GRUCell(5, 3, attr, use_cudnn_impl=False)
    assert [p.name for p in gru.parameters()][:2] == [f"{w}_gate_weight", f"{w}_candidate_weight"]
    lstm = fluid.dygraph.LSTMCell(5, 3, attr, bias_attr=made(f"{w}_b"))
    assert [p.name for p in lstm.parameters()] == [
        f"{w}{part}" for part in ("_weight_ih", "_weight_hh", "_b_bias_ih", "_b_bias_hh")
    ]


@pytest.mark.parametrize("cudnn", [True, False])
def test_without_bias(cudnn):
    cell = fluid.dygraph.LSTMCell(5, 3, bias_attr=False, use_cudnn_impl=cudnn, dtype="float32")
    states = [paddle.zeros([4, n]) for n in (3, 5, 5)]
    assert not cell(*states)[1].numpy().any() and len(cell.parameters()) == (2 if cudnn else 1)


def test_in_a_program():
    paddle.enable_static()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        cell = fluid.dygraph.LSTMCell(5, 3, use_cudnn_impl=False)
        fed = [fluid.data(n, [None, w], "float64") for n, w in (("x", 3), ("h", 5), ("c", 5))]
        hidden, memory = cell(*fed)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        out = exe.run(main, feed={"x": X, "h": H, "c": C}, fetch_list=[hidden, memory])
    assert [o.shape for o in out] == [(4, 5), (4, 5)]


def test_modes_by_their_former_names():
    fluid.dygraph.disable_imperative()
    assert not fluid.dygraph.enabled()
    fluid.dygraph.enable_imperative()
    assert fluid.dygraph.enabled() and fluid.enable_imperative is fluid.dygraph.enable_imperative
