"""Second gradients: of activations by formula rows, of binary operators by CuPy functions; and elementwise_pow,
elementwise_mod, elementwise_floordiv with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

from .. import formula
from ..call import Call, Declined
from .elementwise import _operands, reduced, seen_shape

# Operator -> output: (formula row, slots that it reads).
_UNARY: dict[str, dict[str, tuple[str, str]]] = {
    "elu_grad_grad": {"DX": ("elu_grad_grad_dx", "X DOut DDX"), "DDOut": ("elu_grad_grad_ddout", "X DDX")},
    "sqrt_grad_grad": {"DOut": ("sqrt_grad_grad_dout", "Out DX DDX"), "DDOut": ("sqrt_grad_grad_ddout", "Out DDX")},
    "rsqrt_grad_grad": {
        "DOut": ("rsqrt_grad_grad_dout", "Out DX DDX"),
        "DDOut": ("rsqrt_grad_grad_ddout", "Out DDX"),
    },
    "square_grad_grad": {"DX": ("square_grad_grad_dx", "DOut DDX"), "DDOut": ("square_grad_grad_ddout", "X DDX")},
    "log_grad_grad": {"DX": ("log_grad_grad_dx", "X DOut DDX"), "DDOut": ("log_grad_grad_ddout", "X DDX")},
    "sigmoid_grad_grad": {
        "DOutNew": ("sigmoid_grad_grad_out", "Out DOut DDX"),
        "DDOut": ("sigmoid_grad", "Out DDX"),
    },
    "tanh_grad_grad": {"DOutNew": ("tanh_grad_grad_out", "Out DOut DDX"), "DDOut": ("tanh_grad", "Out DDX")},
    "exp_grad_grad": {"DOutNew": ("exp_grad", "DOut DDX"), "DDOut": ("exp_grad", "Out DDX")},
    "sin_grad_grad": {"DX": ("sin_grad_grad_dx", "X DOut DDX"), "DDOut": ("sin_grad", "X DDX")},
    "cos_grad_grad": {"DX": ("cos_grad_grad_dx", "X DOut DDX"), "DDOut": ("cos_grad", "X DDX")},
    "softplus_grad_grad": {"DX": ("softplus_grad_grad_dx", "X DOut DDX"), "DDOut": ("softplus_grad", "X DDX")},
}


def _unary(call: Call) -> dict:
    made = {}
    for slot, (name, slots) in _UNARY[call.op].items():
        if call.wanted[slot]:
            row = formula.rows()[name]
            inputs = [call.array(s) for s in slots.split()]
            made[slot] = formula.apply(call, name, inputs, [call.attrs[p] for p in row["params"]])
    return made


def _row(call: Call, name: str, *inputs):
    """A formula on operands that are broadcast with each other."""
    shape = call.xp.broadcast_shapes(*(v.shape for v in inputs))
    wide = [call.xp.ascontiguousarray(call.xp.broadcast_to(v, shape)) for v in inputs]
    return formula.apply(call, name, wide, [])


class _Second:
    """The operands of a binary operator's second gradient; gradients that are absent are None."""

    def __init__(self, call: Call) -> None:
        self.call = call
        rank = max(len(v.shape) for v in call.ins.values() if v is not None)
        y = call.ins["Y"]
        x = next((call.ins[s] for s in ("X", "DX", "DDX") if call.ins.get(s) is not None), None)
        if y is None or x is None or len(x.shape) < len(y.shape):
            raise Declined
        self.y_shape, self.seen = tuple(y.shape), seen_shape(tuple(y.shape), rank, call.attrs["axis"])
        self.y = y.reshape(self.seen) if hasattr(y, "reshape") else None
        ddx, ddy = call.ins.get("DDX"), call.ins.get("DDY")
        self.ddx, self.ddy = ddx, None if ddy is None else ddy.reshape(self.seen)

    def add(self, a, b):
        return b if a is None else a if b is None else a + b

    def like(self, value, slot: str, shape, seen):
        """A gradient with the shape of its variable: summed over broadcast dimensions, or repeated."""
        call, xp = self.call, self.call.xp
        if value is None:
            return xp.zeros(shape, next(v.dtype for v in call.ins.values() if v is not None))
        full = xp.broadcast_shapes(value.shape, seen)
        value = xp.broadcast_to(value, full)
        return xp.ascontiguousarray(reduced(value, shape, seen))


