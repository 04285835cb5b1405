"""Gather, scatter, where, one-hot, and embedding lookup."""

import numpy as np
import pytest
from case import Rows, bools, case, ints, real, table
from paddle import _core

X = real(5, 3, 2)
IDS = np.int64([4, 0, 4, 2])
f32 = np.float32

test_gather = table(
    case("gather", [X, IDS], {"overwrite": False}, lambda x, i, overwrite: x[i], grad="X", dtypes="float32 float16"),
    case("gather", [X, IDS[:2].astype("int32")], {}, lambda x, i: x[i], grad="X"),
    case("gather", [X, IDS.reshape(-1, 1)], {"overwrite": False}, lambda x, i, overwrite: x[i[:, 0]], grad="X"),
    case("gather", [X, np.int64([2, 0, 2]), np.int32([1])], {}, lambda x, i, a: x[:, i], grad="X"),
    case("gather", [X, np.int64([1, 1]), np.int64([-1])], {}, lambda x, i, a: x[..., i], grad="X"),
    case("gather", [ints(4), IDS[1:2]], {}, lambda x, i: x[i]),
    case("gather", [X, np.zeros(0, "int64")], {}, lambda x, i: x[i]),
    case("gather", [X, np.int64([5])], {}, raises=ValueError),
    case("gather", [X, np.int64([-1])], {}, raises=ValueError),
    case("gather", [real(0, 3), np.int64([0])], {}, raises=ValueError),
    case("gather", [X, f32([1.0])], {}, raises=ValueError),
    case("gather", [X, ints(2, 2)], {}, raises=ValueError),
    case("gather", [X, IDS, np.int32([3])], {}, raises=ValueError),
)


def test_gather_grad_keeps_the_last_of_equal_indices() -> None:
    dout = np.arange(8.0).reshape(4, 2)
    x = _core.Tensor(np.zeros((5, 2)))
    got = _core.ops.gather_grad(Index=_core.Tensor(IDS), X=x, **{"Out@GRAD": _core.Tensor(dout)}).numpy()
    want = np.zeros((5, 2))
    want[IDS] = dout
    np.testing.assert_array_equal(got, want)


def scattered(x, i, u, overwrite=True):
    x = x.copy()
    if overwrite:
        x[i] = u
    else:
        x[i] = 0
        np.add.at(x, i, u)
    return x


test_scatter = table(
    case("scatter", [X, np.int64([3, 1]), real(2, 3, 2)], {}, scattered, grad="X Updates", dtypes="float32"),
    case("scatter", [X, np.int32([3, 1, 3]), real(3, 3, 2)], {"overwrite": False}, scattered, grad="X Updates"),
    # the last update of a row is kept, and it alone has a gradient
    case("scatter", [X, np.int32([3, 1, 3]), real(3, 3, 2)], {}, scattered, grad="X Updates"),
    case("scatter", [ints(4), np.int64([1, 1]), ints(2)], {}, scattered),
    case("scatter", [X, np.int64([5]), real(1, 3, 2)], {}, raises=ValueError),
    case("scatter", [X, np.int64([0]), real(2, 3, 2)], {}, raises=ValueError),
    case("scatter", [X, np.int64([0]), real(1, 3, 3)], {}, raises=ValueError),
    case("scatter", [X, np.int64([0]), real(1, 3)], {}, raises=ValueError),
    case("scatter", [X, np.int64([0]), f32(real(1, 3, 2))], {}, raises=ValueError),
)

C = bools(2, 3)

test_where = table(
    case("where", [C, real(2, 3), real(2, 3, seed=1)], {}, np.where, grad="X Y", dtypes="float32 float16"),
    case("where", [C, ints(2, 3), ints(2, 3, seed=1)], {}, np.where),
    case("where", [C, real(2, 3), real(3, 3)], {}, raises=ValueError),
    case("where", [C, real(2, 3), ints(2, 3)], {}, raises=ValueError),
    case("where", [real(2, 3), real(2, 3), real(2, 3)], {}, raises=ValueError),
    case("where_index", [C], {}, np.argwhere, static=False),
    case("where_index", [np.zeros((2, 2), bool)], {}, np.argwhere, static=False),
    case("where_index", [ints(4, 2, 2, low=0, high=2)], {}, np.argwhere, static=False),
)


