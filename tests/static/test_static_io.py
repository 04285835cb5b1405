"""Saving and loading of Programs and their variables."""

from __future__ import annotations

import os
import pickle

import numpy as np
import paddle.fluid as fluid
import pytest
from paddle.framework import safe_pickle
from paddle.framework.scope import scope_guard

layers = fluid.layers
ARRAY = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)


@pytest.fixture
def net(static):
    x = static.data("x", [None, 3])
    y = layers.fc(x, 2, act="softmax")
    exe = static.Executor()
    exe.run(static.default_startup_program())
    (want,) = exe.run(feed={"x": ARRAY}, fetch_list=[y])
    return exe, x, y, want


@pytest.mark.parametrize("params", [None, "all"])
def test_inference_model_of_fluid(static, net, tmp_path, params):
    exe, _, y, want = net
    names = fluid.io.save_inference_model(str(tmp_path), ["x"], [y], exe, params_filename=params)
    assert names == ["save_infer_model/scale_0.tmp_0"]
    assert sorted(os.listdir(tmp_path)) == (["__model__", "all"] if params else ["__model__", "fc_0.b_0", "fc_0.w_0"])
    with scope_guard(static.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe, params_filename=params)
        assert feeds == ["x"]
        np.testing.assert_array_equal(exe.run(program, feed={"x": ARRAY}, fetch_list=fetches)[0], want)
    with pytest.raises(ValueError):
        fluid.io.load_inference_model(str(tmp_path / "none"), exe)


def test_inference_model_of_static(static, net, tmp_path):
    exe, x, y, want = net
    prefix = str(tmp_path / "sub" / "model")
    static.save_inference_model(prefix, [x], [y], exe)
    assert sorted(os.listdir(tmp_path / "sub")) == ["model.pdiparams", "model.pdmodel"]
    with scope_guard(static.Scope()):
        program, feeds, fetches = static.load_inference_model(prefix, exe)
        np.testing.assert_array_equal(exe.run(program, feed={"x": ARRAY}, fetch_list=fetches)[0], want)
    for bad in (1, "folder/"):
        with pytest.raises(ValueError):
            static.save_inference_model(bad, [x], [y], exe)
    with pytest.raises(ValueError):
        static.save_inference_model(prefix, ["x"], [y], exe)
    with pytest.raises(ValueError):
        static.load_inference_model(prefix, exe, pserver_endpoints=[])


def test_in_memory(static, net):
    exe, x, y, want = net
    program = static.deserialize_program(static.serialize_program([x], [y]))
    data = static.serialize_persistables([x], [y], exe)
    with scope_guard(static.Scope()):
        static.deserialize_persistables(program, data, exe)
        fetches = [program.global_block().var(n) for n in program.desc.get_fetch_target_names()]
        np.testing.assert_array_equal(exe.run(program, feed={"x": ARRAY}, fetch_list=fetches)[0], want)


def test_state(static, net, tmp_path):
    exe, _, y, want = net
    prefix = str(tmp_path / "state")
    static.save(static.default_main_program(), prefix)
    assert sorted(os.listdir(tmp_path)) == ["state.pdmodel", "state.pdopt", "state.pdparams"]
    state = static.load_program_state(prefix)
    assert {k: v.shape for k, v in state.items()} == {"fc_0.w_0": (3, 2), "fc_0.b_0": (2,)}
    with scope_guard(static.Scope()):
        static.load(static.default_main_program(), prefix, exe)
        np.testing.assert_array_equal(exe.run(feed={"x": ARRAY}, fetch_list=[y])[0], want)
    static.set_program_state(static.default_main_program(), {k: v * 0 for k, v in state.items()})
    np.testing.assert_allclose(exe.run(feed={"x": ARRAY}, fetch_list=[y])[0], 0.5)
    with pytest.raises(AssertionError):
        static.set_program_state(static.default_main_program(), {"fc_0.w_0": np.zeros((3, 3), "float32")})
    with pytest.warns(UserWarning, match="stranger"):
        static.set_program_state(static.default_main_program(), {"stranger": np.zeros(1)})
    with pytest.raises(AssertionError):
        static.load_program_state(str(tmp_path / "none"))
    with pytest.raises(ValueError):
        static.save(static.default_main_program(), prefix, pickle_protocol=5)


@pytest.mark.parametrize("filename", [None, "all"])
def test_persistables(static, net, tmp_path, filename):
    exe, _, y, want = net
    fluid.io.save_persistables(exe, str(tmp_path), filename=filename)
    with scope_guard(static.Scope()):
        fluid.io.load_persistables(exe, str(tmp_path), filename=filename)
        np.testing.assert_array_equal(exe.run(feed={"x": ARRAY}, fetch_list=[y])[0], want)


def test_large_arrays_in_pieces(monkeypatch):
    from paddle.static import io

    monkeypatch.setattr(io, "_PIECE_BYTES", 16)
    whole = {"a": np.arange(10, dtype="float32").reshape(2, 5), "b": np.zeros(2, "int8")}
    cut = io._unpack_saved_dict(whole, 2)
    assert set(cut) == {"a@@.0", "a@@.1", "a@@.2", "b", "UnpackBigParamInfor@@"}
    again = io._pack_loaded_dict(cut)
    np.testing.assert_array_equal(again["a"], whole["a"])
    assert set(again) == {"a", "b"}


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/evil",)


def test_loading_runs_no_code(tmp_path):
    with pytest.raises(pickle.UnpicklingError):
        safe_pickle.loads(pickle.dumps(Evil()))
    for protocol in range(2, 6):
        data = {"a": np.ones((2, 3)), "n": 1, "s": "x", "f": np.float32(2)}
        again = safe_pickle.loads(pickle.dumps(data, protocol))
        np.testing.assert_array_equal(again["a"], data["a"])
        assert again["f"] == 2
