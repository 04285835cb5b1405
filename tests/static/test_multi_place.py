"""CompiledProgram.with_data_parallel over several CPU places of one process."""

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.static.replicas import at_place, merge, split

PLACES = 4


@pytest.fixture(autouse=True)
def _static():
    paddle.enable_static()
    with fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


def places(n=PLACES):
    return [fluid.CPUPlace()] * n


def build(net, optimizer=None):
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        fetched = net()
        if optimizer is not None:
            optimizer().minimize(fetched[0])
    return main, startup, fetched


def dense():
    x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1], dtype="int64")
    p = fluid.layers.fc(fluid.layers.fc(x, 16, act="relu"), 4, act="softmax")
    return [fluid.layers.mean(fluid.layers.cross_entropy(p, y)), p]


def batches(n=6, size=16):
    rng = np.random.RandomState(0)
    return [{"x": rng.rand(size, 8).astype("float32"), "y": rng.randint(0, 4, (size, 1))} for _ in range(n)]


def train(net, optimizer, data, n, strategy=None):
    """The mean losses and the parameters after training over `n` places (0: the plain Program)."""
    with fluid.scope_guard(fluid.Scope()):
        main, startup, fetched = build(net, optimizer)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        prog = main
        if n:
            prog = fluid.CompiledProgram(main).with_data_parallel(
                loss_name=fetched[0].name, build_strategy=strategy, places=places(n)
            )
        losses = [float(np.mean(exe.run(prog, feed=feed, fetch_list=fetched[:1])[0])) for feed in data]
        found = {p.name: np.array(fluid.global_scope().find_var(p.name).get_tensor()) for p in main.all_parameters()}
    return losses, found


def same(a, b, tolerance=2e-6):
    np.testing.assert_allclose(a[0], b[0], rtol=tolerance, atol=tolerance)
    assert a[1].keys() == b[1].keys()
    for name in a[1]:
        np.testing.assert_allclose(a[1][name], b[1][name], rtol=2e-5, atol=tolerance)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("optimizer", [lambda: fluid.optimizer.SGD(0.1), lambda: fluid.optimizer.Momentum(0.1, 0.9)])
def test_trains_like_one_place(n, optimizer):
    same(train(dense, optimizer, batches(), n), train(dense, optimizer, batches(), 0))


def test_a_clip_by_the_norm_of_all_gradients_and_a_decay_see_the_sum():
    def optimizer():
        decay = fluid.regularizer.L2Decay(0.01)
        return fluid.optimizer.SGD(0.5, regularization=decay, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.05))

    same(train(dense, optimizer, batches(), 4), train(dense, optimizer, batches(), 0))


def test_a_decayed_rate_counts_steps_and_not_places():
    def optimizer():
        return fluid.optimizer.SGD(fluid.layers.exponential_decay(0.5, decay_steps=1, decay_rate=0.5))

    same(train(dense, optimizer, batches(), 4), train(dense, optimizer, batches(), 0))


def test_gradient_scale_one_gives_the_sum():
    strategy = fluid.BuildStrategy()
    strategy.gradient_scale_strategy = fluid.BuildStrategy.GradientScaleStrategy.One
    summed = train(dense, lambda: fluid.optimizer.SGD(0.01), batches(), 4, strategy)
    same(summed, train(dense, lambda: fluid.optimizer.SGD(0.04), batches(), 0))


def normalised():
    x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1], dtype="int64")
    h = fluid.layers.batch_norm(fluid.layers.fc(x, 6), act="relu")
    h = fluid.layers.batch_norm(fluid.layers.reshape(fluid.layers.fc(h, 12), [-1, 3, 2, 2]))
    return [fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(h, 4, act="softmax"), y))]


@pytest.mark.parametrize("n", [2, 3])
def test_batch_norm_over_the_samples_of_all_places(n):
    strategy = fluid.BuildStrategy()
    strategy.sync_batch_norm = True
    how = normalised, lambda: fluid.optimizer.Momentum(0.1, 0.9), batches(size=12)
    found, want = train(*how, n, strategy), train(*how, 0)
    # all places have the same number of samples: the mean of their losses is that of all samples
    same(found, want, 2e-5)
    apart = train(*how, n)
    assert not np.allclose(apart[0], want[0], rtol=1e-3)


