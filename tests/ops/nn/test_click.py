"""Operators of CTR, text and tree models compared with numpy, gradients numerically."""

import numpy as np
import paddle
import pytest
from case import case, ints, real, table


def cut(x, start, length):
    start %= x.shape[1]
    return x[:, start : None if length < 0 else start + length]


def concatenated(xs, start_index=0, length=-1):
    return np.concatenate([cut(x, start_index, length) for x in xs], 1)


def added(xs, start_index=0, length=-1):
    return sum(cut(x, start_index, length) for x in xs)


PAIR = [real(3, 5), real(3, 5, seed=1)]
test_partial = table(
    case("partial_concat", [PAIR], {}, concatenated, grad="X", dtypes="float32"),
    case("partial_concat", [PAIR], {"start_index": 1, "length": 2}, concatenated, grad="X"),
    case("partial_concat", [PAIR], {"start_index": -2, "length": -1}, concatenated, grad="X"),
    case("partial_concat", [[ints(3, 5), ints(3, 5)]], {"start_index": 2}, concatenated, dtypes="int32"),
    case("partial_concat", [PAIR], {"start_index": 5}, raises=ValueError, match="start_index"),
    case("partial_concat", [PAIR], {"start_index": 3, "length": 3}, raises=ValueError, match="length"),
    case("partial_concat", [[real(3, 5), real(3, 4)]], raises=ValueError, match="one shape"),
    case("partial_sum", [PAIR], {}, added, grad="X", dtypes="float32"),
    case("partial_sum", [PAIR], {"start_index": 1, "length": 2}, added, grad="X"),
    case("partial_sum", [[ints(3, 5), ints(3, 5)]], {"start_index": 2}, added, dtypes="int32"),
    case("partial_sum", [PAIR], {"start_index": 5}, raises=IndexError, match="start_index"),
    case("partial_sum", [PAIR], {"start_index": 3, "length": 3}, raises=IndexError, match="length"),
    case("partial_sum", [[real(3, 5), real(4, 5)]], raises=ValueError, match="one shape"),
)


def batch_fc(x, w, b):
    return np.einsum("sri,sio->sro", x, w) + b[:, None]


# rank of a row, then ranks and rows of others; 0 for none
OFFSET = np.array([[1, 1, 0, 2, 1], [2, 1, 0, 2, 1], [0, 0, 0, 0, 0], [1, 1, 3, 0, 0]], np.int32)


def attention(x, offset, param, MaxRank):  # noqa: N803
    width, columns = x.shape[1], param.shape[1]
    blocks = param.reshape(MaxRank, MaxRank, width, columns)
    out, read = np.zeros((len(x), columns)), np.zeros((len(x), MaxRank, width))
    for i, line in enumerate(offset):
        for k, (rank, row) in enumerate(line[1:].reshape(-1, 2)):
            if line[0] > 0 and rank > 0:
                read[i, k] = x[row]
                out[i] += x[row] @ blocks[line[0] - 1, rank - 1]
    return read.reshape(len(x), -1), out, offset[:, :1].astype(x.dtype)


test_slots = table(
    case("batch_fc", [real(2, 3, 4), real(2, 4, 5), real(2, 5)], {}, batch_fc, grad="Input W Bias", dtypes="float32"),
    case("batch_fc", [real(2, 0, 4), real(2, 4, 5), real(2, 5)], {}, np.zeros((2, 0, 5)), grad="Input W Bias"),
    case("batch_fc", [real(2, 3, 4), real(3, 4, 5), real(2, 5)], raises=ValueError, match="slots"),
    case(
        "rank_attention",
        [real(4, 3), OFFSET, real(12, 2)],
        {"MaxRank": 2},
        attention,
        grad="RankParam",
        grad_of="Out",
        dtypes="float32",
    ),
    case("rank_attention", [real(4, 3), OFFSET * 3, real(12, 2)], {"MaxRank": 2}, raises=ValueError, match="ranks"),
    case("rank_attention", [real(4, 3), OFFSET, real(12, 2)], {"MaxRank": 3}, raises=ValueError, match="RankOffset"),
    case("rank_attention", [real(4, 3), OFFSET, real(10, 2)], {"MaxRank": 2}, raises=ValueError, match="RankParam"),
)

