"""Recurrent networks of 1.x: over LoD sequences, and single steps."""

import numpy as np
from case import case, real, table

ACTS = {
    "identity": lambda x: x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}
OFFSETS = [0, 2, 6, 6, 9]
COUNT, ROWS, D = 4, 9, 3


def by_sequence(x, reverse, step, *states):
    """Runs `step` over each sequence; returns the rows in the order of x."""
    outs = None
    for i, (a, b) in enumerate(zip(OFFSETS, OFFSETS[1:], strict=False)):
        state = [s[i] for s in states]
        for t in reversed(range(a, b)) if reverse else range(a, b):
            state = step(x[t], *state)
            outs = outs or [np.zeros((len(x), len(s))) for s in state]
            for out, s in zip(outs, state, strict=True):
                out[t] = s
    return outs


def cell(x, h, c, weight, bias, gate, cell_act, cand, clip=0.0):
    n = len(c)
    g, i, f, o = np.split(x + h @ weight + bias[: 4 * n], 4)
    holes = np.split(bias[4 * n :], 3) if len(bias) > 4 * n else [0, 0, 0]
    i, f = ACTS[gate](i + c * holes[0]), ACTS[gate](f + c * holes[1])
    new = ACTS[cand](g) * i + c * f
    new = np.clip(new, -clip, clip) if clip > 0 else new
    return ACTS[gate](o + new * holes[2]) * ACTS[cell_act](new), new


def lstm(
    x,
    *given,
    is_reverse=False,
    use_peepholes=True,
    gate_activation="sigmoid",
    cell_activation="tanh",
    candidate_activation="tanh",
):
    h0, c0 = given[:2] if len(given) == 4 else (np.zeros((COUNT, D)), np.zeros((COUNT, D)))
    weight, bias = given[-2:]
    acts = gate_activation, cell_activation, candidate_activation
    hidden, cells = by_sequence(x, is_reverse, lambda x, h, c: cell(x, h, c, weight, bias[0], *acts), h0, c0)
    return {"Hidden": hidden, "Cell": cells}


def lstmp(
    x,
    *given,
    is_reverse=False,
    use_peepholes=True,
    gate_activation="sigmoid",
    cell_activation="tanh",
    candidate_activation="tanh",
    proj_activation="tanh",
    cell_clip=0.0,
    proj_clip=0.0,
):
    weight, projection, bias = given[-3:]
    h0, c0 = given[:2] if len(given) == 5 else (np.zeros((COUNT, weight.shape[0])), np.zeros((COUNT, D)))
    acts = gate_activation, cell_activation, candidate_activation

    def step(x, r, c):
        h, c = cell(x, r, c, weight, bias[0], *acts, cell_clip)
        # as in Paddle: the cell's activation, if there is one
        r = h @ projection if proj_activation == "identity" else ACTS[cell_activation](h @ projection)
        return np.clip(r, -proj_clip, proj_clip) if proj_clip > 0 else r, c

    projected, cells = by_sequence(x, is_reverse, step, h0, c0)
    return {"Projection": projected, "Cell": cells}


def gru_step(x, h, weight, gate, act, origin):
    n = len(h)
    both, own = weight.ravel()[: 2 * n * n].reshape(n, 2 * n), weight.ravel()[2 * n * n :].reshape(n, n)
    u, r = np.split(ACTS[gate](x[: 2 * n] + h @ both), 2)
    c = ACTS[act](x[2 * n :] + (r * h) @ own)
    return (u * h + (1 - u) * c if origin else (1 - u) * h + u * c), r * h


def gru(x, *given, is_reverse=False, activation="tanh", gate_activation="sigmoid", origin_mode=False):
    weight, bias = given[-2:] if given[-1].shape[0] == 1 else (given[-1], 0)
    h0 = given[0] if given[0].shape[0] == COUNT else np.zeros((COUNT, D))
    step = lambda x, h: gru_step(x, h, weight, gate_activation, activation, origin_mode)[:1]  # noqa: E731
    return {"Hidden": by_sequence(x + bias, is_reverse, step, h0)[0]}


def gru_unit(x, h, weight, bias=0, activation=2, gate_activation=1, origin_mode=False):
    names = list(ACTS)
    rows = [
        gru_step(a, b, weight, names[gate_activation], names[activation], origin_mode)
        for a, b in zip(x + bias, h, strict=True)
    ]
    return {"Hidden": np.array([r[0] for r in rows]), "ResetHiddenPrev": np.array([r[1] for r in rows])}


def lstm_unit(x, c, forget_bias=0.0):
    i, f, o, g = np.split(x, 4, 1)
    c = ACTS["sigmoid"](f + np.float64(np.float32(forget_bias))) * c + ACTS["sigmoid"](i) * np.tanh(g)
    return {"C": c, "H": ACTS["sigmoid"](o) * np.tanh(c)}


X4, X3 = real(ROWS, 4 * D, seed=1), real(ROWS, 3 * D, seed=2)
W4, W3 = real(D, 4 * D, seed=3), real(D, 3 * D, seed=4)
B7, B4, B3 = real(1, 7 * D, seed=5), real(1, 4 * D, seed=6), real(1, 3 * D, seed=7)
H0, C0 = real(COUNT, D, seed=8), real(COUNT, D, seed=9)
P = 2
WP, PROJ, R0 = real(P, 4 * D, seed=10), real(D, P, seed=11), real(COUNT, P, seed=12)
LOD = {"lod": {"Input": [OFFSETS]}}
EMPTY = {"lod": {"Input": [[0, 0, 0]]}}


def a_lstm(inputs, grad, **attrs):
    return case(
        "lstm",
        inputs,
        attrs,
        lstm,
        grad=grad,
        grad_of="Hidden",
        dtypes="float32",
        out_lod={"Hidden": [OFFSETS], "Cell": [OFFSETS]},
        **LOD,
    )