def test_operators_on_the_sum_run_once():
    """An all-reduce of the summed gradient over processes must not run once for each place."""

    def net(n):
        with fluid.scope_guard(fluid.Scope()):
            main, startup, (loss, _) = build(dense, lambda: fluid.optimizer.SGD(0.1))
            block = main.global_block()
            at = next(i for i, op in enumerate(block.ops) if op._is_optimize_op())
            for p in main.all_parameters():
                grad = block.var(p.name + "@GRAD")
                block._insert_op(
                    at, type="scale", inputs={"X": grad}, outputs={"Out": grad}, attrs={"scale": 0.5, "op_role": 1}
                )
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            prog = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=places(n)) if n else main
            return [np.mean(exe.run(prog, feed=feed, fetch_list=[loss])[0]) for feed in batches()]

    np.testing.assert_allclose(net(4), net(0), rtol=2e-6)


def test_the_graph_is_drawn(tmp_path):
    strategy = fluid.BuildStrategy()
    strategy.debug_graphviz_path = str(tmp_path / "graph")
    train(dense, lambda: fluid.optimizer.SGD(0.1), batches(1), 2, strategy)
    drawn = (tmp_path / "graph").read_text()
    assert drawn.startswith("digraph G {") and drawn.count('[label="softmax", shape=box]') == 2
    assert drawn.count('[label="sum", shape=box]') == 4
    assert (tmp_path / "graph_original_graph").read_text().count('[label="softmax", shape=box]') == 1


def test_an_error_at_one_place_reaches_the_caller():
    main, startup, (loss, _) = build(dense, lambda: fluid.optimizer.SGD(0.1))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    prog = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=places(2))
    good, wrong = batches(1)[0], {"x": np.ones((4, 8), "float32"), "y": np.full((4, 1), 9)}
    with pytest.raises(Exception, match="(?s)cross_entropy.*9"):
        exe.run(prog, feed=[good, wrong], fetch_list=[loss])
    assert np.isfinite(exe.run(prog, feed=[good, good], fetch_list=[loss])[0]).all()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_an_embedding(is_sparse):
    def net():
        ids, y = fluid.data("ids", [None, 1], dtype="int64"), fluid.data("y", [None, 1])
        rows = fluid.layers.embedding(ids, [20, 6], is_sparse=is_sparse)
        return [fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(rows, 1), y))]

    rng = np.random.RandomState(1)
    data = [{"ids": rng.randint(0, 20, (8, 1)), "y": rng.rand(8, 1).astype("float32")} for _ in range(5)]
    sgd = lambda: fluid.optimizer.SGD(0.3)  # noqa: E731
    same(train(net, sgd, data, 4), train(net, sgd, data, 0))


def test_a_loop_and_its_gradient():
    def net():
        x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1], dtype="int64")
        i = fluid.layers.fill_constant([1], "int64", 0)
        end = fluid.layers.fill_constant([1], "int64", 3)
        h = fluid.layers.fc(x, 8)
        w = fluid.ParamAttr(name="shared_w")

        def body(i, h):
            return [i + 1, fluid.layers.fc(h, 8, act="tanh", param_attr=w, bias_attr=False)]

        _, h = fluid.layers.while_loop(lambda i, h: fluid.layers.less_than(i, end), body, [i, h])
        return [fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(h, 4, act="softmax"), y))]

    sgd = lambda: fluid.optimizer.SGD(0.3)  # noqa: E731
    same(train(net, sgd, batches(), 2), train(net, sgd, batches(), 0))


def test_a_branch_and_its_gradient():
    def net():
        x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1], dtype="int64")
        h = fluid.layers.fc(x, 8)
        wide = fluid.layers.reduce_mean(h) > 100.0
        h = fluid.layers.cond(wide, lambda: h * 2.0, lambda: fluid.layers.fc(h, 8, act="tanh") + h)
        return [fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(h, 4, act="softmax"), y))]

    sgd = lambda: fluid.optimizer.SGD(0.3)  # noqa: E731
    same(train(net, sgd, batches(), 2), train(net, sgd, batches(), 0))


def test_each_place_has_running_averages():
    def net():
        x = fluid.data("x", [None, 3])
        out = fluid.layers.batch_norm(x, momentum=0.5, moving_mean_name="mean", moving_variance_name="variance")
        return [fluid.layers.mean(out * out * x)]

    x = np.arange(24, dtype="float32").reshape(8, 3)
    main, startup, fetched = build(net, lambda: fluid.optimizer.SGD(0.1))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    prog = fluid.CompiledProgram(main).with_data_parallel(loss_name=fetched[0].name, places=places(2))
    for _ in range(2):
        exe.run(prog, feed={"x": x}, fetch_list=fetched)
    scope = fluid.global_scope()
    for place, share in enumerate(np.split(x, 2)):
        mean = np.array(scope.find_var(at_place("mean", place)).get_tensor())
        np.testing.assert_allclose(mean, share.mean(0) * 0.75, rtol=1e-6)


