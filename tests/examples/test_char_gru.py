"""The example of a GRU that writes characters, as a function and as a script."""

import importlib
import os
import subprocess
import sys

import numpy as np
import paddle
import pytest

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "examples")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("char_gru")
    sys.modules.pop("char_gru", None)


def test_it_learns(example, tmp_path, capsys):
    text, alphabet = example.load_text(60_000)
    assert len(text) == 60_000 and "".join(alphabet).isprintable() is False and "e" in alphabet
    model, losses = example.train(text, alphabet, 60)
    assert losses[0] == pytest.approx(np.log(len(alphabet)), abs=0.3)
    assert np.mean(losses[-5:]) < 2.9
    assert capsys.readouterr().out.startswith("step 60/60  loss ")
    paddle.save(model.state_dict(), str(tmp_path / "writer.pdparams"))
    again = example.Writer(len(alphabet))
    again.set_state_dict(paddle.load(str(tmp_path / "writer.pdparams")))
    np.random.seed(1)
    written = example.write(again, alphabet, "The ", 30)
    np.random.seed(1)
    assert written.startswith("The ") and len(written) == 34
    assert example.write(model, alphabet, "The ", 30) == written


def test_as_a_script(tmp_path):
    script = os.path.join(FOLDER, "char_gru.py")
    command = [sys.executable, script, "--steps", "3", "--out", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(paddle.__file__))}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "step 3/3  loss " in done.stdout and "it writes:\n\nThe " in done.stdout
