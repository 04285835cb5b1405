"""Corner cases of numeric functions found by comparison with Paddle 2.6.2; expected values are numpy's."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest


def fetch(*outs, **feed):
    return paddle.static.Executor().run(feed=feed, fetch_list=list(outs))


@pytest.fixture
def static():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield
    paddle.disable_static()


def test_statistics_of_batch_norm_are_not_recorded():
    layer = paddle.nn.BatchNorm2D(3)
    for _ in range(2):
        layer(paddle.randn([2, 3, 2, 2]))
        assert layer._mean.stop_gradient and layer._variance.stop_gradient and layer._mean.is_leaf
    mean, var = paddle.zeros([3]), paddle.ones([3])
    y = F.batch_norm(paddle.randn([2, 3, 2, 2]), mean, var, layer.weight, layer.bias, training=True)
    assert not y.stop_gradient and mean.stop_gradient and var.stop_gradient
    y.sum().backward()
    assert layer.weight.grad is not None


X = np.random.RandomState(0).randn(3, 4)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, [0, 1], (), [1]], ids=str)
@pytest.mark.parametrize("unbiased", [True, False])
def test_var_has_the_precision_of_its_type(axis, unbiased):
    numpy_axis = None if axis is None or axis == () else tuple(axis) if isinstance(axis, list) else axis
    for name in ("var", "std"):
        got = getattr(paddle, name)(paddle.to_tensor(X), axis, unbiased).numpy()
        np.testing.assert_allclose(got, np.reshape(getattr(X, name)(numpy_axis, ddof=int(unbiased)), got.shape), 1e-14)


def test_var_of_one_element_is_zero():
    assert paddle.var(paddle.ones([1])).numpy() == 0 and paddle.std(paddle.ones([2, 1]), 1).numpy().tolist() == [0, 0]


def test_var_and_median_of_a_batch_of_unknown_size(static):
    x = paddle.static.data("x", [None, 4], "float64")
    got = fetch(paddle.var(x, 0), paddle.std(x), paddle.var(x, unbiased=False), paddle.median(x, 1), x=X)
    for a, b in zip(got, (X.var(0, ddof=1), [X.std(ddof=1)], [X.var()], np.median(X, 1)), strict=True):
        np.testing.assert_allclose(a, b, 1e-14)


@pytest.mark.parametrize("p", [-1.0, -2.0])
def test_norms_of_negative_order(p):
    norm = (np.abs(X) ** p).sum(1) ** (1 / p)
    np.testing.assert_allclose(F.normalize(paddle.to_tensor(X), p, 1).numpy(), X / norm[:, None], 1e-6)
    distance = paddle.nn.PairwiseDistance(p)(paddle.to_tensor(X), paddle.to_tensor(np.zeros_like(X)))
    np.testing.assert_allclose(distance.numpy(), norm, 1e-6)


def test_division_by_zero_in_a_program(static):
    with pytest.raises(ZeroDivisionError):
        paddle.static.data("x", [2], "float32") / 0


def test_axes_out_of_range():
    for name in ("sum", "mean", "max", "prod"):
        with pytest.raises(ValueError, match="axis"):
            getattr(paddle, name)(paddle.ones([3]), axis=1)
        with pytest.raises(ValueError, match="axis"):
            getattr(paddle, name)(paddle.ones([2, 3]), axis=[0, 2])


def test_group_norm_uses_the_given_parameters(static):
    x, attr = paddle.static.data("x", [2, 4], "float32"), paddle.ParamAttr(name="scale")
    plain, scaled = paddle.static.nn.group_norm(x, 2), paddle.static.nn.group_norm(x, 2, param_attr=attr)
    assert [p.name for p in paddle.static.default_main_program().all_parameters()] == ["scale"]
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    for y in exe.run(feed={"x": np.float32([[1, 3, 5, 9], [2, 4, 4, 0]])}, fetch_list=[plain, scaled]):
        np.testing.assert_allclose(y, [[-1, 1, -1, 1], [-1, 1, 1, -1]], 1e-4)


def test_norms_without_attributes_name_their_parameters():
    for kind, sizes in ((paddle.nn.GroupNorm, (2, 4)), (paddle.nn.BatchNorm2D, (4,))):
        layer = kind(*sizes, weight_attr=False, bias_attr=False)
        assert list(layer.state_dict())[:2] == ["weight", "bias"]
        assert layer.weight.stop_gradient and layer.bias.stop_gradient
        np.testing.assert_array_equal([layer.weight.numpy(), layer.bias.numpy()], [[1] * 4, [0] * 4])
    frozen = paddle.nn.GroupNorm(2, 4, weight_attr=paddle.ParamAttr(learning_rate=0.0))
    assert frozen.weight.stop_gradient and not frozen.bias.stop_gradient


@pytest.mark.parametrize("axis", [1, -2])
def test_split_along_an_axis_out_of_range(axis):
    for cut in (lambda x: paddle.split(x, 2, axis), lambda x: paddle.unbind(x, axis)):
        with pytest.raises(ValueError, match=r"axis must be in \[-1, 1\)"):
            cut(paddle.ones([6]))
        paddle.enable_static()
        try:
            with paddle.static.program_guard(paddle.static.Program()):
                with pytest.raises(ValueError, match=r"axis must be in \[-1, 1\)"):
                    cut(paddle.static.data("x", [6]))
        finally:
            paddle.disable_static()
