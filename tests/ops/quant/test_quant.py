"""Simulated quantization and dequantization."""

import numpy as np
import paddle
import pytest
from case import case, covers, ints, real, table
from paddle import _core

X = np.array([[1.5, -3.0, 0.25, 2.2], [-0.7, 0.1, 9.0, -4.0]], "float32")
Q = np.array([[127, -64, 3, 5], [1, 2, -100, 90]], "float32")
BIG = real(6, 4, 5, dtype="float32")
ONE = np.ones(1, "float32")


def one(value, dtype="float32"):
    return np.array([value], dtype)


def levels(x, scale, bit_length=8):
    return np.round(np.clip(x, -scale, scale) / scale * (2 ** (bit_length - 1) - 1))


def channels(x, quant_axis=0, bit_length=8, back=False):
    axes = tuple(i for i in range(x.ndim) if i != quant_axis)
    scale = np.abs(x).max(axes, keepdims=True)
    q = levels(x, scale, bit_length)
    return q * scale / (2 ** (bit_length - 1) - 1) if back else q, scale.ravel()


# Recorded from Paddle 1.8.5, where these operators are the same.
MOVED = [
    [1.4866811037063599, -3.024627208709717, 0.2563243508338928, 2.2043893337249756],
    [-0.7177081108093262, 0.10252973437309265, 6.510638236999512, -3.998659610748291],
]
AVERAGE = {"X": X, "InAccum": one(7), "InState": one(1.5)}
AVERAGED = {"OutScale": one(6.510638), "OutState": one(2.35), "OutAccum": one(15.3)}

test_fake_quantize = table(
    case(
        "fake_quantize_abs_max", [X], {"bit_length": 5}, (np.array([[2, -5, 0, 4], [-1, 0, 15, -7]], "float32"), one(9))
    ),
    # Ties round to even.
    case(
        "fake_quantize_abs_max",
        [np.array([127, 0.5, 1.5, -2.5], "float32")],
        {},
        (np.array([127, 0, 2, -2], "float32"), one(127)),
    ),
    case("fake_quantize_abs_max", [np.zeros((2, 3), "float32")], {}, (np.zeros((2, 3), "float32"), one(0))),
    case(
        "fake_quantize_abs_max",
        [np.array([1, np.nan, -np.inf], "float32")],
        {},
        (np.array([0, np.nan, np.nan], "float32"), one(np.inf)),
    ),
    case("fake_quantize_abs_max", [np.zeros((0, 3), "float32")], {}, (np.zeros((0, 3), "float32"), one(0))),
    case("fake_quantize_abs_max", [X], {"bit_length": 17}, raises=ValueError, match=r"bit_length must be in \[1, 16\]"),
    case("fake_quantize_abs_max", [X.astype("float64")], raises=RuntimeError, match="float64"),
    case(
        "fake_channel_wise_quantize_abs_max",
        [X],
        {},
        (np.array([[64, -127, 11, 93], [-10, 1, 127, -56]], "float32"), np.array([3, 9], "float32")),
    ),
    case("fake_channel_wise_quantize_abs_max", [BIG], {"quant_axis": 1, "bit_length": 6}, channels),
    case("fake_channel_wise_quantize_abs_max", [BIG], {"quant_axis": 2}, raises=ValueError, match="quant_axis"),
    case("fake_channel_wise_quantize_abs_max", [BIG[:0]], {"quant_axis": 1}, (BIG[:0], np.zeros(4, "float32"))),
    case(
        "fake_channel_wise_quantize_dequantize_abs_max",
        [BIG],
        {"quant_axis": 1},
        lambda x, **a: channels(x, back=True, **a),
    ),
    case(
        "fake_quantize_range_abs_max",
        {"X": X, "InScale": one(2), "Iter": one(1, "int64")},
        {"window_size": 3, "is_test": True},
        {"Out": np.array([[95, -127, 16, 127], [-44, 6, 127, -127]], "float32"), "OutScale": one(2)},
    ),
    case(
        "fake_quantize_range_abs_max",
        {"X": X, "InScale": one(2), "Iter": one(4, "int64")},
        {"window_size": 3},
        {"OutScale": one(9), "OutScales": np.array([0, 9, 0], "float32")},
    ),
    case(
        "fake_quantize_range_abs_max",
        {"X": X, "InScale": one(2), "Iter": one(-4, "int64")},
        raises=ValueError,
        match="Iter",
    ),
    case(
        "fake_quantize_range_abs_max",
        {"X": X, "InScale": one(2)},
        {"window_size": 0},
        raises=ValueError,
        match="window_size must be positive",
    ),
    case(
        "fake_quantize_moving_average_abs_max",
        AVERAGE | {"InScale": one(3)},
        {},
        {"Out": np.array([[29, -59, 5, 43], [-14, 2, 127, -78]], "float32")} | AVERAGED,
    ),
    case(
        "fake_quantize_dequantize_moving_average_abs_max",
        AVERAGE | {"InScale": one(3)},
        {},
        {"Out": np.array(MOVED, "float32")} | AVERAGED,
    ),
    case(
        "fake_quantize_dequantize_moving_average_abs_max",
        AVERAGE | {"InScale": one(3)},
        {"is_test": True},
        {
            "OutScale": one(3),
            "OutState": one(1.5),
            "OutAccum": one(7),
            "Out": (levels(X, 3) * 3 / 127).astype("float32"),
        },
    ),
    case("moving_average_abs_max_scale", AVERAGE, {}, AVERAGED),
    case("moving_average_abs_max_scale", {"X": X}, raises=RuntimeError, match="InState"),
)

