"""Layers for CTR models and trees, and statistics of Programs."""

import numpy as np
import paddle
import pytest
from paddle import fluid

#: a startup Program of a network without parameters is empty
pytestmark = pytest.mark.filterwarnings("ignore:the Program has no operators to run")


@pytest.fixture
def program():
    paddle.enable_static()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield main, startup
    paddle.disable_static()


def run(program, feed, fetch, times=1):
    main, startup = program
    exe = fluid.Executor()
    exe.run(startup)
    return [exe.run(main, feed=feed, fetch_list=fetch) for _ in range(times)]


def test_consecutive_row_orders(program):
    x = fluid.data("x", [6, 2])
    out = fluid.contrib.layers.shuffle_batch(x, seed=3)
    rows = np.arange(12, dtype="float32").reshape(6, 2)
    first, second = (r[0] for r in run(program, {"x": rows}, [out], times=2))
    assert sorted(map(tuple, first)) == sorted(map(tuple, second)) == sorted(map(tuple, rows))
    assert (first != second).any() and (first != rows).all()


def test_sums_over_batches(program):
    x, label = fluid.data("x", [None, 1]), fluid.data("label", [None, 1])
    sums = fluid.contrib.layers.ctr_metric_bundle(x, label)
    p, clicks = np.array([[0.25], [0.5], [0.75]], "float32"), np.array([[0], [1], [1]], "float32")
    once, twice = run(program, {"x": p, "label": clicks}, list(sums), times=2)
    off = p - clicks
    want = [(off**2).sum(), np.abs(off).sum(), p.sum(), (1 / (1 + np.exp(-p))).sum(), 2, 3]
    np.testing.assert_allclose(np.ravel(once), want, rtol=1e-6)
    np.testing.assert_allclose(np.ravel(twice), np.array(want) * 2, rtol=1e-6)


def test_fused_batch_norm_keeps_running_statistics(program):
    x, y = fluid.data("x", [None, 2, 3]), fluid.data("y", [None, 2, 3])
    out = fluid.contrib.layers.fused_bn_add_act(x, y, momentum=0.5, moving_mean_name="m", moving_variance_name="v")
    a, b = np.random.rand(4, 2, 3).astype("float32"), np.random.rand(4, 2, 3).astype("float32") - 1
    got = run(program, {"x": a, "y": b}, [out, "m", "v"])[0]
    mean, variance = a.mean((0, 1)), a.var((0, 1))
    np.testing.assert_allclose(got[0], np.maximum((a - mean) / np.sqrt(variance + 1e-5) + b, 0), atol=1e-5)
    np.testing.assert_allclose(got[1], mean / 2, rtol=1e-5)
    np.testing.assert_allclose(got[2], 0.5 + variance / 2, rtol=1e-5)


def test_data_norm_with_scale_and_shift(program):
    x = fluid.data("x", [None, 2])
    start = {"batch_size": 4, "batch_sum": 8, "batch_square": 16, "scale_w": 3, "bias": 1}
    out = paddle.static.nn.data_norm(x, param_attr=start, enable_scale_and_shift=True, act="relu")
    rows = np.array([[4, 1], [2, 3]], "float32")
    np.testing.assert_allclose(run(program, {"x": rows}, [out])[0][0], np.maximum((rows - 2) * 0.5 * 3 + 1, 0))


def test_tree_samples(program):
    x = fluid.data("x", [None, 1], "int64")
    travel = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.array([[1, 5], [3, 0]], "int32")))
    layers = np.arange(1, 8, dtype="int32")[:, None]
    nodes = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(layers))
    parts = fluid.contrib.layers.tdm_sampler(x, [1, 3], [3, 4], 2, travel, nodes, seed=4)
    out = run(program, {"x": np.array([[0], [1]])}, [v for part in parts for v in part])[0]
    assert [v.shape for v in out] == [(2, 2, 1), (2, 4, 1)] * 3
    assert out[0][0, 0] == 1 and out[1][0, 0] == 5 and not out[1][1].any() and not out[5][1].any()
    with pytest.raises(ValueError, match="one length"):
        fluid.contrib.layers.tdm_sampler(x, [1], [3, 4], 2)


