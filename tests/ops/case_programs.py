"""Cases in Programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from case_values import Rows, dense, is_inexact, lod_tensor
from paddle import _core

if TYPE_CHECKING:
    from case import Case

TABLE = {op["type"]: op for op in _core.op_table()}


def shown(op: str) -> list[str]:
    return [s["name"] for s in TABLE[op]["outputs"] if not s["hidden"]]


def pick(outs: dict[str, Any], key: tuple[str, int]) -> Any:
    v = outs[key[0]]
    return v[key[1]] if isinstance(v, list) else v


def flat_inputs(c: Case, inputs: dict[str, Any]) -> list[tuple[str, int]]:
    return [(s, i) for s in c.grad for i in range(len(inputs[s]) if isinstance(inputs[s], list) else 1)]


def item(inputs: dict[str, Any], key: tuple[str, int]) -> Any:
    v = inputs[key[0]]
    return v[key[1]] if isinstance(v, list) else v


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
                result = getattr(_core.ops, c.op)(**self.ins, **c.attrs)
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
        exe = self.paddle.static.Executor(self.paddle.CPUPlace())
        self.paddle.enable_static()
        try:
            return exe.run(self.program, feed=self.feed, fetch_list=fetch, return_numpy=False)
        finally:
            self.paddle.disable_static()


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
