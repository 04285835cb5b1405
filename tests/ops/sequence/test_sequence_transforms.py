"""sequence_concat, conv, enumerate, erase, expand_as, mask, pad, unpad, slice, scatter, softmax, topk_avg_pooling."""

import numpy as np
import pytest
from case import apart, case, ints, real, table
from paddle import _ops
from paddle.fluid import core

LOD = [0, 2, 2, 5, 6]


def parts(x, level):
    return [x[a:b] for a, b in zip(level, level[1:], strict=False)]


def joined(xs):
    both = zip(*[parts(x, LOD) for x in xs], strict=True)
    return np.concatenate([p for pair in both for p in pair])


BOTH = {"X": [LOD]}
test_concat = table(
    case(
        "sequence_concat",
        [[real(6, 2), real(6, 2)]],
        expected=joined,
        grad="X",
        dtypes="float32",
        lod=BOTH,
        out_lod={"Out": [[0, 4, 4, 10, 12]]},
    ),
    case("sequence_concat", [[ints(6, 1, 2), ints(6, 1, 2), ints(6, 1, 2)]], expected=joined, lod=BOTH),
    case("sequence_concat", [[real(6, 2)]], raises=ValueError, match="more than one", lod=BOTH),
    case("sequence_concat", [[real(6, 2), real(6, 3)]], raises=ValueError, match="one size", lod=BOTH),
    case("sequence_concat", [[real(6, 2), real(6, 2)]], raises=ValueError, match="LoD"),
)


def with_lod(array, level):
    t = core.LoDTensor()
    t.set(array, None)
    t.set_lod([level])
    return core.VarBase(t)


def test_concat_of_different_lengths():
    a, b = np.arange(3.0)[:, None], -np.arange(4.0)[:, None]
    out = _ops.sequence_concat([with_lod(a, [0, 1, 3]), with_lod(b, [0, 3, 4])])
    assert out.numpy()[:, 0].tolist() == [0, 0, -1, -2, 1, 2, -3]
    assert out.value().get_tensor().lod() == [[0, 4, 7]]
    with pytest.raises(ValueError, match="as many sequences"):
        _ops.sequence_concat([with_lod(a, [0, 1, 3]), with_lod(b, [0, 4])])


def convolved(level):
    def f(x, *rest, contextLength=3, contextStart=0, paddingTrainable=False, contextStride=1):  # noqa: N803
        padding, weight = rest if len(rest) == 2 else (None, rest[0])
        up = max(0, -contextStart)
        rows = []
        for p in parts(x, level):
            for t in range(len(p)):
                window = []
                for k in range(contextLength):
                    at = t + contextStart + k
                    if 0 <= at < len(p):
                        window.append(p[at])
                    elif padding is None:
                        window.append(np.zeros(x.shape[1]))
                    else:
                        window.append(padding[at + up if at < 0 else up + at - len(p)])
                rows.append(np.concatenate(window) @ weight)
        return np.stack(rows)

    return f


test_conv = table(
    *[
        case(
            "sequence_conv",
            {"X": real(6, 2), "Filter": real(2 * n, 3)},
            {"contextLength": n, "contextStart": start},
            convolved(LOD),
            grad="X Filter",
            dtypes="float32",
            lod={"X": [LOD]},
            out_lod={"Out": [LOD]},
        )
        for n, start in ((3, -1), (1, 0), (2, 1), (3, -2), (4, -5), (2, 4))
    ],
    *[
        case(
            "sequence_conv",
            {"X": real(6, 2), "PaddingData": real(rows, 2), "Filter": real(2 * n, 3)},
            {"contextLength": n, "contextStart": start, "paddingTrainable": True},
            convolved(LOD),
            grad="X Filter PaddingData",
            lod={"X": [LOD]},
        )
        for n, start, rows in ((3, -1, 2), (2, 1, 2), (4, -5, 5), (3, 3, 5))
    ],
    case(
        "sequence_conv",
        {"X": real(6, 2), "Filter": real(5, 3)},
        {"contextLength": 3},
        raises=ValueError,
        match="Filter must have",
        lod={"X": [LOD]},
    ),
    case(
        "sequence_conv", {"X": real(6, 2), "Filter": real(6, 3)}, {"contextLength": 3}, raises=ValueError, match="LoD"
    ),
    case(
        "sequence_conv",
        {"X": real(6, 2), "Filter": real(6, 3)},
        {"contextLength": 3, "contextStride": 2},
        raises=ValueError,
        match="contextStride",
        lod={"X": [LOD]},
    ),
    case(
        "sequence_conv",
        {"X": real(6, 2), "Filter": real(6, 3)},
        {"contextLength": 3},
        raises=ValueError,
        match="one level",
        lod={"X": [[0, 4], LOD]},
    ),
)


