"""Recurrent networks fused with their input products; fused pooling, expansion and convolution of sequences."""

import numpy as np
from case import case, covers, real, table
from test_lod_rnn import ACTS, COUNT, OFFSETS, ROWS, D, gru, lstm

M = 2
X = real(ROWS, M, seed=1)
WX4, WX3 = real(M, 4 * D, seed=2), real(M, 3 * D, seed=3)
W4, W3 = real(D, 4 * D, seed=4), real(D, 3 * D, seed=5)
B7, B4, B3 = real(1, 7 * D, seed=6), real(1, 4 * D, seed=7), real(1, 3 * D, seed=8)
H0, C0 = real(COUNT, D, seed=9), real(COUNT, D, seed=10)
LOD = {"lod": {"X": [OFFSETS]}}


def fusion_lstm(x, wx, wh, bias, *states, use_seq=True, **attrs):
    return lstm(x @ wx, *states, wh, bias, **attrs)


def fusion_gru(x, *given, use_seq=True, **attrs):
    h0, (wx, wh, *bias) = (given[:1], given[1:]) if given[0].shape[0] == COUNT else ((), given)
    return gru(x @ wx, *h0, wh, *bias, **attrs)


def embedded(ids, rows, wh, bias, *states, **attrs):
    bias = np.concatenate([bias[:, : 4 * D] * 0, bias[:, 4 * D :]], 1)  # is included in the rows
    return lstm(rows[ids[:, 0].astype(int)], *states, wh, bias, **attrs)


def multi_gru(x, wx, wh, bias=None, layers=1, **attrs):
    bias = [np.zeros((1, w.shape[1])) for w in wx] if bias is None else bias
    for i in range(layers):
        halves = [gru(x @ wx[k], wh[k], bias[k], is_reverse=k % 2 == 1, **attrs)["Hidden"] for k in (2 * i, 2 * i + 1)]
        x = np.concatenate(halves, 1)
    return {"Hidden": x}


IDS = np.random.default_rng(0).integers(0, 5, (ROWS, 1))
ROWS4 = real(5, 4 * D, seed=11)
TWO = [[WX3, WX3[::-1].copy()], [W3, W3[::-1].copy()], [B3, -B3]]
MORE = [[*TWO[0], real(2 * D, 3 * D), real(2 * D, 3 * D, seed=1)], [*TWO[1], *TWO[1]], [*TWO[2], *TWO[2]]]
test_fusion_lstm = table(
    case(
        "fusion_lstm", [X, WX4, W4, B7, H0, C0], {}, fusion_lstm, dtypes="float32", out_lod={"Hidden": [OFFSETS]}, **LOD
    ),
    case(
        "fusion_lstm",
        [X, WX4, W4, B4],
        {"use_peepholes": False, "is_reverse": True, "gate_activation": "relu"},
        fusion_lstm,
        **LOD,
    ),
    case("fusion_lstm", [X, WX4[1:], W4, B7], raises=ValueError, match="WeightX", **LOD),
    case("fusion_lstm", [X, WX4, W4, B4], raises=ValueError, match="Bias", **LOD),
    case("fusion_lstm", [X, WX4, W4, B7], raises=ValueError, match="LoD"),
)
test_fused_embedding_fc_lstm = table(
    case(
        "fused_embedding_fc_lstm", [IDS, ROWS4, W4, B7, H0, C0], {}, embedded, lod={"Ids": [OFFSETS]}, dtypes="float32"
    ),
    case(
        "fused_embedding_fc_lstm",
        [IDS, ROWS4, W4, B4],
        {"use_peepholes": False, "is_reverse": True},
        embedded,
        lod={"Ids": [OFFSETS]},
    ),
    case("fused_embedding_fc_lstm", [IDS + 1, ROWS4, W4, B7], raises=ValueError, match="Ids", lod={"Ids": [OFFSETS]}),
    case("fused_embedding_fc_lstm", [IDS - 1, ROWS4, W4, B7], raises=ValueError, match="Ids", lod={"Ids": [OFFSETS]}),
)
test_fusion_gru = table(
    case("fusion_gru", [X, H0, WX3, W3, B3], {}, fusion_gru, dtypes="float32", out_lod={"Hidden": [OFFSETS]}, **LOD),
    case("fusion_gru", [X, None, WX3, W3], {"origin_mode": True, "is_reverse": True}, fusion_gru, **LOD),
    case("fusion_gru", [X, H0, WX3, W3[1:], B3], raises=ValueError, match="WeightH|Weight", **LOD),
    case("fusion_gru", [X, H0[1:], WX3, W3, B3], raises=ValueError, match="first states", **LOD),
)
test_multi_gru = table(
    case("multi_gru", [X, *TWO], {}, multi_gru, **LOD),
    case("multi_gru", [X, *TWO[:2]], {"origin_mode": True}, multi_gru, **LOD),
    case("multi_gru", [X, *MORE], {"layers": 2}, multi_gru, dtypes="float32", **LOD),
    case("multi_gru", [X, *TWO], {"layers": 2}, raises=ValueError, match="two tensors", **LOD),
    case("multi_gru", [X, *TWO], {"layers": 0}, raises=ValueError, match="two tensors", **LOD),
    case("multi_gru", [X[:, :1], *TWO], raises=ValueError, match="layer 0", **LOD),
)


