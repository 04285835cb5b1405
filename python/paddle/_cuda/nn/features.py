"""Feature maps and small layers: prelu, maxout, fsp, batch_fc, bilinear_tensor_product, conv_shift, cvm, lstm_unit,
gru_unit, add_position_encoding, spectral_norm, by CuPy functions."""

from __future__ import annotations

from collections.abc import Callable

from ..call import Call, Declined
from ..math.gemm import product


def _alpha(call: Call, x):
    alpha, mode = call.array("Alpha"), call.attrs["mode"]
    if mode == "all":
        return alpha.reshape((1,) * x.ndim)
    if mode == "channel":
        return alpha.reshape((1, -1, *(1,) * (x.ndim - 2)))
    return alpha.reshape((1, *x.shape[1:]))


def _prelu(call: Call) -> dict:
    (x,) = call.floats("X")
    if x.size == 0:
        raise Declined
    return {"Out": call.xp.where(x > 0, x, _alpha(call, x) * x)}


def _prelu_grad(call: Call) -> dict:
    x, d = call.floats("X", "Out@GRAD")
    if x.size == 0:
        raise Declined
    xp, alpha = call.xp, _alpha(call, x)
    made = {"X@GRAD": xp.where(x > 0, d, alpha * d)}
    if call.wanted["Alpha@GRAD"]:
        axes = tuple(i for i, n in enumerate(alpha.shape) if n == 1)
        g = xp.where(x > 0, x.dtype.type(0), x * d)
        made["Alpha@GRAD"] = g.sum(axis=axes).reshape(call.array("Alpha").shape)
    return made


def _maxout_parts(call: Call, x):
    groups, axis = call.attrs["groups"], call.attrs["axis"] % x.ndim
    if x.size == 0:
        raise Declined
    return x.reshape(*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :]), axis + 1


def _maxout(call: Call) -> dict:
    v, axis = _maxout_parts(call, call.floats("X")[0])
    return {"Out": v.max(axis=axis)}


def _maxout_grad(call: Call) -> dict:
    """The first of equal maxima has the gradient."""
    x, d = call.floats("X", "Out@GRAD")
    v, axis = _maxout_parts(call, x)
    xp, place = call.xp, [1] * v.ndim
    place[axis] = -1
    first = xp.expand_dims(xp.argmax(v, axis=axis), axis) == xp.arange(v.shape[axis]).reshape(place)
    return {"X@GRAD": xp.where(first, xp.expand_dims(d, axis), d.dtype.type(0)).reshape(x.shape)}


def _fsp(call: Call) -> dict:
    x, y = call.floats("X", "Y")
    n, h, w = x.shape[0], x.shape[2], x.shape[3]
    a, b = x.reshape(n, x.shape[1], h * w), y.reshape(n, y.shape[1], h * w)
    return {"Out": product(call, a, b, ty=True, alpha=1 / (h * w))}


def _fsp_grad(call: Call) -> dict:
    x, y, d = call.floats("X", "Y", "Out@GRAD")
    n, size = x.shape[0], x.shape[2] * x.shape[3]
    a, b, d = x.reshape(n, x.shape[1], size), y.reshape(n, y.shape[1], size), d / x.dtype.type(size)
    dx, dy = product(call, d, b), product(call, d.swapaxes(1, 2), a)
    return {"X@GRAD": dx.reshape(x.shape), "Y@GRAD": dy.reshape(y.shape)}


def _batch_fc(call: Call) -> dict:
    x, w, b = call.floats("Input", "W", "Bias")
    return {"Out": product(call, x, w) + b.reshape(x.shape[0], 1, -1)}


def _batch_fc_grad(call: Call) -> dict:
    x, w, d = call.floats("Input", "W", "Out@GRAD")
    return {
        "Input@GRAD": product(call, d, w.swapaxes(1, 2)),
        "W@GRAD": product(call, x.swapaxes(1, 2), d),
        "Bias@GRAD": d.sum(axis=1).reshape(call.ins["Bias"].shape),
    }


def _bilinear(call: Call) -> dict:
    x, y, w = call.floats("X", "Y", "Weight")
    if 0 in (*x.shape, *y.shape, *w.shape):
        raise Declined
    k, m, n = w.shape
    left = product(call, x, w.transpose(1, 0, 2).reshape(m, k * n)).reshape(-1, k, n)
    out = (left * y[:, None, :]).sum(axis=-1)
    bias = call.ins.get("Bias")
    return {"Out": out if bias is None else out + bias.reshape(1, k)}


def _bilinear_grad(call: Call) -> dict:
    x, y, w, d = call.floats("X", "Y", "Weight", "Out@GRAD")
    if 0 in (*x.shape, *y.shape, *w.shape):
        raise Declined
    k, m, n = w.shape
    dy = d[:, :, None] * y[:, None, :]
    dx = d[:, :, None] * x[:, None, :]
    rows = w.transpose(0, 2, 1).reshape(k * n, m)
    return {
        "Bias@GRAD": d.sum(axis=0).reshape(1, k),
        "X@GRAD": product(call, dy.reshape(-1, k * n), rows),
        "Y@GRAD": product(call, dx.reshape(-1, k * m), w.reshape(k * m, n)),
        "Weight@GRAD": product(call, dx.reshape(-1, k * m).T, y).reshape(k, m, n),
    }