def windows(x, win_size=2, pad_value=0):
    rows = []
    for p in parts(x, LOD):
        for t in range(len(p)):
            row = list(p[t : t + win_size, 0])
            rows.append(row + [pad_value] * (win_size - len(row)))
    return np.array(rows, x.dtype)


def without(tokens):
    return lambda x, **_: x[~np.isin(x[:, 0], tokens)]


TOKENS = np.array([[2], [3], [3], [2], [5], [3]], "int64")
test_tokens = table(
    case(
        "sequence_enumerate",
        [TOKENS],
        {"win_size": 3, "pad_value": 9},
        windows,
        lod={"X": [LOD]},
        out_lod={"Out": [LOD]},
        dtypes="int32",
    ),
    case("sequence_enumerate", [TOKENS], {"win_size": 1}, raises=ValueError, match="win_size", lod={"X": [LOD]}),
    case("sequence_enumerate", [ints(6, 2)], {"win_size": 2}, raises=ValueError, match=r"\[N, 1\]", lod={"X": [LOD]}),
    case("sequence_enumerate", [TOKENS], {"win_size": 2}, raises=ValueError, match="LoD"),
    case(
        "sequence_erase",
        [TOKENS],
        {"tokens": [3, 7]},
        without([3, 7]),
        lod={"X": [LOD]},
        out_lod={"Out": [[0, 1, 1, 3, 3]]},
        dtypes="int32",
        static=False,
    ),
    case(
        "sequence_erase",
        [TOKENS],
        {"tokens": []},
        without([]),
        lod={"X": [[0, 1, 4], LOD]},
        out_lod={"Out": [[0, 1, 4], LOD]},
        static=False,
    ),
    case("sequence_erase", [TOKENS], {"tokens": [1]}, raises=ValueError, match="LoD"),
)


def like_y(x, y):
    return np.repeat(x, np.diff(LOD), axis=0)


test_expand_as = table(
    case(
        "sequence_expand_as",
        [real(4, 2), real(6, 1)],
        expected=like_y,
        grad="X",
        dtypes="float32",
        lod={"Y": [LOD]},
        out_lod={"Out": [LOD]},
        static=False,
    ),
    case("sequence_expand_as", [ints(4, 1, 3), real(6, 1)], expected=like_y, lod={"Y": [LOD]}, static=False),
    case("sequence_expand_as", [real(3, 2), real(6, 1)], raises=ValueError, match="a row for each", lod={"Y": [LOD]}),
    case("sequence_expand_as", [real(4, 2), real(6, 1)], raises=ValueError, match="LoD"),
    case(
        "sequence_expand_as", [real(4, 2), real(6, 1)], raises=ValueError, match="one level", lod={"Y": [[0, 4], LOD]}
    ),
)

KIND = core.VarDesc.VarType


def masked(kind):
    def f(x, most=None, maxlen=-1, out_dtype=0):
        n = int(most[0]) if most is not None else maxlen if maxlen > 0 else int(x.max(initial=0))
        return (np.arange(n) < x[..., None]).astype(kind)

    return f


