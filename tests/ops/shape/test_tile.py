"""Repetition and grids: tile, expand_as, roll, meshgrid, linspace, unbind, empty, size."""

import numpy as np
from case import bools, case, covers, ints, real, table
from paddle import _core

X = real(2, 3)
TWICE = np.int32([2])


def tiled(x, times=None, many=None, repeat_times=()):
    return np.tile(x, repeat_times if times is None else times)


test_tile = table(
    case("tile", [X], {"repeat_times": [2, 3]}, tiled, grad="X", second=True, dtypes="float32 float16"),
    case("tile", [X], {"repeat_times": [2]}, tiled, grad="X", second=True),
    case("tile", [X], {"repeat_times": [2, 1, 2, 1]}, tiled, grad="X"),
    case("tile", [X, np.int32([2, 2])], {}, tiled, grad="X"),
    case(
        "tile",
        [X, None, [TWICE, np.int32([1])]],
        {"repeat_times": [-1, -1]},
        lambda x, t, repeat_times: np.tile(x, (2, 1)),
        grad="X",
    ),
    case("tile", [bools(3)], {"repeat_times": [2]}, tiled),
    case("tile", [ints(3)], {"repeat_times": [1, 1]}, tiled),
    case("tile", [real(0, 2)], {"repeat_times": [2, 2]}, tiled),
    case("tile", [X], {"repeat_times": [0, 1]}, raises=ValueError),
    case("tile", [X], {"repeat_times": [-1]}, raises=ValueError),
    case("tile", [X], {}, raises=ValueError),
    case("tile", [X], {"repeat_times": [2**31 - 1] * 6}, raises=MemoryError),
    case("tile", [X, np.float32([2])], {}, raises=ValueError),
)

test_expand_as = table(
    case("expand_as", [X, real(4, 3)], {}, lambda x, t: np.tile(x, (2, 1)), grad="X", dtypes="float32"),
    case("expand_as", [X, real(2, 6)], {}, lambda x, t: np.tile(x, (1, 2)), grad="X"),
    case("expand_as", [ints(1, 3), ints(2, 3)], {}, lambda x, t: np.tile(x, (2, 1))),
    case("expand_as", [X, real(3, 3)], {}, raises=ValueError),
    case("expand_as", [X, real(3)], {}, raises=ValueError),
    case("expand_as", [real(0, 3), real(2, 3)], {}, raises=ValueError),
    case(
        "expand_as_v2",
        [real(1, 3)],
        {"target_shape": [2, 4, 3]},
        lambda x, target_shape: np.broadcast_to(x, target_shape),
        grad="X",
        dtypes="float32",
    ),
    case("expand_as_v2", [real(3)], {"target_shape": [3]}, lambda x, target_shape: x, grad="X"),
    case("expand_as_v2", [bools(3)], {"target_shape": [2, 3]}, lambda x, target_shape: np.stack([x, x])),
    case("expand_as_v2", [X], {"target_shape": [2, 2]}, raises=ValueError),
    case("expand_as_v2", [X], {"target_shape": [3]}, raises=ValueError),
    case("expand_as_v2", [X], {"target_shape": [0, 3]}, raises=ValueError),
)

R = real(3, 4, 2)


def rolled(x, shifts=(), axis=()):
    return np.roll(x, tuple(shifts), tuple(axis))


test_roll = table(
    case("roll", [R], {"shifts": [1], "axis": [0]}, rolled, grad="X", dtypes="float32 float16"),
    case("roll", [R], {"shifts": [-3, 5], "axis": [1, -1]}, rolled, grad="X"),
    case("roll", [R], {"shifts": [2**62, -(2**62)], "axis": [1, 1]}, rolled, grad="X"),
    case("roll", [ints(5)], {"shifts": [2], "axis": [0]}, rolled),
    case("roll", [R], {}, lambda x: x, grad="X"),
    case("roll", [real(0, 2)], {"shifts": [1], "axis": [0]}, rolled),
    case("roll", [R], {"shifts": [1], "axis": []}, raises=ValueError),
    case("roll", [R], {"shifts": [1], "axis": [3]}, raises=IndexError),
    case("roll", [R], {"shifts": [1], "axis": [-4]}, raises=IndexError),
)


def grid(xs):
    return (list(np.meshgrid(*xs, indexing="ij")),)


A, B, C = real(2), real(3, seed=1), real(4, seed=2)

