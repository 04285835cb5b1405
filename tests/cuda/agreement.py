"""The operators' own case rows (tests/ops) on a device, compared with the CPU: results, gradients and second gradients
in every data type that the CPU kernel takes, and updates in place. Records which launchers ran and which declined."""

from __future__ import annotations

import functools
import sys
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from paddle import _core, _cuda
from paddle._cuda.host import PASSED_ON

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
import case as rows  # noqa: E402
import catalogue  # noqa: E402
from case_values import Rows, is_inexact, to_eager  # noqa: E402

TABLE = {op["type"]: op for op in _core.op_table()}
# Relative tolerances (absolute: times the largest value). Half types round once; intermediate results may differ by 1.
TOL = {"float64": 1e-9, "float32": 1e-4, "float16": 8e-3, "bfloat16": 4e-2}
COMPLEX = {"complex128": 1e-9, "complex64": 1e-4}
DTYPES = tuple(TOL)
# Types in which cases of floating-point operands run, too, where the operator's row has them.
WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")
# Results are random, or elements of uninitialised memory: only shapes and types are compared.
SHAPES_ONLY = {"empty", "fake_init"}
# Their CPU kernels read uninitialised memory where Scale and Bias are 16-bit; those of models are float32.
FLOAT_PARAMETERS = {"fused_batch_norm_act", "fused_bn_add_activation"}
# Values of steps past a sequence's end are arbitrary there.
UNSPECIFIED = {"Reserve"}
CASES: dict[str, list] = catalogue.cases()


@dataclass
class Report:
    """What the cases of an operator did on the device."""

    ran: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    declined: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    wrong: list[str] = field(default_factory=list)


class Watch:
    """Records the calls of launchers by operator and data type."""

    def __init__(self, runtime: Any) -> None:
        self.report, self.dtype = Report(), ""
        run = runtime._run

        def watched(op: str, *args: Any, **keywords: Any) -> Any:
            result = run(op, *args, **keywords)
            (self.report.declined if result is None else self.report.ran)[op].add(self.dtype)
            return result

        runtime._run = watched


def random_operators() -> set[str]:
    return {name for name, op in TABLE.items() if op["kernel"] == "random"} | SHAPES_ONLY


def is_random(c: Any) -> bool:
    """Whether only the shapes of a case's results are compared; networks draw only the masks of their dropout."""
    draws = c.op not in ("rnn", "cudnn_lstm") or c.attrs.get("dropout_prob", 0) > 0
    return draws and c.op in random_operators()


def related(op: str) -> set[str]:
    """The operator and its gradients."""
    found: set[str] = set()
    while op in TABLE and op not in found:
        found.add(op)
        op = TABLE[op]["grad"] or f"{op}_grad"
    return found


def bfloat16(a: np.ndarray) -> np.ndarray:
    """The bits of float32 numbers rounded to bfloat16, to the nearest even."""
    bits = np.ascontiguousarray(a, "float32").view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def floats(a: np.ndarray) -> np.ndarray:
    """The values of an array for a comparison; bfloat16 (uint16) as float32."""
    if a.dtype == np.uint16:
        return (a.astype(np.uint32) << 16).view(np.float32)
    return a


def cast(value: Any, dtype: str) -> Any:
    if isinstance(value, list):
        return [cast(v, dtype) for v in value]
    if isinstance(value, Rows):
        return Rows(value.rows, value.height, cast(value.values, dtype))
    if not is_inexact(value) or value.dtype.kind == "c":
        return value
    if dtype in WHOLE:
        value = np.rint(np.abs(value) * 3 if dtype.startswith("u") else value * 3)
    return bfloat16(value) if dtype == "bfloat16" else value.astype(dtype)


def tensor(value: Any, lod: Any, device: bool, stop: bool = True) -> Any:
    if isinstance(value, list):
        return [tensor(v, lod, device, stop) for v in value]
    t = to_eager(value, lod)
    if device:
        t = _core.copy_to_device(t, 0)
    t.stop_gradient = stop
    return t