LENGTHS = np.array([[1, 0], [3, 5]], "int64")
test_mask = table(
    *[
        case(
            "sequence_mask",
            [LENGTHS],
            {"maxlen": 4, "out_dtype": int(number)},
            masked(kind),
            out_dtype=kind,
            dtypes="int32" if kind == "int64" else "",
        )
        for kind, number in (
            ("int64", KIND.INT64),
            ("int32", KIND.INT32),
            ("float32", KIND.FP32),
            ("bool", KIND.BOOL),
            ("uint8", KIND.UINT8),
            ("float64", KIND.FP64),
        )
    ],
    case("sequence_mask", [LENGTHS], {"out_dtype": int(KIND.INT64)}, masked("int64"), static=False),
    case(
        "sequence_mask",
        [LENGTHS, np.array([3], "int32")],
        {"out_dtype": int(KIND.INT64)},
        masked("int64"),
        static=False,
    ),
    case("sequence_mask", [LENGTHS], {"maxlen": 0, "out_dtype": int(KIND.INT64)}, raises=ValueError, match="maxlen"),
    case(
        "sequence_mask",
        [LENGTHS, np.array([0], "int32")],
        {"out_dtype": int(KIND.INT64)},
        raises=ValueError,
        match="MaxLenTensor",
    ),
    case("sequence_mask", [LENGTHS], {"maxlen": 2, "out_dtype": 99}, raises=ValueError, match="out_dtype"),
)


def padded(x, value, padded_length=-1):
    n = padded_length if padded_length > 0 else max(np.diff(LOD))
    out = np.empty((len(LOD) - 1, n, *x.shape[1:]), x.dtype)
    out[:] = value
    for row, p in zip(out, parts(x, LOD), strict=True):
        row[: len(p)] = p
    return out, np.diff(LOD).astype("int64")


def unpadded(x, lengths):
    rows = np.concatenate([row[:n] for row, n in zip(x, lengths, strict=True)])
    return rows if x.ndim > 2 else rows[:, None]


test_pad = table(
    case(
        "sequence_pad",
        [real(6, 2), real(1)],
        expected=padded,
        grad="X",
        dtypes="float32",
        lod={"X": [LOD]},
        static=False,
    ),
    case("sequence_pad", [real(6, 2), real(2)], {"padded_length": 5}, padded, grad="X", lod={"X": [LOD]}, static=False),
    case("sequence_pad", [ints(6, 2, 2), ints(1)], {"padded_length": 3}, padded, lod={"X": [LOD]}, static=False),
    case(
        "sequence_pad",
        [real(6, 2), real(1)],
        {"padded_length": 2},
        raises=ValueError,
        match="padded_length",
        lod={"X": [LOD]},
    ),
    case("sequence_pad", [real(6, 2), real(3)], raises=ValueError, match="PadValue", lod={"X": [LOD]}),
    case("sequence_pad", [real(6, 2), real(1)], raises=(RuntimeError, ValueError), match="LoD"),
    case(
        "sequence_unpad",
        [real(3, 4, 2), np.array([2, 0, 4], "int64")],
        expected=unpadded,
        grad="X",
        dtypes="float32",
        out_lod={"Out": [[0, 2, 2, 6]]},
        static=False,
    ),
    case(
        "sequence_unpad",
        [real(3, 4), np.array([1, 2, 3], "int64")],
        expected=unpadded,
        grad="X",
        out_lod={"Out": [[0, 1, 3, 6]]},
        static=False,
    ),
    case("sequence_unpad", [real(3, 4), np.array([1, 5, 3], "int64")], raises=ValueError, match="length"),
    case("sequence_unpad", [real(3, 4), np.array([1, -1, 3], "int64")], raises=ValueError, match="length"),
    case("sequence_unpad", [real(3, 4), np.array([1, 2], "int64")], raises=ValueError, match="each of the 3 rows"),
)