BACK = np.array([[2.5, -1.2598426, 0.05905512, 0.0984252], [0.01968504, 0.03937008, -1.9685041, 1.7716535]], "float32")
BYTES = np.array([[127, -64], [3, -128]], "int8")

test_dequantize = table(
    case("fake_dequantize_max_abs", [Q, one(2.5)], {"max_range": 127.0}, BACK),
    case(
        "fake_dequantize_max_abs",
        [Q.astype("float64"), real(1)],
        {"max_range": 127.0},
        lambda q, s, max_range: q * s / max_range,
    ),
    case(
        "fake_dequantize_max_abs", [Q, np.zeros(0, "float32")], {"max_range": 127.0}, raises=ValueError, match="Scale"
    ),
    case(
        "fake_channel_wise_dequantize_max_abs",
        [Q, [np.array([2.5, 3], "float32")]],
        {},
        lambda q, s: q * s[0][:, None] / 127,
        dtypes="float64",
    ),
    case(
        "fake_channel_wise_dequantize_max_abs",
        [Q, [np.array([2.5, 3, 1, 2], "float32")]],
        {"quant_axis": 1},
        lambda q, s, quant_axis: q * s[0] / 127,
    ),
    case(
        "fake_channel_wise_dequantize_max_abs",
        [Q, [np.array([2.5, 3, 4, 1], "float32"), one(0.5)]],
        {"quant_bits": [8, 8]},
        lambda q, s, quant_bits: q * s[0] * s[1] / 127 / 127,
    ),
    case("fake_channel_wise_dequantize_max_abs", [Q, [one(1)]], raises=RuntimeError, match=r"Scales\[0\] must have 2"),
    case("fake_channel_wise_dequantize_max_abs", [Q, [one(1)] * 3], raises=ValueError, match="one or two Scales"),
    case(
        "dequantize_abs_max",
        [BYTES, one(2.5)],
        {"max_range": 127.0},
        lambda x, s, max_range: s[0] * x / max_range,
        out_dtype="float32",
    ),
    case(
        "dequantize_log",
        [BYTES, real(256, dtype="float32")],
        {},
        lambda x, d: np.where(x < 0, -d[x.astype(int) + 128], d[np.maximum(x, 0)]),
        out_dtype="float32",
    ),
    case(
        "dequantize_log", [BYTES, real(100, dtype="float32")], raises=ValueError, match="Dict must have more than 127"
    ),
)


def packed(w, ids, padding_idx=-1):
    raw = w[:, 2:].astype("float32").copy().view("uint8")
    rows = (raw / 256 * (w[:, 1:2] - w[:, :1]) + w[:, :1])[ids[..., 0]]
    return np.where(ids == padding_idx, 0, rows) if padding_idx != -1 else rows


W = real(7, 5, dtype="float32")
IDS = np.array([[3], [6], [0]])

test_lookup_table_dequant = table(
    case("lookup_table_dequant", [W, IDS], {}, packed),
    case(
        "lookup_table_dequant",
        [W, IDS],
        {"padding_idx": 6},
        packed,
        lod={"Ids": [[0, 1, 3]]},
        out_lod={"Out": [[0, 1, 3]]},
    ),
    case("lookup_table_dequant", [W, np.array([[7]])], raises=ValueError, match=r"ids must be in \[0, 7\), got 7"),
    case("lookup_table_dequant", [W[:, :1], IDS], raises=ValueError, match="at least 2 columns"),
)


def byte(v, dtype):
    info = np.iinfo(dtype)
    return np.clip(np.round(v), info.min, info.max).astype(dtype)


U8, I8 = np.array([[1, 2], [100, 255]], "uint8"), np.array([[1, 3], [100, -128]], "int8")

