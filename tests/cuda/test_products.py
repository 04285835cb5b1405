"""How products of matrices reach cuBLAS: stacks are folded into one product, no operand is copied, and the second call
of a key is replayed."""

import numpy as np
import paddle
import pytest
from paddle import _core, _cuda
from paddle._cuda.call import Call
from paddle.fluid import core
from shim import DriverMachine


@pytest.fixture
def products(shim, monkeypatch):
    """The names and arguments of the functions of cuBLAS that were called."""
    found, library = [], Call.library

    def spy(self, name, *args):
        found.append((name, args))
        library(self, name, *args)

    monkeypatch.setattr(Call, "library", spy)
    return found


@pytest.fixture
def driver(built):
    """CUDAPlace(0) is the shim with a driver; records the operators that go through Python."""
    machine = DriverMachine(built.folder)
    _cuda.use(machine)
    runtime = _cuda.runtime()
    machine.python, run = [], runtime._run

    def watched(op, *args):
        machine.python.append(op)
        return run(op, *args)

    runtime._run = watched
    yield machine
    _cuda.use(None)


def results(place, op, x, y, **attrs):
    """The product and the gradients of its squares."""
    a, b = (paddle.to_tensor(v, place=place, stop_gradient=False) for v in (x, y))
    out = getattr(_core.ops, op)(a, b, **attrs)
    (out * out).sum().backward()
    return out.numpy(), a.grad, b.grad


def agree(op, x, y, **attrs):
    got, want = (results(place, op, x, y, **attrs) for place in (paddle.CUDAPlace(0), paddle.CPUPlace()))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-11, atol=1e-11)


def numbers(*shape):
    return np.random.default_rng(shape).normal(size=shape)


@pytest.mark.parametrize("op", ["matmul", "matmul_v2"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_stack_times_a_matrix_is_one_product(op, turned, products):
    flag = "trans_y" if op == "matmul_v2" else "transpose_Y"
    agree(op, numbers(2, 5, 4, 3), numbers(6, 3) if turned else numbers(3, 6), **{flag: turned})
    assert [name for name, _ in products] == ["cublasGemmEx"] * 3
    # Rows of the transposes of the result and of both gradients; the last are those of Y.
    assert [args[3:6] for _, args in products] == [(6, 40, 3), (3, 40, 6), (3, 6, 40) if turned else (6, 3, 40)]


def test_the_product_with_a_matrix_of_ranks_above_two_is_folded(products):
    agree("matmul_v2", numbers(2, 5, 4), numbers(1, 1, 4, 3))
    assert [name for name, _ in products] == ["cublasGemmEx"] * 3


@pytest.mark.parametrize("tx", [False, True])
@pytest.mark.parametrize("ty", [False, True])
def test_flags_of_pairs_of_stacks(tx, ty, products):
    x, y = numbers(2, 3, *((5, 4) if tx else (4, 5))), numbers(2, 3, *((6, 5) if ty else (5, 6)))
    agree("matmul_v2", x, y, trans_x=tx, trans_y=ty)
    agree("matmul", x, y, transpose_X=tx, transpose_Y=ty, alpha=-0.5)
    assert [name for name, _ in products] == ["cublasGemmStridedBatchedEx"] * 6


BROADCAST = [
    ((2, 1, 5, 4), (3, 4, 6)),
    ((5, 4), (2, 3, 4, 6)),
    ((3, 1, 5, 4), (1, 2, 4, 6)),
    ((2, 3, 5, 4), (2, 1, 4, 6)),
    ((2, 1, 3, 5, 4), (1, 2, 1, 4, 6)),
    ((1, 5, 4), (3, 4, 6)),
    ((1, 1), (1, 1)),
    ((4,), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)),
]


@pytest.mark.parametrize("x, y", BROADCAST)
def test_gradients_of_broadcast_stacks_are_summed(x, y, products):
    agree("matmul_v2", numbers(*x), numbers(*y))


@pytest.mark.parametrize("tx", [False, True])
def test_stacks_times_a_transposed_matrix(tx, products):
    agree("matmul", numbers(3, 4, 5) if tx else numbers(3, 5, 4), numbers(6, 4), transpose_X=tx, transpose_Y=True)


@pytest.mark.parametrize("flags", [{}, {"transpose_X": True, "transpose_Y": True}])
def test_vectors_of_matmul(flags, products):
    """A transposed vector is a column (X) or a row (Y)."""
    agree("matmul", numbers(3), numbers(4 if flags else 3), **flags)
    assert len(products) == 3


def test_no_elements(shim):
    for x, y in (((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3, 4), (2, 4, 0))):
        agree("matmul_v2", numbers(*x), numbers(*y))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_multiplied_as_they_are(dtype, products, shim):
    place, found = paddle.CUDAPlace(0), []
    for p in (place, paddle.CPUPlace()):
        x, y = (paddle.to_tensor(numbers(*s), place=p).astype(dtype) for s in ((4, 5), (5, 3)))
        shim.started.clear()
        found.append(paddle.matmul(x, y).astype("float32").numpy())
    assert [args[8] for _, args in products] == [2 if dtype == "float16" else 14]
    np.testing.assert_allclose(*found, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("x, y", [((2, 5, 4), (4, 3)), *BROADCAST])
def test_products_and_both_gradients_are_replayed(x, y, driver):
    agree("matmul_v2", numbers(*x), numbers(*y))
    assert {"matmul_v2", "matmul_v2_grad"} <= set(driver.python)
    driver.python.clear()
    agree("matmul_v2", numbers(*x) + 1, numbers(*y) - 1)
    assert not {"matmul_v2", "matmul_v2_grad"} & set(driver.python)


def test_second_gradients(driver):
    x, y = numbers(2, 3, 4), numbers(4, 3)

    def run(place):
        a, b = (paddle.to_tensor(v, place=place, stop_gradient=False) for v in (x, y))
        first = paddle.grad(paddle.tanh(paddle.matmul(a, b)), [a, b], create_graph=True)
        sum((g * g).sum() for g in first).backward()
        return a.grad, b.grad

    for _ in range(2):
        for g, w in zip(run(paddle.CUDAPlace(0)), run(paddle.CPUPlace()), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-11, atol=1e-11)


def test_a_replayed_call_that_fails_names_the_function(driver, monkeypatch):
    monkeypatch.setattr(driver, "blas", lambda: 6)
    x = paddle.to_tensor(numbers(3, 3), place=paddle.CUDAPlace(0))
    with pytest.raises(OSError, match="cublasGemmEx failed with the status 7"):
        paddle.matmul(x, x)


def test_the_switch_of_tf32_acts_on_known_products(driver):
    x = paddle.to_tensor(numbers(3, 3).astype("float32"), place=paddle.CUDAPlace(0))
    types = []
    try:
        for allowed in (False, False, True, True, False):
            core.set_cublas_switch(allowed)
            paddle.matmul(x, x)
            types.append(driver.compute_type())
    finally:
        core.set_cublas_switch(False)
    assert types == [68, 68, 77, 77, 68]
