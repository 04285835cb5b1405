"""Calls operators with broken arguments; run by test_robust.py in a separate process.

``python robust_child.py LOG op op ...`` appends a JSON line to LOG before each call, so that the parent can identify a
call that killed the process or hung, and one for every wrong kind of error.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
BIG = 2**31 - 1
VAST = 2**62
SECONDS = 10
KINDS = (
    ValueError,
    TypeError,
    IndexError,
    MemoryError,
    NotImplementedError,
    OSError,
    KeyError,
    RuntimeError,
    AttributeError,
    OverflowError,
    StopIteration,
    EOFError,
)
# Attribute types: values that are invalid for most operators, by the type numbers of the proto.
INT, FLOAT, STRING, INTS, FLOATS, STRINGS, BOOL, BOOLS, LONG, LONGS = 0, 1, 2, 3, 4, 5, 6, 7, 9, 11
SCALARS = {
    INT: [0, -1, 1, 7, BIG, -BIG - 1, VAST, 2**70],
    LONG: [0, -1, 1, BIG, VAST, 2**63 - 1, -(2**63), 2**70],
    FLOAT: [0.0, -1.0, float("nan"), float("inf"), 1e308],
    STRING: ["", "zzz", "\0"],
    BOOL: [True, False],
}
ELEMENTS = {
    INTS: [0, -1, 1, 3, BIG, -BIG - 1],
    LONGS: [0, -1, 3, BIG, VAST, -VAST],
    FLOATS: [0.0, -1.0, float("nan")],
    STRINGS: ["", "zzz"],
    BOOLS: [True, False],
}


def attributes(op: dict[str, Any], given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Wrong attributes, one at a time."""
    for attr in op["attrs"]:
        kind, old = attr["type"], given.get(attr["name"], attr["default"])
        values: list[Any] = list(SCALARS.get(kind, []))
        for e in ELEMENTS.get(kind, []):
            n = len(old) if isinstance(old, list | tuple) else 2
            values += [[e] * k for k in sorted({1, n, n + 1, 10})]
        if kind in ELEMENTS:
            values.append([])
        values += ["text", [1], 1.5] if kind != STRING else [3]
        for value in values:
            yield {**given, attr["name"]: value}


def variants(x: np.ndarray) -> Iterator[np.ndarray]:
    """Other shapes, types and values in place of an input."""
    yield np.zeros((0,) * max(1, x.ndim), x.dtype)
    yield np.zeros((0, *x.shape[1:]), x.dtype)
    yield np.zeros((*x.shape[:-1], 0), x.dtype)
    yield np.ones((*x.shape, 2), x.dtype)
    yield np.ones((1, *x.shape), x.dtype)
    yield np.ones((1,), x.dtype)
    yield np.ones((1,) * 10, x.dtype)
    if x.ndim > 1:
        yield np.ones(x.shape[1:], x.dtype)
    for axis in range(min(x.ndim, 4)):
        yield np.ones([n + (i == axis) for i, n in enumerate(x.shape)], x.dtype)
    for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"):
        if dtype != x.dtype:
            yield x.astype(dtype) if x.dtype.kind != "c" else x.real.astype(dtype)
    values = [-1, 0, 100, BIG, -BIG - 1, VAST, -(2**63), 2**63 - 1]
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        for v in values:
            if limits.min <= v <= limits.max:
                yield np.full_like(x, v)
    elif x.dtype.kind == "f":
        for v in (0, -1, np.nan, np.inf, -1e30):
            yield np.full_like(x, v)


def broken(op: dict[str, Any], inputs: dict[str, Any], attrs: dict[str, Any]) -> Iterator[tuple[dict, dict]]:
    yield {}, attrs
    for name, value in inputs.items():
        yield {k: v for k, v in inputs.items() if k != name}, attrs
        if isinstance(value, np.ndarray):
            for other in variants(value):
                yield {**inputs, name: other}, attrs
            yield {**inputs, name: [value, value]}, attrs
        elif isinstance(value, list):
            yield {**inputs, name: []}, attrs
            if value and isinstance(value[0], np.ndarray):
                for other in variants(value[0]):
                    yield {**inputs, name: [other, *value[1:]]}, attrs
                    yield {**inputs, name: [*value[:-1], other]}, attrs
    for other in attributes(op, attrs):
        yield inputs, other
    plain = [k for k, v in inputs.items() if isinstance(v, np.ndarray)]
    yield {k: np.zeros((0,), "float32") for k in plain}, attrs
    if len(plain) > 1:
        # The broadcast result would have 2**40 elements.
        a, b = plain[:2]
        for x, y in (((2**20, 1), (1, 2**20)), ((1, 2**20), (2**20, 1))):
            yield {**inputs, a: np.ones(x, "float32"), b: np.ones(y, "float32")}, attrs


