"""Recurrent networks and gather_tree."""

import numpy as np
import pytest
from case import case, real, table

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(mode, x, states, w_ih, w_hh, b_ih, b_hh):
    """The states after one step."""
    h = states[0]
    own, new = h @ w_hh.T + b_hh, x @ w_ih.T + b_ih
    if mode == "LSTM":
        i, f, g, o = np.split(own + new, 4, 1)
        c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]
    if mode == "GRU":
        (r, z, c), (own_r, own_z, own_c) = np.split(new, 3, 1), np.split(own, 3, 1)
        r, z = sigmoid(r + own_r), sigmoid(z + own_z)
        return [z * h + (1 - z) * np.tanh(c + r * own_c)]
    return [np.tanh(own + new) if mode == "RNN_TANH" else np.maximum(own + new, 0)]


def network(x, states, weights, lengths=None, mode="LSTM", num_layers=1, is_bidirec=False, hidden_size=0, **_):
    steps, batch, _ = x.shape
    lengths = np.full(batch, steps) if lengths is None else lengths.astype(int)
    directions = 2 if is_bidirec else 1
    last = [s.copy() for s in states]
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            part = layer * directions + direction
            at = 2 * num_layers * directions + 2 * part
            params = weights[2 * part], weights[2 * part + 1], weights[at], weights[at + 1]
            state = [s[part] for s in states]
            out = np.zeros((steps, batch, hidden_size))
            for t in range(steps) if direction == 0 else reversed(range(steps)):
                on = (t < lengths)[:, None]
                new = step(mode, x[t], state, *params)
                state = [np.where(on, a, b) for a, b in zip(new, state, strict=True)]
                out[t] = np.where(on, new[0], 0)
            for s, end in zip(last, state, strict=True):
                s[part] = end
            outs.append(out)
        x = np.concatenate(outs, 2)
    return {"Out": x, "State": last}


def rnn(mode, sizes=(3, 2, 3, 2), num_layers=1, is_bidirec=False, lengths=None, grad=True, **more):
    steps, batch, width, hidden = sizes
    directions, rows = 2 if is_bidirec else 1, GATES[mode] * hidden
    parts = num_layers * directions
    weights = []
    for part in range(parts):
        weights += [real(rows, width if part < directions else directions * hidden, seed=part), real(rows, hidden)]
    weights += [real(rows, seed=20 + i) for i in range(2 * parts)]
    states = [real(parts, batch, hidden, seed=40 + i) for i in range(2 if mode == "LSTM" else 1)]
    inputs = {"Input": real(steps, batch, width, seed=50), "PreState": states, "WeightList": weights}
    if lengths is not None:
        inputs["SequenceLength"] = np.array(lengths, "int32")
    attrs = {
        "mode": mode,
        "hidden_size": hidden,
        "input_size": width,
        "num_layers": num_layers,
        "is_bidirec": is_bidirec,
        **more,
    }
    return case(
        "rnn",
        inputs,
        attrs,
        network,
        dtypes="float32",
        grad_of="Out State",
        grad="Input PreState WeightList" if grad else "",
    )


def wrong(match, attrs=None, **inputs):
    good = rnn("GRU")
    return case("rnn", {**good.inputs, **inputs}, {**good.attrs, **(attrs or {})}, raises=ValueError, match=match)


test_rnn = table(
    rnn("LSTM"),
    rnn("GRU"),
    rnn("RNN_TANH"),
    rnn("RNN_RELU"),
    rnn("LSTM", num_layers=2, is_bidirec=True, lengths=[3, 1]),
    rnn("GRU", num_layers=2, is_bidirec=True, lengths=[2, 3]),
    rnn("RNN_TANH", num_layers=2, is_bidirec=True, lengths=[0, 2]),
    rnn("LSTM", lengths=[3, 3]),
    rnn("GRU", num_layers=3, is_test=True),
    rnn("LSTM", (5, 7, 20, 33), num_layers=2, is_bidirec=True, lengths=[5, 2, 4, 1, 3, 5, 5], grad=False),
    rnn("GRU", (4, 0, 3, 2), grad=False),
    rnn("LSTM", (2, 2, 0, 3), grad=False),
    wrong("mode", {"mode": "lstm"}),
    wrong("hidden_size", {"hidden_size": 0}),
    wrong("PreState", {"mode": "LSTM"}),
    wrong("WeightList", {"num_layers": 2}),
    wrong("WeightList", {"num_layers": 2**31 - 1, "is_bidirec": True}),
    wrong("PreState", PreState=[real(1, 3, 2)]),
    wrong("three dimensions", Input=real(3, 2)),
    wrong("PreState", {"hidden_size": 3}),
    wrong("WeightList", Input=real(3, 2, 5)),
    wrong("float32", Input=real(3, 2, 3).astype("float32")),
    wrong("a step or more", Input=real(0, 2, 3)),
    wrong("dropout_prob", {"dropout_prob": 1.5}),
    wrong("SequenceLength", SequenceLength=np.array([1, 4], "int32")),
    wrong("SequenceLength", SequenceLength=np.array([1, -1], "int32")),
    wrong("SequenceLength", SequenceLength=np.array([1, 2, 3], "int32")),
)


def tree(ids, parents):
    out = np.zeros_like(ids)
    for b, k in np.ndindex(ids.shape[1:]):
        at = k
        for t in reversed(range(len(ids))):
            out[t, b, k] = ids[t, b, at]
            at = parents[t, b, at]
    return out