def attention(x, c0, *given):
    """H0, the bias and the scalars are given together, or none of them."""
    if len(given) == 7:
        h0, w, b, scale, scale_bias, lw, lb = given
    else:
        (w, lw, lb), h0, b, scale = given, np.zeros_like(c0), 0, None
    n = c0.shape[1]
    hidden, cells = np.zeros((ROWS, n)), np.zeros((ROWS, n))
    for i, (start, end) in enumerate(zip(OFFSETS, OFFSETS[1:], strict=False)):
        h, c, own = h0[i], c0[i], x[start:end]
        for t in range(start, end):
            scores = np.maximum(own @ w[:M, 0] + c @ w[M:, 0] + np.ravel(b), 0)
            if scale is not None:
                scores = np.maximum(scores * scale[0, 0] + scale_bias[0, 0], 0)
            weights = np.exp(scores) / np.exp(scores).sum()
            f, i_, o, g = np.split(h @ lw[:n] + weights @ own @ lw[n:] + lb[0], 4)
            c = ACTS["sigmoid"](f) * c + ACTS["sigmoid"](i_) * np.tanh(g)
            h = ACTS["sigmoid"](o) * np.tanh(c)
            hidden[t], cells[t] = h, c
    return {"Hidden": hidden, "Cell": cells}


AW, LW, ONE = real(M + D, 1, seed=12), real(D + M, 4 * D, seed=13), np.array([[0.7]])
test_attention_lstm = table(
    case("attention_lstm", [X, C0, H0, AW, ONE, ONE * 2, ONE - 0.6, LW, B4], {}, attention, dtypes="float32", **LOD),
    case("attention_lstm", [X, C0, None, AW, None, None, None, LW, B4], {}, attention, **LOD),
    case("attention_lstm", [X, C0[1:], None, AW, None, None, None, LW, B4], raises=ValueError, match="C0", **LOD),
    case(
        "attention_lstm",
        [X, C0, None, AW[1:], None, None, None, LW, B4],
        raises=ValueError,
        match="AttentionWeight",
        **LOD,
    ),
    case(
        "attention_lstm", [X, C0, None, AW, None, None, None, LW[1:], B4], raises=ValueError, match="LSTMWeight", **LOD
    ),
)

# fused sequence operators

PARTS = [real(6, 3, low=0, high=2, seed=i) for i in range(2)]
PART_LODS = {"X": [[0, 2, 6]]}


def pooled(parts, cvm=None, pooltype="SUM", **_):
    scale = {"SUM": lambda n: 1, "AVERAGE": lambda n: n, "SQRT": np.sqrt}[pooltype]
    rows = [[p[a:b].sum(0) / scale(b - a) for p in parts] for a, b in ((0, 2), (2, 6))]
    if cvm is not None:
        for row in (r for part in rows for r in part):
            row[0] = np.log(row[0] + 1)
            row[1] = np.log(row[1] + 1) - row[0]
    return np.array([np.concatenate(r) for r in rows])


