"""Initializers: the operators they append; ParamAttr.

Bilinear's values were recorded from PaddlePaddle 2.6.2.
"""

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle._basics.dtypes import VarType  # noqa: E402
from paddle.nn import initializer as init  # noqa: E402
from paddle.nn.initializer import base as base  # noqa: E402
from paddle.nn.param_attr import ParamAttr, WeightNormParamAttr  # noqa: E402
from paddle.regularizer import L1Decay, L2Decay  # noqa: E402


class Recorder(base.Block):
    """A block that records appended operators."""

    random_seed = 0

    def __init__(self):
        self.put = []
        self.program = self

    def _prepend_op(self, **op):
        self.put.insert(0, op)
        return op

    def append_op(self, **op):
        self.put.append(op)
        return op

    def create_var(self, name=None, shape=None, dtype=None, **_):
        return ("created", name, shape, dtype)


def made(initializer, shape, dtype="float32", seed=0):
    block = Recorder()
    block.random_seed = seed
    var = paddle.to_tensor(np.zeros(shape, dtype))
    initializer(var, block)
    return block.put


XAVIER = np.sqrt(6.0 / (3 * 4 + 5 * 4))


@pytest.mark.parametrize(
    ("initializer", "op", "attrs"),
    [
        (init.Constant(2.5), "fill_constant", {"value": 2.5, "force_cpu": False}),
        (base.Constant(1, force_cpu=True), "fill_constant", {"value": 1.0, "force_cpu": True}),
        (init.Uniform(-0.5, 0.25), "uniform_random", {"min": -0.5, "max": 0.25, "seed": 0, "diag_num": 0}),
        (
            base.Uniform(seed=3, diag_num=2, diag_step=2, diag_val=4.0),
            "uniform_random",
            {"min": -1.0, "max": 1.0, "seed": 3, "diag_num": 2, "diag_step": 2, "diag_val": 4.0},
        ),
        (init.Normal(0.5, 2.0), "gaussian_random", {"mean": 0.5, "std": 2.0, "seed": 0}),
        (base.Normal(0.5, 2.0, 7), "gaussian_random", {"mean": 0.5, "std": 2.0, "seed": 7}),
        (init.TruncatedNormal(0.5, 2.0), "truncated_gaussian_random", {"mean": 0.5, "std": 2.0, "seed": 0}),
        (init.XavierUniform(), "uniform_random", {"min": -XAVIER, "max": XAVIER, "seed": 0}),
        (init.XavierUniform(fan_in=2, fan_out=4), "uniform_random", {"min": -1.0, "max": 1.0}),
        (init.XavierNormal(), "gaussian_random", {"mean": 0.0, "std": np.sqrt(2.0 / (3 * 4 + 5 * 4))}),
        (base.Xavier(uniform=False, seed=9), "gaussian_random", {"seed": 9}),
        (init.KaimingUniform(), "uniform_random", {"min": -np.sqrt(0.5), "max": np.sqrt(0.5), "seed": 0}),
        (init.KaimingNormal(), "gaussian_random", {"mean": 0.0, "std": np.sqrt(2.0 / 12), "seed": 0}),
        (init.KaimingNormal(fan_in=8), "gaussian_random", {"std": 0.5}),
    ],
)
def test_operators(initializer, op, attrs):
    (got,) = made(initializer, [5, 3, 2, 2])
    assert got["type"] == op and got["attrs"]["shape"] == [5, 3, 2, 2] and got["attrs"]["dtype"] == VarType.FP32
    for name, value in attrs.items():
        assert got["attrs"][name] == value, name


def test_fans():
    fans = base.Initializer()._compute_fans
    shapes = {(): (1, 1), (7,): (7, 7), (3, 5): (3, 5), (5, 3, 2, 2): (12, 20)}
    for shape, expected in shapes.items():
        assert fans(type("Var", (), {"shape": shape})) == expected


def test_seeds():
    initializer = base.Normal()
    assert made(initializer, [2], seed=5)[0]["attrs"]["seed"] == 5
    assert made(initializer, [2], seed=6)[0]["attrs"]["seed"] == 5  # stored, as in 2.0.2
    assert made(base.Normal(seed=3), [2], seed=5)[0]["attrs"]["seed"] == 3


def test_float16_goes_through_float32():
    fill, cast = made(init.Uniform(), [2], "float16")
    assert fill["attrs"]["dtype"] == VarType.FP32 and fill["outputs"]["Out"][0] == "created"
    assert cast["type"] == "cast" and cast["attrs"] == {"in_dtype": VarType.FP32, "out_dtype": VarType.FP16}


