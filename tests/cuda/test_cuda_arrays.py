"""numpy's functions over launches (paddle._cuda.arrays) against numpy: strides, broadcasting, data types, long runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from paddle._cuda import recipe
from paddle._cuda.arrays.array import Array, unwrapped
from paddle._cuda.arrays.call import ArrayCall, Lacking, through_launches
from paddle._cuda.call import Call, Declined

RNG = np.random.default_rng(4)
F, G = RNG.normal(size=(3, 4, 5)), RNG.normal(size=(4, 1))
POSITIVE = RNG.integers(1, 5, (4, 1))
I, B = RNG.integers(-9, 9, (3, 4, 5)), RNG.normal(size=(3, 4, 5)) > 0
NAN = np.where(RNG.normal(size=(6, 40)) > 1, np.nan, np.round(RNG.normal(size=(6, 40))))
LONG, ROWS = RNG.normal(size=70000).round(2), RNG.normal(size=(3, 9000, 2))

#: name -> an expression of (functions, arrays)
EXPRESSIONS: dict[str, tuple[Callable, tuple]] = {
    "broadcasting": (lambda xp, a, b: a * b - 2 / (b * b + 1), (F, G)),
    "numbers": (lambda xp, a: 1 - a + np.float64(2) * (3 - a) / 4, (F,)),
    "transposes": (lambda xp, a, b: a.transpose(2, 0, 1) + b.T, (F, RNG.normal(size=(4, 3)))),
    "steps": (lambda xp, a: a[::-1, 1:, ::2] + xp.flip(a, 0)[:, 1:, ::2], (F,)),
    "negative steps are copied": (lambda xp, a: a[:, ::-1].reshape(-1), (F,)),
    "floor": (lambda xp, a, b: [a // b, a % b, xp.floor(a), xp.ceil(a), xp.rint(a)], (F * 4, G)),
    "integers": (lambda xp, a, b: [a // b, a % b, -a, abs(a), a & 3, a | b, a ^ b, ~a], (I, POSITIVE)),
    "shifts": (lambda xp, a: [a << 2, a >> 1], (abs(I),)),
    "powers": (lambda xp, a: [abs(a) ** 0.5, a**2, xp.exp(a), xp.log1p(abs(a)), xp.tanh(a), xp.sign(a)], (F,)),
    "powers of integers": (lambda xp, a: a ** np.int64(3), (I,)),
    "comparisons": (lambda xp, a, b: [a > 0.5, a <= b, a == b, a != b, 0 < a], (F, G)),
    "logic": (lambda xp, a, b: [a & b, a | ~b, a ^ b, xp.logical_not(a)], (B, B[::-1])),
    "bool and numbers": (lambda xp, a: [a * 2, a.astype("float32"), (a * 1.5)], (B,)),
    "where": (lambda xp, c, a, b: [xp.where(c, a, b), xp.where(c, a, 0), xp.where(c, np.float64(1), b)], (B, F, G)),
    "clip": (lambda xp, a: xp.clip(a, -0.5, 0.25), (F,)),
    "NaN": (lambda xp, a: [xp.maximum(a, 0.5), xp.fmax(a, 0.5), xp.fmin(0.5, a), xp.isnan(a), xp.isfinite(a)], (NAN,)),
    "sums": (lambda xp, a: [a.sum(), a.sum(axis=1), a.sum(axis=(0, 2), keepdims=True), a.mean(axis=-1)], (F,)),
    "sums of integers": (lambda xp, a, b: [a.sum(axis=0), b.sum(axis=1), b.any(axis=0), b.all(), b.any()], (I, B)),
    "extrema": (lambda xp, a: [a.max(axis=1), a.min(), xp.argmax(a, axis=1), xp.argmin(a, axis=0), a.argmax()], (F,)),
    "extrema with NaN": (lambda xp, a: [xp.argmax(a, axis=1), xp.argmin(a, axis=0)], (NAN,)),
    "joins": (lambda xp, a: [xp.concatenate([a, a[:, :2]], 1), xp.stack([a, a], 2), xp.tile(a, (2, 1, 2))], (F,)),
    "parts": (lambda xp, a: [*xp.split(a, 2, 1), *xp.split(a, [1, 3], 2)], (F,)),
    "moves": (lambda xp, a: [xp.roll(a, 2, 1), xp.moveaxis(a, 0, 2), xp.expand_dims(a, 1)], (F,)),
    "padding": (lambda xp, a: xp.pad(a, [(0, 1), (2, 0), (1, 1)]), (F,)),
    "triangles": (lambda xp, a: [xp.tril(a, 1), xp.triu(a), xp.diagonal(a, 1, 1, 2)], (F,)),
    "the identity": (lambda xp, a: a[0, :3, :4] * xp.eye(3, 4, dtype="float32"), (F,)),
    "takes": (lambda xp, a, at: [xp.take(a, at, axis=1), xp.take(a, at), a[at % 3, at]], (F, abs(I[0, :2]) % 4)),
    "takes along": (lambda xp, a, at: xp.take_along_axis(a, at, 1), (F, abs(I[:, :2]) % 4)),
    "order": (lambda xp, a: [xp.argsort(a, axis=1, kind="stable"), xp.argsort(a, axis=0, kind="stable")], (NAN,)),
    "order of many": (lambda xp, a: xp.argsort(a, kind="stable"), (LONG,)),
    "order of integers": (lambda xp, a: xp.argsort(a, axis=2, kind="stable"), (I,)),
    "scans": (lambda xp, a, b: [xp.cumsum(a, axis=1), xp.cumprod(b, axis=0), xp.cumsum(a)], (ROWS, F)),
    "scans of integers": (lambda xp, a: xp.cumsum(a, axis=2), (I,)),
    "ranges": (lambda xp, a: [xp.arange(5), xp.arange(2, 9, 3), a[0, 0] + xp.arange(5)], (F,)),
    "constants": (lambda xp, a: a + xp.asarray(np.arange(20.0).reshape(4, 5)), (F,)),
    "search": (
        lambda xp, a, v: [xp.searchsorted(a, v), xp.searchsorted(a, v, side="right")], (np.sort(I.reshape(-1)), I[0])
    ),
    "counts": (lambda xp, a: xp.bincount(a.reshape(-1), minlength=9), (abs(I) % 9,)),
    "empty": (lambda xp, a: [a[:0] + 1, a[:0].sum(), xp.concatenate([a[:0], a]), xp.cumsum(a[:, :0], axis=1)], (F,)),
    "no dimensions": (lambda xp, a: [a.sum() * 2, xp.where(a.sum() > 0, a, -a), a[0, 0, 0] + a], (F,)),
}  # fmt: skip
ALSO = {"float32": 1e-5, "int32": 0, "int16": 0, "int8": 0, "uint8": 0}


@pytest.fixture
def wide(shim):
    call = Call(shim, "test", {}, {}, {}, {}, {})
    recipe.record(call)
    return ArrayCall(call)


def results(made: Any) -> list:
    made = made if isinstance(made, list) else [made]
    return [np.asarray(unwrapped(v)) for v in made]


def assign(xp: Any, a: Any) -> Any:
    out = xp.zeros((3, 4, 5), a.dtype)
    out[1:, ::2] = a[1:, ::2]
    out[0] = 3
    out += a
    return out


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_as_numpy(name, wide):
    run, arrays = EXPRESSIONS[name]
    want = results(run(np, *arrays))
    got = results(run(wide.xp, *(Array(wide, a.copy() if a.flags.c_contiguous else a) for a in arrays)))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ALSO)
def test_other_types(dtype, wide):
    a = (F * 3).astype(dtype) if dtype != "uint8" else abs(F * 3).astype(dtype)
    for run in (
        lambda xp, x: [x + x, x * 2, x.max(axis=1), x.astype("int64"), x > 1, xp.where(x > 1, x, x.dtype.type(0))],
        lambda xp, x: [assign(xp, x), xp.take(x, xp.arange(2), axis=1), xp.argsort(x, axis=1, kind="stable")],
        lambda xp, x: [x.astype(t) for t in ("bool", "int8", "int32", "float32", "float64")],
    ):
        for g, w in zip(results(run(wide.xp, Array(wide, a))), results(run(np, a)), strict=True):
            assert (g.dtype, g.shape) == (w.dtype, w.shape)
            np.testing.assert_allclose(g, w, rtol=ALSO[dtype])


def test_what_is_lacking_runs_without_a_recipe(shim):
    a = np.arange(4.0)

    def launch(call):
        return {"Out": call.xp.sort(call.ins["X"])}

    call = Call(shim, "test", {"X": a}, {}, {"Out": True}, {}, {})
    recipe.record(call)
    assert through_launches(launch)(call)["Out"].tolist() == a.tolist() and call.launched is None
    call = Call(shim, "test", {"X": a.astype("float16")}, {}, {"Out": True}, {}, {})
    recipe.record(call)
    with pytest.raises(Declined):  # computed in float32
        through_launches(lambda call: {"Out": call.ins["X"] + 1})(call)


def test_elements_on_the_host_are_lacking(wide):
    x = Array(wide, F)
    for read in (bool, float, int, np.asarray, lambda v: v[v > 0], lambda v: [*np.nditer(v)]):
        with pytest.raises((Lacking, TypeError)):
            read(x)


def test_an_operand_is_written_once(shim):
    """A launcher that has written an operand does not run again."""

    def launch(call):
        call.old("Out")[...] = 1.0
        return {"Out": call.xp.sort(call.ins["X"])}

    a = np.zeros(3)
    call = Call(shim, "test", {"X": a}, {}, {"Out": True}, {"Out": a}, {})
    recipe.record(call)
    with pytest.raises(RuntimeError, match="has written an operand"):
        through_launches(launch)(call)