def _circular(call: Call, m: int, n: int):
    """Positions of x that each output reads with each element of y: [m, n]."""
    xp = call.xp
    return (xp.arange(m).reshape(-1, 1) + xp.arange(n) - (n - 1) // 2) % m


def _conv_shift(call: Call) -> dict:
    (x, y), xp = call.floats("X", "Y"), call.xp
    if x.size == 0:
        raise Declined
    read = xp.take(x, _circular(call, x.shape[1], y.shape[1]), axis=1)
    return {"Out": (read * y[:, None, :]).sum(axis=-1)}


def _conv_shift_grad(call: Call) -> dict:
    (x, y, d), xp = call.floats("X", "Y", "Out@GRAD"), call.xp
    if x.size == 0:
        raise Declined
    m, n = x.shape[1], y.shape[1]
    read = xp.take(x, _circular(call, m, n), axis=1)
    # Output i reads x at i + j - half: x at k is read by the outputs k - j + half.
    back = (xp.arange(m).reshape(-1, 1) - xp.arange(n) + (n - 1) // 2) % m
    return {
        "X@GRAD": (xp.take(d, back, axis=1) * y[:, None, :]).sum(axis=-1),
        "Y@GRAD": (read * d[:, :, None]).sum(axis=1),
    }


def _cvm(call: Call) -> dict:
    (x,), xp = call.floats("X"), call.xp
    if not call.attrs["use_cvm"]:
        return {"Y": x[:, 2:]}
    first = xp.log(x[:, :1] + 1)
    return {"Y": xp.concatenate([first, xp.log(x[:, 1:2] + 1) - first, x[:, 2:]], 1)}


def _cvm_grad(call: Call) -> dict:
    """The first columns have the values of CVM in place of gradients."""
    (d, cvm), xp, shape = call.floats("Y@GRAD", "CVM"), call.xp, tuple(call.ins["X"].shape)
    if cvm.shape[0] != shape[0]:
        raise Declined
    return {"X@GRAD": xp.concatenate([cvm, d[:, 2:] if call.attrs["use_cvm"] else d], 1)}


def _sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


def _lstm_unit(call: Call) -> dict:
    (x, c), xp = call.floats("X", "C_prev"), call.xp
    n = c.shape[1]
    i, f, o, g = (x[:, k * n : (k + 1) * n] for k in range(4))
    new = _sigmoid(xp, f + c.dtype.type(call.attrs["forget_bias"])) * c + _sigmoid(xp, i) * xp.tanh(g)
    return {"C": new, "H": _sigmoid(xp, o) * xp.tanh(new)}


def _lstm_unit_grad(call: Call) -> dict:
    x, c, new, dh, dc = call.floats("X", "C_prev", "C", "H@GRAD", "C@GRAD")
    xp, n = call.xp, c.shape[1]
    i, f, o, g = (x[:, k * n : (k + 1) * n] for k in range(4))
    i, o, g = _sigmoid(xp, i), _sigmoid(xp, o), xp.tanh(g)
    f = _sigmoid(xp, f + c.dtype.type(call.attrs["forget_bias"]))
    t = xp.tanh(new)
    total = dc + dh * o * (1 - t * t)
    parts = [total * g * i * (1 - i), total * c * f * (1 - f), dh * t * o * (1 - o), total * i * (1 - g * g)]
    return {"X@GRAD": xp.concatenate(parts, 1), "C_prev@GRAD": total * f}


def _active(xp, kind: int, x):
    if kind == 0:
        return x
    if kind == 1:
        return _sigmoid(xp, x)
    return xp.tanh(x) if kind == 2 else xp.maximum(x, x.dtype.type(0))


def _active_slope(kind: int, y):
    """The slope of an activation by its result."""
    if kind == 0:
        return 1
    if kind == 1:
        return y * (1 - y)
    return 1 - y * y if kind == 2 else (y > 0).astype(y.dtype)


def _gru_unit(call: Call) -> dict:
    (x, h, w), a, xp = call.floats("Input", "HiddenPrev", "Weight"), call.attrs, call.xp
    n = h.shape[1]
    if x.size == 0:
        raise Declined
    if call.ins.get("Bias") is not None:
        x = x + call.array("Bias").reshape(1, -1)
    flat = w.reshape(-1)
    gates = x[:, : 2 * n] + product(call, h, flat[: 2 * n * n].reshape(n, 2 * n))
    gates = _active(xp, a["gate_activation"], gates)
    u, r = gates[:, :n], gates[:, n:]
    reset = r * h
    c = _active(xp, a["activation"], x[:, 2 * n :] + product(call, reset, flat[2 * n * n :].reshape(n, n)))
    hidden = c + u * (h - c) if a["origin_mode"] else u * (c - h) + h
    return {"Gate": xp.concatenate([u, r, c], 1), "ResetHiddenPrev": reset, "Hidden": hidden}


def _gru_unit_grad(call: Call) -> dict:
    h, w, gate, reset, d = call.floats("HiddenPrev", "Weight", "Gate", "ResetHiddenPrev", "Hidden@GRAD")
    a, xp, n = call.attrs, call.xp, h.shape[1]
    if h.size == 0:
        raise Declined
    flat = w.reshape(-1)
    wg, wc = flat[: 2 * n * n].reshape(n, 2 * n), flat[2 * n * n :].reshape(n, n)
    u, r, c = gate[:, :n], gate[:, n : 2 * n], gate[:, 2 * n :]
    if a["origin_mode"]:
        du, dc, dh = d * (h - c), d * (1 - u), d * u
    else:
        du, dc, dh = d * (c - h), d * u, d * (1 - u)
    dc = dc * _active_slope(a["activation"], c)
    back = product(call, dc, wc.T)
    dr = back * h * _active_slope(a["gate_activation"], r)
    du = du * _active_slope(a["gate_activation"], u)
    gates = xp.concatenate([du, dr], 1)
    dx = xp.concatenate([gates, dc], 1)
    dw = xp.concatenate([product(call, h.T, gates).reshape(-1), product(call, reset.T, dc).reshape(-1)])
    return {
        "Input@GRAD": dx,
        "HiddenPrev@GRAD": dh + back * r + product(call, gates, wg.T),
        "Weight@GRAD": dw.reshape(w.shape),
        "Bias@GRAD": dx.sum(axis=0).reshape(1, -1),
    }


def _positions(call: Call) -> dict:
    """add_position_encoding of a batch of equally long rows."""
    (x,), a, xp = call.floats("X"), call.attrs, call.xp
    if x.ndim != 3 or x.size == 0:
        raise Declined
    n, half = x.shape[1], x.shape[2] // 2
    at = xp.arange(n).astype("float64").reshape(-1, 1)
    power = xp.arange(half).astype("float64") / max(half - 1, 1)
    angle = at / 10000.0**power if half > 1 else at / 10000.0
    code = xp.concatenate([xp.sin(angle), xp.cos(angle)], 1).astype(x.dtype)
    return {"Out": x * x.dtype.type(a["alpha"]) + code * x.dtype.type(a["beta"])}


def _positions_grad(call: Call) -> dict:
    (d,) = call.floats("Out@GRAD")
    return {"X@GRAD": d * d.dtype.type(call.attrs["alpha"])}


def _spectral_parts(call: Call):
    weight, u, v = call.floats("Weight", "U", "V")
    a, xp = call.attrs, call.xp
    dim, u, v = a["dim"], u.reshape(-1), v.reshape(-1)
    order = [dim, *(i for i in range(weight.ndim) if i != dim)]
    w = weight.transpose(order).reshape(weight.shape[dim], -1)
    epsilon = w.dtype.type(a["eps"])
    for _ in range(a["power_iters"]):
        v = product(call, w, u[:, None], tx=True)[:, 0]
        v = v / (xp.sqrt((v * v).sum()) + epsilon)
        u = product(call, w, v[:, None])[:, 0]
        u = u / (xp.sqrt((u * u).sum()) + epsilon)
    sigma = (u * product(call, w, v[:, None])[:, 0]).sum()
    return weight, w, u, v, sigma, order


def _spectral(call: Call) -> dict:
    weight, _, _, _, sigma, _ = _spectral_parts(call)
    return {"Out": weight / sigma}


def _spectral_grad(call: Call) -> dict:
    weight, w, u, v, sigma, order = _spectral_parts(call)
    d = call.array("Out@GRAD").transpose(order).reshape(w.shape)
    dot = (d * w).sum() / (sigma * sigma)
    g = d / sigma - dot * u.reshape(-1, 1) * v
    back = sorted(range(weight.ndim), key=order.__getitem__)
    return {"Weight@GRAD": g.reshape([weight.shape[i] for i in order]).transpose(back)}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {
    "prelu": _prelu,
    "prelu_grad": _prelu_grad,
    "maxout": _maxout,
    "maxout_grad": _maxout_grad,
    "fsp": _fsp,
    "fsp_grad": _fsp_grad,
    "batch_fc": _batch_fc,
    "batch_fc_grad": _batch_fc_grad,
    "bilinear_tensor_product": _bilinear,
    "bilinear_tensor_product_grad": _bilinear_grad,
    "conv_shift": _conv_shift,
    "conv_shift_grad": _conv_shift_grad,
    "cvm": _cvm,
    "cvm_grad": _cvm_grad,
    "lstm_unit": _lstm_unit,
    "lstm_unit_grad": _lstm_unit_grad,
    "gru_unit": _gru_unit,
    "gru_unit_grad": _gru_unit_grad,
    "add_position_encoding": _positions,
    "add_position_encoding_grad": _positions_grad,
    "spectral_norm": _spectral,
    "spectral_norm_grad": _spectral_grad,
}