test_relevel = table(
    case(
        "sequence_reshape",
        [real(6, 2)],
        {"new_dim": 4},
        lambda x, new_dim: x.reshape(-1, new_dim),
        grad="X",
        dtypes="float32",
        lod={"X": [[0, 2, 2, 6]]},
        out_lod={"Out": [[0, 1, 1, 3]]},
        static=False,
    ),
    case(
        "sequence_reshape",
        [ints(6, 2)],
        {"new_dim": 1},
        lambda x, new_dim: x.reshape(-1, new_dim),
        lod={"X": [LOD]},
        out_lod={"Out": [[0, 4, 4, 10, 12]]},
        static=False,
    ),
    case("sequence_reshape", [real(6, 2)], {"new_dim": 4}, raises=ValueError, match="new_dim", lod={"X": [LOD]}),
    case("sequence_reshape", [real(6, 2)], {"new_dim": 4}, raises=(RuntimeError, ValueError), match="LoD"),
    case(
        "lod_reset",
        [real(6, 2)],
        {"target_lod": [0, 4, 6]},
        lambda x, **_: x,
        grad="X",
        dtypes="float32",
        lod={"X": [LOD]},
        out_lod={"Out": [[0, 4, 6]]},
    ),
    case(
        "lod_reset",
        [real(6, 2), np.array([0, 1, 6], "int32")],
        expected=lambda x, y: x,
        grad="X",
        out_lod={"Out": [[0, 1, 6]]},
    ),
    case(
        "lod_reset",
        [ints(6, 2), real(6, 1)],
        expected=lambda x, y: x,
        lod={"Y": [[0, 1, 4], LOD]},
        out_lod={"Out": [[0, 1, 4], LOD]},
        static=False,
    ),
    case(
        "lod_reset",
        [real(6, 2)],
        {"target_lod": [0, 1, 2, 3, 4, 5, 6], "append": True},
        lambda x, **_: x,
        grad="X",
        lod={"X": [LOD]},
        out_lod={"Out": [LOD, [0, 1, 2, 3, 4, 5, 6]]},
        static=False,
    ),
    case("lod_reset", [real(6, 2)], raises=ValueError, match="target_lod"),
    *[
        case("lod_reset", [real(6, 2)], {"target_lod": level}, raises=ValueError, match="target LoD")
        for level in ([0], [1, 6], [0, 5], [0, 4, 2, 6])
    ],
)

OFFSET, LENGTH = np.array([[1], [0], [0], [1]], "int64"), np.array([[1], [0], [2], [0]], "int64")


def sliced(x, offset, length):
    return np.concatenate([p[a : a + n] for p, a, n in zip(parts(x, LOD), offset[:, 0], length[:, 0], strict=True)])


IDS = np.array([[1], [1], [0], [2], [1], [2]], "int64")


def scattered(x, ids, updates):
    out = x.copy()
    for row, (i, u) in enumerate(zip(parts(ids, LOD), parts(updates, LOD), strict=True)):
        np.add.at(out[row].reshape(-1), i[:, 0], u[:, 0])
    return out


SCATTER = {"Ids": [LOD], "Updates": [LOD]}
test_cut = table(
    case(
        "sequence_slice",
        [real(6, 2), OFFSET, LENGTH],
        expected=sliced,
        grad="X",
        dtypes="float32",
        lod={"X": [LOD]},
        out_lod={"Out": [[0, 1, 1, 3, 3]]},
        static=False,
    ),
    case(
        "sequence_slice", [ints(6, 2), OFFSET.astype("int32"), LENGTH], expected=sliced, lod={"X": [LOD]}, static=False
    ),
    case("sequence_slice", [real(6, 2), OFFSET, LENGTH + 1], raises=IndexError, match="steps", lod={"X": [LOD]}),
    case("sequence_slice", [real(6, 2), OFFSET - 1, LENGTH], raises=ValueError, match="negative", lod={"X": [LOD]}),
    case("sequence_slice", [real(6, 2), OFFSET[:2], LENGTH], raises=ValueError, match="Offset", lod={"X": [LOD]}),
    case("sequence_slice", [real(6, 2), OFFSET, LENGTH], raises=ValueError, match="LoD"),
    case(
        "sequence_scatter",
        [real(4, 3), IDS, real(6, 1)],
        expected=scattered,
        grad="X Updates",
        dtypes="float32",
        lod=SCATTER,
        static=False,
    ),
    case("sequence_scatter", [ints(5, 3), IDS, ints(6, 1)], expected=scattered, lod=SCATTER, static=False),
    case("sequence_scatter", [real(4, 3), IDS + 1, real(6, 1)], raises=IndexError, match="ids", lod=SCATTER),
    case("sequence_scatter", [real(3, 3), IDS, real(6, 1)], raises=IndexError, match="rows", lod=SCATTER),
    case(
        "sequence_scatter",
        [real(4, 3), IDS, real(5, 1)],
        raises=ValueError,
        match="as many rows",
        lod={"Ids": [LOD], "Updates": [[0, 5]]},
    ),
)


