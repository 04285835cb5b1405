"""Selection of elements and slices: gather_nd, index_select, masked_select, unique, multiplex and others."""

import numpy as np
import pytest
from case import apart, bools, case, covers, ints, real, table
from paddle import _core

X = real(3, 4, 2)
f32 = np.float32


def at(x, i):
    return x[tuple(i[..., k] for k in range(i.shape[-1]))]


test_gather_nd = table(
    case("gather_nd", [X, np.int64([[2, 1], [0, 3], [2, 1]])], {}, at, grad="X", dtypes="float32 float16"),
    case("gather_nd", [X, np.int32([[1]])], {}, at, grad="X"),
    case("gather_nd", [X, np.int64([[[1, 1, 1]], [[2, 0, 1]]])], {}, at, grad="X"),
    case("gather_nd", [X, np.int64([1, 2, 0])], {}, at, grad="X"),
    case("gather_nd", [X, np.zeros((2, 0), "int64")], {}, lambda x, i: np.stack([x, x]), grad="X"),
    case("gather_nd", [X, np.zeros((0, 2), "int64")], {}, lambda x, i: np.zeros((0, 2))),
    case("gather_nd", [bools(3, 4), np.int64([[0, 1]])], {}, at),
    case("gather_nd", [ints(3, 4), np.int64([[0, 1], [2, 3]])], {}, at),
    case("gather_nd", [X, np.int64([[3]])], {}, raises=ValueError),
    case("gather_nd", [X, np.int64([[0, -1]])], {}, raises=ValueError),
    case("gather_nd", [X, np.zeros((1, 4), "int64")], {}, raises=ValueError),
    case("gather_nd", [X, f32([[0.0]])], {}, raises=ValueError),
    case("gather_nd", [X, np.array(0)], {}, raises=ValueError),
)


def added(x, i, u):
    x = x.copy()
    np.add.at(x, tuple(i[..., k] for k in range(i.shape[-1])), u)
    return x


I2 = np.int64([[2, 1], [0, 3], [2, 1]])

test_scatter_nd_add = table(
    case("scatter_nd_add", [X, I2, real(3, 2)], {}, added, grad="X Updates", dtypes="float32"),
    case("scatter_nd_add", [X, np.int32([[1], [1]]), real(2, 4, 2)], {}, added, grad="X Updates"),
    case("scatter_nd_add", [ints(3, 4), I2, ints(3)], {}, added),
    case("scatter_nd_add", [X, np.zeros((2, 0), "int64"), real(2, 3, 4, 2)], {}, lambda x, i, u: x + u.sum(0)),
    case("scatter_nd_add", [X, np.zeros((0, 2), "int64"), real(0, 2)], {}, lambda x, i, u: x),
    case("scatter_nd_add", [X, np.int64([[3, 0]]), real(1, 2)], {}, raises=ValueError),
    case("scatter_nd_add", [X, I2, real(3, 3)], {}, raises=ValueError),
    case("scatter_nd_add", [X, np.int64([1]), real(4, 2)], {}, raises=ValueError),
    case("scatter_nd_add", [X, I2, f32(real(3, 2))], {}, raises=ValueError),
)

IDS = np.int64([3, 0, 3])

test_index_select = table(
    case("index_select", [X, IDS], {"dim": 1}, lambda x, i, dim: x[:, i], grad="X", dtypes="float32 float16"),
    case("index_select", [X, IDS[1:2]], {}, lambda x, i: x[i], grad="X"),
    case("index_select", [X, np.int32([[1], [0]])], {"dim": -1}, lambda x, i, dim: x[..., i[:, 0]], grad="X"),
    case("index_select", [ints(4), IDS], {}, lambda x, i: x[i]),
    case("index_select", [real(300, 70), np.arange(200) * 7 % 70], {"dim": 1}, lambda x, i, dim: x[:, i]),
    case("index_select", [X, np.zeros(0, "int64")], {"dim": 1}, lambda x, i, dim: x[:, i]),
    case("index_select", [X, IDS], {"dim": 3}, raises=IndexError),
    case("index_select", [X, IDS], {"dim": -4}, raises=IndexError),
    case("index_select", [X, IDS], {}, raises=ValueError),
    case("index_select", [X, -IDS], {"dim": 1}, raises=ValueError),
    case("index_select", [X, ints(2, 2)], {}, raises=ValueError),
    case("index_select", [X, f32(IDS)], {"dim": 1}, raises=ValueError),
)


