"""Interrupted, failing and concurrent saves: a reader gets the old model, the new model, or an error."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle._basics import unique_name
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard

ONES = np.ones((1, 3), "float32")


def model(static, width, value, activation=None):
    """A layer of `width` outputs with all parameters `value`; its output for ones is 3 or 4 times `value`."""
    with unique_name.guard(), guards.program_guard_unchecked(Program(), Program()), scope_guard(static.Scope()):
        x = static.data("x", [None, 3])
        attr = paddle.ParamAttr(initializer=fluid.initializer.Constant(value))
        y = fluid.layers.fc(x, width, param_attr=attr, bias_attr=attr, act=activation)
        exe = static.Executor()
        exe.run(static.default_startup_program())
        yield exe, x, y


def save_static(static, folder, width, value):
    for exe, x, y in model(static, width, value):
        static.save_inference_model(str(folder / "m"), [x], [y], exe)


def save_fluid(static, folder, width, value, params=None):
    for exe, _, y in model(static, width, value):
        fluid.io.save_inference_model(str(folder), ["x"], [y], exe, params_filename=params)


def save_fluid_combined(static, folder, width, value):
    save_fluid(static, folder, width, value, "all")


def save_state(static, folder, width, value):
    for _ in model(static, width, value):
        static.save(static.default_main_program(), str(folder / "m"))


def load_static(static, folder):
    return _run(static, lambda exe: static.load_inference_model(str(folder / "m"), exe))


def load_fluid(static, folder, params=None):
    return _run(static, lambda exe: fluid.io.load_inference_model(str(folder), exe, params_filename=params))


def load_fluid_combined(static, folder):
    return load_fluid(static, folder, "all")


def _run(static, load):
    exe = static.Executor()
    with scope_guard(static.Scope()):
        program, _, fetches = load(exe)
        return exe.run(program, feed={"x": ONES}, fetch_list=fetches)[0].tolist()


def load_state(static, folder):
    state = static.load_program_state(str(folder / "m"))
    return [(ONES @ state["fc_0.w_0"] + state["fc_0.b_0"])[0].tolist()]


FORMS = {
    "static": (save_static, load_static),
    "fluid": (save_fluid, load_fluid),
    "fluid, one file": (save_fluid_combined, load_fluid_combined),
    "state": (save_state, load_state),
}
OLD, NEW = [[4.0, 4.0]], [[8.0, 8.0]]


class Killed(BaseException):
    pass


def steps(monkeypatch, stop_at):
    """Makes all changes of the folder from the `stop_at`th on fail, as after a kill; with None counts the changes."""
    count = [0]

    def stopping(real):
        def call(*args, **kwargs):
            if stop_at is not None and count[0] >= stop_at:
                raise Killed
            count[0] += 1
            return real(*args, **kwargs)

        return call

    for name in ("replace", "rename", "remove", "rmdir", "unlink", "chmod", "fsync"):
        monkeypatch.setattr(os, name, stopping(getattr(os, name)))
    monkeypatch.setattr("shutil.rmtree", stopping(__import__("shutil").rmtree))
    return count


@pytest.mark.parametrize("form", FORMS)
def test_killed_between_any_two_steps(static, tmp_path, form, monkeypatch):
    save, load = FORMS[form]
    save(static, tmp_path, 2, 1.0)
    assert load(static, tmp_path) == OLD
    with monkeypatch.context() as patch:
        count = steps(patch, None)
        save(static, tmp_path, 2, 1.0)
    names = sorted(os.listdir(tmp_path))
    assert not [n for n in names if n.startswith(".")]
    seen = []
    for stop_at in range(count[0]):
        save(static, tmp_path, 2, 1.0)
        with monkeypatch.context() as patch, pytest.raises(Killed):
            steps(patch, stop_at)
            save(static, tmp_path, 2, 2.0)
        seen.append(load(static, tmp_path))
        assert seen[-1] in (OLD, NEW)
    assert OLD in seen and NEW in seen
    assert seen == sorted(seen)  # once the new files are visible they stay visible
    save(static, tmp_path, 2, 1.0)
    assert load(static, tmp_path) == OLD
    assert sorted(os.listdir(tmp_path)) == names


KILLED = """
    import sys
    sys.path.insert(0, {here!r})
    import paddle
    paddle.enable_static()
    import pathlib, test_atomic_saves as t
    save, _ = t.FORMS[{form!r}]
    print("ready", flush=True)
    value = 1.0
    while True:
        value = 3.0 - value
        save(paddle.static, pathlib.Path({folder!r}), 2, value)