def test_places_that_reduce_count_together():
    """The CPU places of 1.8.5 also write to one table."""
    p, y = fluid.data("p", [None, 2]), fluid.data("y", [None, 1], "int64")
    loss = fluid.layers.mean(fluid.layers.fc(p, 1))
    *_, tables = fluid.layers.auc(p, y)
    fluid.optimizer.SGD(0.1).minimize(loss)
    strategy = fluid.BuildStrategy()
    strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, build_strategy=strategy, places=places()
    )
    for _ in range(3):
        exe.run(program, feed={"p": np.full((4, 2), 0.5, "float32"), "y": np.ones((4, 1), "int64")}, fetch_list=[loss])
    counts = np.array(fluid.global_scope().find_var(tables[2].name).get_tensor())
    assert counts.sum() == 12


def test_feeds_and_fetches():
    main, startup, (loss, p) = build(dense, lambda: fluid.optimizer.SGD(0.1))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    prog = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=places())
    feed = batches(1)[0]
    whole, rows = exe.run(prog, feed=feed, fetch_list=[loss, p])
    assert whole.shape == (PLACES,) and rows.shape == (16, 4)
    each, parts = exe.run(prog, feed=feed, fetch_list=[loss.name, p.name], return_merged=False)
    assert np.array(each).shape == (PLACES, 1) and np.array(parts).shape == (PLACES, 4, 4)
    dealt = [{k: v[4 * i : 4 * i + 4] for k, v in feed.items()} for i in range(PLACES)]
    assert exe.run(prog, feed=dealt, fetch_list=[p])[0].shape == (16, 4)
    tensor = exe.run(prog, feed=feed, fetch_list=[p], return_numpy=False)[0]
    assert isinstance(tensor, fluid.core.LoDTensor) and tensor.shape() == [16, 4]
    grads = exe.run(prog, feed=feed, fetch_list=["fc_0.w_0@GRAD"], return_merged=False)[0]
    assert all((g == grads[0]).all() for g in grads)
    assert len(prog._executor.local_scopes()) == PLACES
    with pytest.raises(RuntimeError, match="3 parts, but there are 4 CPU places"):
        exe.run(prog, feed={k: v[:3] for k, v in feed.items()}, fetch_list=[loss])
    with pytest.raises(RuntimeError, match="one for each of the 4 places, not 3"):
        exe.run(prog, feed=dealt[:3], fetch_list=[loss])
    with pytest.raises(RuntimeError, match="no data was fed for y"):
        exe.run(prog, feed={"x": feed["x"]}, fetch_list=[loss])
    with pytest.raises(TypeError, match="must be a dict"):
        exe.run(prog, feed=[1, 2, 3, 4], fetch_list=[loss])
    with pytest.raises(ValueError, match="dimensions = 2"):
        exe.run(prog, feed={**feed, "x": feed["x"][:, :5]}, fetch_list=[loss])


def test_inference_takes_fewer_samples_than_places():
    main, startup, (_, p) = build(dense)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    want = exe.run(main, feed=batches(1)[0], fetch_list=[p])[0]
    prog = fluid.CompiledProgram(main).with_data_parallel(places=places())
    for size in (1, 2, 3, 7, 16):
        feed = {k: v[:size] for k, v in batches(1)[0].items()}
        np.testing.assert_allclose(exe.run(prog, feed=feed, fetch_list=[p])[0], want[:size], rtol=1e-6)


def test_a_persistable_variable_may_be_fed():
    def net():
        x = fluid.data("x", [None, 2])
        factor = fluid.layers.create_global_var([1], 1.0, "float32", persistable=True, name="factor")
        return [x * factor]

    main, startup, (out,) = build(net)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    prog = fluid.CompiledProgram(main).with_data_parallel(places=places(2))
    x = np.ones((4, 2), "float32")
    got = exe.run(prog, feed={"x": x, "factor": np.array([3.0], "float32")}, fetch_list=[out])[0]
    np.testing.assert_array_equal(got, 3 * x)
    got = exe.run(prog, feed={"x": x, "factor": np.array([3.0, 5.0], "float32")}, fetch_list=[out])[0]
    np.testing.assert_array_equal(got[:, 0], [3, 3, 5, 5])


