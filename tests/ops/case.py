"""Cases of operators, one table row each.

A module of cases is a table that pytest collects as parametrised tests::

    from case import case, real, table

    test_elementwise = table(
        case("elementwise_add", [real(2, 3), real(3)], expected=np.add, grad="X Y", second=True, dtypes="float32"),
        case("elementwise_add", [real(2, 3), real(4)], raises=ValueError),
    )

Every case runs the operator's builtin eagerly and in a Program; both must give the expected values. Gradients are
compared with central differences in float64 under random output weights, second gradients with central differences of
the first. That of a complex variable z is dL/dRe(z) + i dL/dIm(z), where L is the sum of Re(conj(weight) * output).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from paddle import _core

TABLE = {op["type"]: op for op in _core.op_table()}
# Relative tolerance of forward values by data type; the absolute one is a tenth of it.
TOL = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-10, "complex64": 2e-5, "complex128": 1e-10}
# The complex type with parts of a real one.
COMPLEX = {"float32": "complex64", "float64": "complex128"}
STEP = 1e-5


@dataclass
class Rows:
    """A SelectedRows input: row ``rows[i]`` of ``height`` is ``values[i]``."""

    rows: list[int]
    height: int
    values: np.ndarray

    def dense(self) -> np.ndarray:
        out = np.zeros((self.height, *self.values.shape[1:]), self.values.dtype)
        np.add.at(out, self.rows, self.values)
        return out


@dataclass
class Case:
    op: str
    inputs: dict[str, Any]
    attrs: dict[str, Any]
    expected: Any = None
    grad: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    lod: dict[str, list[list[int]]] = field(default_factory=dict)
    out_lod: dict[str, list[list[int]]] = field(default_factory=dict)
    out_dtype: dict[str, str] | str | None = None
    tol: float | None = None
    grad_tol: float = 1e-5
    second: bool = False
    rows_grad: tuple[str, ...] = ()
    grad_of: tuple[str, ...] = ()
    raises: type[BaseException] | None = None
    match: str = ""
    static: bool = True

    def name(self) -> str:
        parts = [self.op]
        for value in self.inputs.values():
            first = value[0] if isinstance(value, list) and value else value
            shape = getattr(first, "shape", None)
            parts.append("x".join(map(str, shape)) if shape is not None else type(first).__name__)
        parts += [f"{k}={v}".replace(" ", "") for k, v in self.attrs.items()]
        return "-".join(parts)[:80]


def words(text: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(text.split()) if isinstance(text, str) else tuple(text)


def case(
    op: str,
    inputs: Iterable[Any] | dict[str, Any],
    attrs: dict[str, Any] | None = None,
    expected: Any = None,
    *,
    grad: str | Iterable[str] = (),
    dtypes: str | Iterable[str] = (),
    rows_grad: str | Iterable[str] = (),
    grad_of: str | Iterable[str] = (),
    **more: Any,
) -> Case:
    """One call of an operator and what must come of it.

    Args:
        inputs: arrays by slot name, or in slot order (None: absent). A list of arrays fills a duplicable slot; ``Rows``
            is a SelectedRows.
        expected: a function of the inputs (in the order given) and attributes, or recorded values: an array, a tuple
            in the order of the outputs, or a dict by output slot. What a dict leaves out, and None, is not compared.
        grad: slots whose gradients are checked; ``second`` checks their second gradients too.
        dtypes: further data types to run the forward with; floating-point inputs are cast (integer ones too when the
            case has no floating-point input).
        lod, out_lod: level offsets of inputs and those expected of outputs, by slot.
        out_dtype: data type of every output, or by slot. Default: that of the expected value where it is not floating
            point, else that of the first floating-point input.
        tol, grad_tol: relative tolerances instead of the usual ones.
        rows_grad: slots whose gradient must be a SelectedRows.
        grad_of: outputs that the gradients are of. Default: every floating-point one.
        raises, match: the call must fail with this error, and its message contain this text.
        static: False leaves out the Program (an operator of eager mode only).
    """
    slots = [s["name"] for s in TABLE[op]["inputs"]] if op in TABLE else []
    if not isinstance(inputs, dict):
        inputs = dict(zip(slots, inputs, strict=False))
    given = {k: v for k, v in inputs.items() if v is not None}
    return Case(op, given, attrs or {}, expected, words(grad), words(dtypes), rows_grad=words(rows_grad),
                grad_of=words(grad_of), **more)  # fmt: skip


def table(*cases: Case) -> Callable[[Case], None]:
    """A test function over these cases."""

    @pytest.mark.parametrize("c", cases, ids=[c.name() for c in cases])
    def test(c: Case) -> None:
        check(c)

    return test


def rng(*key: Any) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def real(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Random numbers; ``seed`` makes several of one shape differ."""
    return rng("real", shape, seed).uniform(low, high, shape).astype(dtype)


