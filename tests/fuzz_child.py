"""Calls every operator with random arguments; run by test_fuzz.py in a separate process.

``python fuzz_child.py LOG SEED FIRST CALLS SECONDS`` makes the calls FIRST, FIRST + 1, ... of a seed, until CALLS are
made or SECONDS have passed. A call depends only on the seed and its number: ``fuzz_child.py LOG SEED N 1 60`` repeats
call N. A JSON line before each call identifies it, in case it kills the process or hangs; a further line reports a
wrong error.
"""

from __future__ import annotations

import itertools
import os
import random
import resource
import signal
import sys
import tempfile
import time
from typing import Any

import numpy as np
from robust_child import BIG, ELEMENTS, KINDS, SCALARS, SECONDS, STRINGS, VAST, Child, gradient_inputs, wait_shortly

COMMON = ("float32", "float64", "int32", "int64")
DTYPES = (*COMMON, "bool", "uint8", "int8", "int16", "float16", "complex64", "complex128")
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7)
LARGE = (16, 33, 100)
INTEGERS = (-1, 0, 1, 2, 3, 4, 7, 100, -2, BIG, -BIG - 1, VAST, 2**63 - 1, -(2**63))
FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, float("nan"), float("inf"), -float("inf"), 1e30, 1e-45)
SMALL_INTS = (-3, -2, -1, 0, 1, 2, 3, 4, 5)
# Numbers within int32, the type of most integer attributes; strings that operators accept.
TEXTS = ("", "NCHW", "NHWC", "SAME", "VALID", "EXPLICIT", "AnyLayout", "sum", "MAX", "AVERAGE", "LAST", "zeros", "\0")


def fit(sizes: list[int]) -> None:
    """Reduce the largest sizes until there are few elements."""
    while np.prod(sizes, dtype=np.float64) > 20_000:
        sizes.remove(max(sizes))


class Random(random.Random):
    def shape(self, most: int = 5) -> tuple[int, ...]:
        rank = self.randint(0, most)
        sizes = [self.choice(LARGE if self.random() < 0.03 else SIZES) for _ in range(rank)]
        fit(sizes)
        if 0 in sizes and len(sizes) > 1 and self.random() < 0.1:
            # No elements, but a size that exceeds memory.
            at = self.choice([i for i, n in enumerate(sizes) if n or sizes.count(0) > 1] or [0])
            sizes[at] = self.choice((2**16, BIG, 2**33, 2**40)) if sizes.count(0) > (sizes[at] == 0) else 0
        return tuple(sizes)

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        n = int(np.prod(shape, dtype=np.int64))
        kind = np.dtype(dtype).kind
        if kind == "b":
            values: list[Any] = [self.random() < 0.5 for _ in range(n)]
        elif kind in "iu":
            limits = np.iinfo(dtype)
            pool = INTEGERS if self.random() < 0.2 else (0, 0, 1, 1, 2, 3)
            pool = [v for v in pool if limits.min <= v <= limits.max]
            values = [self.choice(pool) for _ in range(n)]
        else:
            values = [self.choice(FLOATS) if self.random() < 0.05 else self.uniform(-2, 2) for _ in range(n)]
        with np.errstate(all="ignore"):
            return np.array(values).reshape(shape).astype(dtype)

    def dtype(self) -> str:
        return self.choice(COMMON if self.random() < 0.7 else DTYPES)

    def like(self, x: np.ndarray) -> np.ndarray:
        """A variation of a valid input: another size, rank, type or values."""
        shape, dtype = list(x.shape), str(x.dtype)
        for _ in range(self.randint(1, 2)):
            what = self.random()
            if what < 0.3 and shape:
                shape[self.randrange(len(shape))] = self.choice(SIZES)
            elif what < 0.4:
                shape.insert(self.randint(0, len(shape)), self.choice(SIZES))
            elif what < 0.5 and shape:
                del shape[self.randrange(len(shape))]
            elif what < 0.55:
                self.shuffle(shape)
            elif what < 0.7:
                dtype = self.dtype()
            elif what < 0.8:
                shape = list(self.shape())
        fit(shape)
        if tuple(shape) == x.shape and self.random() < 0.5:
            with np.errstate(all="ignore"):
                return (x.real if x.dtype.kind == "c" and not dtype.startswith("c") else x).astype(dtype)
        return self.array(tuple(shape), dtype)

    def attribute(self, kind: int, old: Any) -> Any:
        small = self.random() < 0.6
        if kind in SCALARS:
            if small and isinstance(old, int) and not isinstance(old, bool):
                return self.choice(SMALL_INTS)
            return self.choice(TEXTS) if isinstance(old, str) else self.choice(SCALARS[kind])
        if kind in ELEMENTS:
            n = self.choice((0, 1, 2, 2, 3, 4, 6)) if self.random() < 0.5 or not isinstance(old, list) else len(old)
            integers = kind != STRINGS and small and not any(isinstance(e, float | bool) for e in ELEMENTS[kind])
            return [self.choice(SMALL_INTS if integers else ELEMENTS[kind]) for _ in range(n)]
        return old

    def lod(self, rows: int) -> list[list[int]]:
        def level(n: int) -> list[int]:
            cuts = sorted(self.randint(0, n) for _ in range(self.randint(0, 4)))
            return [0, *cuts, n] if self.random() < 0.9 else [self.randint(0, 3), *cuts]

        low = level(rows)
        return [low] if self.random() < 0.7 else [level(len(low) - 1), low]