def sampled(x, i):
    return np.take_along_axis(x, i.astype("int64"), 1)


M = real(3, 5)
J = np.int64([[0, 4], [1, 1], [2, 0]])

test_index_sample = table(
    case("index_sample", [M, J], {}, sampled, grad="X", dtypes="float32"),
    case("index_sample", [ints(3, 5), J.astype("int32")], {}, sampled),
    case("index_sample", [M, np.zeros((3, 0), "int64")], {}, sampled),
    case("index_sample", [M, J + 1], {}, raises=ValueError),
    case("index_sample", [M, J - 1], {}, raises=ValueError),
    case("index_sample", [M, J[:2]], {}, raises=ValueError),
    case("index_sample", [X, J], {}, raises=ValueError),
)

B = bools(3, 4, 2)

test_masked_select = table(
    case("masked_select", [X, B], {}, lambda x, m: x[m], grad="X", dtypes="float32 float16"),
    case("masked_select", [ints(3, 4, 2), B], {}, lambda x, m: x[m]),
    case("masked_select", [X, np.zeros((3, 4, 2), bool)], {}, lambda x, m: x[m]),
    case("masked_select", [X, B[:2]], {}, raises=ValueError),
    case("masked_select", [X, B.astype("int32")], {}, raises=ValueError),
)

U = ints(9, low=0, high=5)
REPEATED = np.stack([real(2, 3), real(2, 3), real(2, 3, seed=1)], axis=1)


def unique(x, axis=(), **_):
    if axis and axis[0] % x.ndim:
        x = x.swapaxes(0, axis[0])
        return [v.swapaxes(0, axis[0]) if k == 0 else v for k, v in enumerate(everything(x, 0))]
    return everything(x, 0 if axis else None)


def everything(x, axis):
    out, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    return [out, inverse.reshape(-1), first, counts]


ALL = {"dtype": 3, "is_sorted": True, "return_index": True, "return_inverse": True, "return_counts": True}


def first_seen(x, **_):
    out, first, inverse, counts = np.unique(x, True, True, True)
    order = np.argsort(first)
    return out[order], np.argsort(order)[inverse.reshape(-1)], counts[order]


test_unique = table(
    case("unique", [U], ALL, lambda x, **a: tuple(unique(x))),
    case("unique", [real(2, 3)], ALL, lambda x, **a: tuple(unique(x)), dtypes="float32"),
    case("unique", [ints(4, 3, low=0, high=2)], {**ALL, "axis": [0]}, lambda x, **a: tuple(unique(x, a["axis"]))),
    case("unique", [REPEATED], {**ALL, "axis": [1]}, lambda x, **a: tuple(unique(x, a["axis"]))),
    case("unique", [REPEATED], {**ALL, "axis": [-1]}, lambda x, **a: tuple(unique(x, a["axis"]))),
    case("unique", [ints(0)], ALL, lambda x, **a: (x, x, x, x)),
    case(
        "unique",
        [f32([np.nan, 1, np.nan, -0.0, 0.0])],
        ALL,
        (f32([-0.0, 1, np.nan]), *map(np.int64, ([2, 1, 2, 0, 0], [3, 1, 0], [2, 1, 2]))),
    ),
    case("unique", [U], {"dtype": 2}, lambda x, **a: (first_seen(x)[0], first_seen(x)[1].astype("int32"))),
    case("unique", [U], {"dtype": 5}, raises=ValueError),
    case("unique", [ints(2, 2)], {"dtype": 3}, raises=ValueError),
    case("unique", [U], {**ALL, "axis": [1]}, raises=ValueError),
    case("unique_with_counts", [U], {"dtype": 3}, lambda x, dtype: first_seen(x)),
    case(
        "unique_with_counts",
        [f32([2, 3, 3, 1, 5, 3])],
        {"dtype": 2},
        (f32([2, 3, 1, 5]), np.int32([0, 1, 1, 2, 3, 1]), np.int32([1, 3, 1, 1])),
    ),
    case("unique_with_counts", [ints(2, 2)], {"dtype": 3}, raises=ValueError),
)