def on_cpu(t: Any) -> Any:
    """The elements: arrays, rows and LoD of a tensor; lists of them."""
    if t is None:
        return None
    if isinstance(t, list | tuple):
        return [on_cpu(v) for v in t]
    try:
        lod = t.value().get_tensor().lod() if not t._is_sparse() else None
    except Exception:
        lod = None
    return rows.from_eager(t), lod


def seeds_for(c: Any, outs: dict[str, Any], dtype: str) -> list[tuple[Any, np.ndarray]]:
    """Outputs to differentiate, with weights."""
    names = c.grad_of or [k for k, v in outs.items() if v is not None and not isinstance(v, list)]
    found = []
    for name in names:
        values = outs[name] if isinstance(outs[name], list) else [outs[name]]
        for i, v in enumerate(values):
            if "float" in v._dtype_name:
                w = rows.rng(c.op, name, i).uniform(0.5, 1.5, v.shape)
                found.append((v, cast(w, v._dtype_name)))
    return found


def step(c: Any, inputs: dict[str, Any], dtype: str, device: bool, grads: bool) -> dict[str, Any]:
    """All results of a case on the CPU or on the device."""
    _core.set_seed(5)
    # Operators without inputs run on the current device.
    _core.set_current_device(0 if device else -1)
    try:
        return _step(c, inputs, dtype, device, grads)
    finally:
        _core.set_current_device(-1)


def _step(c: Any, inputs: dict[str, Any], dtype: str, device: bool, grads: bool) -> dict[str, Any]:
    ins = {k: tensor(v, c.lod.get(k), device, not (grads and k in c.grad)) for k, v in inputs.items()}
    result = getattr(_core.ops, c.op)(**ins, **c.attrs)
    slots = rows.shown(c.op)
    outs = dict(zip(slots, result if len(slots) > 1 else [result], strict=True))
    found = {k: on_cpu(v) for k, v in outs.items()}
    if not grads:
        return found
    pairs = seeds_for(c, outs, dtype)
    sources = [v for v, _ in pairs]
    weights = [tensor(w, None, device, not c.second) for _, w in pairs]
    targets = [rows.item(ins, k) for k in rows.flat_inputs(c, ins)]
    first = _core.partial_grad(sources, targets, weights, [], True, c.second, True)
    for key, g in zip(rows.flat_inputs(c, ins), first, strict=True):
        found[f"gradient of {key}"] = on_cpu(g)
    if c.second:
        used = [g for g in first if g is not None and not g.stop_gradient]
        values = [cast(rows.rng(i).uniform(0.5, 1.5, g.shape), g._dtype_name) for i, g in enumerate(used)]
        outer = [tensor(v, None, device) for v in values]
        second = _core.partial_grad(used, targets + weights, outer, [], True, False, True) if used else []
        for i, g in enumerate(second):
            found[f"second gradient {i}"] = on_cpu(g)
    return found


def in_place(c: Any, inputs: dict[str, Any], device: bool) -> dict[str, Any] | None:
    """Results of a case whose outputs overwrite the inputs that they are updates of; None for operators without."""
    ins = {k: tensor(v, c.lod.get(k), device) for k, v in inputs.items()}
    outs = {
        s["name"]: ins[s["alias"]]
        for s in TABLE[c.op]["outputs"]
        if s["alias"] in ins and not s["duplicable"] and not s["not_returned"]
    }
    if not outs:
        return None
    getattr(_core.ops, c.op)(**ins, **c.attrs, **outs)
    return {f"in place {k}": on_cpu(v) for k, v in ins.items()}


