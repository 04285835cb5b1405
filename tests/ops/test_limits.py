"""Many variables in a slot, and sizes that attributes or values make too large."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from case import to_eager
from paddle import _core

MANY = 70_000
ops = _core.ops


@pytest.fixture(scope="module")
def many() -> list[paddle.Tensor]:
    return [paddle.to_tensor(np.float32([i]), stop_gradient=False) for i in range(MANY)]


@pytest.mark.parametrize("op", ["concat", "stack", "sum"])
def test_many_inputs(many: list[paddle.Tensor], op: str) -> None:
    out = getattr(ops, op)(many)
    want = np.float32([np.arange(MANY, dtype="float32").sum()]) if op == "sum" else np.arange(MANY, dtype="float32")
    np.testing.assert_allclose(out.numpy().ravel(), want, rtol=1e-4)
    weight = np.arange(out.numpy().size, dtype="float32").reshape(out.shape) + 1
    grads = paddle.grad([out], [many[1], many[-1]], [paddle.to_tensor(weight)])
    assert [float(g.numpy()[0]) for g in grads] == ([1, 1] if op == "sum" else [2, MANY])


@pytest.mark.parametrize("op", ["split", "unstack"])
def test_many_outputs(op: str) -> None:
    x = paddle.to_tensor(np.arange(MANY, dtype="float32"), stop_gradient=False)
    parts = ops.split(x, num=MANY, axis=0) if op == "split" else ops.unstack(x, num=MANY, axis=0)
    assert len(parts) == MANY and float(parts[-1].numpy().ravel()[0]) == MANY - 1
    (parts[-1] * 3 + parts[MANY - 2**16 - 1]).sum().backward()
    assert (x.grad[[MANY - 1, MANY - 2**16 - 1]] == [3, 1]).all() and x.grad.sum() == 4


def test_many_inputs_in_a_program() -> None:
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [2], "float32")
            out = ops.concat([x] * MANY, axis=0)
            (got,) = paddle.static.Executor().run(main, feed={"x": np.float32([1, 2])}, fetch_list=[out])
    finally:
        paddle.disable_static()
    assert got.shape == (2 * MANY,) and got.sum() == 3 * MANY


BIG = 2**31 - 1
ROWS = to_eager(np.zeros((2**33, 0), "float32"), [[0, 2**33]])
ONE = to_eager(np.zeros((0, 2), "float32"), [[0, 0]])
X = to_eager(np.ones((2, 3), "float32"))
NO_ROWS = to_eager(np.zeros((0, 3), "float32"))
TOO_LARGE = {
    "split": lambda: ops.split(NO_ROWS, num=BIG, axis=0),
    "unstack": lambda: ops.unstack(to_eager(np.zeros((0, BIG), "float32")), num=BIG, axis=1),
    "sequence_expand": lambda: ops.sequence_expand(ONE, ROWS),
    "sequence_expand without LoD": lambda: ops.sequence_expand(to_eager(np.zeros((2**40, 0), "float32")), ONE),
    "range": lambda: ops.range(*(to_eager(np.int64([v])) for v in (0, 2**60, 1))),
    "expand_v2": lambda: ops.expand_v2(X, shape=[BIG, BIG, 2, 3]),
    "expand": lambda: ops.expand(X, expand_times=[BIG, BIG]),
    "one_hot_v2": lambda: ops.one_hot_v2(to_eager(np.zeros((2**20, 1), "int64")), depth=BIG),
    "fill_constant": lambda: ops.fill_constant(shape=[BIG, BIG], dtype=5, value=0.0),
    "gaussian_random": lambda: ops.gaussian_random(shape=[BIG, BIG]),
    "uniform_random": lambda: ops.uniform_random(shape=[2**62, 8]),
    "randint": lambda: ops.randint(shape=[BIG, BIG], low=0, high=2),
}


@pytest.mark.parametrize("call", TOO_LARGE.values(), ids=TOO_LARGE)
def test_sizes_that_exceed_memory(call) -> None:
    with pytest.raises((MemoryError, ValueError, RuntimeError)) as info:
        call()
    assert "internal error" not in str(info.value)


@pytest.mark.parametrize("static", [False, True])
def test_an_unknown_attribute_called_axis(static: bool) -> None:
    if static:
        paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            x = paddle.static.data("x", [2], "float32") if static else X
            with pytest.raises((TypeError, ValueError), match="axis"):
                ops.relu(x, axis=1)
            with pytest.raises((TypeError, ValueError), match="axes"):
                ops.relu(x, axes=1)
    finally:
        paddle.disable_static()
