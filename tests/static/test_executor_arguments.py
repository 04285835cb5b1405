"""Executor.run: each documented argument; the members of ParallelExecutor."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest

X = np.arange(12, dtype="float32").reshape(6, 2)


@pytest.fixture(autouse=True)
def _static(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "2")
    paddle.enable_static()
    with fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


def network():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 2]), 1, name="fc"))
        test = main.clone(for_test=True)
        updates = fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    return exe, main, test, loss, updates


def weights():
    return np.array(fluid.global_scope().find_var("fc.w_0").get_tensor())


def test_private_methods_of_run():
    exe, main, test, loss, updates = network()
    scope, names = fluid.global_scope(), ("feed", "fetch")
    want = exe.run(test, feed={"x": X}, fetch_list=[loss.name])
    assert exe._run_impl(test, {"x": X}, [loss.name], *names, scope, True, False, True, False) == want
    assert exe._run_program(test, {"x": X}, [loss.name], *names, scope, True, False) == want
    compiled = fluid.CompiledProgram(test).with_data_parallel(places=[fluid.CPUPlace()] * 2)
    compiled._compile(scope, exe.place)
    (found,) = exe._run_parallel(compiled, scope, {"x": X}, [loss.name], "fetch", True, True)
    np.testing.assert_allclose(found.mean(), want[0], rtol=1e-6)

    class Predictor:
        def run(self, feed):
            return [feed, 1]

    assert exe._run_inference(Predictor(), "inputs") == ["inputs", 1]


def test_a_fetch_list_is_split():
    exe, main, _, loss, updates = network()
    operators = updates[0]
    for given in ([loss, operators], [operators, loss], [updates, loss], [loss, *operators]):
        assert exe._split_optimize_ops_in_fetch_list(given) == ([loss], operators)
    assert exe._split_optimize_ops_in_fetch_list(["a", loss]) == (["a", loss], [])
    with pytest.raises(TypeError):
        exe._split_optimize_ops_in_fetch_list([3])
    pruned = exe._prune_program(main, {"x": X}, [loss], operators[:1])
    assert [op.type for op in pruned.global_block().ops].count("sgd") == 1


def test_a_closed_executor():
    exe, main, *_ = network()
    exe.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        exe.run(main, feed={"x": X})


class TestParallelExecutor:
    def executors(self, **how):
        exe, main, test, loss, _ = network()
        train = fluid.ParallelExecutor(False, loss.name, main, **how)
        return train, fluid.ParallelExecutor(False, main_program=test, share_vars_from=train), loss.name

    def test_members(self):
        train, test, loss = self.executors()
        assert train.device_count == 2 and train._need_create_local_exe_scopes()
        before = weights()
        (found,) = train.run([loss], feed={"x": X})
        assert found.shape == (2,) and not train._need_create_local_exe_scopes()
        np.testing.assert_allclose(weights(), before - 0.1 * X.mean(0)[:, None], rtol=1e-5)
        (tested,) = test.run([loss], {"x": X})
        np.testing.assert_allclose(
            tested,
            [(X[:3] @ weights()).mean(), (X[3:] @ weights()).mean()]
            + np.array(fluid.global_scope().find_var("fc.b_0").get_tensor()),
            rtol=1e-5,
        )
        train.drop_local_exe_scopes()
        assert train._need_create_local_exe_scopes()
        assert train.run([loss], feed_dict={"x": X})[0].shape == (2,)

    def test_feeds(self):
        train, test, loss = self.executors()
        # three samples over two places: two and one; a list has a feed for each place
        assert sizes(train, {"x": X[:3]}) == [2, 1]
        assert sizes(train, [{"x": X}, {"x": X[:5]}]) == [6, 5]
        tensors = train.run([loss], feed={"x": X}, return_numpy=False)
        assert isinstance(tensors[0], fluid.LoDTensor) and tensors[0].shape() == [2]
        with pytest.raises(Exception, match="makes 1 parts, but there are 2 CPU places"):
            train.run([loss], feed={"x": X[:1]})
        with pytest.raises(Exception, match="one for each of the 2 places, not 1"):
            train.run([loss], feed=[{"x": X}])
        with pytest.raises(TypeError, match="must be a dict"):
            train.run([loss], feed=[X, X])

    def test_without_a_loss(self):
        with pytest.raises(AssertionError, match="loss_name must be given"):
            fluid.ParallelExecutor(False, main_program=network()[1])

    @pytest.mark.parametrize("reduce", ["AllReduce", "Reduce"])
    @pytest.mark.parametrize("threads", [1, 4])
    def test_strategies_do_not_change_numbers(self, reduce, threads):
        build, run = fluid.BuildStrategy(), fluid.ExecutionStrategy()
        build.reduce_strategy = getattr(fluid.BuildStrategy.ReduceStrategy, reduce)
        build.fuse_all_reduce_ops = build.fuse_all_optimizer_ops = build.fuse_elewise_add_act_ops = True
        run.num_threads, run.num_iteration_per_drop_scope = threads, 1
        found = []
        for how in ({}, {"build_strategy": build, "exec_strategy": run}):
            with fluid.scope_guard(fluid.Scope()):
                train, _, loss = self.executors(**how)
                fluid.global_scope().find_var("fc.w_0").get_tensor().set(np.ones((2, 1), "float32"), fluid.CPUPlace())
                found.append([train.run([loss], feed={"x": X})[0].tolist() for _ in range(3)])
        assert found[0] == found[1]

    def test_the_gradient_of_the_loss_by_the_user(self):
        build = fluid.BuildStrategy()
        build.gradient_scale_strategy = fluid.BuildStrategy.GradientScaleStrategy.Customized
        train, _, loss = self.executors(build_strategy=build)
        before = weights()
        grads = [np.full([1], g, "float32") for g in (2.0, 3.0)]
        feed = [{"x": x, loss + "@GRAD": g} for x, g in zip((X[:3], X[3:]), grads, strict=True)]
        train.run([loss], feed=feed)
        want = before - 0.1 * (2 * X[:3].mean(0) + 3 * X[3:].mean(0))[:, None]
        np.testing.assert_allclose(weights(), want, rtol=1e-5)


def sizes(exe, feed):
    """The number of samples of each place."""
    parts = exe._exe.run(exe._compiled_program, feed=feed, fetch_list=["fc.tmp_0"], return_merged=False)
    return [len(part) for part in parts[0]]