def test_the_rate_of_a_scheduler_reaches_the_update():
    scheduler = paddle.optimizer.lr.StepDecay(0.5, step_size=1, gamma=0.1)
    main, startup, (loss, _) = build(dense, lambda: paddle.optimizer.SGD(scheduler))
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)
    prog = paddle.static.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=places())
    name = main.lr_sheduler._var_name
    for want in (0.5, 0.05):
        exe.run(prog, feed=batches(1)[0], fetch_list=[name])
        assert np.allclose(np.array(prog._executor.local_scopes()[1].var(name).get_tensor()), want)
        scheduler.step()


def test_a_program_with_a_reader():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 2])
        loader = fluid.io.DataLoader.from_generator([x], capacity=8, iterable=False)
        loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
    loader.set_batch_generator(lambda: ([np.full((3, 2), i, "float32")] for i in range(7)))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    prog = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=places(2))
    for _ in range(2):
        loader.start()
        steps = 0
        with pytest.raises(fluid.core.EOFException):
            while True:
                assert exe.run(prog, fetch_list=[loss])[0].shape == (2,)
                steps += 1
        assert steps == 3
        loader.reset()


@pytest.mark.parametrize("drop_last", [True, False])
def test_inference_reads_an_incomplete_round_unless_dropped(drop_last):
    main = fluid.Program()
    with fluid.program_guard(main):
        x = fluid.data("x", [None, 2])
        loader = fluid.io.DataLoader.from_generator([x], capacity=8, iterable=False, drop_last=drop_last)
        y = x * 2.0
    loader.set_batch_generator(lambda: ([np.full((3, 2), i, "float32")] for i in range(7)))
    prog = fluid.CompiledProgram(main).with_data_parallel(places=places(2))
    exe = fluid.Executor(fluid.CPUPlace())
    loader.start()
    rows = []
    with pytest.raises(fluid.core.EOFException):
        while True:
            rows += exe.run(prog, fetch_list=[y])[0][::3, 0].tolist()
    assert rows == [0, 2, 4, 6, 8, 10, 12][: 6 if drop_last else 7]


@pytest.mark.parametrize("rows, message", [(4, None), (3, "received fed shape"), (6, "received fed shape")])
def test_a_declared_number_of_rows_is_per_place(rows, message):
    main = fluid.Program()
    with fluid.program_guard(main):
        y = fluid.data("x", [2, 3]) * 2.0
    prog = fluid.CompiledProgram(main).with_data_parallel(places=places(2))
    feed = {"x": np.ones((rows, 3), "float32")}
    if message is None:
        assert fluid.Executor(fluid.CPUPlace()).run(prog, feed=feed, fetch_list=[y])[0].shape == (rows, 3)
        return
    with pytest.raises(ValueError, match=message):
        fluid.Executor(fluid.CPUPlace()).run(prog, feed=feed, fetch_list=[y])


def test_parallel_executor(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "2")
    main, startup, (loss, _) = build(dense, lambda: fluid.optimizer.SGD(0.1))
    fluid.Executor(fluid.CPUPlace()).run(startup)
    parallel = fluid.ParallelExecutor(False, loss_name=loss.name, main_program=main)
    assert parallel.device_count == 2
    assert parallel._need_create_local_exe_scopes()
    losses = [float(np.mean(parallel.run([loss.name], feed=feed)[0])) for feed in batches()]
    assert losses[-1] < losses[0]
    assert not parallel._need_create_local_exe_scopes()
    parallel.drop_local_exe_scopes()
    assert parallel._need_create_local_exe_scopes()


def test_a_dry_run_runs_nothing():
    main, startup, (loss, _) = build(dense, lambda: fluid.optimizer.SGD(0.1))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    strategy = fluid.ExecutionStrategy()
    strategy._dry_run = True
    for n in (1, 2):
        compiled = fluid.CompiledProgram(main)
        prog = compiled.with_data_parallel(loss_name=loss.name, exec_strategy=strategy, places=places(n))
        assert exe.run(prog) == []