def sparse(inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """SelectedRows in place of an input, with rows in range and out of range."""
    from case import Rows

    for name, x in inputs.items():
        if not isinstance(x, np.ndarray) or x.ndim == 0:
            continue
        n = x.shape[0]
        for rows in (list(range(n)), [0] * n, [-1] * n, [n] * n, [BIG] * n, [0] * (n + 1), []):
            yield {**inputs, name: Rows(rows, n, x)}
        for height in (0, -1, BIG, VAST):
            yield {**inputs, name: Rows(list(range(n)), height, x)}


def levels(inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Level offsets of inputs, valid and invalid ones."""
    for name, x in inputs.items():
        first = x[0] if isinstance(x, list) and x else x
        if not isinstance(first, np.ndarray) or first.ndim == 0:
            continue
        n = first.shape[0]
        for lod in ([[0, n]], [[0, 0, n]], [[0, n, n]], [[0, 1], [0, n]], [[0, 1, 1], [0, n]], [[0, 0]]):
            yield {name: lod}
            yield {k: lod for k in inputs}


def guesses(op: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Inputs for an operator without a case."""
    for shape in ((2, 3), (4,), (2, 3, 4, 4)):
        for dtype in ("float32", "int64"):
            x = np.ones(shape, dtype)
            yield {s["name"]: [x, x] if s["duplicable"] else x for s in op["inputs"] if not s["dispensable"]}


def gradient_inputs(op: dict[str, Any], c: Any, run_eager: Any) -> dict[str, Any]:
    """The inputs of a gradient operator from a case of its forward operator."""
    _, outs = run_eager(c, c.inputs)
    known = dict(c.inputs)
    for name, out in outs.items():
        if isinstance(out, list):
            known[name] = [o.numpy() for o in out]
        elif out is not None:
            known[name] = out.numpy()
    found = {}
    if isinstance(c.inputs.get("X"), np.ndarray):
        shape = c.inputs["X"].shape
        last = op["type"].startswith("cross_entropy_grad2")  # whose XShape has its 0 behind
        known["XShape"] = np.zeros((*shape, 0) if last else (0, *shape), c.inputs["X"].dtype)
    for s in op["inputs"]:
        value = known.get(s["name"].removesuffix("@GRAD"))
        if value is not None:
            found[s["name"]] = value
    return found


class Child:
    def __init__(self, log: str) -> None:
        import paddle  # noqa: F401
        from paddle import _core

        self.core = _core
        self.log = open(log, "a", buffering=1)  # noqa: SIM115
        self.table = {op["type"]: op for op in _core.op_table()}
        sys.path.insert(0, str(HERE / "ops"))
        from catalogue import cases

        self.cases = cases()
        self.forward = {op["grad"]: name for name, op in self.table.items() if op["grad"]}
        import case

        self.case = case

    def say(self, **what: Any) -> None:
        self.log.write(json.dumps(what) + "\n")

    def shown(self, inputs: dict[str, Any]) -> dict[str, Any]:
        def one(x: Any) -> list[Any]:
            return [getattr(x, "shape", "?"), str(getattr(x, "dtype", ""))]

        return {k: [one(y) for y in x] if isinstance(x, list) else one(x) for k, x in inputs.items()}

    def call(self, op: str, inputs: dict[str, Any], attrs: dict[str, Any], lod: dict[str, Any] | None = None) -> None:
        lod = lod or {}
        what = f"{op} inputs {self.shown(inputs)} attributes {attrs} LoD {lod}"[:600]
        self.say(op=op, call=what)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            ins = {k: self.case.to_eager(v, lod.get(k)) for k, v in inputs.items()}
            getattr(self.core.ops, op)(**ins, **attrs)
        except KINDS as e:
            if isinstance(e, RuntimeError) and "internal error" in str(e):
                self.say(op=op, wrong=f"{what}: {e}")
        except BaseException as e:  # noqa: BLE001
            self.say(op=op, wrong=f"{what}: {type(e).__name__}: {e}"[:1000])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def forms(self, op: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
        """Inputs of other kinds, and with LoD."""
        for other in sparse(inputs):
            self.call(op, other, attrs)
        for lod in levels(inputs):
            self.call(op, inputs, attrs, lod)

    def operator(self, op: str) -> None:
        row = self.table[op]
        valid = self.cases.get(op, [])
        for c in valid[:1] + valid[-1:]:
            for inputs, attrs in broken(row, c.inputs, c.attrs):
                self.call(op, inputs, attrs)
            self.forms(op, c.inputs, c.attrs)
        if not valid:
            bases = [(inputs, {}) for inputs in guesses(row)]
            for c in self.cases.get(self.forward.get(op, ""), [])[:1]:
                names = {a["name"] for a in row["attrs"]}
                attrs = {k: v for k, v in c.attrs.items() if k in names}
                bases = [(gradient_inputs(row, c, self.case.run_eager), attrs), *bases[:1]]
            for inputs, attrs in bases:
                for other in broken(row, inputs, attrs):
                    self.call(op, *other)
                self.forms(op, inputs, attrs)
        for c in valid[:1]:
            try:
                self.case.run_eager(c, c.inputs)
            except BaseException as e:  # noqa: BLE001
                self.say(op=op, wrong=f"{op}: the valid call fails afterwards: {type(e).__name__}: {e}")
        self.say(done=op)


def wait_shortly() -> None:
    """Short timeouts for operators that contact a server at its default address."""
    os.environ.update(FLAGS_rpc_deadline="20", FLAGS_rpc_retry_times="0")


def main() -> None:
    log, ops = sys.argv[1], sys.argv[2:]
    wait_shortly()
    child = Child(log)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(tempfile.mkdtemp())
    for op in ops:
        child.operator(op)


if __name__ == "__main__":
    main()