test_bytes = table(
    case("quantize", [X], {"Scale": 20.0, "is_negative_input": True}, byte(X * 20, "int8")),
    case("quantize", [X], {"Scale": 20.0}, byte(X * 20, "uint8")),
    case("quantize", [X], {"Scale": 20.0, "Shift": 60.0}, byte(X * 20 + 60, "uint8")),
    case("quantize", [X], {"Scale": 0.0}, raises=ValueError, match="Scale must not be 0"),
    case("quantize", [X], {"Shift": 256.0}, raises=NotImplementedError, match="Shift"),
    case("dequantize", [U8], {"Scale": 20.0, "Shift": 8.0}, ((U8 - 8.0) / 20).astype("float32"), out_dtype="float32"),
    case("dequantize", [I8], {"Scale": 4.0}, (I8 / 4).astype("float32"), out_dtype="float32"),
    case(
        "requantize",
        [I8],
        {"Scale_in": 4.0, "Scale_out": 6.0, "Shift_in": 0.0, "Shift_out": 0.0},
        byte(I8 * 1.5, "int8"),
    ),
    case(
        "requantize",
        [I8],
        {"Scale_in": 4.0, "Scale_out": 6.0, "Shift_in": 0.0, "Shift_out": 30.0},
        byte(I8 * 1.5 + 30, "uint8"),
    ),
    case(
        "requantize",
        [U8],
        {"Scale_in": 4.0, "Scale_out": 6.0, "Shift_in": 4.0, "Shift_out": 30.0},
        byte((U8 - 4.0) * 1.5 + 30, "uint8"),
    ),
    case("requantize", [I8], {}, raises=NotImplementedError, match="Shift_in"),
    case("requantize", [ints(2, high=3).astype("float32")], raises=RuntimeError, match="float32"),
)


def test_bfloat16_round_trip():
    x = paddle.to_tensor(X)
    half = _core.ops.quantize(x, Scale=1.0, bfloat16=True)
    back = _core.ops.dequantize(half, Scale=1.0).numpy()
    np.testing.assert_allclose(back, X, rtol=2**-8)


@covers(
    "fake_quantize_dequantize_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
)
@pytest.mark.parametrize("op", ["fake_quantize_dequantize_abs_max", "fake_channel_wise_quantize_dequantize_abs_max"])
def test_gradients_pass_through(op):
    x = paddle.to_tensor(X, stop_gradient=False)
    y, scale = getattr(_core.ops, op)(x)
    np.testing.assert_allclose(y.numpy(), X, atol=9 / 254 + 1e-6)
    assert scale.numpy().max() == 9
    (y * paddle.to_tensor(X * 2)).sum().backward()
    np.testing.assert_array_equal(x.gradient(), X * 2)


def test_a_window_of_scales_in_a_program():
    """Variables that are read and written, and one that an operator only writes."""
    paddle.enable_static()
    main = paddle.static.Program()
    block = main.global_block()

    def var(name, shape, dtype="float32", persistable=True):
        return block.create_var(name=name, shape=shape, dtype=dtype, persistable=persistable)

    x, scale, scales = var("x", [2, 4], persistable=False), var("scale", [1]), var("scales", [3])
    it, out = var("it", [1], "int64", False), var("out", [2, 4], persistable=False)
    block.append_op(
        "fake_quantize_range_abs_max",
        inputs={"X": [x], "InScale": [scale], "Iter": [it]},
        outputs={"Out": [out], "OutScale": [scale], "OutScales": [scales]},
        attrs={"window_size": 3},
    )
    exe, scope = paddle.static.Executor(), paddle.static.Scope()
    scope.var("scale").get_tensor().set(np.array([20], "float32"), paddle.CPUPlace())
    scope.var("scales").get_tensor().set(np.array([7, 20, 5], "float32"), paddle.CPUPlace())
    try:
        got = exe.run(main, feed={"x": X, "it": np.array([4])}, fetch_list=[out, scale, scales], scope=scope)
    finally:
        paddle.disable_static()
    # Recorded from Paddle 1.8.5.
    np.testing.assert_array_equal(got[0], [[21, -42, 4, 31], [-10, 1, 127, -56]])
    np.testing.assert_array_equal(got[1], [9])
    np.testing.assert_array_equal(got[2], [7, 9, 5])


def test_scales_of_channels_are_kept():
    x, scale = paddle.to_tensor(X), paddle.to_tensor(np.array([6, 9], "float32"))
    kept = scale.numpy().copy()
    out, again = _core.ops.fake_channel_wise_quantize_abs_max(x, is_test=True, OutScale=scale)
    np.testing.assert_array_equal(again.numpy(), kept)
    np.testing.assert_array_equal(out.numpy(), levels(X, kept[:, None]))
    with pytest.raises(RuntimeError, match="OutScale must hold the 2 scales"):
        _core.ops.fake_channel_wise_quantize_abs_max(x, is_test=True)
