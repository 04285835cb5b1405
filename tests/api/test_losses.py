"""Loss functions: values, reductions, both modes, errors; metrics of fluid."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import fluid

R = np.random.RandomState(0)
P = R.uniform(0.1, 0.9, (4, 3)).astype("float32")
Y = R.uniform(0, 1, (4, 3)).astype("float32")
SCORES = np.log(P / P.sum(1, keepdims=True))
LABEL = np.array([0, 2, 1, 2])
WEIGHT = np.array([1.0, 2.0, 0.5], "float32")
BCE = -(Y * np.log(P) + (1 - Y) * np.log(1 - P))
KL = Y * (np.log(Y) - P)
DIFFERENCE = np.abs(P - Y)
HUBER = np.where(DIFFERENCE <= 0.25, 0.5 * DIFFERENCE**2, 0.25 * (DIFFERENCE - 0.125))
NLL = -SCORES[np.arange(4), LABEL]
REDUCE = {"none": lambda x: x, "sum": np.sum, "mean": np.mean}


def tensors(*arrays):
    return [paddle.to_tensor(a) for a in arrays]


def static(function, *arrays):
    """The result of the function in a Program."""
    paddle.enable_static()
    try:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
            names = [f"x{i}" for i in range(len(arrays))]
            data = [paddle.static.data(n, list(a.shape), str(a.dtype)) for n, a in zip(names, arrays, strict=True)]
            out = function(*data)
            exe = fluid.Executor()
            if fluid.default_startup_program().global_block().ops:
                exe.run(fluid.default_startup_program())
            fetch = list(out) if isinstance(out, (list, tuple)) else [out]
            return exe.run(feed=dict(zip(names, arrays, strict=True)), fetch_list=fetch)
    finally:
        paddle.disable_static()


CASES = [
    (F.binary_cross_entropy, paddle.nn.BCELoss, (P, Y), BCE, {}),
    (F.kl_div, paddle.nn.KLDivLoss, (P, Y), KL, {}),
    (F.smooth_l1_loss, paddle.nn.SmoothL1Loss, (P, Y), HUBER, {"delta": 0.25}),
    (F.nll_loss, paddle.nn.NLLLoss, (SCORES, LABEL), NLL, {}),
]


@pytest.mark.parametrize("reduction", REDUCE)
@pytest.mark.parametrize(("function", "layer", "arrays", "want", "attrs"), CASES)
def test_reductions(function, layer, arrays, want, attrs, reduction):
    want = np.reshape(REDUCE[reduction](want), (-1,) if reduction != "none" else want.shape)
    np.testing.assert_allclose(function(*tensors(*arrays), reduction=reduction, **attrs).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(layer(reduction=reduction, **attrs)(*tensors(*arrays)).numpy(), want, rtol=1e-5)
    got = static(lambda x, y: function(x, y, reduction=reduction, **attrs), *arrays)[0]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    if function is not F.kl_div:
        with pytest.raises(ValueError, match="reduction"):
            function(*tensors(*arrays), reduction="max")


def test_weights_and_shapes():
    x, y, w = tensors(P, Y, WEIGHT)
    np.testing.assert_allclose(F.binary_cross_entropy(x, y, w, "none").numpy(), BCE * WEIGHT, rtol=1e-5)
    with pytest.raises(ValueError, match="not a Tensor"):
        F.binary_cross_entropy(x, y, 2.0)
    s, label = tensors(SCORES, LABEL)
    assert float(F.nll_loss(s, label, w)) == pytest.approx((NLL * WEIGHT[LABEL]).sum() / WEIGHT[LABEL].sum())
    assert float(paddle.nn.NLLLoss(ignore_index=2)(s, label)) == pytest.approx(NLL[[0, 2]].mean())
    cube = R.normal(size=(2, 3, 5)).astype("float32")
    places = R.randint(0, 3, (2, 5))
    got = F.nll_loss(*tensors(cube, places), reduction="none").numpy()
    np.testing.assert_allclose(got, -np.take_along_axis(cube, places[:, None], 1)[:, 0])
    with pytest.raises(ValueError, match="2 or more"):
        F.nll_loss(label, label)
    assert F.kl_div(x, y.astype("float64")).numpy().dtype == np.float64
    assert float(F.kl_div(x, y, "batchmean")) == pytest.approx(KL.sum() / 4, rel=1e-5)


def test_hsigmoid():
    layer = paddle.nn.HSigmoidLoss(3, 4, bias_attr=False)
    assert layer.bias is None and layer.weight.shape == [3, 3]
    x, label = tensors(P, LABEL[:, None])
    loss = layer(x, label)
    w = layer.weight.numpy()

    def softplus(v):
        return np.log1p(np.exp(v))

    for row, c, got in zip(P, LABEL, loss.numpy()[:, 0], strict=True):
        leaf = int(c) + 4
        steps = [((leaf >> (b + 1)) - 1, leaf >> b & 1) for b in range(2)]
        want = sum(softplus(row @ w[n]) - s * (row @ w[n]) for n, s in steps)
        assert got == pytest.approx(want, rel=1e-5)
    loss.sum().backward()
    assert layer.weight.grad is not None
    with pytest.raises(ValueError, match="less than 2"):
        paddle.nn.HSigmoidLoss(3, 1)
    custom = paddle.nn.HSigmoidLoss(3, 4, is_custom=True, is_sparse=True)
    path, code = tensors(np.array([[0, 1, -1]] * 4), np.array([[0, 1, -1]] * 4))
    custom(x, label, path, code).sum().backward()
    assert custom.weight._grad_ivar()._is_sparse() and custom.bias.shape == [4, 1]


def test_fluid_hsigmoid():
    got = static(lambda x, y: fluid.layers.hsigmoid(x, y, 4, bias_attr=False), P, LABEL[:, None])[0]
    assert got.shape == (4, 1)
    x, y = tensors(P, LABEL[:, None])
    for arguments in ({"path_table": y}, {"is_custom": True, "path_table": y}, {"is_custom": True, "path_code": y}):
        with pytest.raises(ValueError, match="custom tree"):
            fluid.layers.hsigmoid(x, y, 4, **arguments)
    with pytest.raises(ValueError, match="less than 2"):
        fluid.layers.hsigmoid(x, y, 1)


COLUMN, OTHER = P[:, :1], Y[:, :1]
BITS = (OTHER > 0.5).astype("float32")
L = fluid.layers
FLUID = {
    "log_loss": (L.log_loss, (COLUMN, BITS), -BITS * np.log(COLUMN + 1e-4) - (1 - BITS) * np.log(1 - COLUMN + 1e-4)),
    "kldiv": (lambda x, y: L.kldiv_loss(x, y, "sum"), (P, Y), KL.sum().reshape(1)),
    "huber": (lambda x, y: L.huber_loss(x, y, 0.25), (P, Y), HUBER),
    "smooth_l1": (L.smooth_l1, (P, Y), (0.5 * DIFFERENCE**2).sum(1, keepdims=True)),
    "rank": (L.rank_loss, (BITS, COLUMN, OTHER), np.log1p(np.exp(COLUMN - OTHER)) - BITS * (COLUMN - OTHER)),
    "margin": (L.margin_rank_loss, (BITS, COLUMN, OTHER), np.maximum(-BITS * (COLUMN - OTHER) + 0.1, 0)),
    "teacher": (L.teacher_student_sigmoid_loss, (COLUMN, BITS - 2), np.log1p(np.exp(COLUMN)) - (BITS * COLUMN)),
}


@pytest.mark.parametrize("name", FLUID)
def test_fluid_losses(name):
    function, arrays, want = FLUID[name]
    np.testing.assert_allclose(function(*tensors(*arrays)).numpy(), want, rtol=2e-5)
    np.testing.assert_allclose(static(function, *arrays)[0], want, rtol=2e-5)


def test_center_loss_updates_centers():
    """In a Program, whose startup program creates the centers."""
    zeros = fluid.ParamAttr(name="centers", initializer=fluid.initializer.Constant(0.0))
    paddle.enable_static()
    try:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
            x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1], "int64")
            loss = L.center_loss(x, y, 3, 0.5, zeros)
            exe = fluid.Executor()
            exe.run(fluid.default_startup_program())
            feed = {"x": P, "y": LABEL[:, None]}
            first = exe.run(feed=feed, fetch_list=[loss])[0]
            np.testing.assert_allclose(first[:, 0], (P**2).sum(1) / 2, rtol=1e-5)
            centers = np.array(fluid.global_scope().find_var("centers").get_tensor())
            np.testing.assert_allclose(centers[2], 0.5 * P[[1, 3]].sum(0) / 3, rtol=1e-5)
            assert exe.run(feed=feed, fetch_list=[loss])[0].sum() < first.sum()
    finally:
        paddle.disable_static()


def test_auc_of_programs():
    predict = np.stack([1 - P[:, 0], P[:, 0]], 1)
    label = (Y[:, :1] > 0.5).astype("int64")
    paddle.enable_static()
    try:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
            p, y = fluid.data("p", [None, 2]), fluid.data("y", [None, 1], "int64")
            area, batch, counts = L.auc(p, y, num_thresholds=100)
            assert len(counts) == 4
            exe = fluid.Executor()
            exe.run(fluid.default_startup_program())
            metric = fluid.metrics.Auc("auc", num_thresholds=100)
            for turned in (predict, predict[:, ::-1].copy()):
                feed = {"p": turned, "y": label}
                whole, last = exe.run(feed=feed, fetch_list=[area, batch])
                metric.update(turned, label)
                assert whole[0] == pytest.approx(metric.eval())
                own = fluid.metrics.Auc("own", num_thresholds=100)
                own.update(turned, label)
                assert last[0] == pytest.approx(own.eval())
    finally:
        paddle.disable_static()


def test_metrics_of_fluid():
    m = fluid.metrics
    edit = m.EditDistance("edit")
    edit.update(np.array([[0.0], [2.0]]), 2)
    assert edit.eval() == (1.0, 0.5)
    assert edit.get_config()["states"]["seq_num"] == 2
    edit.reset()
    with pytest.raises(ValueError, match="no data"):
        edit.eval()
    chunks = m.ChunkEvaluator()
    chunks.update(4, 2, 1)
    assert chunks.eval() == pytest.approx((0.25, 0.5, 1 / 3))
    accuracy = m.Accuracy("a")
    with pytest.raises(ValueError, match="negative"):
        accuracy.update(0.5, -1)
    with pytest.raises(ValueError, match="weight"):
        accuracy.update(0.5, "1")
    with pytest.raises(ValueError, match="ndarray"):
        m.Precision().update([0.5], np.array([1]))
    with pytest.raises(ValueError, match="MetricBase"):
        m.CompositeMetric().add_metric(3)
    with pytest.raises(NotImplementedError):
        m.MetricBase("x").eval()
    assert str(m.Recall()) == "Recall" and str(accuracy) == "a"


def test_losses_of_fluid_dygraph():
    d = fluid.dygraph
    x, y = tensors(P, Y)
    assert float(d.BCELoss()(x, y)) == pytest.approx(BCE.mean(), rel=1e-5)
    assert float(d.L1Loss("sum")(x, y)) == pytest.approx(DIFFERENCE.sum(), rel=1e-5)
    assert float(d.MSELoss()(x, y)) == pytest.approx((DIFFERENCE**2).mean(), rel=1e-5)
    assert float(d.NLLLoss(None, "sum", 2)(*tensors(SCORES, LABEL))) == pytest.approx(NLL[[0, 2]].sum(), rel=1e-5)


def test_nce():
    """The layer, the function, and the mean over the classes; alias tables of a distribution."""
    layer = fluid.dygraph.NCE(20, 3, num_neg_samples=4, seed=3)
    x, y = tensors(P, LABEL[:, None])
    loss = layer(x, y)
    assert loss.shape == [4, 1] and sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight"]
    np.testing.assert_array_equal(loss.numpy(), layer(x, y).numpy())
    loss.sum().backward()
    assert layer.weight.grad is not None
    probabilities = [0.4, 0.1, 0.2, 0.3]
    custom = fluid.dygraph.NCE(4, 3, sampler="custom_dist", custom_dist=probabilities, bias_attr=False, is_sparse=True)
    custom(x, y).sum().backward()
    assert custom.weight._grad_ivar()._is_sparse() and custom.bias is None
    with pytest.raises(Exception, match="sampler type"):
        fluid.dygraph.NCE(4, 3, sampler="none")
    for sampler in ("uniform", "log_uniform", "custom_dist"):
        got = static(lambda a, b, s=sampler: L.nce(a, b, 4, sampler=s, custom_dist=probabilities), P, LABEL[:, None])[0]
        assert got.shape == (4, 1) and (got > 0).all()


def test_alias_tables():
    from paddle.static.nn.sampled import alias_tables

    for probabilities in ([0.4, 0.1, 0.2, 0.3], [0.25] * 4, [1.0, 0.0, 0.0], [0.5, 0.5]):
        p, alias, own = alias_tables(probabilities)
        n = len(p)
        total = own / n
        for i in range(n):
            if alias[i] >= 0:
                total[alias[i]] += (1 - own[i]) / n
        np.testing.assert_allclose(total, probabilities, atol=1e-6)


def test_edit_distance_of_programs():
    paddle.enable_static()
    try:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
            a, b = (fluid.data(n, [None, 1], "int64", lod_level=1) for n in "ab")
            with pytest.warns(UserWarning, match="deprecated"):
                evaluator = fluid.evaluator.EditDistance(a, b)
            exe = fluid.Executor()
            exe.run(fluid.default_startup_program())
            one, two = (
                fluid.create_lod_tensor(np.array(v)[:, None], [[2, 2]], fluid.CPUPlace())
                for v in ([1, 2, 3, 4], [1, 2, 3, 5])
            )
            for _ in range(2):
                exe.run(feed={"a": one, "b": two}, fetch_list=evaluator.metrics)
            distance, errors = evaluator.eval(exe)
            assert errors == pytest.approx(0.5) and distance > 0
            evaluator.reset(exe)
            exe.run(feed={"a": one, "b": one})
            assert [float(v[0]) for v in evaluator.eval(exe)] == [0.0, 0.0]
    finally:
        paddle.disable_static()


def test_edit_distance_in_paddle_nn_functional():
    from paddle.fluid.layers import edit_distance as of_fluid
    from paddle.nn.functional.loss import edit_distance

    assert edit_distance is of_fluid
    batch = [paddle.to_tensor(np.array(ids)) for ids in ([[1, 2, 3], [4, 5, 4]], [[1, 3, 4], [4, 5, 8]])]
    lengths = [paddle.to_tensor(np.array([3, 3]))] * 2
    distances, count = edit_distance(*batch, False, None, *lengths)
    assert distances.numpy().tolist() == [[2.0], [1.0]] and count.numpy().tolist() == [2]
