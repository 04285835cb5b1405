"""How products of matrices reach cuBLAS: stacks are folded into one product, and no operand is copied."""

import numpy as np
import paddle
import pytest
from paddle import _core


@pytest.fixture
def products(shim, monkeypatch):
    """The operands of each product that was computed."""
    found, matmul = [], np.matmul

    def spy(x, y):
        found.append((x, y))
        return matmul(x, y)

    monkeypatch.setattr(np, "matmul", spy)
    return found


@pytest.mark.parametrize("op", ["matmul", "matmul_v2"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_stack_times_a_matrix_is_one_product(op, turned, products):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 5, 4, 3)), rng.normal(size=(6, 3) if turned else (3, 6))
    attrs = {"trans_y" if op == "matmul_v2" else "transpose_Y": turned}

    def run(place):
        a, b = (paddle.to_tensor(v, place=place, stop_gradient=False) for v in (x, y))
        out = getattr(_core.ops, op)(a, b, **attrs)
        (out * out).sum().backward()
        return out.numpy(), a.grad, b.grad

    want = run(paddle.CPUPlace())
    products.clear()
    got = run(paddle.CUDAPlace(0))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)
    assert len(products) == 3 and all(a.ndim == b.ndim == 2 for a, b in products)
    # Every operand is contiguous, or the transpose of a contiguous matrix: cuBLAS reads both.
    assert all(v.flags.c_contiguous or v.flags.f_contiguous for pair in products for v in pair)


def test_both_transposed(products):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 6, 3))

    def run(place):
        a, b = (paddle.to_tensor(v, place=place, stop_gradient=False) for v in (x, y))
        out = paddle.matmul(a, b, transpose_x=True, transpose_y=True)
        (out * out).sum().backward()
        return out.numpy(), a.grad, b.grad

    for g, w in zip(run(paddle.CUDAPlace(0)), run(paddle.CPUPlace()), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)
    assert len(products) == 3