def test_what_no_operator_reads_may_be_fed_and_fetched():
    main = fluid.Program()
    with fluid.program_guard(main):
        y, z = fluid.data("x", [None, 2]) * 2.0, fluid.data("z", [None, 3])
    prog = fluid.CompiledProgram(main).with_data_parallel(places=places(2))
    feed = {"x": np.ones((4, 2), "float32"), "z": np.arange(12, dtype="float32").reshape(4, 3)}
    got = fluid.Executor(fluid.CPUPlace()).run(prog, feed=feed, fetch_list=[y, z])
    np.testing.assert_array_equal(got[1], feed["z"])


def test_sequences_are_not_split():
    lod = [[0, 2, 3, 5], [0, 1, 3, 4, 4, 7]]
    tensor = fluid.create_lod_tensor(np.arange(14, dtype="float32").reshape(7, 2), [[2, 1, 2], [1, 2, 1, 0, 3]], None)
    assert tensor.lod() == lod
    parts = split(tensor, 2)
    assert [p.lod() for p in parts] == [[[0, 2, 3], [0, 1, 3, 4]], [[0, 2], [0, 0, 3]]]
    assert np.array(parts[1]).tolist() == np.arange(8, 14).reshape(3, 2).tolist()
    whole = merge(parts)
    assert whole.lod() == lod and (np.array(whole) == np.array(tensor)).all()
    assert [len(split(np.zeros((n, 2)), 4)) for n in (0, 1, 3, 4, 5, 10)] == [4, 1, 3, 4, 3, 4]
    with pytest.raises(ValueError, match="return_merged=False"):
        merge([fluid.create_lod_tensor(np.zeros((2, n), "float32"), [[2]], None) for n in (1, 2)])


def merging(repeats):
    strategy = fluid.BuildStrategy()
    merge_pass = strategy._finalize_strategy_and_create_passes().insert_pass(0, "multi_batch_merge_pass")
    merge_pass.set("num_repeats", repeats)
    return strategy


@pytest.mark.parametrize("n", [1, 2])
def test_several_copies_at_a_place_make_one_update(n):
    """Copies with the same feed compute the same as one."""
    optimizer = lambda: fluid.optimizer.Momentum(0.1, 0.9)  # noqa: E731
    want = train(dense, optimizer, batches(), 0)
    found = train(dense, optimizer, batches(), n, merging(3))
    np.testing.assert_allclose(found[0], want[0], rtol=1e-5)
    for name, value in want[1].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=1e-6)


def test_copies_read_a_batch_each():
    """Two batches of a reader make one update with the gradient of both."""

    def net():
        x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1], dtype="int64")
        readers.append(fluid.io.DataLoader.from_generator([x, y], capacity=4, iterable=False))
        p = fluid.layers.fc(x, 4, act="softmax")
        return [fluid.layers.mean(fluid.layers.cross_entropy(p, y))]

    found = []
    for size, strategy in ((16, None), (8, merging(2))):
        readers: list = []
        with fluid.scope_guard(fluid.Scope()):
            main, startup, (loss,) = build(net, lambda: fluid.optimizer.SGD(0.1))
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            prog = fluid.CompiledProgram(main).with_data_parallel(loss.name, strategy, places=places(1))
            data = batches(2)
            cut = [{k: v[at : at + size] for k, v in b.items()} for b in data for at in range(0, 16, size)]
            readers[0].set_batch_generator(lambda cut=cut: ((b["x"], b["y"]) for b in cut), places=places(1))
            readers[0].start()
            for _ in range(2):
                exe.run(prog, fetch_list=[loss])
            readers[0].reset()
            found.append(np.array(fluid.global_scope().find_var("fc_0.w_0").get_tensor()))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-7)


def test_added_passes():
    builder = fluid.BuildStrategy()._finalize_strategy_and_create_passes()
    first = builder.append_pass("multi_batch_merge_pass")
    assert first.type() == "multi_batch_merge_pass" and builder.all_passes() == [first] and builder.repeats() == 1
    first.set("num_repeats", 0)
    with pytest.raises(ValueError, match="num_repeats must be an integer above 0, got 0"):
        builder.repeats()
    with pytest.raises(ValueError, match="takes num_repeats, not 'times'"):
        first.set("times", 2)
    with pytest.raises(NotImplementedError, match="'graph_viz_pass'.*multi_batch_merge_pass"):
        builder.append_pass("graph_viz_pass")
    with pytest.raises(IndexError, match="there are 1 passes, 3 is no place"):
        builder.insert_pass(3, "multi_batch_merge_pass")
    builder.remove_pass(0)
    with pytest.raises(IndexError, match="none is number 0"):
        builder.remove_pass(0)