IDS = np.random.default_rng(1).integers(0, 9, (5, 2, 3))
PARENTS = np.random.default_rng(2).integers(0, 3, (5, 2, 3))

test_gather_tree = table(
    case("gather_tree", [IDS, PARENTS], expected=tree, dtypes="int32"),
    case("gather_tree", [IDS[:1], PARENTS[:1] + 9], expected=IDS[:1]),
    case("gather_tree", [IDS[:0], PARENTS[:0]], expected=IDS[:0]),
    case("gather_tree", [IDS, PARENTS + 1], raises=ValueError, match="beams"),
    case("gather_tree", [IDS, PARENTS - 1], raises=ValueError, match="beams"),
    case("gather_tree", [IDS, PARENTS[:, :, :2]], raises=ValueError, match="Parents"),
    case("gather_tree", [IDS, PARENTS.astype("int32")], raises=ValueError, match="Parents"),
    case("gather_tree", [IDS[0], PARENTS[0]], raises=ValueError, match="three dimensions"),
    case("gather_tree", [IDS.astype("float32"), PARENTS.astype("float32")], raises=NotImplementedError),
)


@pytest.mark.parametrize("mode", ["LSTM", "GRU"])
def test_dropout(mode):
    """Between layers only, by one mask, which DropoutState returns; the gradient uses the same mask."""
    import paddle
    from paddle import _ops

    c = rnn(mode, num_layers=3)
    x = paddle.to_tensor(c.inputs["Input"], stop_gradient=False)
    states, weights = ([paddle.to_tensor(a) for a in c.inputs[k]] for k in ("PreState", "WeightList"))
    mask, _, out, _ = _ops.rnn(x, states, weights, **{**c.attrs, "dropout_prob": 0.4, "seed": 3})
    assert mask.shape == [3, 2, 2]
    assert set(mask.numpy().ravel()) == {0, 1}
    kept = mask.numpy() / (1 - np.float64(np.float32(0.4)))

    def by_hand(x):
        w, s = c.inputs["WeightList"], c.inputs["PreState"]
        for layer in range(3):
            own = [*w[2 * layer : 2 * layer + 2], *w[6 + 2 * layer : 8 + 2 * layer]]
            x = network(x, [h[layer : layer + 1] for h in s], own, mode=mode, hidden_size=2)["Out"]
            x = x * kept if layer < 2 else x
        return x

    np.testing.assert_allclose(out.numpy(), by_hand(c.inputs["Input"]), rtol=1e-6)
    out.sum().backward()
    nudge = np.zeros_like(c.inputs["Input"])
    nudge[1, 0, 2] = 1e-5
    change = by_hand(c.inputs["Input"] + nudge).sum() - by_hand(c.inputs["Input"] - nudge).sum()
    np.testing.assert_allclose(x.grad[1, 0, 2].item(), change / 2e-5, rtol=1e-4)
    test = _ops.rnn(x, states, weights, **{**c.attrs, "dropout_prob": 0.4, "is_test": True})[2]
    np.testing.assert_allclose(test.numpy(), network(*c.inputs.values(), **c.attrs)["Out"], rtol=1e-9)


def cudnn(sizes=(3, 2, 3, 2), num_layers=1, is_bidirec=False, lengths=None, flat=False, **more):
    """The network of rnn, with weights optionally packed into one tensor."""
    given = rnn("LSTM", sizes, num_layers, is_bidirec, lengths, **more)
    states, weights = given.inputs["PreState"], given.inputs["WeightList"]
    inputs = {"Input": given.inputs["Input"], "InitH": states[0], "InitC": states[1]}
    if flat:
        inputs["W"] = np.concatenate([w.ravel() for w in weights])
    else:
        inputs["WeightList"] = weights
    if lengths is not None:
        inputs["SequenceLength"] = given.inputs["SequenceLength"]
    attrs = {k: v for k, v in given.attrs.items() if k != "mode"}

    def expected(x, h, c, *rest, **attrs):
        found = network(x, [h, c], weights, None if lengths is None else rest[-1], **attrs)
        return {"Out": found["Out"], "LastH": found["State"][0], "LastC": found["State"][1]}

    return case(
        "cudnn_lstm",
        inputs,
        attrs,
        expected,
        dtypes="float32",
        grad_of="Out LastH LastC",
        grad=["Input", "InitH", "InitC", "W" if flat else "WeightList"],
    )


FLAT = cudnn(flat=True)


def wrong_cudnn(match, attrs=None, **inputs):
    attrs = FLAT.attrs | (attrs or {})
    return case("cudnn_lstm", FLAT.inputs | inputs, attrs, raises=ValueError, match=match)


test_cudnn_lstm = table(
    cudnn(),
    FLAT,
    cudnn(num_layers=2, is_bidirec=True, lengths=[3, 1]),
    cudnn(num_layers=2, is_bidirec=True, flat=True),
    wrong_cudnn("W must be", {"num_layers": 2, "is_bidirec": True}, InitH=real(4, 2, 2), InitC=real(4, 2, 2)),
    wrong_cudnn("W must be", W=FLAT.inputs["W"][1:]),
    wrong_cudnn("InitH", {"num_layers": 2**31 - 1}),
    wrong_cudnn("hidden_size", {"hidden_size": 0}),
    wrong_cudnn("three dimensions", Input=real(3, 2)),
)
