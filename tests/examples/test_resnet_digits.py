"""The example of a ResNet trained by paddle.Model, as a function and as a script."""

import importlib
import os
import subprocess
import sys

import numpy as np
import paddle
import pytest

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
pytest.importorskip("sklearn")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("resnet_digits")
    for name in ("resnet_digits", "digits"):
        sys.modules.pop(name, None)


def test_it_learns(example, tmp_path):
    (images, labels), held_out = example.load_data()
    assert images.shape[1:] == (1, 32, 32) and images.dtype == np.float32
    model = example.train((images[:960], labels[:960]), held_out, 3, str(tmp_path), batch=32, verbose=0)
    accuracy = example.test(model, held_out)
    assert accuracy > 0.4  # chance gives 0.1; the whole training 0.97
    assert sorted(os.listdir(tmp_path)) == ["0.pdopt", "0.pdparams", "final.pdopt", "final.pdparams", "logs"]
    again = example.make_model(1)
    again.load(str(tmp_path / "final"), reset_optimizer=True)
    assert example.test(again, held_out) == accuracy


def test_as_a_script(tmp_path):
    script = os.path.join(FOLDER, "resnet_digits.py")
    command = [sys.executable, "-W", "ignore", script, "--epochs", "1", "--out", str(tmp_path / "out")]
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(paddle.__file__))}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Total params: " in done.stdout and "step 45/45 [====" in done.stdout and "Eval samples: 360" in done.stdout
    assert done.stdout.endswith(" of 360 held-out digits right\n")
    (log,) = os.listdir(tmp_path / "out" / "logs")
    assert log.startswith("events.out.tfevents.")