EDGES = np.array(
    [[[1, 2], [1, 3], [1, 4], [2, 5], [2, 6], [0, 0]], [[1, 2], [2, 3], [0, 0], [0, 0], [0, 0], [0, 0]]], np.int32
)


def tree_conv(nodes, edges, w, max_depth):
    out = np.zeros((*nodes.shape[:2], *w.shape[2:]))
    for tree, found in enumerate(edges):
        found = [e for e in found.tolist() if e[0]]
        below = {i: [b for a, b in found if a == i] for i in range(1, len(found) + 2)}

        def read(root, node, index, count, depth, tree=tree, below=below):
            top = (max_depth - depth) / max_depth
            left = (1 - top) * (0.5 if count == 1 else (index - 1) / (count - 1))
            eta = [left, (1 - top) * (1 - left), top]
            out[tree, root - 1] += np.einsum("k,f,fkon->on", eta, nodes[tree, node - 1], w)
            for i, child in enumerate(below[node]):
                if depth + 1 < max_depth:
                    read(root, child, i + 1, len(below[node]), depth + 1)

        for root in below:
            read(root, root, 1, 1, 0)
    return out


TREE = [real(2, 7, 3), EDGES, real(3, 3, 4, 2)]
test_trees = table(
    *[
        case("tree_conv", TREE, {"max_depth": depth}, tree_conv, grad="NodesVector Filter", dtypes="float32")
        for depth in (2, 3, 8)
    ],
    case("tree_conv", TREE, {"max_depth": 1}, raises=ValueError, match="max_depth"),
    case("tree_conv", [real(2, 5, 3), *TREE[1:]], {"max_depth": 2}, raises=ValueError, match="nodes"),
    case("tree_conv", [TREE[0], EDGES * 2, TREE[2]], {"max_depth": 2}, raises=ValueError, match="edges"),
    case("tree_conv", [*TREE[:2], real(3, 2, 4, 2)], {"max_depth": 2}, raises=ValueError, match="Filter"),
)


def test_layer_of_trees():
    conv = paddle.fluid.dygraph.TreeConv(3, 4, 1, 2, act="relu", bias_attr=True)
    nodes = TREE[0].astype("float32")
    out = conv(paddle.to_tensor(nodes), paddle.to_tensor(EDGES)).numpy()
    want = np.maximum(tree_conv(nodes, EDGES, conv.weight.numpy(), 2), 0)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


X_LOD, Y_LOD = [0, 2, 2, 5], [0, 3, 4, 6]


def compared(x, y, w, dim_t):
    turned = np.einsum("ri,ito->rto", x, w)
    found = [
        np.einsum("ato,bo->tab", turned[a:b], y[c:d]).ravel()
        for a, b, c, d in zip(X_LOD, X_LOD[1:], Y_LOD, Y_LOD[1:], strict=False)
    ]
    return np.concatenate(found)[:, None], turned.reshape(-1, 1)


LODS = {"X": [X_LOD], "Y": [Y_LOD]}
SIZES = {"ROW": [[0, 3, 5, 5]], "COLUMN": [[0, 2, 5, 6]]}


def var_conv(x, row, column, w, InputChannel, OutputChannel, KernelH, KernelW, StrideH, StrideW):  # noqa: N803
    found, at = [], 0
    rows, columns = (np.diff(SIZES[k][0]) for k in ("ROW", "COLUMN"))
    for h, v in zip(rows, columns, strict=True):
        image = x[at : at + InputChannel * h * v].reshape(InputChannel, h, v)
        at += image.size
        a, b = KernelH // 2, KernelW // 2
        wide = np.pad(image, [(0, 0), (a, KernelH), (b, KernelW)])
        windows = [
            wide[:, i : i + KernelH, j : j + KernelW].ravel()
            for i in range(0, h, StrideH)
            for j in range(0, v, StrideW)
        ]
        found += [(w @ np.array(windows).T).ravel()] if windows else []
    return np.concatenate(found)[:, None]


