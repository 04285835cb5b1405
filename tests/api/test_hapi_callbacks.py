"""The callbacks of paddle.Model."""

import os
import struct

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.hapi.event_file import EventFile, crc32c
from paddle.hapi.logger import setup_logger


class Ones(paddle.io.Dataset):
    def __getitem__(self, index):
        return np.ones([3], "float32"), np.zeros([1], "float32")

    def __len__(self):
        return 8


def made(optimizer=None, rate=0.1):
    paddle.seed(1)
    net = nn.Linear(3, 1)
    model = paddle.Model(net)
    model.prepare(paddle.optimizer.SGD(rate, parameters=net.parameters()), nn.MSELoss())
    return model


def test_order_of_events():
    class Recorder(paddle.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.events = []

        def __getattribute__(self, name):
            if name.startswith("on_"):
                self.events.append(name[3:])
            return super().__getattribute__(name)

    recorder, model = Recorder(), made()
    model.fit(Ones(), Ones(), batch_size=4, epochs=1, verbose=0, callbacks=[recorder])
    batch = ["{0}_batch_begin", "{0}_batch_end"] * 2
    assert recorder.events == [
        "train_begin",
        "epoch_begin",
        *(e.format("train") for e in batch),
        "epoch_end",
        "eval_begin",
        *(e.format("eval") for e in batch),
        "eval_end",
        "train_end",
    ]
    assert recorder.model is model
    assert recorder.params == {"batch_size": 4, "epochs": 1, "steps": 2, "verbose": 0, "metrics": ["loss"]}
    recorder.events.clear()
    model.predict(Ones(), batch_size=8, callbacks=recorder)
    assert recorder.events == ["predict_begin", "predict_batch_begin", "predict_batch_end", "predict_end"]


def test_checkpoints(tmp_path, capsys):
    made().fit(Ones(), batch_size=8, epochs=3, save_dir=str(tmp_path), save_freq=2, verbose=0)
    assert sorted(os.listdir(tmp_path)) == ["0.pdparams", "2.pdparams", "final.pdparams"]
    assert f"save checkpoint at {tmp_path}/final" in capsys.readouterr().out


@pytest.mark.parametrize(("by_step", "by_epoch", "steps"), [(True, False, 6), (False, True, 3), (False, False, 0)])
def test_learning_rate(by_step, by_epoch, steps):
    rate = paddle.optimizer.lr.ExponentialDecay(1e-3, 0.5)
    callback = paddle.callbacks.LRScheduler(by_step=by_step, by_epoch=by_epoch)
    made(rate=rate).fit(Ones(), batch_size=4, epochs=3, verbose=0, callbacks=callback)
    assert rate.last_epoch == steps
    with pytest.raises(ValueError, match="not both"):
        paddle.callbacks.LRScheduler(True, True)


class Scripted(paddle.callbacks.EarlyStopping):
    """Reads given values instead of those of the evaluation."""

    values: list

    def on_eval_end(self, logs=None):
        super().on_eval_end({self.monitor: self.values.pop(0)})


@pytest.mark.parametrize(
    ("arguments", "values", "left"),
    [
        ({"patience": 2}, [5, 4, 4, 4, 3], 1),
        ({"patience": 1, "min_delta": 2}, [9, 6, 5, 1], 1),
        ({"monitor": "acc", "patience": 1}, [0.1, 0.3, 0.2, 0.9], 1),
        ({"monitor": "acc", "mode": "min", "patience": 1}, [0.1, 0.3, 0.2], 1),
        ({"patience": 1, "baseline": 3}, [[5], [4], [2]], 2),
    ],
)
def test_early_stopping(arguments, values, left, capsys):
    stop = Scripted(save_best_model=False, **arguments)
    stop.values = values
    model = made()
    epochs = len(values)
    model.fit(Ones(), Ones(), batch_size=8, epochs=epochs, verbose=0, callbacks=stop)
    assert len(stop.values) == left and model.stop_training
    assert f"Epoch {epochs - left}: Early stopping." in capsys.readouterr().out


def test_early_stopping_keeps_the_best(tmp_path):
    stop = paddle.callbacks.EarlyStopping(patience=3)
    made(rate=0.01).fit(Ones(), Ones(), batch_size=8, epochs=2, verbose=0, save_dir=str(tmp_path), callbacks=stop)
    assert (tmp_path / "best_model.pdparams").exists()
    with pytest.warns(UserWarning, match="needs validation data"):
        made().fit(Ones(), batch_size=8, verbose=0, callbacks=paddle.callbacks.EarlyStopping())
    with pytest.warns(UserWarning, match="Monitor of EarlyStopping should be loss or metric name"):
        made().fit(Ones(), Ones(), batch_size=8, verbose=0, callbacks=paddle.callbacks.EarlyStopping("f1"))
    with pytest.warns(UserWarning, match="auto is used"):
        paddle.callbacks.EarlyStopping(mode="best")


@pytest.mark.parametrize("static", [False, True])
def test_reduce_on_plateau(static, capsys):
    if static:
        paddle.enable_static()
    try:
        guard = paddle.static.program_guard(paddle.static.Program(), paddle.static.Program())
        with guard, paddle.static.scope_guard(paddle.static.Scope()):
            net = nn.Linear(3, 1)
            spec = paddle.static.InputSpec
            model = paddle.Model(net, spec([None, 3], "float32", "x"), spec([None, 1], "float32", "y"))
            optimizer = paddle.optimizer.SGD(1e-12, parameters=net.parameters())
            model.prepare(optimizer, nn.MSELoss())
            slower = paddle.callbacks.ReduceLROnPlateau(factor=0.5, patience=2, cooldown=1, min_lr=2e-13)
            model.fit(Ones(), Ones(), batch_size=8, epochs=9, verbose=0, callbacks=slower)
            # the first value is the best; the rate then falls at every third: one evaluation after a fall is ignored
            assert optimizer._learning_rate == pytest.approx(2e-13)
            if static:
                (rate,) = {v.name for v in optimizer._learning_rate_map.values()}
                found = np.array(paddle.static.global_scope().find_var(rate).get_tensor())
                np.testing.assert_allclose(found, [2e-13])
    finally:
        paddle.disable_static()
    assert "Epoch 3: ReduceLROnPlateau reducing learning rate to 5e-13." in capsys.readouterr().out


def test_reduce_on_plateau_errors():
    with pytest.raises(ValueError, match="factor >= 1.0"):
        paddle.callbacks.ReduceLROnPlateau(factor=1.5)
    model = made(rate=paddle.optimizer.lr.StepDecay(0.1, 3))
    with pytest.warns(UserWarning, match="requires a float learning rate"):
        model.fit(Ones(), Ones(), batch_size=8, verbose=0, callbacks=paddle.callbacks.ReduceLROnPlateau())


# --------------------------------------------------------------------------------------------- event files


def mask(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def records(content):
    """The records of an event file, their checksums compared."""
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        data, rest = content[12 : 12 + length], content[12 + length :]
        assert struct.unpack("<I", content[8:12]) == (mask(content[:8]),)
        assert struct.unpack("<I", rest[:4]) == (mask(data),)
        yield data
        content = rest[4:]


def fields(data):
    """(number, value) of the fields of a protobuf message."""

    def varint():
        nonlocal data
        value = shift = 0
        while True:
            byte, data = data[0], data[1:]
            value, shift = value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while data:
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        value, data = data[:size], data[size:]
        yield key >> 3, struct.unpack("<d" if key & 7 == 1 else "<f", value)[0] if key & 7 in (1, 5) else value


def scalars(folder):
    """[(tag, step, value)] of the one event file in a folder."""
    (name,) = [name for name in os.listdir(folder) if name.startswith("events.out.tfevents.")]
    with open(os.path.join(folder, name), "rb") as file:
        events = [dict(fields(r)) for r in records(file.read())]
    assert events[0][3] == b"brain.Event:2" and all(e[1] > 1.6e9 for e in events)
    found = []
    for event in events[1:]:
        value = dict(fields(dict(fields(event[5]))[1]))
        found.append((value[1].decode(), event[2], value[2]))
    return found


def test_checksum():
    # the check value of CRC-32C
    assert crc32c(b"123456789") == 0xE3069283


def test_event_file(tmp_path):
    file = EventFile(str(tmp_path / "new" / "folder"))
    written = [("loss", 0, 1.5), ("päddle/acc", 300, -0.25), ("big", 2**40, float("inf"))]
    for tag, step, value in written:
        file.add_scalar(tag, value, step)
    file.add_scalar("too big for a float", 1e300, 1)
    file.close()
    found = scalars(tmp_path / "new" / "folder")
    assert found[:3] == written and found[3][2] == float("inf")


def test_visualdl(tmp_path):
    model = made()
    log = paddle.callbacks.VisualDL(str(tmp_path / "fit"))
    model.fit(Ones(), Ones(), batch_size=4, epochs=2, verbose=0, callbacks=log)
    found = scalars(tmp_path / "fit")
    assert [(tag, step) for tag, step, _ in found] == [
        ("train/loss", 1),
        ("train/loss", 2),
        ("eval/loss", 0),
        ("train/loss", 3),
        ("train/loss", 4),
        ("eval/loss", 1),
    ]
    log = paddle.callbacks.VisualDL(str(tmp_path / "evaluate"))
    loss = model.evaluate(Ones(), batch_size=8, verbose=0, callbacks=log)["loss"][0]
    assert scalars(tmp_path / "evaluate") == [("eval/loss", 0, float(loss))]


def test_logger(tmp_path):
    logger = setup_logger(str(tmp_path / "folder"), name="hapi_test")
    logger.info("it works")
    assert " - hapi_test - INFO - it works\n" in (tmp_path / "folder" / "log.txt").read_text()
    for handler in logger.handlers:
        handler.close()


def test_checksums_of_event_files():
    from paddle.hapi.event_file import crc32c

    def by_bits(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        return crc ^ 0xFFFFFFFF

    assert crc32c(b"") == 0 and crc32c(b"123456789") == 0xE3069283
    for n in (1, 3, 4, 5, 1023, 1024, 1025, 1026, 1030, 2500):
        data = np.random.RandomState(n).bytes(n)
        assert crc32c(data) == by_bits(data), n


class Fake:
    """A LogWriter that notes what it gets."""

    notes: list = []

    def __init__(self, logdir):
        self.notes.append(("open", logdir))

    def __getattr__(self, name):
        return lambda **given: self.notes.append((name, given))


@pytest.fixture
def own_programs():
    """Default Programs without variables of other tests."""
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield


@pytest.mark.parametrize("static", [False, True])
def test_visualdl_writes_histograms_images_and_graphs(tmp_path, monkeypatch, static, own_programs):
    import sys
    import types

    Fake.notes = []
    monkeypatch.setitem(sys.modules, "visualdl", types.SimpleNamespace(LogWriter=Fake))
    if static:
        paddle.enable_static()
    try:
        net = paddle.nn.Linear(2, 1)
        model = paddle.Model(
            net, paddle.static.InputSpec([None, 2], "float32", "x"), paddle.static.InputSpec([None, 1], "float32", "y")
        )
        model.prepare(paddle.optimizer.SGD(0.1, parameters=net.parameters()), paddle.nn.MSELoss())
        log = paddle.callbacks.VisualDL(str(tmp_path), histograms=True, graph=True)

        class Picture(paddle.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                log.add_image("picture", np.eye(4, dtype="float32"), epoch)

        model.fit(Pairs(), batch_size=2, epochs=2, verbose=0, callbacks=[Picture(), log])
    finally:
        paddle.disable_static()
    (path,) = tmp_path.glob("events.out.tfevents.*")
    content = path.read_bytes()
    for text in (b"train/loss", b"picture", b"\x89PNG", net.weight.name.encode(), b"Placeholder", b"Parameter"):
        assert text in content
    assert b"matmul" in content or b"mul" in content
    assert {name for name, _ in Fake.notes} == {"open", "add_scalar", "add_histogram", "add_image", "close"}
    assert [g["step"] for name, g in Fake.notes if name == "add_image"] == [0, 1]


class Pairs(paddle.io.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return np.float32([i, 1]), np.float32([i])


def test_tensorboard_reads_the_files(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from paddle.hapi.event_file import EventFile

    file = EventFile(str(tmp_path))
    file.add_scalar("loss", 0.5, 3)
    file.add_histogram("weights", np.arange(10.0), 1)
    file.add_image("image", np.zeros((2, 3, 3), "uint8"), 1)
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            paddle.tanh(paddle.static.data("x", [1], "float32"))
    finally:
        paddle.disable_static()
    file.add_graph(program)
    file.close()
    events = reader.EventAccumulator(str(tmp_path), size_guidance={"histograms": 0, "images": 0})
    events.Reload()
    tags = events.Tags()
    assert tags["scalars"] == ["loss"] and tags["histograms"] == ["weights"] and tags["images"] == ["image"]
    assert events.Histograms("weights")[0].histogram_value.num == 10
    assert [(n.name, list(n.input)) for n in events.Graph().node] == [("x", []), ("tanh_0", ["x"])]