test_meshgrid = table(
    case("meshgrid", [[A, B]], {}, grid, dtypes="float32"),
    case("meshgrid", [[A, B, C]], {}, grid),
    case("meshgrid", [[ints(2), ints(3)]], {}, grid),
    case("meshgrid", [[A]], {}, raises=ValueError),
    case("meshgrid", [[A] * 7], {}, raises=ValueError),
    case("meshgrid", [[A, X]], {}, raises=ValueError),
    case("meshgrid", [[A, ints(2)]], {}, raises=ValueError),
)


@covers("meshgrid")
def test_gradients_of_meshgrid_are_sums() -> None:
    xs = [_core.Tensor(v) for v in (A, B, C)]
    for x in xs:
        x.stop_gradient = False
    outs = _core.ops.meshgrid(xs)
    ws = [real(2, 3, 4, seed=i) for i in range(3)]
    grads = _core.partial_grad(outs, xs, [_core.Tensor(w) for w in ws], [], True, False, True)
    for i, (g, w) in enumerate(zip(grads, ws, strict=True)):
        np.testing.assert_allclose(g.numpy(), w.sum(tuple(k for k in range(3) if k != i)))


@covers("unbind")
def test_unbind_returns_every_slice() -> None:
    x = _core.Tensor(R)
    x.stop_gradient = False
    for axis in (0, 1, -1):
        parts = _core.ops.unbind(x, axis=axis)
        assert len(parts) == R.shape[axis]
        for i, p in enumerate(parts):
            np.testing.assert_array_equal(p.numpy(), R.take(i, axis))
        [g] = _core.partial_grad([parts[1]], [x], [_core.Tensor(R.take(0, axis))], [], True, False, True)
        want = np.zeros_like(R)
        np.moveaxis(want, axis, 0)[1] = R.take(0, axis)
        np.testing.assert_array_equal(g.numpy(), want)


test_unbind = table(
    case("unbind", [R], {"axis": 3}, raises=ValueError),
)


def number(v, dtype="float32"):
    return np.array([v], dtype)


N5 = number(5, "int32")

test_linspace = table(
    case("linspace", [number(0), number(10), N5], {"dtype": 5}, np.linspace(0, 10, 5, dtype="float32")),
    case("linspace", [number(1), number(-2), N5], {"dtype": 6}, np.linspace(1, -2, 5), out_dtype="float64"),
    case("linspace", [number(0, "int32"), number(9, "int32"), N5], {"dtype": 2}, np.int32([0, 2, 4, 6, 9])),
    case("linspace", [number(0.9), number(9.2), N5], {"dtype": 3}, np.int64([0, 2, 4, 6, 9])),
    case("linspace", [number(3), number(10), number(1, "int32")], {"dtype": 5}, np.float32([3])),
    case("linspace", [number(3), number(10), number(0, "int32")], {"dtype": 5}, raises=ValueError),
    case("linspace", [number(3), number(10), number(2)], {"dtype": 5}, raises=ValueError),
    case("linspace", [np.float32([1, 2]), number(10), N5], {"dtype": 5}, raises=ValueError),
    case("linspace", [number(3), number(10), N5], {"dtype": 0}, raises=NotImplementedError),
)

test_extent = table(
    case("size", [X], {}, np.int64([6])),
    case("size", [bools(0, 3)], {}, np.int64([0])),
    case("is_empty", [X], {}, np.array([False])),
    case("is_empty", [real(0, 3)], {}, np.array([True])),
    case("fill_zeros_like2", [X], {}, np.zeros((2, 3), "float32"), out_dtype="float32"),
    case("fill_zeros_like2", [ints(2)], {"dtype": 3}, np.zeros(2, "int64")),
    case("fill_zeros_like2", [X], {"dtype": 99}, raises=ValueError),
    case("empty", [], {"shape": [2, -1]}, raises=ValueError),
    case("empty", [], {"shape": [1 << 31, 1 << 31]}, raises=MemoryError),
)


@covers("empty")
def test_empty_has_a_shape_and_a_type() -> None:
    for args, attrs in (
        ([], {"shape": [2, 3], "dtype": 3}),
        ([_core.Tensor(np.int32([2, 3]))], {"dtype": 3}),
        ([None, [_core.Tensor(np.int64([2])), _core.Tensor(np.int32([3]))]], {"dtype": 3}),
    ):
        out = _core.ops.empty(*args, **attrs)
        assert (out.shape, out._dtype_name) == ([2, 3], "int64")
