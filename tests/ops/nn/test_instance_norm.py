"""instance_norm: normalization of each channel of each image."""

import numpy as np
from case import case, real, table


def norm(x, scale=None, bias=None, epsilon=1e-5):
    rows = x.reshape(x.shape[0] * x.shape[1], -1)
    inv = 1 / np.sqrt(rows.var(1) + np.float32(epsilon))
    y = ((rows - rows.mean(1)[:, None]) * inv[:, None]).reshape(x.shape)
    along = (1, -1) + (1,) * (x.ndim - 2)
    y = y * (1 if scale is None else scale.reshape(along)) + (0 if bias is None else bias.reshape(along))
    return {"Y": y, "SavedMean": rows.mean(1), "SavedVariance": inv}


def of(*inputs, **attrs):
    given = dict(zip(["X", "Scale", "Bias"], inputs, strict=False))
    names = " ".join(k for k, v in given.items() if v is not None)

    def expected(*values, **attrs):
        by = dict(zip(names.split(), values, strict=True))
        return norm(by["X"], by.get("Scale"), by.get("Bias"), **attrs)

    return case(
        "instance_norm",
        given,
        attrs,
        expected,
        grad=names,
        grad_of="Y",
        second=True,
        grad_tol=2e-5,
        dtypes="float32",
        tol=2e-4,
    )


SCALE, BIAS = real(3, low=0.5, high=1.5, seed=1), real(3, seed=2)
test_instance_norm = table(
    of(real(2, 3, 4, 5), SCALE, BIAS),
    of(real(2, 3, 5), SCALE, BIAS, epsilon=1e-3),
    of(real(2, 3, 2, 2, 3), SCALE, BIAS),
    of(real(2, 3, 4, 5)),
    of(real(2, 3, 4, 5), SCALE),
    of(real(2, 3, 4, 5), None, BIAS),
    case("instance_norm", [real(2, 3), SCALE, BIAS], {}, lambda x, s, b: {"Y": np.tile(b, (2, 1))}),
    case("instance_norm", [real(0, 3, 4), SCALE, BIAS], {}, {"Y": np.zeros((0, 3, 4))}),
    case(
        "instance_norm",
        [real(4, 3, 40, 50).astype("float32"), SCALE.astype("float32"), BIAS.astype("float32")],
        {},
        norm,
        tol=1e-3,
    ),
    case(
        "instance_norm",
        [real(2, 3, 4).astype("float16"), SCALE.astype("float32"), BIAS.astype("float32")],
        {},
        lambda *a: norm(*a)["Y"],
        tol=2e-2,
    ),
    case("instance_norm", [real(3)], raises=ValueError, match="2 to 5"),
    case("instance_norm", [real(2, 3, 4)], {"epsilon": 0.1}, raises=ValueError, match="epsilon"),
    case("instance_norm", [real(2, 3, 4), real(4)], raises=ValueError, match="Scale"),
    case("instance_norm", [real(2, 3, 4), SCALE, real(3, 1)], raises=ValueError, match="Bias"),
    case("instance_norm", [real(2, 3, 4), SCALE.astype("float32")], raises=ValueError, match="float64"),
)
