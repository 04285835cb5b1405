"""Products of matrices by cuBLAS (paddle._cuda.math.gemm), against numpy."""

import itertools

import numpy as np
import pytest
from agreement import bfloat16, floats
from paddle._cuda.call import Call, Declined
from paddle._cuda.math.gemm import product

TOL = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "uint16": 1e-2}


class Recorded(Call):
    """A call outside a runtime, which notes the functions that it calls."""

    def __init__(self, machine):
        super().__init__(machine, "test", {}, {}, {}, {}, {})
        self.names = []

    def library(self, name, *args):
        self.names.append(name)
        super().library(name, *args)


@pytest.fixture
def call(built):
    return Recorded(built)


def numbers(dtype, *shape):
    found = np.random.default_rng(shape).uniform(-1, 1, shape)
    return bfloat16(found) if dtype == "uint16" else found.astype(dtype)


def swapped(a, swap):
    return floats(a).swapaxes(-1, -2) if swap else floats(a)


def check(call, x, y, **more):
    tx, ty, alpha = more.get("tx", False), more.get("ty", False), more.get("alpha", 1)
    want = alpha * np.matmul(swapped(x, tx).astype("float64"), swapped(y, ty).astype("float64"))
    out, beta = more.get("out"), more.get("beta", 0)
    if beta:
        want += beta * floats(out)
    got = product(call, x, y, **more)
    assert got.dtype == (more.get("dtype") or x.dtype) and got.shape == want.shape
    np.testing.assert_allclose(floats(got), want, rtol=TOL[x.dtype.name], atol=TOL[x.dtype.name])
    return call.names


@pytest.mark.parametrize("dtype", TOL)
@pytest.mark.parametrize("tx, ty", list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("m, k, n", [(3, 5, 2), (1, 4, 3), (3, 1, 2), (4, 3, 1), (1, 1, 1)])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_flags_and_types(dtype, tx, ty, m, k, n, lead, call):
    x = numbers(dtype, *lead, *((k, m) if tx else (m, k)))
    y = numbers(dtype, *lead, *((n, k) if ty else (k, n)))
    assert len(check(call, x, y, tx=tx, ty=ty, alpha=0.5)) == 1


@pytest.mark.parametrize(
    "x, y, calls",
    [
        # A stack times one matrix: all rows at once.
        ((2, 3, 5, 4), (4, 6), ["cublasGemmEx"]),
        ((2, 3, 5, 4), (1, 4, 6), ["cublasGemmEx"]),
        ((7, 1, 4), (4, 6), ["cublasGemmEx"]),
        ((5, 4), (2, 3, 4, 6), ["cublasGemmStridedBatchedEx"]),
        ((2, 1, 5, 4), (2, 3, 4, 6), ["cublasGemmStridedBatchedEx"] * 2),
        ((2, 3, 5, 4), (3, 4, 6), ["cublasGemmStridedBatchedEx"] * 2),
        ((2, 3, 5, 4), (2, 1, 4, 6), ["cublasGemmStridedBatchedEx"]),
        ((3, 1, 5, 4), (2, 4, 6), ["cublasGemmStridedBatchedEx"] * 2),
        ((1, 2, 1, 5, 4), (3, 1, 2, 4, 6), ["cublasGemmStridedBatchedEx"] * 4),
    ],
)
def test_broadcast_stacks(x, y, calls, call):
    assert check(call, numbers("float64", *x), numbers("float64", *y)) == calls


def test_rows_are_not_folded_where_they_do_not_follow_one_another(call):
    x, y = numbers("float64", 2, 8, 4)[:, :5], numbers("float64", 4, 6)
    assert check(call, x, y) == ["cublasGemmStridedBatchedEx"]
    x = numbers("float64", 2, 4, 5)
    assert check(call, x, y, tx=True)[1:] == ["cublasGemmStridedBatchedEx"]


def test_views_are_read_where_they_are(call):
    whole, y = numbers("float64", 6, 20), numbers("float64", 5, 7)
    assert check(call, whole[1:4, 3:8], y) == ["cublasGemmEx"]
    check(call, whole[:5, 3:8].T, y[:, 1:6].T, ty=False)
    check(call, np.broadcast_to(y.T, (3, 7, 5)), numbers("float64", 3, 5, 2))
    check(call, whole[:, ::2][:, :5], y)  # copied


def test_results_in_views(call):
    x, y, out = numbers("float64", 3, 5), numbers("float64", 5, 2), np.full((6, 9), 7.0)
    assert product(call, x, y, out=out[1:4, 2:4]).base is out
    np.testing.assert_allclose(out[1:4, 2:4], x @ y)
    out[1:4, 2:4] = 7
    assert (out == 7).all()
    check(call, x, y, out=numbers("float64", 3, 2), beta=-0.5, alpha=2.0)
    # With beta = 0 the old elements are not read.
    assert np.isfinite(product(call, x, y, out=np.full((3, 2), np.nan))).all()


@pytest.mark.parametrize("dtype", ["float16", "uint16"])
def test_halves_have_results_of_float32(dtype, call):
    x, y = numbers(dtype, 3, 5), numbers(dtype, 5, 2)
    got = product(call, x, y, dtype="float32")
    np.testing.assert_allclose(got, floats(x).astype("float32") @ floats(y).astype("float32"), rtol=1e-6)


def test_operands_without_elements(call):
    assert product(call, numbers("float32", 0, 4), numbers("float32", 4, 3)).shape == (0, 3) and not call.names
    x, y = numbers("float32", 2, 0), numbers("float32", 0, 3)
    assert (product(call, x, y) == np.zeros((2, 3))).all()
    assert (product(call, x, y, beta=0.5, out=np.ones((2, 3), "float32")) == 0.5).all() and not call.names


def test_what_is_declined(call):
    with pytest.raises(Declined):
        product(call, np.ones((2, 2), "int32"), np.ones((2, 2), "int32"))
    with pytest.raises(Declined):
        product(call, numbers("float32", 2, 2), numbers("float64", 2, 2))
    long = np.lib.stride_tricks.as_strided(np.ones(1, "float32"), (1 << 31, 1), (4, 4))  # not read
    with pytest.raises(Declined):
        product(call, long, np.ones((1, 1), "float32"), out=long)


def test_a_status_is_an_error_that_names_the_function(call, monkeypatch):
    monkeypatch.setattr(type(call.machine), "blas", lambda self: 6)
    with pytest.raises(OSError, match="cublasGemmEx failed with the status 7"):
        product(call, numbers("float32", 2, 2), numbers("float32", 2, 2))


def test_tf32_is_the_compute_type_of_float32(call, monkeypatch):
    found = []
    monkeypatch.setattr(call, "library", lambda name, *args: found.append(args[-2]))
    for allowed in (False, True):
        monkeypatch.setattr(call.machine, "tf32", allowed, raising=False)
        for dtype in TOL:
            product(call, numbers(dtype, 2, 2), numbers(dtype, 2, 2))
    assert found == [70, 68, 68, 68, 70, 77, 68, 68]