def complexes(*shape: int, seed: int = 0) -> np.ndarray:
    """Random complex128 numbers at least 0.5 from 0."""
    r = rng("complexes", shape, seed)
    return r.uniform(0.5, 2.0, shape) * np.exp(1j * r.uniform(-np.pi, np.pi, shape))


def apart(*shape: int, step: float = 0.1, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Numbers around 0 that lie at least ``step`` from each other and half of it from 0, in random order."""
    n = int(np.prod(shape))
    values = (np.arange(n) - n // 2 + 0.5) * step
    return rng("apart", shape, seed).permutation(values).reshape(shape).astype(dtype)


def ints(*shape: int, low: int = -9, high: int = 10, seed: int = 0, dtype: str = "int64") -> np.ndarray:
    """Random integers of [low, high)."""
    return rng("ints", shape, seed).integers(low, high, shape).astype(dtype)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    return rng("bools", shape, seed).integers(0, 2, shape).astype(bool)


# Values in and out of the engine


def lod_tensor(array: np.ndarray, lod: list[list[int]]) -> Any:
    t = _core.LoDTensor()
    t.set(array, None)
    t.set_lod(lod)
    return t


def to_eager(value: Any, lod: list[list[int]] | None = None, stop: bool = True) -> Any:
    if isinstance(value, list):
        return [to_eager(v, lod, stop) for v in value]
    if isinstance(value, Rows):
        t = _core.Tensor()
        rows = t.value().get_selected_rows()
        rows.set_rows(value.rows)
        rows.set_height(value.height)
        rows.get_tensor().set(value.values, None)
    else:
        t = _core.Tensor(lod_tensor(value, lod) if lod else value)
    t.stop_gradient = stop
    return t


def from_eager(t: Any) -> Any:
    if t is None or isinstance(t, list | tuple):
        return t if t is None else [from_eager(v) for v in t]
    if t._is_sparse():
        rows = t.value().get_selected_rows()
        return Rows(list(rows.rows()), rows.height(), np.array(rows.get_tensor()))
    return t.numpy()


def dense(value: Any) -> Any:
    return value.dense() if isinstance(value, Rows) else value


def shown(op: str) -> list[str]:
    return [s["name"] for s in TABLE[op]["outputs"] if not s["hidden"]]


def run_eager(c: Case, inputs: dict[str, Any], stop: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Calls the builtin: the variables of its inputs and outputs by slot."""
    ins = {k: to_eager(v, c.lod.get(k), stop or not is_inexact(v)) for k, v in inputs.items()}
    result = getattr(_core.ops, c.op)(**ins, **c.attrs)
    slots = shown(c.op)
    return ins, dict(zip(slots, result if len(slots) > 1 else [result], strict=True))


def is_inexact(value: Any) -> bool:
    """Real or complex numbers, or a list of such arrays."""
    if isinstance(value, list):
        return bool(value) and is_inexact(value[0])
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fc"


def of_kind(kind: str, dtype: Any) -> np.dtype:
    """The real (``f``) or complex (``c``) type as precise as ``dtype``, a real or complex one."""
    real = np.zeros(0, dtype).real.dtype
    return np.dtype(COMPLEX[real.name]) if kind == "c" else real


def cast(inputs: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The inputs in another data type (complex ones with parts of it); indices and masks beside real ones stay."""
    any_real = any(is_inexact(v) for v in inputs.values())

    def one(v: Any) -> Any:
        if isinstance(v, list):
            return [one(x) for x in v]
        if isinstance(v, Rows):
            return Rows(v.rows, v.height, v.values.astype(dtype))
        if is_inexact(v):
            return v.astype(of_kind(v.dtype.kind, dtype))
        return v if any_real else v.astype(dtype)

    return {k: one(v) for k, v in inputs.items()}


# Checks


def check(c: Case) -> None:
    """Runs everything that the case asks for."""
    assert c.op in TABLE, f"no operator {c.op}"
    if c.raises is not None:
        with pytest.raises(c.raises, match=c.match or None):
            run_eager(c, c.inputs)
        return
    check_forward(c, c.inputs)
    for dtype in c.dtypes:
        check_forward(c, cast(c.inputs, dtype))
    if c.grad:
        check_grad(c)


def check_forward(c: Case, inputs: dict[str, Any]) -> None:
    _, outs = run_eager(c, inputs)
    got = {k: from_eager(v) for k, v in outs.items()}
    expected = expected_of(c, inputs)
    for slot, want in expected.items():
        compare(c, f"eager {slot}", got[slot], want, inputs)
        check_dtype(c, slot, got[slot], want, inputs)
    for slot, lod in c.out_lod.items():
        assert outs[slot].value().get_tensor().lod() == lod, f"LoD of {slot}"
    if c.static:
        for slot, value in run_static(c, inputs, list(got)).items():
            compare(c, f"static {slot}", value, got[slot], inputs)


def expected_of(c: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    """Expected values by slot. Functions compute in float64."""

    def wide(v: Any) -> Any:
        if isinstance(v, list):
            return [wide(x) for x in v]
        return v.astype(of_kind(v.dtype.kind, "float64")) if is_inexact(v) else v

    want = c.expected
    if callable(want):
        with np.errstate(all="ignore"):
            want = want(*map(wide, inputs.values()), **c.attrs)
    if want is None:
        return {}
    if isinstance(want, dict):
        return want
    values = want if isinstance(want, tuple) else (want,)
    return {slot: v for slot, v in zip(shown(c.op), values, strict=False) if v is not None}


def first_dtype(inputs: dict[str, Any]) -> np.dtype | None:
    flat = [x for v in inputs.values() for x in (v if isinstance(v, list) else [v])]
    arrays = [x.values if isinstance(x, Rows) else x for x in flat]
    return next((a.dtype for a in arrays if is_inexact(a)), arrays[0].dtype if arrays else None)


def compare(c: Case, what: str, got: Any, want: Any, inputs: dict[str, Any]) -> None:
    if isinstance(want, list):
        assert len(got) == len(want), f"{what}: {len(got)} variables, expected {len(want)}"
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            compare(c, f"{what}[{i}]", g, w, inputs)
        return
    got, want = np.asarray(dense(got)), np.asarray(dense(want))
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    tol = c.tol or TOL.get(got.dtype.name, 0)
    floats = [got.dtype, first_dtype(inputs)]
    tol = max([tol, *(TOL.get(d.name, 0) for d in floats if d is not None and got.dtype.kind in "fc")])
    np.testing.assert_allclose(got, want.astype(got.dtype), rtol=tol, atol=tol / 10, err_msg=what)


def check_dtype(c: Case, slot: str, got: Any, want: Any, inputs: dict[str, Any]) -> None:
    if isinstance(got, list):
        got, want = got[0], want[0]
    got = got.values if isinstance(got, Rows) else np.asarray(got)
    expected = c.out_dtype.get(slot) if isinstance(c.out_dtype, dict) else c.out_dtype
    if expected is None:
        want = np.asarray(dense(want))
        expected = first_dtype(inputs) if want.dtype.kind in "fc" else want.dtype
        if expected is not None and expected.kind in "fc" and want.dtype.kind != expected.kind:
            expected = of_kind(want.dtype.kind, expected)
    assert expected is None or got.dtype == np.dtype(expected), f"{slot} is {got.dtype}, expected {expected}"


def weights(c: Case, outs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Random weights of the outputs that gradients are of."""
    names = c.grad_of or [k for k, v in outs.items() if v is not None and not isinstance(v, list)]
    found = {}
    for name in names:
        values = outs[name] if isinstance(outs[name], list) else [outs[name]]
        for i, v in enumerate(values):
            if "float" in v._dtype_name:
                found[name, i] = rng(c.op, name, i).uniform(0.5, 1.5, v.shape)
            elif "complex" in v._dtype_name:
                found[name, i] = complexes(*v.shape, seed=i + 1)
    return found


def pick(outs: dict[str, Any], key: tuple[str, int]) -> Any:
    v = outs[key[0]]
    return v[key[1]] if isinstance(v, list) else v


def flat_inputs(c: Case, inputs: dict[str, Any]) -> list[tuple[str, int]]:
    return [(s, i) for s in c.grad for i in range(len(inputs[s]) if isinstance(inputs[s], list) else 1)]


def item(inputs: dict[str, Any], key: tuple[str, int]) -> Any:
    v = inputs[key[0]]
    return v[key[1]] if isinstance(v, list) else v


def gradients(c: Case, ins: dict[str, Any], outs: dict[str, Any], w: dict, create_graph: bool = False) -> list[Any]:
    """Gradients of the weighted outputs with respect to the inputs of the case."""
    targets = [item(ins, k) for k in flat_inputs(c, ins)]
    sources = [pick(outs, k) for k in w]
    seeds = [x if isinstance(x, _core.Tensor) else to_eager(x) for x in w.values()]
    return _core.partial_grad(sources, targets, seeds, [], True, create_graph, True)


def differences(f: Callable[[], float], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Central differences of f with respect to every element (and its parts) of the arrays, which it reads."""
    result = []
    for a in arrays:
        d = np.zeros_like(a)
        for at in np.ndindex(*a.shape):
            old = a[at]
            for unit in (1, 1j) if np.iscomplexobj(a) else (1,):
                a[at] = old + STEP * unit
                up = f()
                a[at] = old - STEP * unit
                d[at] += unit * (up - f()) / (2 * STEP)
            a[at] = old
        result.append(d)
    return result


def dot(out: np.ndarray, weight: np.ndarray) -> float:
    return float(np.real(np.conj(weight) * out).sum())


def check_grad(c: Case) -> None:
    inputs = cast(c.inputs, "float64")
    inputs = {k: [x.copy() for x in v] if isinstance(v, list) else v.copy() for k, v in inputs.items()}
    ins, outs = run_eager(c, inputs, stop=False)
    w = weights(c, outs)
    assert w, "no floating-point output to take gradients of"
    keys = flat_inputs(c, inputs)
    arrays = [item(inputs, k) for k in keys]
    grads = gradients(c, ins, outs, w)
    for key, g in zip(keys, grads, strict=True):
        assert g is not None, f"no gradient of {key[0]}"
        assert g._is_sparse() == (key[0] in c.rows_grad), f"gradient of {key[0]}: SelectedRows or not"
    got = [dense(from_eager(g)) for g in grads]

    def weighted() -> float:
        _, o = run_eager(c, inputs)
        return float(sum(dot(pick(o, k).numpy(), v) for k, v in w.items()))

    want = differences(weighted, arrays)
    same_grads(c, "gradient", keys, got, want)
    check_backward(c, inputs, w, keys, got)
    if c.static:
        same_grads(c, "static gradient", keys, static_gradients(c, inputs, w), got)
    if c.second:
        check_second(c, inputs, w)


def same_grads(c: Case, what: str, keys: list, got: list, want: list) -> None:
    for (slot, i), g, x in zip(keys, got, want, strict=True):
        assert g.shape == x.shape, f"{what} of {slot}[{i}]: shape {g.shape}, expected {x.shape}"
        scale = max(1.0, float(np.abs(x).max(initial=0)))
        np.testing.assert_allclose(g, x, rtol=c.grad_tol, atol=c.grad_tol * scale, err_msg=f"{what} of {slot}[{i}]")


def check_backward(c: Case, inputs: dict[str, Any], w: dict, keys: list, want: list) -> None:
    """run_backward leaves in the leaves what partial_grad gives."""
    ins, outs = run_eager(c, inputs, stop=False)
    _core.run_backward([pick(outs, k) for k in w], [to_eager(v) for v in w.values()], False)
    for key, x in zip(keys, want, strict=True):
        g = item(ins, key)._grad_ivar()
        np.testing.assert_allclose(dense(from_eager(g)), x, rtol=1e-12, err_msg=f"run_backward, {key[0]}")


def check_second(c: Case, inputs: dict[str, Any], w: dict) -> None:
    """Differentiates the first gradients, by the inputs and by the output weights."""
    keys = flat_inputs(c, inputs)
    u = [rng(c.op, "second", i).uniform(0.5, 1.5, item(inputs, k).shape) for i, k in enumerate(keys)]
    u = [complexes(*x.shape, seed=i) if np.iscomplexobj(item(inputs, k)) else x
         for i, (k, x) in enumerate(zip(keys, u, strict=True))]  # fmt: skip
    seeds = {k: np.array(v) for k, v in w.items()}

    def first(create_graph: bool) -> tuple[dict[str, Any], dict, list[Any]]:
        ins, outs = run_eager(c, inputs, stop=False)
        vs = {k: to_eager(v, stop=False) for k, v in seeds.items()}
        return ins, vs, gradients(c, ins, outs, vs, create_graph)

    ins, vs, grads = first(True)
    used = [(g, x) for g, x in zip(grads, u, strict=True) if g is not None and not g.stop_gradient]
    assert used, "the first gradients were not recorded"
    by = [item(ins, k) for k in keys] + list(vs.values())
    got = _core.partial_grad([g for g, _ in used], by, [to_eager(x) for _, x in used], [], True, False, True)
    arrays = [item(inputs, k) for k in keys] + list(seeds.values())

    def weighted() -> float:
        return float(sum(dot(from_eager(g), x) for g, x in zip(first(False)[2], u, strict=True)))

    want = differences(weighted, arrays)
    names = keys + [(f"{k}@GRAD", i) for k, i in seeds]
    found = [np.zeros_like(a) if g is None else from_eager(g) for g, a in zip(got, arrays, strict=True)]
    same_grads(c, "second gradient", names, found, want)


# Programs


class Built:
    """A Program that holds the operator, its inputs fed."""

    def __init__(self, c: Case, inputs: dict[str, Any]) -> None:
        import paddle

        self.paddle, self.feed = paddle, {}
        self.program = paddle.static.Program()
        paddle.enable_static()
        try:
            with paddle.static.program_guard(self.program):
                self.ins = {k: self.data(c, k, v) for k, v in inputs.items()}
                ins = self.ins
                if TABLE[c.op]["elementwise"]:
                    # An operator that plans may join: it has a neighbour to be joined with.
                    ins = {k: neighbour(v) for k, v in ins.items()}
                result = getattr(_core.ops, c.op)(**ins, **c.attrs)
        finally:
            paddle.disable_static()
        slots = shown(c.op)
        self.outs = dict(zip(slots, result if len(slots) > 1 else [result], strict=True))

    def data(self, c: Case, slot: str, value: Any, i: int = 0) -> Any:
        if isinstance(value, list):
            return [self.data(c, slot, v, i) for i, v in enumerate(value)]
        name = f"{slot}_{i}".replace("@", "_")
        lod = c.lod.get(slot)
        level = {"lod_level": len(lod)} if lod else {}
        var = self.paddle.static.data(name, list(value.shape), str(value.dtype), **level)
        var.stop_gradient = not is_inexact(value)
        self.feed[name] = lod_tensor(value, lod) if lod else value
        return var

    def run(self, fetch: list[Any]) -> list[Any]:
        """What is fetched: bit for bit the same without passes over the plan and with all of them."""
        exe = self.paddle.static.Executor(self.paddle.CPUPlace())
        before, state, found = ",".join(_core.plan_passes()), _core.get_rng_state(), []
        self.paddle.enable_static()
        try:
            for passes in ("none", "all,always"):
                _core.plan_passes(passes)
                _core.set_rng_state(state)
                found.append(exe.run(self.program, feed=self.feed, fetch_list=fetch, return_numpy=False))
        finally:
            self.paddle.disable_static()
            _core.plan_passes(before)
        for plain, passed in zip(*found, strict=True):
            assert bits(plain) == bits(passed), "passes over the plan change a result"
        return found[1]


def neighbour(v: Any) -> Any:
    """The variable times 1, if it holds floating-point numbers."""
    if isinstance(v, list):
        return [neighbour(x) for x in v]
    return _core.ops.scale(X=v) if "FP" in str(v.dtype) or "float" in str(v.dtype) else v


def bits(t: Any) -> Any:
    value, lod = from_fetched(t)
    if isinstance(value, Rows):
        return value.rows, value.height, value.values.dtype.name, value.values.tobytes()
    if isinstance(value, np.ndarray):
        return lod, value.shape, value.dtype.name, value.tobytes()
    return None


def feedable(inputs: dict[str, Any]) -> bool:
    return not any(isinstance(v, Rows) for v in inputs.values())


def from_fetched(t: Any) -> tuple[Any, list[list[int]]]:
    """The value of a fetched variable and its LoD."""
    if isinstance(t, _core.LoDTensor):
        return np.array(t), t.lod()
    if hasattr(t, "rows"):
        return Rows(list(t.rows()), t.height(), np.array(t.get_tensor())), []
    return t, []


def run_static(c: Case, inputs: dict[str, Any], slots: list[str]) -> dict[str, Any]:
    """The outputs of the operator in a Program."""
    if not feedable(inputs):
        return {}
    built = Built(c, inputs)
    keys, fetch = [], []
    for slot in slots:
        out = built.outs[slot]
        for i, v in enumerate(out if isinstance(out, list) else [out] if out is not None else []):
            keys.append((slot, i, isinstance(out, list)))
            fetch.append(v)
    result: dict[str, Any] = {}
    for (slot, _, many), value in zip(keys, map(from_fetched, built.run(fetch)), strict=True):
        assert many or slot not in c.out_lod or value[1] == c.out_lod[slot], f"static {slot}: LoD {value[1]}"
        value = value[0]
        if many:
            result.setdefault(slot, []).append(value)
        else:
            result[slot] = value
    return result


def static_gradients(c: Case, inputs: dict[str, Any], w: dict) -> list[np.ndarray]:
    built = Built(c, inputs)
    paddle = built.paddle
    paddle.enable_static()
    try:
        with paddle.static.program_guard(built.program):
            seeds = []
            for (slot, i), value in w.items():
                name = f"weight_{slot}_{i}"
                # The shape as far as it is known while the Program is built.
                seeds.append(paddle.static.data(name, list(pick(built.outs, (slot, i)).shape), str(value.dtype)))
                built.feed[name] = value
            targets = [pick(built.outs, k) for k in w]
            sources = [item(built.ins, k) for k in flat_inputs(c, inputs)]
            grads = paddle.static.gradients(targets, sources, target_gradients=seeds)
    finally:
        paddle.disable_static()
    return [dense(from_fetched(g)[0]) for g in built.run(grads)]
