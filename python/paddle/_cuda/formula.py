"""Elementwise operators: CUDA kernels rendered from the rows of the engine's formula table."""

from __future__ import annotations

import functools

import numpy as np

import paddle._core as _core

from .call import Call, Declined, ctype, number
from .units import FLOATS, Unit, grid_of_packs, instances

# Slot names to the variable names in formulas.
_SLOTS = {"x": "X", "y": "Y", "out": "Out", "dout": "Out@GRAD", "ddx": "DDX"}
_OPTIONAL = {
    "pow": "FactorTensor",
    "pow_grad": "FactorTensor",
    "clip": "Min Max",
    "clip_grad": "Min Max",
    "scale": "ScaleTensor",
}


@functools.cache
def rows() -> dict[str, dict]:
    """The rows by name: name, inputs, params, source."""
    return {row["name"]: row for row in _core.cuda_rows()}


def _kernel(row: dict) -> str:
    inputs, name = row["inputs"], row["name"]
    pointers = "".join(f"const T* {x}, " for x in inputs)
    params = "".join(f"typename acc<T>::type {p}, " for p in row["params"])
    loads = "".join(f"        const P p_{x} = ((const P*){x})[i];\n" for x in inputs)
    in_pack, alone = (
        f"narrow_to<T>::of(oar_{name}<typename acc<T>::type>({', '.join(values + row['params'])}))"
        for values in ([f"wide(p_{x}.v[k])" for x in inputs], [f"wide({x}[i])" for x in inputs])
    )
    return f"""{row["source"]}
template <typename T> __global__ void row_{name}({pointers}{params}T* result, i64 n) {{
    typedef typename packed<T>::type P;
    const int N = packed<T>::N;
    i64 first = blockIdx.x * (i64)blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;
    i64 packs = aligned({", ".join([*inputs, "result"])}) ? n / N : 0;
#pragma unroll 1
    for (i64 i = first; i < packs; i += step) {{
{loads}        P r;
#pragma unroll
        for (int k = 0; k < N; k++) r.v[k] = {in_pack};
        ((P*)result)[i] = r;
    }}
#pragma unroll 1
    for (i64 i = packs * N + first; i < n; i += step) result[i] = {alone};
}}
"""


@functools.cache
def unit(name: str) -> Unit:
    """The unit of one row."""
    row = rows()[name]
    return Unit(f"row_{name}", _core.cuda_prelude() + _kernel(row), instances(f"row_{name}", FLOATS))


def all_rows() -> Unit:
    """All rows in one unit, for tests."""
    source = _core.cuda_prelude() + "".join(_kernel(row) for row in rows().values())
    return Unit("formula", source, sum((instances(f"row_{name}", FLOATS) for name in rows()), ()))


def apply(call: Call, name: str, inputs: list, params: list[float]):
    """Apply formula `name` to `inputs`, arrays of one shape and type."""
    t = ctype(inputs[0], FLOATS)
    if any(x.shape != inputs[0].shape or x.dtype != inputs[0].dtype for x in inputs):
        raise Declined
    out = call.empty(inputs[0].shape, inputs[0].dtype)
    of = np.float64 if t == "double" else np.float32
    if out.size:
        call.launch(
            unit(name),
            f"row_{name}<{t}>",
            grid_of_packs(out.size, out.itemsize),
            256,
            *inputs,
            *map(of, params),
            out,
            np.int64(out.size),
        )
    return out


def _name(op: str, attrs: dict) -> str:
    if op in ("gelu", "gelu_grad") and attrs["approximate"]:
        return op.replace("gelu", "gelu_tanh")
    if op == "scale" and not attrs["bias_after_scale"]:
        return "scale_bias_first"
    return op


def _scaled(call: Call, x):
    scale, bias = (number(call.attrs[k], x.dtype) for k in ("scale", "bias"))
    return x * scale + bias if call.attrs["bias_after_scale"] else (x + bias) * scale


# Operators on integers, whose rows are of floating-point numbers.
_INTEGERS = {
    "abs": lambda call, x: abs(x),
    "square": lambda call, x: x * x,
    "scale": _scaled,
}


def _launch(call: Call) -> dict:
    if any(call.ins.get(slot) is not None for slot in _OPTIONAL.get(call.op, "").split()):
        raise Declined
    if call.op in _INTEGERS and (x := call.array("X")).dtype.name in ("int32", "int64"):
        return {"Out": _INTEGERS[call.op](call, x)}
    name = _name(call.op, call.attrs)
    row = rows()[name]
    inputs = [call.array(_SLOTS[x]) for x in row["inputs"]]
    return {_RESULT[call.op]: apply(call, name, inputs, [call.attrs[p] for p in row["params"]])}


def _fits(op: dict) -> bool:
    row = rows().get(op["type"])
    if row is None or len(op["outputs"]) != 1:
        return False
    slots, attrs = {s["name"] for s in op["inputs"]}, {a["name"] for a in op["attrs"]}
    return all(_SLOTS.get(x) in slots for x in row["inputs"]) and all(p in attrs for p in row["params"])


# Operators named like a row whose slots and attributes match what the row reads.
_RESULT = {op["type"]: op["outputs"][0]["name"] for op in _core.op_table() if _fits(op)}
LAUNCHERS = dict.fromkeys(_RESULT, _launch)