def hot(x, depth_tensor=None, depth=-1, **_):
    depth = depth if depth_tensor is None else depth_tensor[0]
    return (x[..., None] == np.arange(depth)).astype("float32")


N = np.int64([[0, 2], [1, 2]])

test_one_hot = table(
    case("one_hot_v2", [N], {"depth": 3}, hot, out_dtype="float32"),
    case("one_hot_v2", [N.astype("int32")], {"depth": 4, "dtype": 3}, hot, out_dtype="int64"),
    case("one_hot_v2", [N, np.int32([5])], {}, hot, out_dtype="float32"),
    case("one_hot_v2", [N - 1], {"depth": 1, "allow_out_of_range": True}, hot, out_dtype="float32"),
    case("one_hot_v2", [N], {"depth": 2}, raises=ValueError),
    case("one_hot_v2", [N - 1], {"depth": 3}, raises=ValueError),
    case("one_hot_v2", [N], {"depth": -1}, raises=ValueError),
    case("one_hot_v2", [f32(N)], {"depth": 3}, raises=ValueError),
    case("one_hot", [N[..., None]], {"depth": 3}, lambda x, **a: hot(x[..., 0], **a), out_dtype="float32"),
    case("one_hot", [N[..., None], np.int32([5])], {}, lambda x, d: hot(x[..., 0], d), out_dtype="float32"),
    case("one_hot", [N], {"depth": 3}, raises=ValueError),
    case("one_hot", [N[0]], {"depth": 3}, raises=ValueError),
    case("one_hot", [N[..., None]], {"depth": 2}, raises=ValueError),
)

W = real(6, 3)
ID2 = np.int64([[1, 5], [0, 1]])


def looked(w, i, padding_idx=-1, **_):
    out = w[i]
    if padding_idx != -1:
        out[i == padding_idx] = 0
    return out


def looked_first(w, i, **attrs):
    return looked(w, i[..., 0], **attrs)


test_lookup = table(
    case("lookup_table_v2", [W, ID2], {}, looked, grad="W", dtypes="float32 float16"),
    case("lookup_table_v2", [W, ID2.astype("int32")], {"padding_idx": 1}, looked, grad="W"),
    case("lookup_table_v2", [W, ID2], {"is_sparse": True}, looked, grad="W", rows_grad="W"),
    case("lookup_table", [W, ID2[..., None]], {}, looked_first, grad="W"),
    case("lookup_table", [W, ID2[..., None]], {"padding_idx": 5}, looked_first, grad="W"),
    case("lookup_table", [W, ID2[..., None]], {"is_sparse": True}, looked_first, grad="W", rows_grad="W"),
    case(
        "lookup_table_v2",
        [Rows([5, 0, 1], 6, real(3, 3)), ID2],
        {},
        lambda w, i: w.values.astype("float64")[np.array([1, 2, 0, 0, 0, 0])[i]],
        static=False,
    ),
    case("lookup_table_v2", [Rows([5, 0], 6, real(2, 3)), ID2], {}, raises=ValueError),
    case("lookup_table_v2", [W, ID2 + 1], {}, raises=ValueError),
    case("lookup_table_v2", [W, ID2 - 1], {"padding_idx": 3}, raises=ValueError),
    case("lookup_table_v2", [real(6), ID2], {}, raises=ValueError),
    case("lookup_table_v2", [W, f32(ID2)], {}, raises=ValueError),
    case("lookup_table", [W, ID2], {}, raises=ValueError),
)


@pytest.mark.parametrize("op", ["gather", "scatter"])
def test_large_tables_give_the_same(op: str) -> None:
    x, ids = real(3000, 40), ints(5000, low=0, high=3000)
    if op == "gather":
        got, want = _core.ops.gather(_core.Tensor(x), _core.Tensor(ids)).numpy(), x[ids]
    else:
        u = real(5000, 40)
        got, want = _core.ops.scatter(*map(_core.Tensor, (x, ids, u))).numpy(), scattered(x, ids, u)
    np.testing.assert_array_equal(got, want)
