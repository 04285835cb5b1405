"""Batch, layer and group normalization."""

import numpy as np
from case import case, real, table

C = 3
MEAN, VAR = real(C, seed=3), real(C, low=0.5, high=2.0, seed=4)
SCALE, BIAS = real(C, seed=1), real(C, seed=2)


def batch(
    x,
    scale,
    bias,
    mean,
    var,
    rate=None,
    is_test=False,
    momentum=0.9,
    epsilon=1e-5,
    data_layout="NCHW",
    use_global_stats=False,
    trainable_statistics=False,
):
    axis = x.ndim - 1 if data_layout == "NHWC" else 1
    axes = tuple(i for i in range(x.ndim) if i != axis)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    m, v = mean, var
    if not (use_global_stats or is_test and not trainable_statistics):
        m, v = x.mean(axes), x.var(axes)
        keep = momentum if rate is None else float(rate[0])
        mean, var = mean * keep + m * (1 - keep), var * keep + v * (1 - keep)
    inv = 1 / np.sqrt(v + epsilon)
    y = (x - m.reshape(shape)) * (inv * scale).reshape(shape) + bias.reshape(shape)
    return {"Y": y, "MeanOut": mean, "VarianceOut": var, "SavedMean": m, "SavedVariance": inv}


def one(x, scale, bias, mean, var):
    """A single element per channel is unchanged."""
    return {"Y": x, "MeanOut": mean, "VarianceOut": var, "SavedMean": mean * 0, "SavedVariance": mean * 0}


def norm(x, inputs=(), expected=batch, **attrs):
    return case(
        "batch_norm",
        [x, SCALE, BIAS, MEAN, VAR, *inputs],
        attrs,
        expected,
        grad="X Scale Bias",
        grad_of="Y",
        second=True,
        dtypes="float32",
        grad_tol=2e-5,
        tol=1e-4,
    )


test_batch_norm = table(
    norm(real(4, C, 2, 3)),
    norm(real(5, C)),
    norm(real(4, C, 5)),
    norm(real(2, C, 2, 3, 2), momentum=0.5, epsilon=1e-4),
    norm(real(2, 3, 4, C), data_layout="NHWC"),
    norm(real(4, C, 2, 3), use_global_stats=True),
    norm(real(4, 2, 3, C), use_global_stats=True, data_layout="NHWC"),
    norm(real(4, C, 2, 3), is_test=True),
    norm(real(4, C, 2, 3), is_test=True, trainable_statistics=True),
    norm(real(4, C, 2, 3), [np.array([0.3])]),
    norm(real(1, C), expected=one),
    case("batch_norm", [real(4, C, 2), SCALE, BIAS, MEAN, VAR], {"epsilon": 0.1}, raises=ValueError, match="epsilon"),
    case("batch_norm", [real(4), SCALE, BIAS, MEAN, VAR], raises=ValueError, match="dimensions"),
    case("batch_norm", [real(4, 2, 3), SCALE, BIAS, MEAN, VAR], raises=ValueError, match="Scale"),
    case(
        "batch_norm",
        [real(0, C, 2), SCALE, BIAS, MEAN, VAR],
        expected={"Y": np.zeros((0, C, 2)), "MeanOut": MEAN, "VarianceOut": VAR},
    ),
)


def test_half() -> None:
    """Half precision uses float32 statistics and parameters."""
    from case import check

    def halves(x, *rest, **attrs):
        return batch(x, *(np.asarray(r, "float64") for r in rest), **attrs)["Y"]

    x = real(4, C, 2, 3).astype("float16")
    check(case("batch_norm", [x, *(a.astype("float32") for a in (SCALE, BIAS, MEAN, VAR))], expected=halves, tol=2e-2))


def layer(x, scale=None, bias=None, epsilon=1e-5, begin_norm_axis=1):
    rows = x.reshape(int(np.prod(x.shape[:begin_norm_axis])), -1)
    m, v = rows.mean(1), rows.var(1)
    y = (rows - m[:, None]) / np.sqrt(v + epsilon)[:, None]
    y = y * (1 if scale is None else scale) + (0 if bias is None else bias)
    return {"Y": y.reshape(x.shape), "Mean": m, "Variance": v}


def layers(inputs, grad, **attrs):
    names = ["X", "Scale", "Bias"]
    given = {k: v for k, v in zip(names, inputs, strict=False) if v is not None}

    def expected(*values, **attrs):
        by = dict(zip(given, values, strict=True))
        return layer(by["X"], by.get("Scale"), by.get("Bias"), **attrs)

    return case("layer_norm", given, attrs, expected, grad=grad, grad_of="Y", dtypes="float32", tol=1e-4, grad_tol=2e-5)


