"""paddle.nn's recurrent networks: the operator, cells step by step, and the loop of a Program agree."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import paddle
import pytest
from paddle import nn

KINDS = {"SimpleRNN": nn.SimpleRNNCell, "LSTM": nn.LSTMCell, "GRU": nn.GRUCell}
X = np.random.RandomState(0).randn(3, 5, 4).astype("float32")
LENGTHS = np.array([5, 2, 3], "int64")


def arrays(states):
    return [s.numpy() for s in paddle.fluid.layers.utils.flatten(states)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_operator_and_cell_agree(kind, reverse):
    paddle.seed(1)
    cell = KINDS[kind](4, 3)
    x = paddle.to_tensor(X, stop_gradient=False)
    states = cell.get_initial_states(x, init_value=0.5)
    runs = []
    steps = paddle.fluid.layers.rnn
    for run in (lambda: nn.RNN(cell, reverse)(x, states), lambda: steps(cell, x, states, is_reverse=reverse)):
        y, last = run()
        (y * y).sum().backward()
        runs.append([y.numpy(), *arrays(last), x.gradient(), *(p.gradient() for p in cell.parameters())])
        x.clear_gradient()
        cell.clear_gradients()
    for a, b in zip(*runs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_names_initial_values_and_files(kind):
    """Names in the state dict, and the order in which initial values are drawn, are Paddle's."""
    paddle.seed(5)
    net = getattr(nn, kind)(4, 3, 2, direction="bidirect")
    paddle.seed(5)
    cells = [KINDS[kind](w, 3) for w in (4, 4, 6, 6)]
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    keys = [f"{k}_l{i}{e}" for i in (0, 1) for e in ("", "_reverse") for k in kinds]
    state = net.state_dict()
    assert list(state)[:16] == keys
    assert list(state)[16] == "0.cell_fw.weight_ih"
    assert len(net.parameters()) == 16
    for key, parameter in zip(keys, [p for c in cells for p in c.parameters()], strict=True):
        np.testing.assert_array_equal(state[key].numpy(), parameter.numpy())
    x = paddle.to_tensor(X)
    want = net(x)[0].numpy()
    other = getattr(nn, kind)(4, 3, 2, direction="bidirectional")
    other.set_state_dict(state)
    for same in (other, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(same(x)[0].numpy(), want)


@pytest.mark.parametrize("kind", KINDS)
def test_without_biases(kind):
    """The operator requires both biases; without them layers run step by step, including padding steps."""
    paddle.seed(2)
    net = getattr(nn, kind)(4, 3, 2, "bidirect", bias_ih_attr=False, bias_hh_attr=False, dropout=0.5)
    assert len(net.parameters()) == 8
    net.eval()
    y, last = net(paddle.to_tensor(X))
    padded, states = net(paddle.to_tensor(X), sequence_length=paddle.to_tensor(LENGTHS))
    assert y.shape == padded.shape == [3, 5, 6]
    assert [list(s.shape) for s in arrays(last)] == [list(s.shape) for s in arrays(states)]
    np.testing.assert_allclose(y[0].numpy(), padded[0].numpy(), rtol=1e-6)
    net.train()
    assert np.abs(net(paddle.to_tensor(X))[0].numpy() - y.numpy()).max() > 1e-3


class Doubled(nn.RNNCellBase):
    """A user-defined cell with structured states."""

    def __init__(self):
        super().__init__()
        self.own = nn.LSTMCell(4, 3)
        self.input_size = 4

    @property
    def state_shape(self):
        return [[(3,), (3,)], (4,)]

    def forward(self, inputs, states, scale=1.0):
        y, pair = self.own(inputs + states[1], tuple(states[0]))
        return {"y": y * scale, "x": inputs}, [list(pair), states[1] + inputs]


def in_a_program(make, feed, lengths=False, steps=-1):
    """The results of `make` in a Program with unknown sizes, including gradients of the first one."""
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [-1, steps, 4])
            x.stop_gradient = False
            n = paddle.static.data("n", [-1], "int64") if lengths else None
            outs = make(x, n)
            paddle.static.append_backward((outs[0] * outs[0]).sum())
            exe = paddle.static.Executor()
            exe.run(startup)
            names = [f"{p.name}@GRAD" for p in main.all_parameters()]
            values = {p.name: np.linspace(-0.5, 0.5, np.prod(p.shape)).reshape(p.shape) for p in main.all_parameters()}
            for name, value in values.items():
                paddle.static.global_scope().find_var(name).get_tensor().set(value.astype("float32"), exe.place)
            return exe.run(main, feed=feed, fetch_list=[*outs, "x@GRAD", *names])
    finally:
        paddle.disable_static()


def eagerly(layer, run, lengths):
    for p in layer.parameters():
        p.set_value(np.linspace(-0.5, 0.5, np.prod(p.shape)).reshape(p.shape).astype("float32"))
    x = paddle.to_tensor(X, stop_gradient=False)
    outs = run(layer, x, paddle.to_tensor(LENGTHS) if lengths else None)
    (outs[0] * outs[0]).sum().backward()
    return [o.numpy() for o in outs] + [x.gradient()] + [p.gradient() for p in layer.parameters()]


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_custom_cell_in_a_program(lengths, reverse):
    """The Program contains the cell once, in a loop."""

    def run(layer, x, n):
        y, states = layer(x, sequence_length=n, scale=2.0)
        return [y["y"], y["x"], *paddle.fluid.layers.utils.flatten(states)]

    feed = {"x": X, "n": LENGTHS} if lengths else {"x": X}
    got = in_a_program(lambda x, n: run(nn.RNN(Doubled(), reverse), x, n), feed, lengths)
    want = eagerly(nn.RNN(Doubled(), reverse), run, lengths)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [False, True])
def test_networks_in_a_program(kind, lengths):
    def run(layer, x, n):
        y, states = layer(x, sequence_length=n)
        return [y, *paddle.fluid.layers.utils.flatten(states)]

    feed = {"x": X, "n": LENGTHS} if lengths else {"x": X}

    def make():
        return getattr(nn, kind)(4, 3, 2, "bidirect")

    got = in_a_program(lambda x, n: run(make(), x, n), feed, lengths)
    for a, b in zip(got, eagerly(make(), run, lengths), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="direction"):
        nn.LSTM(4, 3, direction="backward")
    with pytest.raises(ValueError, match="activation"):
        nn.SimpleRNN(4, 3, activation="sigmoid")
    with pytest.raises(ValueError, match="input size"):
        nn.BiRNN(nn.GRUCell(4, 3), nn.GRUCell(5, 3))
    with pytest.raises(ValueError, match="at least one step"):
        nn.RNN(Doubled())(paddle.zeros([2, 0, 4]))
    with pytest.raises(ValueError, match="WeightList"):
        nn.GRU(4, 3)(paddle.zeros([2, 5, 3]))
    with pytest.raises(AssertionError):
        nn.BiRNN(nn.GRUCell(4, 3), nn.GRUCell(4, 3))(paddle.zeros([2, 5, 4]), [paddle.zeros([2, 3])])
    assert "dropout=0.5" in repr(nn.GRU(4, 3, 2, time_major=True, dropout=0.5))
