"""Runs of operator cases in Programs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from case_values import Rows, dense, fill_rows, is_inexact, lod_tensor
from paddle import _core

if TYPE_CHECKING:
    from case import Case

TABLE = {op["type"]: op for op in _core.op_table()}
# VarType's names of numpy's data types.
DTYPES = {
    "bool": "BOOL",
    "int8": "INT8",
    "uint8": "UINT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "uint16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
    "complex64": "COMPLEX64",
    "complex128": "COMPLEX128",
}


def shown(op: str) -> list[str]:
    return [s["name"] for s in TABLE[op]["outputs"] if not s["not_returned"]]


def pick(outs: dict[str, Any], key: tuple[str, int]) -> Any:
    v = outs[key[0]]
    return v[key[1]] if isinstance(v, list) else v


def flat_inputs(c: Case, inputs: dict[str, Any]) -> list[tuple[str, int]]:
    return [(s, i) for s in c.grad for i in range(len(inputs[s]) if isinstance(inputs[s], list) else 1)]


def item(inputs: dict[str, Any], key: tuple[str, int]) -> Any:
    v = inputs[key[0]]
    return v[key[1]] if isinstance(v, list) else v


class Built:
    """A Program that contains the operator, with its inputs fed."""

    def __init__(self, c: Case, inputs: dict[str, Any]) -> None:
        import paddle

        self.paddle, self.feed = paddle, {}
        # SelectedRows cannot be fed: they are variables of the scope.
        self.held: dict[str, Rows] = {}
        self.program = paddle.static.Program()
        paddle.enable_static()
        try:
            with paddle.static.program_guard(self.program), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The data type of .* is float16")
                self.ins = {k: self.data(c, k, v) for k, v in inputs.items()}
                ins = self.ins
                if TABLE[c.op]["elementwise"]:
                    # Adds a neighbouring operator that the plan may fuse it with.
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
        if isinstance(value, Rows):
            return self.rows(name, value)
        lod = c.lod.get(slot)
        level = {"lod_level": len(lod)} if lod else {}
        var = self.paddle.static.data(name, list(value.shape), str(value.dtype), **level)
        var.stop_gradient = not is_inexact(value)
        self.feed[name] = lod_tensor(value, lod) if lod else value
        return var

    def rows(self, name: str, value: Rows) -> Any:
        self.held[name] = value
        kind = _core.VarDesc.VarType.SELECTED_ROWS
        shape, dtype = [value.height, *value.values.shape[1:]], str(value.values.dtype)
        block = self.program.global_block()
        return block.create_var(name=name, type=kind, shape=shape, dtype=dtype, persistable=True)

    def run(self, fetch: list[Any]) -> list[Any]:
        """The fetched results; bit for bit equal without and with all optimization passes."""
        scope = self.paddle.static.Scope()
        for name, value in self.held.items():
            fill_rows(scope.var(name).get_selected_rows(), value)
        with self.paddle.static.scope_guard(scope):
            return self.run_here(fetch)

    def run_here(self, fetch: list[Any]) -> list[Any]:
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
            assert bits(plain) == bits(passed), "optimization passes change a result"
        return found[1]


def neighbour(v: Any) -> Any:
    """The variable times 1, if it is floating point."""
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


def from_fetched(t: Any) -> tuple[Any, list[list[int]]]:
    """The value of a fetched variable and its LoD."""
    if isinstance(t, _core.LoDTensor):
        return np.array(t), t.lod()
    if hasattr(t, "rows"):
        return Rows(list(t.rows()), t.height(), np.array(t.get_tensor())), []
    return t, []


def run_static(c: Case, inputs: dict[str, Any], slots: list[str]) -> dict[str, Any]:
    """The outputs of the operator in a Program."""
    built = Built(c, inputs)
    keys, fetch = [], []
    for slot in slots:
        out = built.outs[slot]
        for i, v in enumerate(out if isinstance(out, list) else [out] if out is not None else []):
            keys.append((slot, i, isinstance(out, list)))
            fetch.append(v)
    result: dict[str, Any] = {}
    fetched = built.run(fetch)
    for (slot, i, _), variable, value in zip(keys, fetch, fetched, strict=True):
        same_as_built(f"{slot}[{i}]", variable, value)
    for (slot, _, many), value in zip(keys, map(from_fetched, fetched), strict=True):
        assert many or slot not in c.out_lod or value[1] == c.out_lod[slot], f"static {slot}: LoD {value[1]}"
        value = value[0]
        if many:
            result.setdefault(slot, []).append(value)
        else:
            result[slot] = value
    return result


def same_as_built(what: str, variable: Any, value: Any) -> None:
    """Compares kind, shape, data type and LoD level of the built Program with those of the run."""
    value, lod = from_fetched(value)
    kind = str(variable.type).rsplit(".", 1)[-1]
    if isinstance(value, Rows):
        assert kind == "SELECTED_ROWS", f"static {what}: built as {kind}, in the run SelectedRows"
        shape, dtype = (value.height, *value.values.shape[1:]), value.values.dtype
    elif isinstance(value, np.ndarray):
        assert kind == "LOD_TENSOR", f"static {what}: built as {kind}, in the run a tensor"
        shape, dtype = value.shape, value.dtype
        assert variable.lod_level == len(lod), f"static {what}: built with {variable.lod_level} LoD levels, run: {lod}"
    else:
        return
    built = tuple(variable.shape)
    fits = len(built) == len(shape) and all(b in (-1, s) for b, s in zip(built, shape, strict=True))
    assert fits, f"static {what}: built with shape {built}, in the run {shape}"
    name = str(variable.dtype).rsplit(".", 1)[-1]
    assert name == DTYPES[dtype.name], f"static {what}: built as {name}, in the run {dtype}"


def static_gradients(c: Case, inputs: dict[str, Any], w: dict) -> list[np.ndarray]:
    built = Built(c, inputs)
    paddle = built.paddle
    paddle.enable_static()
    try:
        with paddle.static.program_guard(built.program):
            seeds = []
            for (slot, i), value in w.items():
                name = f"weight_{slot}_{i}"
                # The shape as far as it is known at build time.
                seeds.append(paddle.static.data(name, list(pick(built.outs, (slot, i)).shape), str(value.dtype)))
                lod = c.out_lod.get(slot)
                built.feed[name] = lod_tensor(value, lod) if lod else value
            targets = [pick(built.outs, k) for k in w]
            sources = [item(built.ins, k) for k in flat_inputs(c, inputs)]
            grads = paddle.static.gradients(targets, sources, target_gradients=seeds)
    finally:
        paddle.disable_static()
    return [dense(from_fetched(g)[0]) for g in built.run(grads)]