def a_projected(inputs, grad, **attrs):
    return case("lstmp", inputs, attrs, lstmp, grad=grad, grad_of="Projection", dtypes="float32", **LOD)


def a_gru(inputs, grad, **attrs):
    return case("gru", inputs, attrs, gru, grad=grad, grad_of="Hidden", dtypes="float32", **LOD)


def wrong(op, match, inputs, attrs=None, raises=ValueError, **more):
    return case(op, inputs, attrs or {}, raises=raises, match=match, **{**LOD, **more})


test_lstm = table(
    a_lstm([X4, H0, C0, W4, B7], "Input H0 C0 Weight Bias"),
    a_lstm([X4, None, None, W4, B7], "Input Weight Bias", is_reverse=True),
    a_lstm([X4, H0, C0, W4, B4], "Input H0 C0 Weight Bias", use_peepholes=False, is_reverse=True),
    a_lstm(
        [X4, None, None, W4, B4],
        "Input",
        use_peepholes=False,
        candidate_activation="relu",
        cell_activation="identity",
        gate_activation="tanh",
    ),
    case("lstm", [X4[:0], None, None, W4, B7], expected={"Hidden": np.zeros((0, D))}, **EMPTY),
    wrong("lstm", "activation", [X4, None, None, W4, B7], {"gate_activation": "gelu"}),
    wrong("lstm", "C0", [X4, H0, None, W4, B7], raises=RuntimeError),
    wrong("lstm", "Bias", [X4, None, None, W4, B4]),
    wrong("lstm", "Weight", [X4, None, None, WP, B7]),
    wrong("lstm", "four times", [X4[:, :10], None, None, W4, B7]),
    wrong("lstm", "first states", [X4, H0[:2], C0[:2], W4, B7]),
    wrong("lstm", "LoD", [X4, None, None, W4, B7], lod={}),
    wrong("lstm", "LoD", [X4, None, None, W4, B7], lod={"Input": [[0, 20]]}),
)

test_lstmp = table(
    a_projected([X4, R0, C0, WP, PROJ, B7], "Input H0 C0 Weight ProjWeight Bias"),
    a_projected(
        [X4, None, None, WP, PROJ, B4],
        "Input Weight ProjWeight Bias",
        use_peepholes=False,
        proj_activation="identity",
        is_reverse=True,
    ),
    a_projected([X4, R0, C0, WP, PROJ, B7], "Input H0 Weight ProjWeight", cell_clip=0.25, proj_clip=0.125),
    a_projected([X4, None, None, WP, PROJ, B4], "", use_peepholes=False, cell_activation="relu"),
    wrong("lstmp", "ProjWeight", [X4, None, None, WP, PROJ.T.copy(), B7]),
    wrong("lstmp", "Weight", [X4, None, None, W4, PROJ, B7]),
    wrong("lstmp", "H0", [X4, H0, C0, WP, PROJ, B7]),
)

test_gru = table(
    a_gru([X3, H0, W3, B3], "Input H0 Weight Bias"),
    a_gru([X3, None, W3, B3], "Input Weight Bias", is_reverse=True),
    a_gru([X3, H0, W3, None], "Input H0 Weight", origin_mode=True, is_reverse=True),
    a_gru([X3, None, W3, None], "Input Weight", activation="identity", gate_activation="tanh", origin_mode=True),
    case("gru", [X3[:0], None, W3, B3], expected={"Hidden": np.zeros((0, D))}, **EMPTY),
    wrong("gru", "activation", [X3, None, W3, B3], {"activation": "max"}),
    wrong("gru", "Weight", [X3, None, W3.T.copy(), B3]),
    wrong("gru", "Input", [X4, None, W3, B3]),
    wrong("gru", "Bias", [X3, None, W3, B4]),
    wrong("gru", "first states", [X3, H0[:3], W3, B3]),
    wrong("gru", "LoD", [X3, None, W3, B3], lod={}),
)

ONE = real(5, D, seed=20)
test_gru_unit = table(
    *(
        case(
            "gru_unit",
            [X3[:5], ONE, W3, B3],
            {"origin_mode": origin},
            gru_unit,
            dtypes="float32",
            grad="Input HiddenPrev Weight Bias",
            grad_of="Hidden",
        )
        for origin in (False, True)
    ),
    case(
        "gru_unit",
        [X3[:5], ONE, W3],
        {"activation": 0, "gate_activation": 2},
        gru_unit,
        grad="Input Weight",
        grad_of="Hidden",
    ),
    case("gru_unit", [X3[:1], ONE[:1], W3, B3], {"activation": 3}, gru_unit),
    case("gru_unit", [X3[:0], ONE[:0], W3, B3], expected={"Hidden": ONE[:0]}),
    case("gru_unit", [X3[:5], ONE, W3], {"activation": 4}, raises=ValueError, match="activation"),
    case("gru_unit", [X3[:4], ONE, W3], raises=ValueError, match="as many rows"),
    case("gru_unit", [X3[:5], ONE, W4], raises=ValueError, match="Weight"),
)

test_lstm_unit = table(
    case("lstm_unit", [X4, real(ROWS, D)], {"forget_bias": 0.5}, lstm_unit, grad="X C_prev", dtypes="float32"),
    case("lstm_unit", [X4, real(ROWS, D)], {}, lstm_unit, grad="X", grad_of="H"),
    case("lstm_unit", [X4[:0], C0[:0]], {}, lstm_unit),
    case("lstm_unit", [X4, C0], raises=ValueError, match="batch"),
    case("lstm_unit", [X3, real(ROWS, D)], raises=ValueError, match="width"),
)