def soft(level):
    def f(x, **_):
        rows = [np.exp(p - p.max(initial=-9)) / np.exp(p - p.max(initial=-9)).sum() for p in parts(x, level)]
        return np.concatenate(rows)

    return f


test_softmax = table(
    case(
        "sequence_softmax",
        [real(6, 1)],
        expected=soft(LOD),
        grad="X",
        dtypes="float32",
        lod={"X": [LOD]},
        out_lod={"Out": [LOD]},
    ),
    case(
        "sequence_softmax",
        [real(6)],
        expected=soft(LOD),
        grad="X",
        lod={"X": [[0, 2], [0, 1, 4], LOD]},
        out_lod={"Out": [[0, 2], [0, 1, 4], LOD]},
    ),
    case("sequence_softmax", [real(6, 1) * 1000], expected=soft(LOD), lod={"X": [LOD]}),
    case("sequence_softmax", [real(6, 2)], raises=ValueError, match="one element", lod={"X": [LOD]}),
    case("sequence_softmax", [real(6, 1)], raises=ValueError, match="LoD"),
)

ROWS, COLUMNS, CHANNELS = [0, 2, 3], [0, 3, 4], 2
MATRICES = [0, 12, 14]


def averages(x, row, column, topks=(), channel_num=0):
    out = np.zeros((ROWS[-1], channel_num * len(topks)))
    for i, p in enumerate(parts(x[:, 0], MATRICES)):
        r, c = ROWS[i + 1] - ROWS[i], COLUMNS[i + 1] - COLUMNS[i]
        order = np.sort(p.reshape(channel_num, r, c))[..., ::-1]
        for k, top in enumerate(topks):
            means = order[..., :top].sum(-1) / top  # [channels, rows]
            out[ROWS[i] : ROWS[i + 1], k :: len(topks)] = means.T
    return {"Out": out}


TOPK = {"X": [MATRICES], "ROW": [ROWS], "COLUMN": [COLUMNS]}
test_topk = table(
    case(
        "sequence_topk_avg_pooling",
        [apart(14, 1), real(3, 1), real(4, 1)],
        {"topks": [1, 2, 4], "channel_num": 2},
        averages,
        grad="X",
        grad_of="Out",
        dtypes="float32",
        lod=TOPK,
        out_lod={"Out": [ROWS]},
        static=False,
    ),
    case(
        "sequence_topk_avg_pooling",
        [apart(14, 1), real(3, 1), real(4, 1)],
        {"topks": [2, 1], "channel_num": 2},
        raises=ValueError,
        match="topks",
        lod=TOPK,
    ),
    case(
        "sequence_topk_avg_pooling",
        [apart(14, 1), real(3, 1), real(4, 1)],
        {"topks": [1], "channel_num": 3},
        raises=(RuntimeError, ValueError),
        match="channel_num",
        lod=TOPK,
    ),
    case(
        "sequence_topk_avg_pooling",
        [apart(14, 1), real(3, 1), real(4, 1)],
        {"topks": [1], "channel_num": 2},
        raises=ValueError,
        match="LoD",
    ),
)