CONV = {"InputChannel": 2, "OutputChannel": 3, "KernelH": 3, "KernelW": 2, "StrideH": 1, "StrideW": 2}
IMAGES = [real(24, 1), real(5, 1), real(6, 1), real(3, 12)]
CONV_LOD = {"X": [[0, 12, 24, 24]], **SIZES}
test_texts = table(
    case(
        "match_matrix_tensor",
        [real(5, 4), real(6, 4), real(4, 3, 4)],
        {"dim_t": 3},
        compared,
        grad="X Y W",
        grad_of="Out",
        dtypes="float32",
        lod=LODS,
        out_lod={"Out": [[0, 18, 18, 36]]},
    ),
    case(
        "match_matrix_tensor",
        [real(5, 4), real(6, 4), real(4, 3, 4)],
        {"dim_t": 2},
        raises=ValueError,
        match="dim_t",
        lod=LODS,
    ),
    case("match_matrix_tensor", [real(5, 4), real(6, 4), real(4, 3, 4)], {"dim_t": 3}, raises=ValueError, match="LoD"),
    case(
        "match_matrix_tensor",
        [real(5, 4), real(6, 4), real(4, 3, 4)],
        {"dim_t": 3},
        raises=ValueError,
        match="as many sequences",
        lod={"X": [X_LOD], "Y": [[0, 6]]},
    ),
    case(
        "var_conv_2d",
        IMAGES,
        CONV,
        var_conv,
        grad="X W",
        grad_of="Out",
        dtypes="float32",
        lod=CONV_LOD,
        out_lod={"Out": [[0, 9, 21, 21]]},
    ),
    case(
        "var_conv_2d",
        [*IMAGES[:3], real(3, 4)],
        {**CONV, "KernelH": 1, "StrideW": 1},
        var_conv,
        grad="X W",
        grad_of="Out",
        lod=CONV_LOD,
        out_lod={"Out": [[0, 18, 36, 36]]},
    ),
    case("var_conv_2d", IMAGES, {**CONV, "StrideH": 0}, raises=ValueError, match="strides", lod=CONV_LOD),
    case("var_conv_2d", IMAGES, {**CONV, "KernelH": 2}, raises=ValueError, match="W", lod=CONV_LOD),
    case("var_conv_2d", IMAGES, CONV, raises=ValueError, match="elements", lod={**CONV_LOD, "X": [[0, 10, 24, 24]]}),
    case("var_conv_2d", IMAGES, CONV, raises=ValueError, match="LoD", lod=SIZES),
)


def test_layers_train():
    """The layers on LoD inputs in a Program, including gradients of their parameters."""
    paddle.enable_static()
    try:
        fluid, main, start = paddle.fluid, paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, start):
            x, y = (fluid.data(n, [None, 4], lod_level=1) for n in "xy")
            match, _ = fluid.contrib.match_matrix_tensor(x, y, channel_num=3)
            out = fluid.contrib.var_conv_2d(match, x, y, 3, 2, [3, 3], act="relu")
            params = main.all_parameters()
            grads = paddle.static.gradients(paddle.mean(out), params)
        exe = paddle.static.Executor()
        exe.run(start)
        feed = {
            n: fluid.create_lod_tensor(real(s[-1], 4).astype("float32"), [np.diff(s).tolist()], paddle.CPUPlace())
            for n, s in (("x", X_LOD), ("y", Y_LOD))
        }
        got = exe.run(main, feed=feed, fetch_list=[out, *grads], return_numpy=False)
        assert got[0].lod() == [[0, 12, 12, 24]]
        assert [np.array(g).shape for g in got[1:]] == [(4, 3, 4), (2, 27)]
    finally:
        paddle.disable_static()


def test_arguments_of_layers():
    fluid = paddle.fluid
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            x = fluid.data("x", [2, 3])
            with pytest.raises(TypeError, match="start_index"):
                fluid.contrib.layers.partial_concat([x], start_index=0.5)
            with pytest.raises(TypeError, match="nodes_vector"):
                fluid.contrib.layers.tree_conv(np.ones([1, 2, 3]), x, 2)
            with pytest.raises(TypeError, match="input"):
                fluid.contrib.layers.batch_fc(x.name, [2, 3, 4], None, [2, 4], None)
    finally:
        paddle.disable_static()
