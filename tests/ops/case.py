"""Cases of operators, one table row each.

A module of cases is a table that pytest collects as parametrised tests::

    from case import case, real, table

    test_elementwise = table(
        case("elementwise_add", [real(2, 3), real(3)], expected=np.add, grad="X Y", second=True, dtypes="float32"),
        case("elementwise_add", [real(2, 3), real(4)], raises=ValueError),
    )

Each case runs the operator's builtin eagerly and in a Program; both must give the expected values. Gradients are
compared with central differences in float64 under random output weights, second gradients with central differences of
the first. The gradient of a complex variable z is dL/dRe(z) + i dL/dIm(z), where L is the sum of Re(conj(weight) *
output)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from case_programs import TABLE, flat_inputs, item, pick, run_static, shown, static_gradients
from case_values import (  # noqa: F401
    Rows,
    apart,
    bools,
    cast,
    complexes,
    dense,
    from_eager,
    ints,
    is_inexact,
    of_kind,
    real,
    rng,
    to_eager,
)
from paddle import _core

# Relative tolerance of forward values by data type; the absolute one is a tenth of it.
TOL = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-10, "complex64": 2e-5, "complex128": 1e-10}
STEP = 1e-5


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
    """One call of an operator with its expected result or error.

    Args:
        inputs: arrays by slot name, or in slot order (None: absent). A list of arrays fills a duplicable slot; ``Rows``
            is a SelectedRows.
        expected: a function of the inputs (in the given order) and attributes, or recorded values: an array, a tuple in
            the order of the outputs, or a dict by output slot. Outputs that are None or missing in a dict are not
            compared.
        grad: slots whose gradients are checked; ``second`` also checks their second gradients.
        dtypes: further data types to run the forward with; floating-point inputs are cast (integer inputs too if the
            case has no floating-point input).
        lod, out_lod: level offsets of inputs and those expected of outputs, by slot.
        out_dtype: data type of all outputs, or by slot. Default: that of the expected value if it is not floating
            point, else that of the first floating-point input.
        tol, grad_tol: relative tolerances instead of the default ones.
        rows_grad: slots whose gradient must be a SelectedRows.
        grad_of: outputs whose weighted sum is differentiated. Default: all floating-point outputs.
        raises, match: the expected error and a text in its message.
        static: False skips the Program (for operators of eager mode only).
    """
    slots = [s["name"] for s in TABLE[op]["inputs"]] if op in TABLE else []
    if not isinstance(inputs, dict):
        inputs = dict(zip(slots, inputs, strict=False))
    given = {k: v for k, v in inputs.items() if v is not None}
    return Case(
        op,
        given,
        attrs or {},
        expected,
        words(grad),
        words(dtypes),
        rows_grad=words(rows_grad),
        grad_of=words(grad_of),
        **more,
    )


def covers(*operators: str) -> Any:
    """Marks a test as the case of operators that do not fit into a table."""
    return pytest.mark.operators(*operators)


def table(*cases: Case) -> Callable[[Case], None]:
    """A test function over these cases."""

    @pytest.mark.parametrize("c", cases, ids=[c.name() for c in cases])
    def test(c: Case) -> None:
        check(c)

    return test


def run_eager(c: Case, inputs: dict[str, Any], stop: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Calls the builtin; returns the variables of its inputs and outputs by slot."""
    ins = {k: to_eager(v, c.lod.get(k), stop or not is_inexact(v)) for k, v in inputs.items()}
    result = getattr(_core.ops, c.op)(**ins, **c.attrs)
    slots = shown(c.op)
    return ins, dict(zip(slots, result if len(slots) > 1 else [result], strict=True))


# Checks


def check(c: Case) -> None:
    """Runs all checks of the case."""
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
    """Random weights of the outputs that are differentiated."""
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


def gradients(c: Case, ins: dict[str, Any], outs: dict[str, Any], w: dict, create_graph: bool = False) -> list[Any]:
    """Gradients of the weighted outputs with respect to the inputs of the case."""
    targets = [item(ins, k) for k in flat_inputs(c, ins)]
    sources = [pick(outs, k) for k in w]
    seeds = [x if isinstance(x, _core.Tensor) else to_eager(x, c.out_lod.get(k[0])) for k, x in w.items()]
    return _core.partial_grad(sources, targets, seeds, [], True, create_graph, True)


def differences(f: Callable[[], float], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Central differences of f with respect to each element (real and imaginary part) of the arrays, which f reads."""
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
    """run_backward stores the gradients of partial_grad in the leaves."""
    ins, outs = run_eager(c, inputs, stop=False)
    _core.run_backward([pick(outs, k) for k in w], [to_eager(v, c.out_lod.get(k[0])) for k, v in w.items()], False)
    for key, x in zip(keys, want, strict=True):
        g = item(ins, key)._grad_ivar()
        np.testing.assert_allclose(dense(from_eager(g)), x, rtol=1e-12, err_msg=f"run_backward, {key[0]}")


def check_second(c: Case, inputs: dict[str, Any], w: dict) -> None:
    """Differentiates the first gradients with respect to the inputs and the output weights."""
    keys = flat_inputs(c, inputs)
    u = [rng(c.op, "second", i).uniform(0.5, 1.5, item(inputs, k).shape) for i, k in enumerate(keys)]
    u = [
        complexes(*x.shape, seed=i) if np.iscomplexobj(item(inputs, k)) else x
        for i, (k, x) in enumerate(zip(keys, u, strict=True))
    ]
    seeds = {k: np.array(v) for k, v in w.items()}

    def first(create_graph: bool) -> tuple[dict[str, Any], dict, list[Any]]:
        ins, outs = run_eager(c, inputs, stop=False)
        vs = {k: to_eager(v, c.out_lod.get(k[0]), stop=False) for k, v in seeds.items()}
        return ins, vs, gradients(c, ins, outs, vs, create_graph)

    ins, vs, grads = first(True)
    lods = [c.lod.get(slot) for slot, _ in keys]
    used = [(g, x, lod) for g, x, lod in zip(grads, u, lods, strict=True) if g is not None and not g.stop_gradient]
    assert used, "the first gradients were not recorded"
    by = [item(ins, k) for k in keys] + list(vs.values())
    outer = [to_eager(x, lod) for _, x, lod in used]
    got = _core.partial_grad([g for g, _, _ in used], by, outer, [], True, False, True)
    arrays = [item(inputs, k) for k in keys] + list(seeds.values())

    def weighted() -> float:
        return float(sum(dot(from_eager(g), x) for g, x in zip(first(False)[2], u, strict=True)))

    want = differences(weighted, arrays)
    names = keys + [(f"{k}@GRAD", i) for k, i in seeds]
    found = [np.zeros_like(a) if g is None else from_eager(g) for g, a in zip(got, arrays, strict=True)]
    same_grads(c, "second gradient", names, found, want)