test_seqpool = table(
    *(
        case(
            "fusion_seqpool_concat",
            [PARTS],
            {"pooltype": kind},
            pooled,
            lod=PART_LODS,
            out_lod={"Out": [[0, 1, 2]]},
            dtypes="float32",
        )
        for kind in ("SUM", "AVERAGE", "SQRT")
    ),
    case(
        "fusion_seqpool_cvm_concat",
        [PARTS, real(2, 2)],
        {"pooltype": "AVERAGE"},
        pooled,
        lod=PART_LODS,
        dtypes="float32",
    ),
    case("fusion_seqpool_concat", [PARTS], {"pooltype": "MAX"}, raises=ValueError, match="pooltype", lod=PART_LODS),
    case("fusion_seqpool_concat", [PARTS], {"axis": 0}, raises=ValueError, match="axis", lod=PART_LODS),
    case("fusion_seqpool_concat", [PARTS], raises=ValueError, match="LoD"),
    case("fusion_seqpool_concat", [[PARTS[0], real(6, 2)]], raises=ValueError, match="one width", lod=PART_LODS),
    case(
        "fusion_seqpool_cvm_concat",
        [PARTS, real(2, 2)],
        {"use_cvm": False},
        raises=ValueError,
        match="use_cvm",
        lod=PART_LODS,
    ),
    case("fusion_seqpool_cvm_concat", [[real(6, 1)], real(2, 2)], raises=ValueError, match="show", lod=PART_LODS),
)


def convolved(x, w, bias, contextLength, contextStart=0, **_):
    columns = np.zeros((ROWS, len(w)))
    for a, b in zip(OFFSETS, OFFSETS[1:], strict=False):
        for t in range(a, b):
            for j in range(contextLength):
                if a <= t + contextStart + j < b:
                    columns[t, j * M : (j + 1) * M] = x[t + contextStart + j]
    return np.maximum(columns @ w + bias, 0)


test_seqconv = table(
    *(
        case(
            "fusion_seqconv_eltadd_relu",
            [X, real(3 * M, 4), real(1, 4)],
            {"contextLength": 3, "contextStart": start},
            convolved,
            out_lod={"Out": [OFFSETS]},
            dtypes="float32",
            **LOD,
        )
        for start in (-2, -1, 0, 1)
    ),
    case(
        "fusion_seqconv_eltadd_relu",
        [X, real(5, 4), real(1, 4)],
        {"contextLength": 3},
        raises=ValueError,
        match="Filter",
        **LOD,
    ),
    case(
        "fusion_seqconv_eltadd_relu",
        [X, real(6, 4), real(1, 3)],
        {"contextLength": 3},
        raises=ValueError,
        match="Bias",
        **LOD,
    ),
    case(
        "fusion_seqconv_eltadd_relu",
        [X, real(6, 4), real(1, 4)],
        {"contextLength": 3, "contextStart": -3},
        raises=ValueError,
        match="contextStart",
        **LOD,
    ),
    case(
        "fusion_seqconv_eltadd_relu",
        [X, real(6, 4), real(1, 4)],
        {"contextLength": 3, "contextStride": 2},
        raises=ValueError,
        match="contextStride",
        **LOD,
    ),
)


@covers("fusion_seqexpand_concat_fc")
def test_seqexpand_concat_fc() -> None:
    """Only the first input has steps; the output has its LoD."""
    import paddle
    from paddle import _ops

    first, others = real(ROWS, M, seed=1), [real(COUNT, 3, seed=2), real(COUNT, 1, seed=3)]
    w, bias = real(M + 4, 5, seed=4), real(1, 5, seed=5)
    x = paddle.to_tensor(first)
    x.value().get_tensor().set_lod([OFFSETS])
    rest = [paddle.to_tensor(o) for o in others]
    repeated = [np.repeat(o, np.diff(OFFSETS), 0) for o in others]
    want = np.concatenate([first, *repeated], 1) @ w
    run = lambda *b, **a: _ops.fusion_seqexpand_concat_fc([x, *rest], paddle.to_tensor(w), *b, **a)  # noqa: E731
    got = run(paddle.to_tensor(bias), fc_activation="relu")
    np.testing.assert_allclose(got.numpy(), np.maximum(want + bias, 0), rtol=1e-12)
    assert got.value().get_tensor().lod() == [OFFSETS]
    np.testing.assert_allclose(run().numpy(), want, rtol=1e-12)


test_seqexpand_wrong = table(
    case("fusion_seqexpand_concat_fc", [[X], real(M, 5)], raises=ValueError, match="two tensors", **LOD),
    case("fusion_seqexpand_concat_fc", [[X, X], real(M, 5)], raises=ValueError, match="FCWeight", **LOD),
    case("fusion_seqexpand_concat_fc", [[X, X], real(2 * M, 5)], raises=ValueError, match="a row for each", **LOD),
    case(
        "fusion_seqexpand_concat_fc",
        [[X, X], real(2 * M, 5)],
        {"fc_activation": "softmax"},
        raises=ValueError,
        match="fc_activation",
        **LOD,
    ),
)