"""


@pytest.mark.parametrize("form", FORMS)
def test_killed_at_any_time(static, tmp_path, form):
    save, load = FORMS[form]
    save(static, tmp_path, 2, 1.0)
    names = sorted(os.listdir(tmp_path))
    script = textwrap.dedent(KILLED).format(here=os.path.dirname(__file__), form=form, folder=str(tmp_path))
    for turn in range(4):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
            try:
                assert child.stdout.readline() == b"ready\n"
                time.sleep(0.05 + 0.013 * turn)
                # reads during a save of another process are consistent as well
                assert load(static, tmp_path) in (OLD, NEW)
            finally:  # otherwise a failed test waits for a child that saves for ever
                child.send_signal(signal.SIGKILL)
        assert load(static, tmp_path) in (OLD, NEW)
    save(static, tmp_path, 2, 1.0)
    assert load(static, tmp_path) == OLD and sorted(os.listdir(tmp_path)) == names


@pytest.mark.parametrize("form", FORMS)
def test_full_disk(static, tmp_path, form):
    """A limit on the size of files simulates a full disk."""
    save, load = FORMS[form]
    save(static, tmp_path, 2, 1.0)
    before = {n: (tmp_path / n).read_bytes() for n in os.listdir(tmp_path)}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 10, 200):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises((OSError, RuntimeError)):
                save(static, tmp_path, 2, 2.0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert {n: (tmp_path / n).read_bytes() for n in os.listdir(tmp_path)} == before
    assert load(static, tmp_path) == OLD


@pytest.mark.parametrize("form", ["static", "fluid", "fluid, one file"])
def test_parameters_of_another_model(static, tmp_path, form):
    """A parameter file of another model is refused, and the scope is not changed."""
    save, load = FORMS[form]
    save(static, tmp_path, 2, 1.0)
    (tmp_path / "other").mkdir()
    save(static, tmp_path / "other", 3, 1.0)
    model_name = "m.pdmodel" if form == "static" else "__model__"
    os.replace(tmp_path / "other" / model_name, tmp_path / model_name)
    with pytest.raises(RuntimeError, match=r"has shape \(.*3.*\) in the Program, but \(.*2.*\) in"):
        load(static, tmp_path)


def test_parameters_of_another_number_or_type(static, tmp_path):
    save_static(static, tmp_path, 2, 1.0)
    path = tmp_path / "m.pdiparams"
    good = path.read_bytes()
    path.write_bytes(good + good)
    with pytest.raises(RuntimeError, match="holds 4 tensors, the Program has 2"):
        load_static(static, tmp_path)
    bias = good[: len(good) // 2 + 1]
    for cut in (0, len(bias), len(good) - 1):
        path.write_bytes(good[:cut])
        with pytest.raises((RuntimeError, ValueError)):
            load_static(static, tmp_path)
    # the element type in each description: field 1, float32 (5) becomes int32 (2), of the same size
    assert good.count(b"\x08\x05\x10") == 2
    path.write_bytes(good.replace(b"\x08\x05\x10", b"\x08\x02\x10"))
    with pytest.raises(RuntimeError, match="is float32 in the Program, but int32"):
        load_static(static, tmp_path)


def test_state_of_another_model_changes_nothing(static, tmp_path):
    save_state(static, tmp_path, 3, 1.0)
    for exe, _, y in model(static, 2, 2.0):
        with pytest.raises(RuntimeError, match="has shape"):
            static.load(static.default_main_program(), str(tmp_path / "m"), exe)
        with open(tmp_path / "m.pdparams", "wb") as file:
            pickle.dump({"fc_0.w_0": np.zeros((3, 2), "float32"), "fc_0.b_0": [[[0]] * 2] * 2}, file, 2)
        with pytest.raises(RuntimeError, match="is no array"):
            static.load(static.default_main_program(), str(tmp_path / "m"), exe)
        assert exe.run(feed={"x": ONES}, fetch_list=[y])[0].tolist() == NEW


@pytest.mark.parametrize("form", FORMS)
def test_modes_and_links_stay(static, tmp_path, form):
    save, load = FORMS[form]
    folder, real = tmp_path / "models", tmp_path / "real"
    folder.mkdir()
    real.mkdir()
    save(static, folder, 2, 1.0)
    for name in os.listdir(folder):
        os.chmod(folder / name, 0o600)
    linked = sorted(os.listdir(folder))[0]
    os.rename(folder / linked, real / linked)
    (folder / linked).symlink_to(real / linked)
    save(static, folder, 2, 2.0)
    assert load(static, folder) == NEW
    assert (folder / linked).is_symlink() and os.listdir(real) == [linked]
    assert {stat.S_IMODE(os.stat(folder / n).st_mode) for n in os.listdir(folder)} == {0o600}


def test_single_files_keep_their_mode(static, tmp_path):
    path = tmp_path / "x"
    paddle.save({"a": 1}, str(path))
    os.chmod(path, 0o640)
    paddle.save({"a": 2}, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and paddle.load(str(path)) == {"a": 2}
    for exe, *_ in model(static, 2, 1.0):
        program = Program()
        block = program.global_block()
        var = block.create_var(name="fc_0.w_0", shape=[3, 2], dtype="float32", persistable=True)
        block.append_op(type="save", inputs={"X": [var]}, outputs={}, attrs={"file_path": str(path)})
        exe.run(program)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and os.listdir(tmp_path) == ["x"]


def test_leftovers_of_killed_saves_are_removed(static, tmp_path):
    stale = [f".oar-{i}.part" for i in range(2)]
    for name in stale:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(b"half")
    (tmp_path / "x.123.456.part").write_bytes(b"half")
    for name in ("y.123.456.part", "film.part", "x.part"):  # of another save, or another program
        (tmp_path / name).write_bytes(b"mine")
    paddle.save({"a": 1}, str(tmp_path / "x"))
    assert sorted(os.listdir(tmp_path)) == ["film.part", "x", "x.part", "y.123.456.part"]
    for exe, *_ in model(static, 2, 1.0):
        program = Program()
        block = program.global_block()
        var = block.create_var(name="fc_0.w_0", shape=[3, 2], dtype="float32", persistable=True)
        block.append_op(type="save", inputs={"X": [var]}, outputs={}, attrs={"file_path": str(tmp_path / "y")})
        exe.run(program)
    assert sorted(os.listdir(tmp_path)) == ["film.part", "x", "x.part", "y"]


def test_running_saves_are_not_disturbed(tmp_path):
    from paddle._persistence.atomic_files import saving

    with saving(str(tmp_path)) as files:
        files.write("a", b"1")
        paddle.save({"a": 1}, str(tmp_path / "x"))
        files.write("b", b"2")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "x"]


def test_concurrent_saves_are_atomic(static, tmp_path):
    from paddle._persistence.atomic_files import read_together, saving, where

    errors, stop = [], threading.Event()

    def write(k):
        try:
            for i in range(15):
                with saving(str(tmp_path)) as files:
                    files.write("a", b"%d %d" % (k, i))
                    files.write("b", b"%d %d" % (k, i))
        except Exception as error:  # noqa: BLE001 (reported below)
            errors.append(error)

    def read():
        a, b = str(tmp_path / "a"), str(tmp_path / "b")
        while not stop.is_set():
            try:
                one, two = read_together([a, b], lambda: [open(where(p), "rb").read() for p in (a, b)])
            except FileNotFoundError:
                continue
            except RuntimeError as error:  # never finishes
                errors.append(error)
                continue
            if one != two:
                errors.append((one, two))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(k,)) for k in range(3)]
    [t.start() for t in (*writers, reader)]
    [t.join() for t in writers]
    stop.set()
    reader.join()
    assert not errors and sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_slow_reader_during_a_save_in_a_loop(static, tmp_path):
    """Reading takes longer than a save: without the lock the reader would never see unchanged files."""
    from paddle._persistence.atomic_files import read_together, saving, where

    a, b, stop = str(tmp_path / "a"), str(tmp_path / "b"), threading.Event()

    def write():
        turn = 0
        while not stop.is_set():
            turn += 1
            with saving(str(tmp_path)) as files:
                files.write("a", b"%d" % turn)
                files.write("b", b"%d" % turn)
            time.sleep(0.001)

    def read():
        one = open(where(a), "rb").read()
        time.sleep(0.03)
        return one, open(where(b), "rb").read()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not (os.path.exists(a) and os.path.exists(b)):
            time.sleep(0.001)
        for _ in range(3):
            one, two = read_together([a, b], read)
            assert one == two
    finally:
        stop.set()
        writer.join()


def test_a_moved_file_is_looked_up_again(tmp_path):
    """The file is unchanged, but was missing at its old path."""
    from paddle._persistence.atomic_files import read_together, where

    (tmp_path / ".oar-saved").mkdir()
    (tmp_path / ".oar-saved" / "a").write_bytes(b"1")
    turns = []

    def read():
        at = where(str(tmp_path / "a"))
        turns.append(at)
        if len(turns) == 1:
            os.rename(at, tmp_path / "a")
        return open(at, "rb").read()

    assert read_together([str(tmp_path / "a")], read) == b"1" and len(turns) == 2
    os.remove(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        read_together([str(tmp_path / "a")], read)
    assert len(turns) == 3


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "..", "a/../../x"])
def test_names_stay_inside_the_folder(static, tmp_path, name):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    program, startup = Program(), Program()
    with guards.program_guard_unchecked(program, startup):
        w = fluid.layers.create_parameter([2], "float32", name=name)
        exe = static.Executor()
        exe.run(startup)
        for filename in (None, "one"):
            if filename is None:
                with pytest.raises(ValueError, match="has no place in the folder"):
                    fluid.io.save_params(exe, str(folder), program)
                with pytest.raises(ValueError, match="has no place in the folder"):
                    fluid.io.load_params(exe, str(folder), program)
                with pytest.raises(ValueError, match="has no place in the folder"):
                    fluid.io.save_inference_model(str(folder), [], [w * 2.0], exe, program)
                assert os.listdir(folder) == []
            else:
                fluid.io.save_params(exe, str(folder), program, filename)
                fluid.io.load_params(exe, str(folder), program, filename)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["one"]


def test_names_with_folders(static, tmp_path):
    program, startup = Program(), Program()
    with guards.program_guard_unchecked(program, startup):
        fluid.layers.create_parameter([2], "float32", name="deep/inside/w")
        exe = static.Executor()
        exe.run(startup)
        for _ in range(2):
            fluid.io.save_params(exe, str(tmp_path), program)
        fluid.io.load_params(exe, str(tmp_path), program)
    assert (tmp_path / "deep" / "inside" / "w").is_file() and os.listdir(tmp_path) == ["deep"]


def test_folders_of_other_users_are_not_read(static, tmp_path):
    """In a folder that all users may write, a `.oar-saved` of another user is not read."""
    if os.geteuid() != 0:
        pytest.skip("only root can give folders away")
    paddle.save({"a": 1}, str(tmp_path / "x"))
    (tmp_path / ".oar-saved").mkdir()
    (tmp_path / ".oar-saved" / "x").write_bytes(pickle.dumps({"a": 2}))
    assert paddle.load(str(tmp_path / "x")) == {"a": 2}
    os.chown(tmp_path / ".oar-saved", 12345, 12345)
    assert paddle.load(str(tmp_path / "x")) == {"a": 1}


def shared(depth, leaf=b"N", fill=b"]", put=b"(h%ch%ce", first=b"]"):
    """A pickle of lists that hold the same list twice, `depth` times."""
    out = b"\x80\x02" + b"]q\x00"
    for i in range(depth):
        out += b"]q%c(h%ch%ce" % (i + 1, i, i)
    return out + b"."


def test_shared_objects_are_visited_once(tmp_path):
    path = tmp_path / "x"
    data = shared(25)
    assert len(data) < 300
    path.write_bytes(data)
    start = time.perf_counter()
    state = paddle.load(str(path))
    assert time.perf_counter() - start < 0.5
    assert state[0] is state[1] and state[0][0] is state[0][1]
    path.write_bytes(shared(60))
    value = paddle.load(str(path))
    # loading visits a shared object once as well
    paddle.save({"v": value}, str(path))
    assert paddle.load(str(path))["v"][0][0] is not None


def test_pickles_with_exponential_hashing(tmp_path):
    path = tmp_path / "x"
    twice = b"\x80\x02)q\x00" + b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60))
    for end in (
        b"}(h<K\x01u.",
        b"}h<K\x01s.",
        b"(h<K\x01d.",
        b"\x8f(h<\x90.",
        b"(h<\x91.",
        b"c__builtin__\nset\n](h<e\x85R.",
        b"c__builtin__\ndict\n]h<K\x01\x86a\x85R.",
    ):
        path.write_bytes(twice + end)
        with pytest.raises(pickle.UnpicklingError, match="too many parts"):
            paddle.load(str(path))


def test_recursive_and_deep_lists(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\x80\x02]q\x00h\x00a.")
    state = paddle.load(str(path))
    assert state[0] is state
    path.write_bytes(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".")
    with pytest.raises(pickle.UnpicklingError):
        paddle.load(str(path))