class Fuzz(Child):
    def __init__(self, log: str, seed: int) -> None:
        super().__init__(log)
        import paddle

        self.paddle = paddle
        self.seed = seed
        self.names = sorted(self.table)
        self.bases: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}

    def valid(self, op: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Valid calls to start from: those of the operator's cases, or of its forward's with gradients like the
        outputs."""
        if op not in self.bases:
            row = self.table[op]
            found = [(c.inputs, c.attrs) for c in self.cases.get(op, [])]
            forward = self.cases.get(self.forward.get(op, ""), []) if not found else []
            for c in forward[:6]:
                try:
                    inputs = gradient_inputs(row, c, self.case.run_eager)
                except KINDS:
                    continue
                names = {a["name"] for a in row["attrs"]}
                found.append((inputs, {k: v for k, v in c.attrs.items() if k in names}))
            self.bases[op] = found
        return self.bases[op]

    def one(self, number: int) -> None:
        r = Random(f"{self.seed} {number}")
        op = self.names[number % len(self.names)]
        row, valid = self.table[op], self.valid(op)
        inputs: dict[str, Any] = {}
        attrs: dict[str, Any] = {}
        if valid and r.random() < 0.8:
            base, given = r.choice(valid)
            inputs, attrs = dict(base), dict(given)
            dtype = r.dtype() if r.random() < 0.3 else None  # all of them in another type
            changed = r.randint(0, 2)
            for name, x in base.items():
                if isinstance(x, np.ndarray):
                    if dtype and x.dtype.kind != "b":
                        with np.errstate(all="ignore"):
                            x = inputs[name] = (x.real if x.dtype.kind == "c" and dtype[0] != "c" else x).astype(dtype)
                    if changed and r.random() < 0.5:
                        inputs[name] = r.like(x)
                elif isinstance(x, list) and x and all(isinstance(e, np.ndarray) for e in x):
                    if changed and r.random() < 0.5:
                        inputs[name] = [r.like(e) if r.random() < 0.5 else e for e in x][: r.randint(0, len(x) + 1)]
        else:
            shape, dtype = r.shape(), r.dtype()
            for s in row["inputs"]:
                if s["dispensable"] and r.random() < 0.6:
                    continue
                own = shape if r.random() < 0.6 else r.shape()
                kind = dtype if r.random() < 0.7 else r.dtype()
                inputs[s["name"]] = r.array(own, kind)
                if s["duplicable"]:
                    again = [r.array(own if r.random() < 0.8 else r.shape(), kind) for _ in range(r.randint(0, 3))]
                    inputs[s["name"]] = again
        for name in list(inputs):
            if r.random() < 0.03:
                del inputs[name]
        for a in row["attrs"]:
            known = a["name"] in attrs or not a["required"]
            if r.random() < (0.25 if known else 0.95):
                attrs[a["name"]] = r.attribute(a["type"], attrs.get(a["name"], a["default"]))
        lod = {}
        if r.random() < 0.15:
            for name, x in inputs.items():
                first = x[0] if isinstance(x, list) and x else x
                if isinstance(first, np.ndarray) and first.ndim:
                    lod[name] = r.lod(first.shape[0])
        if r.random() < 0.05:
            inputs = self.rows(r, inputs)
        if r.random() < 0.15:
            self.build(r, op, inputs, attrs, number)
        self.call(op, inputs, attrs, lod, number)

    def build(self, r: Random, op: str, inputs: dict[str, Any], attrs: dict[str, Any], number: int) -> None:
        """The same in a Program with some unknown sizes: the shape rule alone."""
        self.number = number
        what = f"{op} in a Program, inputs {self.shown(inputs)} attributes {attrs}"[:600]
        self.say(op=op, call=what)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        self.paddle.enable_static()
        try:
            main = self.paddle.static.Program()
            with self.paddle.static.program_guard(main):
                block = main.global_block()

                def var(x: Any) -> Any:
                    value = getattr(x, "value", x)
                    shape = [-1 if r.random() < 0.2 else n for n in value.shape]
                    return block.create_var(shape=shape, dtype=str(value.dtype), lod_level=r.choice((0, 0, 1, 2)))

                ins = {k: [var(e) for e in x] if isinstance(x, list) else var(x) for k, x in inputs.items()}
                row = self.table[op]
                few = lambda s: r.randint(0, 3) if s["duplicable"] else 1  # noqa: E731
                outs = {s["name"]: [block.create_var(dtype="float32") for _ in range(few(s))] for s in row["outputs"]}
                block.append_op(type=op, inputs=ins, outputs=outs, attrs=attrs)
        except (*KINDS, AssertionError) as e:  # a missing input is an AssertionError, as in Paddle
            if isinstance(e, RuntimeError) and "internal error" in str(e):
                self.say(op=op, wrong=f"{what}: {e}")
        except BaseException as e:  # noqa: BLE001
            self.say(op=op, wrong=f"{what}: {type(e).__name__}: {e}"[:1000])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.paddle.disable_static()

    def rows(self, r: Random, inputs: dict[str, Any]) -> dict[str, Any]:
        plain = [k for k, x in inputs.items() if isinstance(x, np.ndarray) and x.ndim and x.shape[0] < 1000]
        if not plain:
            return inputs
        name = r.choice(plain)
        x = inputs[name]
        height = r.choice((x.shape[0], x.shape[0] + 2, 0, -1, BIG, VAST))
        rows = [r.choice((0, 1, max(0, x.shape[0] - 1), -1, BIG)) for _ in range(x.shape[0])]
        return {**inputs, name: self.case.Rows(rows, height, x)}

    def call(self, op: str, inputs: dict, attrs: dict, lod: dict | None = None, number: int = -1) -> None:
        self.number = number
        super().call(op, inputs, attrs, lod)
        if number % 500 == 0:
            self.core.empty_cache()  # idle blocks count against the limit, too

    def say(self, **what: Any) -> None:
        super().say(seed=self.seed, number=getattr(self, "number", -1), **what)


def main() -> None:
    log, seed, first, calls, seconds = sys.argv[1], *map(int, sys.argv[2:6])
    wait_shortly()
    fuzz = Fuzz(log, seed)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(tempfile.mkdtemp())
    end = time.monotonic() + seconds
    for number in itertools.count(first):
        if number >= first + calls or time.monotonic() > end:
            break
        fuzz.one(number)


if __name__ == "__main__":
    main()
