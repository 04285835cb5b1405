"""Executor.run: feeding, fetching, pruning, compiled programs."""

from __future__ import annotations

import numpy as np
import paddle.fluid as fluid
import pytest
from paddle._programs import runners as registry
from paddle.static import runners

layers = fluid.layers
ONES = np.ones((2, 3), "float32")


@pytest.fixture
def exe(static):
    return static.Executor(fluid.CPUPlace())


def test_feeds_of_every_kind(static, exe):
    y = static.data("x", [None, 3]) * 2.0
    tensor = fluid.LoDTensor()
    tensor.set(ONES, fluid.CPUPlace())
    for value in (ONES, ONES.tolist(), tensor):
        (out,) = exe.run(feed={"x": value}, fetch_list=[y])
        np.testing.assert_array_equal(out, 2 * ONES)
    (out,) = exe.run(feed=[{"x": ONES}], fetch_list=y.name, return_numpy=False)
    assert isinstance(out, fluid.LoDTensor) and out.shape() == [2, 3]


def test_feeds_are_checked_at_every_run(static, exe):
    y = static.data("x", [None, 3]) * 2.0
    for _ in range(2):
        exe.run(feed={"x": ONES}, fetch_list=[y])
        for wrong in (ONES[:, :2], ONES.astype("float64")):
            with pytest.raises(ValueError, match="'x'"):
                exe.run(feed={"x": wrong}, fetch_list=[y])
    with pytest.raises(TypeError):
        exe.run(feed={"x": [[1.0], [1.0, 2.0]]}, fetch_list=[y])
    with pytest.raises(TypeError):
        exe.run(feed=1, fetch_list=[y])
    with pytest.warns(UserWarning, match="other"):
        exe.run(feed={"x": ONES, "other": ONES}, fetch_list=[y])


def test_fetches(static, exe):
    x = static.data("x", [None, 3])
    y = x + 1.0
    a, b, c = exe.run(feed={"x": ONES}, fetch_list=[y, x, y.name])
    np.testing.assert_array_equal(a, c)
    np.testing.assert_array_equal(b, ONES)
    with pytest.raises(TypeError):
        exe.run(feed={"x": ONES}, fetch_list=[1])
    with pytest.raises(AssertionError):
        exe.run(feed={"x": ONES}, fetch_list=1)
    with pytest.raises(Exception):  # noqa: B017
        exe.run(feed={"x": ONES}, fetch_list=["never made"])


def test_lod_cannot_be_an_array(static, exe):
    y = layers.scale(static.data("x", [None, 1], lod_level=1), 2.0)
    tensor = fluid.create_lod_tensor(np.ones((5, 1), "float32"), [[2, 3]], fluid.CPUPlace())
    with pytest.raises(RuntimeError):
        exe.run(feed={"x": tensor}, fetch_list=[y])
    (out,) = exe.run(feed={"x": tensor}, fetch_list=[y], return_numpy=False)
    assert out.recursive_sequence_lengths() == [[2, 3]]


def test_a_program_that_grows_is_prepared_again(static, exe):
    x = static.data("x", [None, 3])
    y = x + 1.0
    exe.run(feed={"x": ONES}, fetch_list=[y])
    z = y * 3.0
    (out,) = exe.run(feed={"x": ONES}, fetch_list=[z])
    np.testing.assert_array_equal(out, 6 * ONES)


def test_attribute_changed_between_runs(static, exe):
    x = static.data("x", [None, 3])
    y = layers.scale(x, 2.0)
    exe.run(feed={"x": ONES}, fetch_list=[y])
    y.op._set_attr("scale", 5.0)
    (out,) = exe.run(feed={"x": ONES}, fetch_list=[y])
    np.testing.assert_array_equal(out, 5 * ONES)


def test_prune(static, exe):
    x, other = static.data("x", [None, 3]), static.data("other", [None, 3])
    y, z = x + 1.0, other + 1.0
    (out,) = exe.run(feed={"x": ONES}, fetch_list=[y], use_prune=True)
    np.testing.assert_array_equal(out, 2 * ONES)
    with pytest.raises(ValueError, match="other"):
        exe.run(feed={"x": ONES}, fetch_list=[z], use_prune=True)


def test_scopes_are_independent(static, exe):
    var = layers.create_global_var([1], 3.0, "float32", persistable=True)
    scopes = [static.Scope(), static.Scope()]
    for scope in scopes:
        exe.run(static.default_startup_program(), scope=scope)
    layers.increment(var)
    exe.run(scope=scopes[0])
    got = [np.array(s.find_var(var.name).get_tensor())[0] for s in scopes]
    assert got == [4.0, 3.0]


def test_closed(static, exe):
    exe.close()
    with pytest.raises(RuntimeError):
        exe.run(fetch_list=[])


def test_compiled(static, exe):
    x = static.data("x", [None, 3])
    y = x + 1.0
    compiled = static.CompiledProgram(static.default_main_program()).with_data_parallel(places=fluid.CPUPlace())
    (out,) = exe.run(compiled, feed={"x": ONES}, fetch_list=[y])
    np.testing.assert_array_equal(out, 2 * ONES)
    several = static.CompiledProgram(static.default_main_program()).with_data_parallel(places=[fluid.CPUPlace()] * 2)
    (out,) = exe.run(several, feed={"x": ONES}, fetch_list=[y])
    np.testing.assert_array_equal(out, 2 * ONES)
    with pytest.raises(TypeError):
        static.CompiledProgram(1)
    strategy = static.BuildStrategy()
    strategy.enable_inplace = False
    with pytest.raises(AttributeError):
        strategy.no_such_option = True
    with pytest.raises(TypeError):
        strategy.enable_inplace = "yes"