def test_assign():
    values = np.arange(6).reshape(2, 3)
    (got,) = made(init.Assign(values), [2, 3])
    assert got["type"] == "assign_value" and got["attrs"]["fp32_values"] == list(range(6))
    assert got["attrs"]["shape"] == [2, 3]
    (got,) = made(init.Assign(values.tolist()), [2, 3], "int32")
    assert got["attrs"]["int32_values"] == list(range(6))
    (got,) = made(init.Assign(paddle.to_tensor(values.astype("float32"))), [2, 3])
    assert got["attrs"]["fp32_values"] == list(range(6))
    with pytest.raises(ValueError, match="dtype"):
        made(init.Assign(values), [2, 3], "float64")
    with pytest.raises(TypeError, match="Assign"):
        init.Assign("values")


BILINEAR = {
    3: [0.0625, 0.3125, 0.4375, 0.1875, 0.6875, 0.6875, 0.1875, 0.4375, 0.3125] * 2,
    4: [
        *(0.0625, 0.28125, 0.375, 0.15625, 0.1875, 0.65625, 0.75, 0.21875),
        *(0.1875, 0.46875, 0.375, 0.09375, 0.0625, 0.09375, 0.0, -0.03125),
    ]
    * 2,
}


@pytest.mark.parametrize("size", [3, 4])
def test_bilinear(size):
    (got,) = made(init.Bilinear(), [2, 1, size, size])
    np.testing.assert_array_equal(np.float32(got["attrs"]["fp32_values"]), np.float32(BILINEAR[size]))
    assert [op["type"] for op in made(init.Bilinear(), [1, 1, 2, 2], "float64")] == ["assign_value", "cast"]
    for shape in ([2, 3], [1, 1, 2, 3]):
        with pytest.raises(ValueError, match="shape"):
            made(init.Bilinear(), shape)
    with pytest.raises(TypeError, match="dtype"):
        made(init.Bilinear(), [1, 1, 2, 2], "int32")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: init.Constant(None), ValueError),
        (lambda: base.Constant(None), AssertionError),
        (lambda: init.Uniform(1.0, 0.0), AssertionError),
        (lambda: init.Uniform(None), AssertionError),
        (lambda: base.Uniform(diag_num=1), AssertionError),
        (lambda: init.Normal(None), AssertionError),
        (lambda: init.TruncatedNormal(std=None), AssertionError),
        (lambda: base.NumpyArrayInitializer([1]), AssertionError),
        (lambda: made(base.Initializer(), [1]), NotImplementedError),
        (lambda: init.Constant()(3, Recorder()), AssertionError),
        (lambda: init.Constant()(paddle.to_tensor(np.ones(1)), "block"), AssertionError),
    ],
)
def test_wrong_arguments(make, error):
    with pytest.raises(error):
        make()


def test_block_is_needed_in_static_mode():
    paddle.enable_static()
    try:
        with pytest.raises(ValueError, match="block is needed"):
            init.Constant()(None)
        with pytest.raises(TypeError, match="initializer"):
            ParamAttr(initializer=3)
        with pytest.raises(TypeError, match="trainable"):
            ParamAttr(trainable="yes")
        with pytest.raises(TypeError, match="weight_init"):
            init.set_global_initializer(3)
    finally:
        paddle.disable_static()


def test_global_initializer():
    weight, bias = init.Constant(1.0), init.Constant(2.0)
    init.set_global_initializer(weight, bias)
    try:
        assert init._global_weight_initializer() is weight and init._global_bias_initializer() is bias
    finally:
        init.set_global_initializer(None)
    assert base._global_weight_initializer() is None and base._global_bias_initializer() is None


def test_param_attr():
    attr = ParamAttr()
    assert attr._to_kwargs() == {
        "name": None,
        "optimize_attr": {"learning_rate": 1.0},
        "regularizer": None,
        "trainable": True,
        "do_model_average": True,
        "need_clip": True,
    }
    assert attr._to_kwargs(with_initializer=True)["initializer"] is None
    with pytest.raises(ValueError, match="empty"):
        ParamAttr(name="")
    with pytest.raises(ValueError, match="not set"):
        attr._set_default_initializer(None)
    attr._set_default_param_initializer()
    assert isinstance(attr.initializer, base.Xavier)
    attr._set_default_bias_initializer()
    assert isinstance(attr.initializer, base.Xavier)

    to = ParamAttr._to_attr
    fill, decay = init.Constant(), L2Decay(0.1)
    assert to(attr) is attr and to("w").name == "w" and to(fill).initializer is fill and to(decay).regularizer is decay
    assert to(False) is False and isinstance(to(True), ParamAttr) and isinstance(to(None), ParamAttr)
    assert [a.name for a in to(["a", "b"])] == ["a", "b"]
    with pytest.raises(TypeError, match="cast to ParamAttr"):
        to(3)
    norm = WeightNormParamAttr(dim=1, name="w")
    assert norm.dim == 1 and norm.do_model_average is False


def test_regularizer_names():
    assert str(L1Decay(0.5)) == "L1Decay, regularization_coeff=0.500000"
    assert str(L2Decay(0.25)) == "L2Decay, regularization_coeff=0.250000"