def test_sampled_softmax_learns(program):
    x, label = fluid.data("x", [None, 4]), fluid.data("label", [None, 1], "int64")
    logits = fluid.layers.fc(x, 20)
    loss = fluid.layers.mean(fluid.layers.sampled_softmax_with_cross_entropy(logits, label, num_samples=10, seed=1))
    fluid.optimizer.SGD(0.5).minimize(loss)
    feed = {"x": np.eye(4, dtype="float32"), "label": np.arange(4)[:, None]}
    losses = [float(np.ravel(r[0])[0]) for r in run(program, feed, [loss], times=30)]
    assert losses[-1] < 0.5 * losses[0]


def test_sums_of_sequences_learn(program):
    ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
    pooled = fluid.contrib.layers.fused_embedding_seq_pool(ids, [10, 3], is_sparse=True, padding_idx=-1)
    loss = fluid.layers.reduce_mean(fluid.layers.square(pooled))
    fluid.optimizer.SGD(0.5).minimize(loss)
    feed = {"ids": fluid.create_lod_tensor(np.array([[1], [2], [9]]), [[2, 1]], fluid.CPUPlace())}
    losses = [float(np.ravel(r[0])[0]) for r in run(program, feed, [loss], times=10)]
    assert losses[-1] < 0.5 * losses[0]


def test_chunks_over_batches(program):
    tags, label = (fluid.data(n, [None, 1], "int64", lod_level=1) for n in ("tags", "label"))
    with pytest.warns(UserWarning, match="deprecated"):
        evaluator = fluid.evaluator.ChunkEvaluator(tags, label, "IOB", 2)
    one = fluid.create_lod_tensor(np.array([[0], [1], [4], [2]]), [[4]], fluid.CPUPlace())
    other = fluid.create_lod_tensor(np.array([[0], [1], [2], [2]]), [[4]], fluid.CPUPlace())
    run(program, {"tags": one, "label": other}, evaluator.metrics, times=2)
    got = evaluator.eval(fluid.Executor())
    np.testing.assert_allclose(np.ravel(got), [1, 2 / 3, 0.8], rtol=1e-6)


def test_distributions_of_several_variables():
    own, theirs = np.array([0.5, 2.0], "float32"), np.array([1.0, 1.5], "float32")
    means = np.array([0.3, 0.4], "float32"), np.array([0.2, -0.4], "float32")
    a = fluid.layers.MultivariateNormalDiag(means[0], np.diag(own))
    b = fluid.layers.MultivariateNormalDiag(*map(paddle.to_tensor, (means[1], np.diag(theirs))))
    want = 0.5 * (2 * (1 + np.log(2 * np.pi)) + np.log(own.prod()))
    np.testing.assert_allclose(a.entropy().numpy(), [want], rtol=1e-6)
    off = means[1] - means[0]
    want = 0.5 * ((own / theirs).sum() + (off**2 / theirs).sum() - 2 + np.log(theirs.prod() / own.prod()))
    np.testing.assert_allclose(a.kl_divergence(b).numpy(), [want], rtol=1e-5)
    with pytest.raises(TypeError, match="MultivariateNormalDiag"):
        a.kl_divergence(fluid.layers.Normal(0.0, 1.0))
    for call in (a.sample, fluid.layers.Categorical([0.0, 1.0]).sample):
        with pytest.raises(NotImplementedError):
            call()


def test_layers_that_need_a_server(program):
    found = fluid.contrib.layers._pull_box_extended_sparse(fluid.data("x", [None, 1], "int64"), 8)
    with pytest.raises(RuntimeError, match="BoxPS"):
        fluid.Executor().run(program[0], feed={"x": np.zeros((2, 1), "int64")}, fetch_list=list(found))


def test_program_statistics_check_arguments(program):
    for call in (lambda: fluid.contrib.memory_usage(1, 2), lambda: fluid.contrib.op_freq_statistic(1)):
        with pytest.raises(TypeError, match="Program"):
            call()
    with pytest.raises(ValueError, match="batch_size"):
        fluid.contrib.memory_usage(program[0], 0)