def test_wrong_programs(static, exe):
    for call in (exe.train_from_dataset, exe.infer_from_dataset):
        with pytest.raises(RuntimeError, match="dataset is need and should be initialized"):
            call()
    with pytest.raises(TypeError):
        exe.run("program")


@pytest.mark.filterwarnings("ignore:fluid.layers.py_reader is deprecated")
def test_py_reader(static, exe):
    reader = layers.py_reader(2, [[-1, 3], [-1, 1]], ["float32", "int64"])
    x, y = layers.read_file(reader)
    out = layers.mean(x)
    reader.decorate_paddle_reader(lambda: ([(ONES[0] * i, [i])] * 4 for i in range(3)))
    exe.run(static.default_startup_program())
    for _ in range(2):
        reader.start()
        got = []
        with pytest.raises(fluid.core.EOFException):
            while True:
                got.append(exe.run(fetch_list=[out])[0].item())
        assert got == [0.0, 1.0, 2.0]
        reader.reset()


@pytest.mark.parametrize("use_prune", [False, True])
def test_attributes_changed_after_a_run(static, exe, use_prune):
    y = layers.scale(static.data("x", [None, 3]), 2.0)
    op = y.op
    for scale in (2.0, 3.0, 2.0):
        op._set_attr("scale", scale)
        (out,) = exe.run(feed={"x": ONES}, fetch_list=[y], use_prune=use_prune)
        np.testing.assert_array_equal(out, scale * ONES)


def test_runs_are_prepared_once(static, exe, monkeypatch):
    y = layers.scale(static.data("x", [None, 3]), 2.0)
    prepared = []
    real = runners.prepare
    monkeypatch.setattr(runners, "prepare", lambda *args: prepared.append(0) or real(*args))
    for use_prune in (False, True):
        for _ in range(3):
            exe.run(feed={"x": ONES}, fetch_list=[y], use_prune=use_prune)
    assert len(prepared) == 2


def test_a_missing_value_is_recognised_by_the_kind_of_the_error(static, exe, monkeypatch):
    """The kind decides, not the text: an error of another kind keeps its message."""
    y = layers.scale(static.data("x", [None, 3]), 2.0)
    with pytest.raises(fluid.core.EnforceNotMet, match="no data was fed for x") as caught:
        exe.run(fetch_list=[y])
    assert caught.value.kind == "NoValue"
    with pytest.raises(fluid.core.EnforceNotMet) as caught:
        exe.run(feed={"x": ONES}, fetch_list=["never made"])
    assert caught.value.kind == "NotFound"

    class Failing:
        def run(self, *_):
            raise fluid.core.EnforceNotMet("the variable holds no value")

    monkeypatch.setattr(runners.core, "Executor", lambda place: Failing())
    with pytest.raises(fluid.core.EnforceNotMet) as caught:
        exe.run(fetch_list=[y, y])
    assert str(caught.value) == "the variable holds no value" and caught.value.kind == ""


def test_a_program_keeps_a_bounded_number_of_prepared_runs(static, exe, monkeypatch):
    monkeypatch.setattr(runners, "MAX_PREPARED_RUNS", 3)
    program, x = static.default_main_program(), static.data("x", [None, 3])
    for i in range(5):
        y = layers.scale(x, float(i))
        exe.run(feed={"x": ONES}, fetch_list=[y])
        assert len(program._prepared_runs) == min(i + 1, 3)
    (out,) = exe.run(feed={"x": ONES}, fetch_list=[y])
    np.testing.assert_array_equal(out, 4 * ONES)


def test_registered_runners(static, exe):
    program = static.Program()
    with pytest.raises(ValueError, match="registered already"):
        registry.register("plain", registry.Runner)
    registry.assign(program, "no such kind")
    with pytest.raises(ValueError, match="'no such kind'"):
        exe.run(program)

    class Recorder(registry.Runner):
        def run(self, executor, request):
            return [self.program is program, self.state, executor is exe, request.feed]

    registry._FACTORIES["recorder"] = Recorder
    try:
        registry.assign(program, "recorder", 7)
        assert exe.run(program, feed={"x": 1}) == [True, 7, True, {"x": 1}]
    finally:
        del registry._FACTORIES["recorder"]


def test_pruning_is_a_method_that_programs_replace_and_happens_once(static, exe, monkeypatch):
    """upstream's test_prune.py counts its calls"""
    calls = []
    real = static.Executor._prune_program
    monkeypatch.setattr(static.Executor, "_prune_program", lambda self, *args: calls.append(1) or real(self, *args))
    y = static.data("x", [None, 3]) * 2.0
    for _ in range(3):
        exe.run(feed={"x": ONES}, fetch_list=[y], use_prune=True)
    assert len(calls) == 1


def test_a_compiled_graph_has_no_program_before_its_first_run(static):
    compiled = fluid.CompiledProgram(fluid.core.Graph(fluid.core.ProgramDesc()))
    with pytest.raises(TypeError, match="no Program before its first run"):
        fluid.io._get_valid_program(compiled)
