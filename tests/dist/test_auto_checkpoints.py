"""Automatic checkpoints: a job that is killed at any epoch resumes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from paddle.distributed.fleet.utils import LocalFS
from paddle.fluid.incubate.checkpoint.checkpoint_saver import CheckpointSaver, SerializableBase

SCRIPT = """
import json, os, sys
import numpy as np
import paddle
from paddle import fluid
import paddle.fluid.incubate.checkpoint.auto_checkpoint as acp

paddle.enable_static()
dies, out = int(sys.argv[1]), sys.argv[2]
x = fluid.data("x", [None, 3])
weights = fluid.initializer.NumpyArrayInitializer(np.float32([[1], [2], [3]]))
y = fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(initializer=weights))
loss = fluid.layers.reduce_mean(fluid.layers.square(y))
fluid.optimizer.Adam(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
for epoch in acp.train_epoch_range(8, 0):
    for step in range(3):
        feed = {"x": np.random.RandomState(10 * epoch + step).rand(4, 3).astype("float32")}
        (value,) = exe.run(feed=feed, fetch_list=[loss])
    with open(out, "a") as f:
        f.write(json.dumps([epoch, float(np.asarray(value).item())]) + "\\n")
    if epoch == dies:
        os._exit(9)
"""


def run(folder: Path, name: str, dies: int) -> int:
    asked = {
        "PADDLE_RUNNING_ENV": "PADDLE_EDL_AUTO_CHECKPOINT",
        "PADDLE_JOB_ID": name,
        "PADDLE_EDL_HDFS_CHECKPOINT_PATH": str(folder / "checkpoints"),
    }
    command = [sys.executable, "-c", SCRIPT, str(dies), str(folder / name)]
    return subprocess.run(command, env=os.environ | asked, cwd=folder, timeout=100, check=False).returncode


def test_a_killed_job_resumes(tmp_path):
    assert run(tmp_path, "whole", -1) == 0
    whole = [json.loads(line) for line in (tmp_path / "whole").read_text().splitlines()]
    assert [epoch for epoch, _ in whole] == list(range(8))
    first = random.randrange(0, 4)
    for dies in (first, random.randrange(first + 1, 8)):
        assert run(tmp_path, "killed", dies) == 9
    assert run(tmp_path, "killed", -1) == 0
    # the interrupted epoch is trained again, from the same values
    found = dict(json.loads(line) for line in (tmp_path / "killed").read_text().splitlines())
    assert found == dict(whole)


class Number(SerializableBase):
    def __init__(self, value: int) -> None:
        self.value = value

    def serialize(self, path: str) -> None:
        Path(path, "number").write_text(str(self.value))

    def deserialize(self, path: str) -> None:
        self.value = int(Path(path, "number").read_text())


class Far(LocalFS):
    """A file system that needs uploads and downloads."""

    def need_upload_download(self) -> bool:
        return True

    def upload(self, local_path: str, fs_path: str) -> None:
        self.rename(local_path, fs_path)

    def download(self, fs_path: str, local_path: str) -> None:
        os.system(f"cp -r '{fs_path}' '{local_path}'")


@pytest.mark.parametrize("fs", [LocalFS(), Far()])
def test_checkpoints_by_number(tmp_path, fs):
    saver, folder, cache = CheckpointSaver(fs), str(tmp_path / "here"), str(tmp_path / "cache")
    assert saver.load_checkpoint(folder, [], None, cache) is None
    with pytest.raises(AssertionError, match="no checkpoint"):
        saver.load_checkpoint(folder, [], None, cache, ignore_empty=False)
    for value in range(4):
        assert saver.save_checkpoint(folder, [Number(value)], 0, cache)[1] == value
    # the remains of a process killed while writing
    (tmp_path / "here" / "__paddle_checkpoint__.4.tmp").mkdir()
    found = Number(-1)
    saver.load_checkpoint(folder, [found], 0, cache)
    assert found.value == 3
    saver.load_checkpoint(folder, [found], 0, cache, checkpoint_no=1)
    assert found.value == 1
    saver.clean_redundant_checkpoints(folder, [1, 3])
    assert saver.get_checkpoint_no(folder) == [1, 3]
    saver.clean_redundant_checkpoints(folder)
    assert saver.get_checkpoint_no(folder) == [3]
    assert saver.save_checkpoint(folder, [Number(9)], 0, cache)[1] == 4
    assert np.array_equal(saver.get_checkpoint_no(folder), [3, 4])