def difference(want: Any, got: Any, dtype: str, shapes_only: bool) -> str | None:
    """What differs between results, None if nothing does."""
    if want is None or got is None:
        return None if want is got else f"{'no' if got is None else 'a'} value"
    if isinstance(want, list):
        if len(want) != len(got):
            return f"{len(got)} values instead of {len(want)}"
        found = [difference(w, g, dtype, shapes_only) for w, g in zip(want, got, strict=True)]
        return next((f for f in found if f), None)
    (w, wlod), (g, glod) = want, got
    if isinstance(w, list):
        return None
    if isinstance(w, Rows) != isinstance(g, Rows):
        return "a SelectedRows for a tensor or reversely"
    if isinstance(w, Rows):
        w, g = Rows(w.rows, w.height, floats(w.values)).dense(), Rows(g.rows, g.height, floats(g.values)).dense()
    if w is None or g is None:
        return None if w is g else "no elements"
    if w.dtype != g.dtype or w.shape != g.shape:
        return f"{g.dtype}{g.shape} instead of {w.dtype}{w.shape}"
    if wlod != glod:
        return f"LoD {glod} instead of {wlod}"
    if shapes_only:
        return None
    kind = "bfloat16" if w.dtype == np.uint16 else w.dtype.name
    w, g = floats(w), floats(g)
    tol = max(TOL.get(kind, 0), TOL.get(dtype, 0), COMPLEX.get(kind, 0)) if w.dtype.kind in "fc" else 0
    finite = np.abs(w[np.isfinite(w)]) if w.dtype.kind in "fc" else np.zeros(0)
    try:
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol * max(1e-2, float(finite.max(initial=0))))
    except (AssertionError, TypeError) as e:
        return " ".join(str(e).split())[:600]
    return None


def types_of(c: Any, inputs: dict[str, Any]) -> list[str]:
    any_real = any(is_inexact(v) or isinstance(v, Rows) for v in inputs.values())
    if c.op in FLOAT_PARAMETERS:
        return ["float64", "float32"]
    return [*DTYPES, *(t for t in WHOLE if t in TABLE[c.op]["dtypes"])] if any_real else [""]


def compare(c: Any, watch: Watch) -> None:
    """Runs a case in all types on both and records differences in the report."""
    # Gradients that are not finite are not used: 2.0.2's CPU kernel multiplies them by 0, its GPU kernel does not.
    if c.op == "check_finite_and_unscale" and not all(np.isfinite(x).all() for x in c.inputs["X"]):
        return
    # With SelectedRows 2.0.2's CPU kernel of adam reads the next powers, its GPU kernel the given ones (test_route.py).
    if c.op == "adam" and any(isinstance(v, Rows) for v in c.inputs.values()):
        return
    shapes_only = is_random(c)
    for dtype in types_of(c, c.inputs):
        inputs = {k: cast(v, dtype) for k, v in c.inputs.items()}
        watch.dtype = dtype or str(rows.first_dtype(c.inputs))
        # Modes from the most to the least demanding: the CPU may lack gradients or second gradients in a type.
        for grads in (True, False) if c.grad and not shapes_only else (False,):
            try:
                want = step(c, inputs, dtype, False, grads)
            except Exception:
                continue
            attempt(c, dtype, watch, want, lambda i=inputs, d=dtype, g=grads: step(c, i, d, True, g), shapes_only)
            break
        else:
            continue
        want = in_place(c, inputs, False)
        if want is not None:
            attempt(c, dtype, watch, want, lambda i=inputs: in_place(c, i, True), shapes_only)


def attempt(c: Any, dtype: str, watch: Watch, want: dict, run: Any, shapes_only: bool) -> None:
    try:
        got = run()
    except Exception as e:
        watch.report.wrong.append(f"{c.name()} {dtype}: {type(e).__name__}: {str(e)[-600:]}")
        return
    for slot, w in want.items():
        found = difference(w, got.get(slot), dtype, shapes_only or slot in UNSPECIFIED)
        if found:
            watch.report.wrong.append(f"{c.name()} {dtype}, {slot}: {found}")


def names() -> list[str]:
    """Operators with cases of which the operator or a gradient runs on a device."""
    return sorted(op for op in CASES if related(op) & (set(_cuda.LAUNCHERS) | PASSED_ON))


@functools.cache
def report(op: str, machine: Any) -> Report:
    """The report of all cases of an operator; `machine` is in use."""
    watch = Watch(_cuda.runtime())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for c in CASES[op]:
            compare(c, watch)
    return watch.report
