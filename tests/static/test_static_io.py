"""Saving and loading of Programs and their variables."""

from __future__ import annotations

import os
import pickle
import threading
from collections import namedtuple

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle._persistence import safe_pickle
from paddle._programs.scope import scope_guard

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
    with pytest.warns(UserWarning, match="unknown"):
        static.set_program_state(static.default_main_program(), {"unknown": np.zeros(1)})
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
    from paddle._persistence import pieces
    from paddle.static import io

    monkeypatch.setattr(pieces, "_PIECE_BYTES", 16)
    whole = {"a": np.arange(10, dtype="float32").reshape(2, 5), "b": np.zeros(2, "int8")}
    cut = io._unpack_saved_dict(whole, 2)
    assert set(cut) == {"a@@.0", "a@@.1", "a@@.2", "b", "UnpackBigParamInfor@@"}
    again = io._pack_loaded_dict(cut)
    np.testing.assert_array_equal(again["a"], whole["a"])
    assert set(again) == {"a", "b"}


class Evil:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


EVIL = {
    "code": (os.system, "touch /tmp/evil"),
    "an array of addresses": (np.ndarray, (1,), "O", b"A" * 8),
    "a type with fields": (np.dtype, "V8"),
    "a number of addresses": (type(np.float32(0)).__reduce__(np.float32(0))[0], np.dtype("O"), b"A" * 8),
    "a vast list": (list, range(10**13)),
    "vast bytes": (bytearray, 10**13),
}


@pytest.mark.parametrize("name", EVIL)
def test_loading_runs_no_code(name):
    for protocol in range(2, 6):
        with pytest.raises(pickle.UnpicklingError):
            safe_pickle.loads(pickle.dumps(Evil(*EVIL[name]), protocol))


def test_states_round_trip():
    data = {
        "a": np.ones((2, 3)),
        "n": 1,
        "s": "x",
        "f": np.float32(2),
        "empty": np.zeros((0, 3), "float32"),
        "nothing": b"",
        "bytes": b"\xff",
        "set": {1},
        "text": np.array(["a", "bc"]),
        "day": np.array(["2020-01-01"], "M8[D]"),
        "objects": np.array([1, "a"], object),
        "columns": np.asfortranarray(np.eye(2, 3)),
        "swapped": np.arange(3, dtype=">i4"),
        "range": range(3),
        "complex": 1 + 2j,
    }
    for protocol in range(2, 6):
        again = safe_pickle.loads(pickle.dumps(data, protocol))
        assert again.keys() == data.keys()
        for key, value in data.items():
            np.testing.assert_array_equal(again[key], value)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_states(seed, tmp_path):
    draw = np.random.RandomState(seed)
    paddle.save({"w": paddle.ones([3, 4]), "b": {"c": 1.5}, "n": [1, "a", None]}, str(tmp_path / "good"), 2 + seed)
    good = (tmp_path / "good").read_bytes()
    bad = tmp_path / "bad.pdparams"
    for _ in range(200):
        data = bytearray(good[: draw.randint(1, len(good))] if draw.rand() < 0.3 else good)
        for at in draw.randint(0, len(data), draw.randint(1, 4)):
            data[at] = draw.choice([0, 255, draw.randint(256)])
        bad.write_bytes(data)
        try:
            paddle.load(str(bad))
        except (pickle.UnpicklingError, EOFError) as error:
            assert "bad.pdparams" in str(error)


def test_pairs_of_a_name_and_an_array(tmp_path):
    ours, newer = str(tmp_path / "ours"), str(tmp_path / "newer")
    pair = ("x", np.ones(2))
    paddle.save({"pair": pair}, ours)
    assert paddle.load(ours)["pair"][0] == "x"
    with open(newer, "wb") as file:
        pickle.dump({"tensors": [pair, {"a": pair}]}, file)
    tensors = paddle.load(newer)["tensors"]
    np.testing.assert_array_equal(tensors[0], pair[1])
    np.testing.assert_array_equal(tensors[1]["a"], pair[1])


def test_save_refuses_what_load_refuses(tmp_path):
    path = str(tmp_path / "x")
    paddle.save({"a": 1}, path)
    for value in (tmp_path, paddle.nn.Linear(1, 1), print):
        with pytest.raises(TypeError, match=r"obj\['state'\]\[1\] is a"):
            paddle.save({"state": [0, value]}, path)
    assert paddle.load(path) == {"a": 1}
    paddle.save({"pair": namedtuple("Pair", "a b")(1, 2)}, path)
    assert paddle.load(path) == {"pair": (1, 2)}


def test_save_through_links_and_into_pipes(tmp_path):
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / "real")
    paddle.save({"a": 1}, str(link))
    assert link.is_symlink() and paddle.load(str(tmp_path / "real")) == {"a": 1}
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    paddle.save({"a": 1}, str(pipe))
    reader.join()
    assert safe_pickle.loads(got[0])["a"] == 1 and pipe.is_fifo()
    assert {p.name for p in tmp_path.iterdir()} == {"link", "real", "pipe"}


def test_save_in_threads(tmp_path):
    path, errors = str(tmp_path / "x"), []

    def work():
        try:
            for _ in range(20):
                paddle.save({"a": np.ones(1000)}, path)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors and os.listdir(tmp_path) == ["x"]


def test_paddle_load_reads_inference_models(static, tmp_path):
    x = static.data("x", [None, 2])
    y = static.nn.fc(x, 3)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    names = [p.name for p in static.default_main_program().all_parameters()]
    values = {n: np.array(static.global_scope().find_var(n).get_tensor()) for n in names}
    old = paddle.fluid.io.save_inference_model
    for kind, files in enumerate(
        [{}, {"model_filename": "m"}, {"params_filename": "p"}, {"model_filename": "m", "params_filename": "p"}]
    ):
        folder = str(tmp_path / str(kind))
        old(folder, ["x"], [y], exe, **files)
        for found in (paddle.load(folder, **files), paddle.fluid.load_dygraph(folder, **files)[0]):
            assert set(found) == set(values)
            assert all((found[n] == values[n]).all() for n in names)
    static.save_inference_model(str(tmp_path / "new"), [x], [y], exe)
    found = paddle.load(str(tmp_path / "new"))
    assert set(found) == set(values) and all((found[n] == values[n]).all() for n in names)
    static.save(static.default_main_program(), str(tmp_path / "state"))
    assert set(paddle.load(str(tmp_path / "state"))) == set(values)
