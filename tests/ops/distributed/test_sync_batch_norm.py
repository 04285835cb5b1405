"""sync_batch_norm and inplace_abn in one process; tests/dist covers several."""

import numpy as np
from case import apart, case, real, table

C = 3
MEAN, VAR = real(C, seed=3), real(C, low=0.5, high=2.0, seed=4)
SCALE, BIAS = real(C, low=0.5, high=1.5, seed=1), real(C, seed=2)


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
    activation="",
    alpha=0.1,
):
    axis = x.ndim - 1 if data_layout == "NHWC" else 1
    axes = tuple(i for i in range(x.ndim) if i != axis)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    m, v = mean, var
    if not (use_global_stats or is_test):
        m, v = x.mean(axes), x.var(axes)
        keep = momentum if rate is None else float(rate[0])
        mean, var = mean * keep + m * (1 - keep), var * keep + v * (1 - keep)
    inv = 1 / np.sqrt(v + np.float32(epsilon))
    y = (x - m.reshape(shape)) * (inv * scale).reshape(shape) + bias.reshape(shape)
    a = np.float64(np.float32(alpha))
    y = {"leaky_relu": np.where(y < 0, a * y, y), "elu": np.where(y < 0, a * np.expm1(y), y)}.get(activation, y)
    return {"Y": y, "MeanOut": mean, "VarianceOut": var, "SavedMean": m, "SavedVariance": inv}


def of(op, x, inputs=(), **attrs):
    return case(
        op,
        [x, SCALE, BIAS, MEAN, VAR, *inputs],
        attrs,
        batch,
        grad="X Scale Bias",
        grad_of="Y",
        dtypes="float32",
        grad_tol=5e-5,
        tol=1e-4,
    )


test_sync_batch_norm = table(
    of("sync_batch_norm", real(4, C, 2, 3)),
    of("sync_batch_norm", real(5, C)),
    of("sync_batch_norm", real(2, 3, 4, C), data_layout="NHWC"),
    of("sync_batch_norm", real(4, C, 2, 3), use_global_stats=True),
    of("sync_batch_norm", real(4, C, 2, 3), is_test=True),
    of("sync_batch_norm", real(4, C, 2, 3), [np.array([0.3])]),
    case("sync_batch_norm", [real(1, C), SCALE, BIAS, MEAN, VAR], expected=lambda x, *_: {"Y": x}),
    case("sync_batch_norm", [real(4), SCALE, BIAS, MEAN, VAR], raises=ValueError, match="dimensions"),
    case("sync_batch_norm", [real(4, 2, 3), SCALE, BIAS, MEAN, VAR], raises=ValueError, match="Scale"),
    case("sync_batch_norm", [real(4, C), SCALE, BIAS, MEAN, VAR], {"epsilon": 0.5}, raises=ValueError, match="epsilon"),
)
test_inplace_abn = table(
    of("inplace_abn", real(4, C, 2, 3)),
    of("inplace_abn", apart(4, C, 2, 3), activation="leaky_relu", alpha=0.3),
    of("inplace_abn", apart(4, 2, 3, C), activation="elu", alpha=0.7, data_layout="NHWC"),
    of("inplace_abn", apart(4, C, 2, 3), activation="elu", alpha=1.0, is_test=True),
    of("inplace_abn", real(4, C, 2, 3), activation="identity", use_global_stats=True),
    case(
        "inplace_abn",
        [real(4, C), SCALE, BIAS, MEAN, VAR],
        {"activation": "relu"},
        raises=ValueError,
        match="activation",
    ),
)
