"""Binary operators with Paddle's broadcasting, comparisons and predicates, by CuPy's elementwise kernels."""

from __future__ import annotations

from ..call import Call, Declined, number, same_dtype


def seen_shape(shape: tuple[int, ...], rank: int, axis: int) -> tuple[int, ...]:
    """The shape in which an operand of `shape` is broadcast with one of `rank` dimensions."""
    if len(shape) >= rank:
        return shape
    start = rank - len(shape) if axis == -1 else axis
    while axis != -1 and shape and shape[-1] == 1 and start + len(shape) > rank:
        shape = shape[:-1]
    return (1,) * start + shape + (1,) * (rank - start - len(shape))


def _operands(call: Call):
    x, y = call.array("X"), call.array("Y")
    same_dtype(x, y)
    # uint16 holds the bits of bfloat16.
    if x.dtype.kind not in "fibu" or x.dtype.name == "uint16" or x.ndim < y.ndim:
        raise Declined
    return x, y.reshape(seen_shape(y.shape, x.ndim, call.attrs["axis"]))


def binary(name: str):
    def launch(call: Call) -> dict:
        x, y = _operands(call)
        if name == "divide" and x.dtype.kind != "f":
            raise Declined
        return {"Out": getattr(call.xp, name)(x, y)}

    return launch


def _compared(name: str):
    def launch(call: Call) -> dict:
        x, y = _operands(call)
        return {"Out": getattr(call.xp, name)(x, y)}

    return launch


def _alike(same: bool):
    """equal and not_equal: floating-point numbers are equal if they differ by less than 1e-8, as in 2.0.2."""

    def launch(call: Call) -> dict:
        x, y = _operands(call)
        if x.dtype.kind != "f":
            return {"Out": x == y if same else x != y}
        near = (x == y) | (abs(x - y) < x.dtype.type(1e-8))
        return {"Out": near if same else ~near}

    return launch


def _logical(name: str):
    def launch(call: Call) -> dict:
        values = [call.array(slot) for slot in ("X", "Y") if slot in call.ins]
        if any(v.dtype.name != "bool" or v.shape != values[0].shape for v in values):
            raise Declined
        return {"Out": getattr(call.xp, name)(*values)}

    return launch


def larger(first: bool):
    """The larger or smaller element; the second operand if they are equal or one is NaN, as on the CPU."""

    def launch(call: Call) -> dict:
        x, y = _operands(call)
        return {"Out": call.xp.where((x > y) if first else (x < y), x, y)}

    return launch


def _minus(call: Call) -> dict:
    x, y = call.floats("X", "Y")
    if x.shape != y.shape:
        raise Declined
    return {"Out": x - y}


def _finite(name: str, join: str | None):
    """A predicate of each element, or (the operators of 1.x) reduced by all or any."""

    def launch(call: Call) -> dict:
        found = getattr(call.xp, name)(call.array("X"))
        return {"Out": getattr(found, join)().reshape(1) if join else found}

    return launch


def _increment(call: Call) -> dict:
    x = call.array("X")
    if x.dtype.name == "uint16":  # bfloat16 is stored as uint16
        raise Declined
    return {"Out": x + number(call.attrs["step"], x.dtype)}


def reduced(grad, shape, seen):
    """The sum over the dimensions in which an operand, seen in the shape `seen`, was repeated."""
    axes = tuple(i for i, (a, b) in enumerate(zip(grad.shape, seen, strict=True)) if b == 1 and a != 1)
    return (grad.sum(axis=axes, keepdims=True) if axes else grad).reshape(shape)


LAUNCHERS = {
    "minus": _minus,
    "increment": _increment,
    "equal": _alike(True),
    "not_equal": _alike(False),
    "less_than": _compared("less"),
    "less_equal": _compared("less_equal"),
    "greater_than": _compared("greater"),
    "greater_equal": _compared("greater_equal"),
    **{op: _logical(op) for op in ("logical_and", "logical_or", "logical_xor", "logical_not")},
    **{f"{op}_v2": _finite(op, None) for op in ("isfinite", "isinf", "isnan")},
    "isfinite": _finite("isfinite", "all"),
    "isinf": _finite("isinf", "any"),
    "isnan": _finite("isnan", "any"),
}