test_layer_norm = table(
    layers([real(4, 6), real(6), real(6, seed=1)], "X Scale Bias"),
    layers([real(4, 2, 3), real(6), real(6, seed=1)], "X Scale Bias", begin_norm_axis=1),
    layers([real(4, 2, 3), real(3), real(3, seed=1)], "X Scale Bias", begin_norm_axis=2, epsilon=1e-4),
    layers([real(4, 6)], "X"),
    layers([real(4, 6), real(6)], "X Scale"),
    layers([real(4, 6), None, real(6)], "X Bias"),
    layers([real(70, 33), real(33), real(33, seed=1)], "Scale Bias"),
    case("layer_norm", [real(4, 6)], {"begin_norm_axis": 2}, raises=ValueError, match="begin_norm_axis"),
    case("layer_norm", [real(4, 6)], {"begin_norm_axis": 0}, raises=ValueError, match="begin_norm_axis"),
    case("layer_norm", [real(4, 6)], {"epsilon": 0.5}, raises=ValueError, match="epsilon"),
    case("layer_norm", [real(4, 6), real(5)], raises=ValueError, match="Scale"),
)


def group(x, scale=None, bias=None, groups=1, epsilon=1e-5, data_layout="NCHW"):
    first = x if data_layout == "NCHW" else np.moveaxis(x, -1, 1)
    n, c = first.shape[:2]
    rows = first.reshape(n, groups, -1)
    m, v = rows.mean(2), rows.var(2)
    y = ((rows - m[..., None]) / np.sqrt(v + epsilon)[..., None]).reshape(first.shape)
    along = (1, c) + (1,) * (x.ndim - 2)
    y = y * (1 if scale is None else scale.reshape(along)) + (0 if bias is None else bias.reshape(along))
    return {"Y": y if data_layout == "NCHW" else np.moveaxis(y, 1, -1), "Mean": m, "Variance": v}


def groups_of(inputs, grad, **attrs):
    return case("group_norm", inputs, attrs, group, grad=grad, grad_of="Y", grad_tol=2e-5, dtypes="float32", tol=2e-4)


G = [real(2, 6, 3, 2), real(6, low=0.5, seed=1), real(6, seed=2)]
test_group_norm = table(
    groups_of(G, "X Scale Bias", groups=2),
    groups_of(G, "X Scale Bias", groups=6, epsilon=1e-3),
    groups_of(G, "X Scale Bias", groups=1),
    groups_of([np.moveaxis(G[0], 1, -1).copy(), *G[1:]], "X Scale Bias", groups=3, data_layout="NHWC"),
    groups_of([real(2, 4, 5)], "X", groups=2),
    case("group_norm", [real(5, 8, 30, 41), real(8, low=0.5, seed=1), real(8, seed=2)], {"groups": 4}, group, tol=2e-4),
    case(
        "group_norm",
        [real(5, 30, 41, 8), real(8, low=0.5, seed=1), real(8, seed=2)],
        {"groups": 4, "data_layout": "NHWC"},
        group,
        tol=2e-4,
    ),
    groups_of([real(3, 4), real(4, low=0.5)], "X Scale", groups=2),
    case(
        "group_norm",
        {"X": real(2, 4, 3), "Bias": real(4)},
        {"groups": 4},
        lambda x, b, groups: group(x, None, b, groups),
        grad="X Bias",
        grad_of="Y",
        dtypes="float32",
        tol=2e-4,
    ),
    case("group_norm", [real(0, 4, 3), real(4), real(4)], {"groups": 2}, {"Y": np.zeros((0, 4, 3))}),
    case(
        "group_norm",
        [np.array([[1.0, np.nan], [2.0, 4.0]])],
        {"groups": 1, "epsilon": 0.0},
        {"Y": np.array([[np.nan, np.nan], [-1.0, 1.0]])},
    ),
    case("group_norm", [real(2, 4, 3)], {"groups": 3}, raises=ValueError, match="groups"),
    case("group_norm", [real(2, 4, 3)], {"groups": 0}, raises=ValueError, match="groups"),
    case("group_norm", [real(2, 4, 3), real(5)], {"groups": 2}, raises=ValueError, match="Scale"),
)


def unit(x, axis, epsilon=1e-10):
    norm = np.sqrt((x * x).sum(axis, keepdims=True) + epsilon)
    return {"Norm": norm, "Out": x / norm}


test_unit = table(
    case("norm", [real(4, 6)], {"axis": 1}, unit, grad="X", grad_of="Out", dtypes="float32"),
    case("norm", [real(4, 6)], {"axis": -2, "epsilon": 0.5}, unit, grad="X", grad_of="Out"),
    case("norm", [real(2, 3, 2, 2)], {"axis": 1}, unit, grad="X", grad_of="Out"),
    case("norm", [real(3, 400)], {"axis": 0}, unit, dtypes="float32"),
    case("norm", [real(5)], {"axis": 0}, unit, grad="X", grad_of="Out"),
    case("norm", [np.zeros((2, 3))], {"axis": 1}, unit),
    case("norm", [np.array([[1.0, np.nan], [3.0, np.inf], [3.0, 4.0]])], {"axis": 1}, unit),
    case("norm", [real(0, 3)], {"axis": 1}, unit),
    case("norm", [real(4, 6)], {"axis": 2}, raises=ValueError),
)