def _sum_second(sign: int) -> Callable[[Call], dict]:
    def launch(call: Call) -> dict:
        s = _Second(call)
        out = s.add(s.ddx, None if s.ddy is None else sign * s.ddy)
        shape = tuple(call.ins["DOut"].shape)
        return {"DDOut": s.like(out, "DDOut", shape, shape)}

    return launch


def _product_second(call: Call) -> dict:
    s, x, d = _Second(call), call.ins["X"], call.ins["DOut"]
    made, shape = {}, tuple(d.shape)
    if call.wanted["DDOut"]:
        terms = (None if s.ddx is None else s.ddx * s.y, None if s.ddy is None else x * s.ddy)
        made["DDOut"] = s.like(s.add(*terms), "DDOut", shape, shape)
    if call.wanted["X@GRAD"]:
        value = None if s.ddy is None else d * s.ddy
        made["X@GRAD"] = s.like(value, "X@GRAD", tuple(x.shape), tuple(x.shape))
    if call.wanted["Y@GRAD"]:
        made["Y@GRAD"] = s.like(None if s.ddx is None else d * s.ddx, "Y@GRAD", s.y_shape, s.seen)
    return made


def _quotient_second(call: Call) -> dict:
    s, out, dx = _Second(call), call.array("Out"), call.array("DX")
    if dx.shape != out.shape:
        raise Declined
    inner = s.add(s.ddx, None if s.ddy is None else -(out * s.ddy))
    made, shape = {}, out.shape
    if call.wanted["Y@GRAD"]:
        value = None if inner is None else -(dx / s.y) * inner
        made["Y@GRAD"] = s.like(value, "Y@GRAD", s.y_shape, s.seen)
    if call.wanted["DOut"]:
        made["DOut"] = s.like(None if s.ddy is None else -dx * s.ddy, "DOut", shape, shape)
    if call.wanted["DDOut"]:
        made["DDOut"] = s.like(None if inner is None else inner / s.y, "DDOut", shape, shape)
    return made


def _pow_second(call: Call) -> dict:
    s, x, d = _Second(call), call.array("X"), call.array("DOut")
    made, shape = {}, d.shape

    def term(name: str, g):
        return None if g is None else _row(call, f"elementwise_pow_grad_{name}", x, s.y, g)

    if call.wanted["DDOut"]:
        made["DDOut"] = s.like(s.add(term("x", s.ddx), term("y", s.ddy)), "DDOut", shape, shape)
    dx, dy = (None if g is None else d * g for g in (s.ddx, s.ddy))
    if call.wanted["X@GRAD"]:
        made["X@GRAD"] = s.like(s.add(term("xx", dx), term("xy", dy)), "X@GRAD", x.shape, x.shape)
    if call.wanted["Y@GRAD"]:
        made["Y@GRAD"] = s.like(s.add(term("xy", dx), term("yy", dy)), "Y@GRAD", s.y_shape, s.seen)
    return made


def _pow(call: Call) -> dict:
    x, y = _operands(call)
    if x.dtype.kind != "f":
        raise Declined
    return {"Out": call.xp.power(x, y)}


def _pow_grad(call: Call) -> dict:
    x, y, d = call.floats("X", "Y", "Out@GRAD")
    if x.ndim < y.ndim:
        raise Declined
    seen = seen_shape(y.shape, d.ndim, call.attrs["axis"])
    wide = y.reshape(seen)
    made = {}
    if call.wanted["X@GRAD"]:
        made["X@GRAD"] = reduced(_row(call, "elementwise_pow_grad_x", x, wide, d), x.shape, x.shape)
    if call.wanted["Y@GRAD"]:
        made["Y@GRAD"] = reduced(_row(call, "elementwise_pow_grad_y", x, wide, d), y.shape, seen)
    return made


def _mod(call: Call) -> dict:
    x, y = _operands(call)
    return {"Out": call.xp.remainder(x, y)}


def _floordiv(call: Call) -> dict:
    x, y = _operands(call)
    if x.dtype.kind == "f":
        return {"Out": call.xp.trunc(x / y)}
    # Integers are divided towards zero.
    quotient = call.xp.floor_divide(x, y)
    return {"Out": quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    **dict.fromkeys(_UNARY, _unary),
    "elementwise_add_grad_grad": _sum_second(1),
    "elementwise_sub_grad_grad": _sum_second(-1),
    "elementwise_mul_grad_grad": _product_second,
    "elementwise_div_grad_grad": _quotient_second,
    "elementwise_pow_grad_grad": _pow_second,
    "elementwise_pow": _pow,
    "elementwise_pow_grad": _pow_grad,
    "elementwise_mod": _mod,
    "elementwise_floordiv": _floordiv,
}
