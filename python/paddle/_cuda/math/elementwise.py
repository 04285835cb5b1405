"""Binary operators with Paddle's broadcasting, and their gradients, by CuPy's own elementwise kernels; and the sum of
tensors that backward accumulates gradients with."""
from __future__ import annotations

from ..call import Call, Declined, Rows, Shape, same_dtype


def _seen(shape: tuple[int, ...], rank: int, axis: int) -> tuple[int, ...]:
    """The shape in which an operand of `shape` meets one with `rank` dimensions."""
    if len(shape) >= rank:
        return shape
    start = rank - len(shape) if axis == -1 else axis
    while axis != -1 and shape and shape[-1] == 1 and start + len(shape) > rank:
        shape = shape[:-1]
    return (1,) * start + shape + (1,) * (rank - start - len(shape))


def _operands(call: Call):
    x, y = call.array("X"), call.array("Y")
    same_dtype(x, y)
    if x.dtype.kind not in "fi" or x.ndim < y.ndim:
        raise Declined
    return x, y.reshape(_seen(y.shape, x.ndim, call.attrs["axis"]))


def _binary(name: str):
    def launch(call: Call) -> dict:
        x, y = _operands(call)
        if name == "divide" and x.dtype.kind != "f":
            raise Declined
        return {"Out": getattr(call.xp, name)(x, y)}

    return launch


def _reduced(grad, shape, seen):
    axes = tuple(i for i, (a, b) in enumerate(zip(grad.shape, seen, strict=True)) if b == 1 and a != 1)
    return (grad.sum(axis=axes, keepdims=True) if axes else grad).reshape(shape)


def _gradient(dx, dy):
    """`dx` and `dy` are functions of (x, y, out, dout)."""

    def launch(call: Call) -> dict:
        x, y, dout = call.ins["X"], call.ins["Y"], call.array("Out@GRAD")
        if x is None or y is None or len(x.shape) < len(y.shape) or dout.dtype.kind != "f":
            raise Declined
        seen = _seen(tuple(y.shape), dout.ndim, call.attrs["axis"])
        # What the gradient does not read has a shape only.
        values = (x, y if isinstance(y, Shape) else y.reshape(seen), call.ins.get("Out"), dout)
        result = {}
        if call.wanted["X@GRAD"]:
            result["X@GRAD"] = _reduced(dx(*values), tuple(x.shape), tuple(x.shape))
        if call.wanted["Y@GRAD"]:
            result["Y@GRAD"] = _reduced(dy(*values), tuple(y.shape), seen)
        return result

    return launch


def _sum(call: Call) -> dict:
    terms = call.ins["X"]
    if not terms or any(t is None or isinstance(t, (Rows, Shape)) for t in terms):
        raise Declined
    same_dtype(*terms)
    if any(t.shape != terms[0].shape for t in terms) or terms[0].dtype.kind != "f":
        raise Declined
    total = terms[0].copy()
    for t in terms[1:]:
        total += t
    return {"Out": total}


TWINS = {
    "elementwise_add": _binary("add"),
    "elementwise_sub": _binary("subtract"),
    "elementwise_mul": _binary("multiply"),
    "elementwise_div": _binary("divide"),
    "elementwise_add_grad": _gradient(lambda x, y, out, d: d, lambda x, y, out, d: d),
    "elementwise_sub_grad": _gradient(lambda x, y, out, d: d, lambda x, y, out, d: -d),
    "elementwise_mul_grad": _gradient(lambda x, y, out, d: d * y, lambda x, y, out, d: d * x),
    "elementwise_div_grad": _gradient(lambda x, y, out, d: d / y, lambda x, y, out, d: -d * out / y),
    "sum": _sum,
}