K = np.int32([[2], [0], [2]])
CHOICES = [real(3, 4, seed=i) for i in range(3)]


def chosen(i, xs):
    return np.stack([xs[k][r] for r, k in enumerate(i[:, 0])])


test_multiplex = table(
    case("multiplex", [K, CHOICES], {}, chosen, grad="X", dtypes="float32"),
    case("multiplex", [K, [ints(3, 2, seed=i) for i in range(3)]], {}, chosen),
    case("multiplex", [K, CHOICES[:2]], {}, raises=RuntimeError),
    case("multiplex", [-K, CHOICES], {}, raises=RuntimeError),
    case("multiplex", [K, CHOICES[:1]], {}, raises=ValueError),
    case("multiplex", [K, [CHOICES[0], real(3, 5)]], {}, raises=RuntimeError),
    case("multiplex", [K[:, 0], CHOICES], {}, raises=RuntimeError),
    case("multiplex", [K.astype("int64"), CHOICES], {}, raises=ValueError),
    case("multiplex", [K, [real(3), real(3)]], {}, raises=ValueError),
    case("multiplex", [K[:2], CHOICES], {}, raises=ValueError),
)

SHARDS = {"index_num": 20, "nshards": 3, "shard_id": 1}

test_shard_index = table(
    case("shard_index", [np.int64([[6], [7], [13], [14], [0]])], SHARDS, np.int64([[-1], [0], [6], [-1], [-1]])),
    case("shard_index", [np.int32([[1], [7]])], {**SHARDS, "ignore_value": 9}, np.int32([[9], [0]])),
    case("shard_index", [np.int64([[20]])], SHARDS, raises=ValueError),
    case("shard_index", [np.int64([[-1]])], SHARDS, raises=ValueError),
    case("shard_index", [np.int64([1])], SHARDS, raises=ValueError),
    case("shard_index", [np.int64([[1]])], {**SHARDS, "shard_id": 3}, raises=ValueError),
    case("shard_index", [np.int64([[1]])], {**SHARDS, "nshards": 0}, raises=ValueError),
    case("shard_index", [real(2, 1)], SHARDS, raises=NotImplementedError),
)


@covers("gather_nd", "scatter_nd_add")
def test_large_tables_give_the_same() -> None:
    x, ids = real(50, 60, 40), np.stack([ints(5000, low=0, high=50), ints(5000, low=0, high=60, seed=1)], 1)
    np.testing.assert_array_equal(_core.ops.gather_nd(_core.Tensor(x), _core.Tensor(ids)).numpy(), at(x, ids))
    u = apart(5000, 40)
    got = _core.ops.scatter_nd_add(*map(_core.Tensor, (x, ids, u))).numpy()
    np.testing.assert_allclose(got, added(x, ids, u), rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_tensors_have_no_unique_slices(shape: tuple[int, int]) -> None:
    x = _core.Tensor(np.zeros(shape))
    with pytest.raises(ValueError):
        _core.ops.gather_nd(x, _core.Tensor(np.int64([[0, 0]])))
    assert _core.ops.unique(x, dtype=3, is_sorted=True)[0].shape == [0]
