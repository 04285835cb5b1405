"""Deep gradient compression: dgc, dgc_clip_by_norm and dgc_momentum, compared with numpy."""

import numpy as np
import pytest
from case import Case, case, table, to_eager
from case import real as drawn
from paddle import _core

ATTRS = {"sparsity": [0.75, 0.9375], "rampup_begin_step": 2.0, "rampup_step": 4.0, "m": 0.9}


def real(*shape, seed=0):
    return drawn(*shape, seed=seed).astype("float32")


def one(value):
    return np.array([value], "float32")


def compressed(u, v, grad, param, step, ranks, *, nesterov=True, kind=0, coeff=0.0):
    """The results of dgc by its definition."""
    decay = {0: 0, 1: coeff * np.sign(param), 2: coeff * param}[kind]
    grad = ranks * grad + decay
    if step < ATTRS["rampup_begin_step"]:
        return u, v, np.zeros(0), grad, 0, np.zeros(0)
    at = min(int((step - 2.0) * 2 / 4.0), 1)
    k = int(grad.size * (1 - ATTRS["sparsity"][at]))
    u = 0.9 * (u + grad) if nesterov else 0.9 * u + grad
    v = v + u + grad if nesterov else v + u
    chosen = np.sort(np.argsort(-np.abs(v), kind="stable")[:k])
    encoded = np.concatenate([chosen.astype("int32").view("float32"), v[chosen]])
    u, v = u.copy(), v.copy()
    u[chosen] = v[chosen] = 0
    return u, v, encoded, 0 * grad, k, np.zeros(2 * k * int(ranks))


@pytest.mark.operators("dgc")
@pytest.mark.parametrize("step", [1.0, 2.0, 5.0, 100.0])
@pytest.mark.parametrize("nesterov, kind", [(True, 0), (False, 1), (True, 2)])
def test_dgc(step, nesterov, kind) -> None:
    arrays = [real(64, seed=i) for i in range(4)]
    names = ("U", "V", "Grad", "Param", "current_step", "nranks")
    slots = dict(zip(names, [*arrays, one(step), one(3.0)], strict=True))
    attrs = {**ATTRS, "use_nesterov": nesterov, "regular_type": kind, "regular_coeff": 0.1}
    outs = _core.ops.dgc(**{k: to_eager(v) for k, v in slots.items()}, **attrs)
    expected = compressed(*arrays, step, 3.0, nesterov=nesterov, kind=kind, coeff=0.1)
    for name, got, due in zip(("U", "V", "encoded", "grad", "k", "gathered"), outs, expected, strict=True):
        got = got.numpy()
        if name == "encoded":
            half = len(due) // 2
            np.testing.assert_array_equal(got[:half].view("int32"), due.astype("float32")[:half].view("int32"))
            got, due = got[half:], due[half:]
        np.testing.assert_allclose(got, np.reshape(due, got.shape), rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "wrong, match",
    [
        ({"nranks": one(1.0)}, "nranks"),
        ({"sparsity": []}, "sparsity"),
        ({"sparsity": [1.5]}, "sparsity"),
        ({"rampup_step": 0.0}, "rampup_step"),
        ({"regular_type": 3}, "regular_type"),
        ({"V": np.zeros(3, "float32")}, "as large as each other"),
    ],
)
def test_wrong_arguments(wrong, match) -> None:
    slots = {n: np.ones(4, "float32") for n in ("U", "V", "Grad", "Param")} | {"current_step": one(9), "nranks": one(2)}
    slots |= {k: v for k, v in wrong.items() if k in slots}
    attrs = ATTRS | {k: v for k, v in wrong.items() if k not in slots}
    with pytest.raises((ValueError, RuntimeError), match=match):
        _core.ops.dgc(**{k: to_eager(v) for k, v in slots.items()}, **attrs)


def encoded(places, values):
    return np.concatenate([np.array(places, "int32").view("float32"), np.array(values, "float32")])


def exchanged(x, parts, step, **attrs):
    """dgc_allreduce within this process."""
    attrs = {"ring_id": -1, "rampup_begin_step": 2.0, **attrs}
    return _core.ops.dgc_allreduce(to_eager(x), [to_eager(p) for p in parts], to_eager(one(step)), **attrs).numpy()


def test_selected_elements_are_summed() -> None:
    x = np.full((2, 3), 7, "float32")
    parts = [encoded([0, 4], [1, 2]), encoded([4, 5], [3, 4])]
    np.testing.assert_array_equal(exchanged(x, parts, 2.0), [[1, 0, 0], [0, 5, 4]])
    np.testing.assert_array_equal(exchanged(x, parts, 1.0), x)
    np.testing.assert_array_equal(exchanged(x, [np.zeros(0, "float32")], 5.0), 0 * x)


@pytest.mark.parametrize(
    "parts, match",
    [
        ([encoded([6], [1])], "names element 6 of a gradient that has 6"),
        ([encoded([-1], [1])], "names element 4294967295"),
        ([np.zeros(3, "float32")], "one even size"),
        ([np.zeros(2, "float32"), np.zeros(4, "float32")], "one even size"),
    ],
)
def test_wrong_encodings(parts, match) -> None:
    with pytest.raises(ValueError, match=match):
        exchanged(np.zeros((2, 3), "float32"), parts, 3.0)


def clipped(step, x, max_norm, rampup_begin_step=-1.0):
    norm = np.sqrt((x**2).sum())
    return x if norm <= max_norm or rampup_begin_step < 0 or step[0] < rampup_begin_step else x * (max_norm / norm)


test_dgc_clip_by_norm = table(
    case("dgc_clip_by_norm", [one(5), real(4, 5)], {"max_norm": 1.0, "rampup_begin_step": 3.0}, clipped),
    case("dgc_clip_by_norm", [one(2), real(4, 5)], {"max_norm": 1.0, "rampup_begin_step": 3.0}, clipped),
    case("dgc_clip_by_norm", [one(2), real(4, 5)], {"max_norm": 1.0}, clipped),
    case("dgc_clip_by_norm", [one(2), real(0, 5)], {"max_norm": 1.0, "rampup_begin_step": 0.0}, clipped),
    case("dgc_clip_by_norm", [one(2), real(3)], {"max_norm": 0.0}, raises=ValueError, match="max_norm"),
)


def stepped(step, ranks, param, grad, velocity, rate, mu, rampup_begin_step, use_nesterov=False):
    g = grad / ranks[0]
    if step[0] >= rampup_begin_step:
        return {"ParamOut": param - rate * g, "VelocityOut": velocity, "Grad_out": g}
    new = mu * velocity + g
    change = g + mu * new if use_nesterov else new
    return {"ParamOut": param - rate * change, "VelocityOut": new, "Grad_out": g}


def momentum(step: float, **attrs) -> Case:
    arrays = [real(6, 5, seed=i) for i in range(3)]
    inputs = [one(step), one(2.0), *arrays, one(0.1)]
    return case("dgc_momentum", inputs, {"mu": 0.9, "rampup_begin_step": 10.0, **attrs}, stepped)


test_dgc_momentum = table(momentum(0.0), momentum(0.0, use_nesterov=True), momentum(10.0), momentum(15.0))
