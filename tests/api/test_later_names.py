"""Names of Paddle 2.1 to 2.6: values against numpy's, the same in a Program, gradients against finite differences."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle._basics import later_names, legacy_names

R = np.random.RandomState(7)
A = R.randn(3, 4).astype("float32")
B = R.randn(3, 4).astype("float32")
P = (np.abs(A) + 0.5).astype("float32")
U = R.uniform(0.1, 0.9, (3, 4)).astype("float32")
NAN = np.where(A > 0.8, np.nan, A).astype("float32")
I = np.array([[0, 2, 1, 0], [1, 1, 0, 2], [2, 0, 0, 1]])
SQUARE = (R.randn(3, 3) + 3 * np.eye(3)).astype("float32")
VECTOR = np.array([0.3, -1.2, 2.5, 0.7], "float32")
EDGES = np.sort(R.randn(37) * 20).round().astype("float32")  # some are equal
Z = np.array([3 + 4j, 0, -1j, 1e30 + 1e30j], "complex64")


class Case(NamedTuple):
    name: str
    inputs: tuple[Any, ...]
    want: Any  # of the inputs as numpy arrays
    keywords: dict[str, Any] = {}
    gradient: bool = True


def case(name: str, *inputs: Any, want: Any, gradient: bool = True, **keywords: Any) -> Case:
    return Case(name, inputs, want, keywords, gradient)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rows(x, size, step):
    return np.stack([x[i : i + size] for i in range(0, len(x) - size + 1, step)])


CASES = [
    case("atan2", A, B, want=np.arctan2),
    case("expm1", A, want=np.expm1),
    case("asinh", A, want=np.arcsinh),
    case("acosh", P + 1, want=np.arccosh),
    case("atanh", U, want=np.arctanh),
    case("trunc", 3 * A, want=np.trunc, gradient=False),
    case("frac", 3 * A, want=lambda x: x - np.trunc(x)),
    case("lerp", A, B, U, want=lambda x, y, w: x + w * (y - x)),
    case("deg2rad", A, want=np.deg2rad),
    case("rad2deg", A, want=np.rad2deg),
    case("heaviside", np.array([-1, 0, 2, np.nan], "float32"), VECTOR, want=np.heaviside, gradient=False),
    case("fmax", NAN, B, want=np.fmax, gradient=False),
    case("fmin", NAN, B, want=np.fmin, gradient=False),
    case("fmax", A, B, want=np.fmax),
    case("hypot", A, B, want=np.hypot),
    case("logaddexp", A, B, want=np.logaddexp),
    case("logit", U, want=lambda x: np.log(x / (1 - x))),
    case("logit", A, want=lambda x: np.log(np.clip(x, 0.1, 0.9) / (1 - np.clip(x, 0.1, 0.9))), eps=0.1, gradient=False),
    case("ldexp", A, I, want=lambda x, y: np.ldexp(x, y), gradient=False),
    case("sgn", A, want=np.sign, gradient=False),
    case("sgn", Z, want=lambda z: np.where(z == 0, 0, z / np.where(z == 0, 1, np.abs(z))), gradient=False),
    case("neg", A, want=np.negative),
    case("angle", A, want=np.angle, gradient=False),
    case("nan_to_num", np.array([np.nan, np.inf, -np.inf, 1], "float32"), want=np.nan_to_num, gradient=False),
    case("isclose", A, A + 1e-7, want=np.isclose, gradient=False),
    case("isclose", NAN, NAN, want=lambda x, y: np.isclose(x, y, equal_nan=True), equal_nan=True, gradient=False),
    case("inner", A, B, want=np.inner),
    case("outer", VECTOR, VECTOR, want=np.outer),
    case("amax", A, want=lambda x: x.max(1), axis=1),
    case("amin", A, want=lambda x: x.min(0), axis=0),
    case("count_nonzero", np.round(A), want=lambda x: np.count_nonzero(x, 1), axis=1, gradient=False),
    case("nansum", NAN, want=lambda x: np.nansum(x, 1), axis=1, gradient=False),
    case("nanmean", NAN, want=lambda x: np.nanmean(x, 1), axis=1, gradient=False),
    case("nanmedian", NAN, want=lambda x: np.nanmedian(x, 1), axis=1, gradient=False),
    case("quantile", A, want=lambda x: np.quantile(x, 0.3, 1), q=0.3, axis=1),
    case("quantile", A, want=lambda x: np.quantile(x, [0.0, 0.5, 1.0], 0), q=[0.0, 0.5, 1.0], axis=0),
    case("quantile", A, want=lambda x: np.quantile(x, 0.3, 1, keepdims=True), q=0.3, axis=1, keepdim=True),
    *(
        case("quantile", A, want=lambda x, m=m: np.quantile(x, 0.4, 1, method=m), q=0.4, axis=1, interpolation=m)
        for m in ("lower", "higher", "midpoint", "nearest")
    ),
    case("nanquantile", NAN, want=lambda x: np.nanquantile(x, 0.3, 1), q=0.3, axis=1, gradient=False),
    case("quantile", NAN, want=lambda x: np.quantile(x, 0.3, 1), q=0.3, axis=1, gradient=False),
    case("diff", A, want=np.diff),
    case("diff", A, want=lambda x: np.diff(x, 2, 0), n=2, axis=0),
    case("trapezoid", A, want=lambda y: np.trapezoid(y) if hasattr(np, "trapezoid") else np.trapz(y)),
    case("cumulative_trapezoid", A, want=lambda y: np.cumsum((y[:, 1:] + y[:, :-1]) / 2, 1)),
    case("cumprod", A, want=lambda x: np.cumprod(x, 1), dim=1),
    case("logcumsumexp", A, want=lambda x: np.log(np.cumsum(np.exp(x), 1)), axis=1),
    case("searchsorted", np.sort(VECTOR), A, want=lambda e, x: np.searchsorted(e, x), gradient=False),
    case("searchsorted", np.array([1, 3, 5], "float32"), NAN, want=np.searchsorted, gradient=False),
    case("searchsorted", EDGES, 20 * NAN, want=lambda e, x: np.searchsorted(e, x, "right"), right=True, gradient=False),
    case("searchsorted", EDGES, 20 * A, want=np.searchsorted, gradient=False),
    case("searchsorted", np.stack([EDGES] * 3), 20 * A, want=lambda e, x: np.searchsorted(e[0], x), gradient=False),
    case("bucketize", A, np.sort(VECTOR), want=lambda x, e: np.searchsorted(e, x, "right"), right=True, gradient=False),
    case("moveaxis", A[None], want=lambda x: np.moveaxis(x, [0, 1], [2, 0]), source=[0, 1], destination=[2, 0]),
    *(case("rot90", A, want=lambda x, k=k: np.rot90(x, k), k=k) for k in (-1, 0, 1, 2, 3)),
    case("repeat_interleave", A, want=lambda x: np.repeat(x, 2, 1), repeats=2, axis=1),
    case("repeat_interleave", A, want=lambda x: np.repeat(x, 3), repeats=3),
    case("take_along_axis", A, I, want=lambda x, i: np.take_along_axis(x, i, 0), axis=0),
    case("take_along_axis", A, I - 2, want=lambda x, i: np.take_along_axis(x, i, 1), axis=1),
    case("diagonal", A, want=lambda x: np.diagonal(x, 1), offset=1),
    case("diagonal", A, want=lambda x: np.diagonal(x, -1), offset=-1),
    case("diagonal", np.stack([A, B]), want=lambda x: np.diagonal(x, 0, 2, 0), axis1=2, axis2=0),
    case("tensordot", A, B, want=lambda x, y: np.tensordot(x, y, [[1], [1]]), axes=[[1], [1]]),
    case(
        "index_fill",
        A,
        np.array([0, 2]),
        want=lambda x, i: np.where(np.isin(np.arange(3), i)[:, None], 9, x),
        axis=0,
        value=9.0,
    ),
    case("masked_fill", A, A > 0, want=lambda x, m: np.where(m, 2.0, x), value=2.0),
    case("take", A, np.array([3, -1]), want=lambda x, i: np.take(x, i, mode="wrap"), mode="wrap"),
    case("unflatten", A, want=lambda x: x.reshape(3, 2, 2), axis=1, shape=[2, -1]),
    case("vander", VECTOR, want=lambda x: np.vander(x, 3), n=3),
    case("as_strided", A, want=lambda x: x.ravel()[[[1, 2], [3, 4]]], shape=[2, 2], stride=[2, 1], offset=1),
    case("unfold", VECTOR, want=lambda x: rows(x, 2, 1), axis=0, size=2, step=1),
    case("linalg.matrix_power", SQUARE, want=lambda x: np.linalg.matrix_power(x, 3), n=3),
    case("linalg.matrix_power", SQUARE, want=lambda x: np.linalg.matrix_power(x, -2), n=-2),
    case("linalg.cov", A, want=np.cov),
    case("linalg.corrcoef", A, want=np.corrcoef, gradient=False),
    case("nn.functional.silu", A, want=lambda x: x * sigmoid(x)),
    case("nn.functional.mish", A, want=lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    case("nn.functional.celu", A, want=lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2)), alpha=2.0),
    case("nn.functional.glu", A, want=lambda x: x[:, :2] * sigmoid(x[:, 2:])),
    case("nn.functional.pairwise_distance", A, B, want=lambda x, y: np.linalg.norm(x - y + 1e-6, axis=1)),
    case(
        "nn.functional.channel_shuffle",
        R.randn(2, 4, 3, 2).astype("float32"),
        groups=2,
        want=lambda x: x.reshape(2, 2, 2, 3, 2).swapaxes(1, 2).reshape(x.shape),
    ),
    case(
        "nn.functional.hinge_embedding_loss",
        A,
        np.sign(B),
        want=lambda x, y: [np.where(y > 0, x, np.maximum(0, 1 - x)).mean()],
    ),
    case("nn.functional.soft_margin_loss", A, np.sign(B), want=lambda x, y: [np.log1p(np.exp(-x * y)).mean()]),
    case(
        "nn.functional.multi_label_soft_margin_loss",
        A,
        (B > 0).astype("float32"),
        want=lambda x, y: [-(y * np.log(sigmoid(x)) + (1 - y) * np.log(1 - sigmoid(x))).mean()],
    ),
    case("nn.functional.poisson_nll_loss", A, P, want=lambda x, y: [(np.exp(x) - y * x).mean()]),
    case(
        "nn.functional.gaussian_nll_loss", A, B, P, want=lambda x, y, v: [(0.5 * (np.log(v) + (x - y) ** 2 / v)).mean()]
    ),
    case(
        "nn.functional.multi_margin_loss",
        A,
        np.array([0, 3, 1]),
        want=lambda x, y: [
            np.mean([sum(max(0, 1 - r[t] + r[j]) for j in range(4) if j != t) / 4 for r, t in zip(x, y, strict=True)])
        ],
    ),
    case(
        "nn.functional.triplet_margin_loss",
        A,
        B,
        U,
        want=lambda x, p, n: [
            np.maximum(np.linalg.norm(x - p + 1e-6, axis=1) - np.linalg.norm(x - n + 1e-6, axis=1) + 1, 0).mean()
        ],
    ),
]


def function(name: str) -> Any:
    found: Any = paddle
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("row", CASES, ids=lambda row: row.name)
def test_values(row):
    got = function(row.name)(*map(paddle.to_tensor, row.inputs), **row.keywords).numpy()
    want = np.asarray(row.want(*row.inputs))
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("row", CASES, ids=lambda row: row.name)
def test_program_has_the_values_of_dygraph(row):
    want = function(row.name)(*map(paddle.to_tensor, row.inputs), **row.keywords).numpy()
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            feeds = [paddle.static.data(f"x{i}", x.shape, str(x.dtype)) for i, x in enumerate(row.inputs)]
            out = function(row.name)(*feeds, **row.keywords)
        feed = {f"x{i}": x for i, x in enumerate(row.inputs)}
        got = paddle.static.Executor(paddle.CPUPlace()).run(main, feed=feed, fetch_list=[out])[0]
    finally:
        paddle.disable_static()
    np.testing.assert_array_equal(got.reshape(want.shape), want)


@pytest.mark.parametrize("row", [row for row in CASES if row.gradient], ids=lambda row: row.name)
def test_gradient(row):
    x = row.inputs[0].astype("float64")
    rest = [paddle.to_tensor(v.astype("float64") if v.dtype == "float32" else v) for v in row.inputs[1:]]

    def run(value):
        return function(row.name)(value, *rest, **row.keywords)

    tensor = paddle.to_tensor(x, stop_gradient=False)
    out = run(tensor)
    weights = np.random.RandomState(3).randn(*out.shape)
    (out * paddle.to_tensor(weights)).sum().backward()
    want, step = np.zeros_like(x), 1e-6
    for place in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        with paddle.no_grad():
            change = run(paddle.to_tensor(up)).numpy() - run(paddle.to_tensor(down)).numpy()
        want[place] = (change * weights).sum() / (2 * step)
    np.testing.assert_allclose(tensor.grad, want, rtol=1e-4, atol=1e-6)


def test_every_name_of_the_table_resolves():
    for module, entry in map(legacy_names._parse, later_names.TABLE.strip().split("\n\n")):
        for name in entry.names:
            assert getattr(function(module.removeprefix("paddle.")) if module != "paddle" else paddle, name) is not None
    for name in later_names.TENSOR_METHODS.split():
        assert getattr(paddle.ones([1]), name) is not None


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij->...ji", [(2, 3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij->", [(2, 3)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ab,bc,cd->da", [(2, 3), (3, 4), (4, 5)]),
        ("...a,...a->...", [(2, 3, 4), (3, 4)]),
        ("ij,ij->j", [(2, 3), (2, 3)]),
    ],
)
def test_einsum(equation, shapes):
    arrays = [np.random.RandomState(1).randn(*shape) for shape in shapes]
    got = paddle.einsum(equation, *map(paddle.to_tensor, arrays)).numpy()
    want = np.einsum(equation, *arrays)
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-10)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: paddle.einsum("ab,cb->ac", x, x),
        lambda x, y: paddle.einsum("ab,bc,ad->cd", x, y, x),
        lambda x, y: paddle.einsum("ab,ab->ab", paddle.ones([1, 4]), x),
        lambda x, y: paddle.einsum("a...,a...->...", x, x),
        lambda x, y: paddle.tensordot(x, y, 1),
        lambda x, y: paddle.tensordot(x, y, [[0], [1]]),
    ],
)
def test_products_of_unknown_sizes(function):
    """Of a Program: -1 was taken for 1."""
    specs = [paddle.static.InputSpec([None, 4], name="x"), paddle.static.InputSpec([None, None], name="y")]
    static = paddle.jit.to_static(function, input_spec=specs)
    for size in (1, 3, 5):
        draw = np.random.RandomState(size).randn
        x, y = (paddle.to_tensor(draw(*shape).astype("float32")) for shape in ((size, 4), (4, size)))
        np.testing.assert_allclose(static(x, y).numpy(), function(x, y).numpy(), rtol=1e-4, atol=1e-6)


def test_einsum_refuses():
    with pytest.raises(ValueError, match="names 2 operands, got 1"):
        paddle.einsum("ij,jk->ik", paddle.ones([2, 2]))
    with pytest.raises(ValueError, match="does not fit an operand of 2 dimensions"):
        paddle.einsum("ijk->i", paddle.ones([2, 2]))
    with pytest.raises(ValueError, match="has the sizes 2 and 3"):
        paddle.einsum("ij,jk->ik", paddle.ones([2, 2]), paddle.ones([3, 2]))


def test_put_along_axis():
    for reduce, want in (("assign", 5.0), ("add", 6.0), ("multiply", 5.0)):
        got = paddle.put_along_axis(paddle.ones([2, 3]), paddle.to_tensor([[0], [2]]), 5.0, 1, reduce).numpy()
        np.testing.assert_array_equal(got, [[want, 1, 1], [1, 1, want]])
    repeated = paddle.put_along_axis(
        paddle.ones([1, 3]), paddle.to_tensor([[1, 1, 0]]), paddle.to_tensor([[5.0, 7.0, 2.0]]), 1
    )
    assert repeated.tolist() == [[2.0, 7.0, 1.0]]
    x = paddle.ones([1, 3])
    x.stop_gradient = False
    paddle.put_along_axis(x, paddle.to_tensor([[1]]), 5.0, 1).sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 1.0]]


def test_atan2_at_the_axes():
    y, x = np.array([0, 0, 1, -1, 0], "float32"), np.array([1, -1, 0, 0, 0], "float32")
    np.testing.assert_allclose(
        paddle.atan2(paddle.to_tensor(y), paddle.to_tensor(x)).numpy(), np.arctan2(y, x), rtol=1e-6
    )
    one = paddle.to_tensor([1.0], stop_gradient=False)
    zero = paddle.to_tensor([0.0], stop_gradient=False)
    paddle.atan2(one, zero).backward()
    np.testing.assert_allclose([one.grad, zero.grad], [[0], [-1]], atol=1e-7)


def test_element_types():
    x = paddle.ones([2])
    assert (
        x.dtype == "float32" and x.dtype == np.float32 and x.dtype == np.dtype("float32") and x.dtype == paddle.float32
    )
    assert x.dtype != "float64" and x.dtype != np.int32 and x.dtype != object and x.dtype != "" and x.dtype is not None
    assert np.zeros(2, x.dtype).dtype == np.float32 and np.zeros(1, paddle.bool).dtype == np.bool_
    assert paddle.zeros([1], paddle.int64).dtype == paddle.int64
    assert isinstance(paddle.int8, paddle.dtype)


def test_methods():
    x = paddle.to_tensor([[1.0, -2.0]])
    assert x.T.shape == [2, 1] and x.tolist() == [[1.0, -2.0]] and x.to("float64").dtype == paddle.float64
    assert x.to(paddle.CPUPlace()) is x and x.fill_(3.0).tolist() == [[3.0, 3.0]] and x.zero_().tolist() == [[0.0, 0.0]]
    assert x.element_size() == 4
    with pytest.raises(TypeError, match="unknown arguments nothing"):
        x.to(nothing=1)


def test_layer_to():
    layer = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.BatchNorm1D(3))
    weight = layer[0].weight
    assert layer.to(dtype="float64") is layer and layer[0].weight is weight
    assert {p.dtype.name for p in layer.parameters()} == {"FP64"}
    out = layer(paddle.ones([4, 2], "float64"))
    out.sum().backward()
    assert weight.grad.dtype == np.float64


def test_layers():
    nn = paddle.nn
    x = paddle.to_tensor(R.randn(2, 4, 6, 6).astype("float32"))
    for layer, want in (
        (nn.Identity(1, a=2), x),
        (nn.Silu(), F.silu(x)),
        (nn.GLU(axis=1), F.glu(x, 1)),
        (nn.ChannelShuffle(2), F.channel_shuffle(x, 2)),
        (nn.PixelUnshuffle(2), F.pixel_unshuffle(x, 2)),
        (nn.ZeroPad2D([1, 0, 2, 0]), F.zeropad2d(x, [1, 0, 2, 0])),
        (nn.Softmax2D(), F.softmax(x, 1)),
        (nn.Unfold(2), F.unfold(x, 2)),
        (nn.Unflatten(1, [2, 2]), paddle.unflatten(x, 1, [2, 2])),
    ):
        np.testing.assert_array_equal(layer(x).numpy(), want.numpy())
    np.testing.assert_allclose(F.pixel_shuffle(F.pixel_unshuffle(x, 2), 2).numpy(), x.numpy())
    with pytest.raises(TypeError):
        nn.ChannelShuffle()
    a, b, label = x[:, :, 0, 0], x[:, :, 1, 1], paddle.to_tensor([1.0, -1.0])
    assert nn.CosineEmbeddingLoss()(a, b, label).shape == [1]
    assert nn.TripletMarginLoss(swap=True)(a, b, a).item() > 0
    with pytest.raises(ValueError, match="reduction must be"):
        nn.SoftMarginLoss("all")(a, b)


def test_fold_is_the_transpose_of_unfold():
    x = R.randn(2, 3, 7, 6)
    image = paddle.to_tensor(x, stop_gradient=False)
    columns = F.unfold(image, [3, 2], [2, 1], [1, 0], [1, 2])
    weights = R.randn(*columns.shape)
    (columns * paddle.to_tensor(weights)).sum().backward()
    back = F.fold(paddle.to_tensor(weights), [7, 6], [3, 2], [2, 1], [1, 0], [1, 2])
    np.testing.assert_allclose(back.numpy(), image.grad, rtol=1e-10)


def test_gradient_switches():
    x = paddle.to_tensor([1.0], stop_gradient=False)
    with paddle.set_grad_enabled(False):
        assert (x * 2).stop_gradient and not paddle.is_grad_enabled()
        with paddle.enable_grad():
            assert not (x * 2).stop_gradient
    assert paddle.is_grad_enabled()
    former = paddle.set_grad_enabled(False)
    assert not paddle.is_grad_enabled()
    former.__exit__()
    assert paddle.is_grad_enabled()


def test_regions():
    from paddle.vision import ops

    x = paddle.to_tensor(R.randn(1, 2, 8, 8).astype("float32"))
    boxes, number = paddle.to_tensor([[1.0, 1.0, 5.0, 5.0]]), paddle.to_tensor([1], dtype="int32")
    plain = ops.roi_align(x, boxes, number, 2, aligned=False)
    shifted = ops.roi_align(x, boxes + 0.5, number, 2, aligned=True)
    np.testing.assert_allclose(plain.numpy(), shifted.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="at least one pixel"):
        ops.roi_align(x, boxes * 0.01, number, 2)
    corners = paddle.to_tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [4, 4, 5, 5], [0, 0, 1.9, 2]])
    scores = paddle.to_tensor([0.5, 0.9, 0.7, 0.1])
    assert ops.nms(corners, 0.5, scores).tolist() == [1, 2]
    kinds = paddle.to_tensor([0, 1, 0, 1])
    assert ops.nms(corners, 0.5, scores, kinds, [0, 1]).tolist() == [1, 2, 0]
    assert ops.nms(corners, 0.5, scores, kinds, [0, 1], top_k=2).tolist() == [1, 2]


def test_initializers():
    matrix = paddle.nn.Linear(5, 3, weight_attr=paddle.nn.initializer.Orthogonal(2.0)).weight.numpy()
    np.testing.assert_allclose(matrix.T @ matrix, 4 * np.eye(3), atol=1e-5)
    conv = paddle.nn.Conv2D(4, 4, 3, padding=1, weight_attr=paddle.nn.initializer.Dirac(), bias_attr=False)
    x = paddle.to_tensor(R.randn(1, 4, 5, 5).astype("float32"))
    np.testing.assert_allclose(conv(x).numpy(), x.numpy())
    assert paddle.nn.initializer.calculate_gain("tanh") == 5 / 3
    with pytest.raises(ValueError, match="nonlinearity"):
        paddle.nn.initializer.calculate_gain("step")


def test_schedulers():
    lr = paddle.optimizer.lr
    cycle = lr.OneCycleLR(1.0, total_steps=10, divide_factor=10.0, end_learning_rate=0.0)
    rates = []
    for _ in range(10):
        rates.append(cycle())
        cycle.step()
    assert math.isclose(rates[0], 0.1) and math.isclose(max(rates), 1.0) and math.isclose(rates[9], 0.0, abs_tol=1e-9)
    up = lr.CyclicLR(0.0, 1.0, step_size_up=2, step_size_down=4, mode="triangular2")
    seen = []
    for _ in range(9):
        seen.append(round(up(), 6))
        up.step()
    assert seen == [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.25, 0.5]
    with pytest.raises(ValueError, match="three_phase"):
        lr.OneCycleLR(1.0, 10, phase_pct=0.5, three_phase=True)


def arguments_in_place(name):
    """The other arguments of an in-place function of a Tensor of shape [1, 2]."""
    return {
        "addmm_": (paddle.ones([1, 3]), paddle.ones([3, 2])),
        "clip_": (0.2, 0.4),
        "cumprod_": (1,),
        "index_add_": (paddle.to_tensor([0]), 0, paddle.ones([1, 2])),
        "index_fill_": (paddle.to_tensor([0]), 0, 2.0),
        "ldexp_": (paddle.to_tensor([[1, 2]]),),
        "lerp_": (paddle.ones([1, 2]), 0.5),
        "masked_fill_": (paddle.to_tensor([[True, False]]), 3.0),
        "put_along_axis_": (paddle.to_tensor([[1]]), 3.0, 1),
        **dict.fromkeys(
            "divide_ floor_divide_ floor_mod_ hypot_ mod_ multiply_ remainder_ add_ subtract_ pow_".split(),
            (paddle.to_tensor([[2.0, 3.0]]),),
        ),
    }.get(name, ())


@pytest.mark.parametrize("ddof", [True, False])
@pytest.mark.parametrize("which", ["f", "a", "fa"])
@pytest.mark.parametrize("rowvar", [True, False])
def test_weighted_covariance(which, ddof, rowvar):
    x = np.random.RandomState(0).randn(3, 4)
    count = x.shape[1] if rowvar else x.shape[0]
    weights = {"fweights": np.array([2, 0, 1, 3][:count]), "aweights": np.array([0.5, 1.5, 2.0, 0.25][:count])}
    weights = {k: v for k, v in weights.items() if k[0] in which}
    given = {k: paddle.to_tensor(v) for k, v in weights.items()}

    def plain(x):
        return np.cov(x, rowvar=rowvar, ddof=int(ddof), **weights)

    t = paddle.to_tensor(x, stop_gradient=False)
    out = paddle.linalg.cov(t, rowvar=rowvar, ddof=ddof, **given)
    np.testing.assert_allclose(out.numpy(), plain(x), rtol=1e-12, atol=1e-14)
    factors = np.random.RandomState(1).randn(*out.shape)
    (out * paddle.to_tensor(factors)).sum().backward()
    for i, j in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i, j] = 1e-5
        want = ((plain(x + step) - plain(x - step)) * factors).sum() / 2e-5
        np.testing.assert_allclose(t.grad[i, j], want, rtol=1e-6, atol=1e-8)
    bad = [("shape", [1, 2]), ("negative", [1] * (count - 1) + [-1]), ("sum", [0] * count)]
    for match, values in bad:
        with pytest.raises(ValueError, match=match):
            paddle.linalg.cov(t, rowvar=rowvar, **{next(iter(given)): paddle.to_tensor(values)})
    with pytest.raises(ValueError, match="integers"):
        paddle.linalg.cov(t, rowvar=rowvar, fweights=paddle.full([count], 0.5))


@pytest.mark.parametrize("name", later_names.IN_PLACE.split())
def test_in_place(name):
    arguments = arguments_in_place(name)
    plain = getattr(paddle, name[:-1], None) or getattr(F, name[:-1])
    x = paddle.to_tensor([[1.5, 1.25]]) if name == "acosh_" else paddle.to_tensor([[0.25, 0.5]])
    want = plain(x, *arguments).numpy()
    assert getattr(x, name)(*arguments) is x
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("name", [*later_names.IN_PLACE.split(), "elu_", "relu_", "softmax_", "tanh_"])
def test_in_place_gradient(name):
    """Gradients that need the value before the change have it; those of earlier operators that need it are refused."""
    if name in ("floor_divide_", "floor_mod_", "mod_", "remainder_"):
        pytest.skip("has no gradient")
    arguments = arguments_in_place(name)
    place = paddle if hasattr(paddle, name[:-1]) else F
    plain = getattr(place, name[:-1])
    changed = getattr(place, name, None) or getattr(paddle.Tensor, name)

    def gradient(function):
        x = paddle.to_tensor([[1.5, 1.25]] if name == "acosh_" else [[0.25, -0.5]], stop_gradient=False)
        y = x * 1.0 if name in ("acosh_", "elu_", "relu_") else paddle.abs(x)
        out = function(y, *arguments)
        (out * out).sum().backward()
        return x.grad

    np.testing.assert_allclose(gradient(changed), gradient(plain), rtol=1e-5)

    x = paddle.to_tensor([[1.5, 1.25]], stop_gradient=False)
    y = x * 1.0
    square = y * y
    with paddle.no_grad():
        changed(y, *arguments)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()
    with pytest.raises(ValueError, match=f"{name[:-1]}.*leaf Tensor with stop_gradient=False can not be changed"):
        changed(x, *arguments)


def test_no_broadcast_in_place():
    x = paddle.ones([2])
    with pytest.raises(
        ValueError, match=r"add_: a Tensor of shape \[2\] can not be changed in place to shape \[3, 2\]"
    ):
        x.add_(paddle.ones([3, 2]))
    assert x.add_(paddle.ones([1])).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["fmax", "fmin"])
def test_gradient_of_equal_elements(name):
    x, y = (paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False) for _ in range(2))
    getattr(paddle, name)(x, y * paddle.to_tensor([1.0, 2.0, 0.5])).sum().backward()
    np.testing.assert_array_equal(x.grad, [1, *([0, 1] if name == "fmax" else [1, 0])])


@pytest.mark.parametrize("name", ["fill_", "zero_"])
def test_filled_tensors_are_changed(name):
    y = paddle.to_tensor([1.0], stop_gradient=False) * 1.0
    square = y * y
    getattr(y, name)(*[3.0][: name == "fill_"])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.backward()


def test_the_guide_lists_the_names():
    page = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "later_names.md").read_text()
    listed = {*later_names.TENSOR_METHODS.split(), *later_names.ONLY_METHODS}
    for block in later_names.TABLE.strip().split("\n\n"):
        _, entry = legacy_names._parse(block)
        listed |= set(entry.names)
    assert not [name for name in listed if f"`{name}`" not in page]
