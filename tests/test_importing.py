"""`import paddle` brings what every program needs; other rooms come when they are first named, from any side."""

from __future__ import annotations

import subprocess
import sys

import pytest

# What a process has no need of until a room that needs it is named.
LATER = """
paddle.amp paddle.distributed paddle.fluid paddle.framework paddle.io paddle.jit paddle.optimizer paddle.static
paddle.utils paddle.vision importlib.resources inspect json logging multiprocessing numpy socket subprocess tempfile
""".split()


def run(program: str) -> str:
    """What a fresh process that runs `program` prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_little_comes_with_the_package() -> None:
    come = run("import sys; had = set(sys.modules); import paddle; print(*set(sys.modules) - had)").split()
    assert not set(come) & set(LATER)


@pytest.mark.parametrize(
    "program, said",
    [
        ("print(float(paddle.ones([1]).numpy()), type(paddle.ones([2]).numpy()).__name__)", "1.0 ndarray"),
        (
            "print(paddle.to_tensor([1, 2]))",
            "Tensor(shape=[2], dtype=int64, place=CPUPlace, stop_gradient=True,\n       [1, 2])",
        ),
        ("paddle.set_default_dtype('float64'); print(paddle.zeros([2]).dtype)", "VarType.FP64"),
        ("import numpy as np; print(paddle.sum(paddle.ones([2, 3]), axis=np.int64(1)).shape)", "[2]"),
        ("paddle.enable_static(); x = paddle.static.data('x', [None, 2]); print(x[:, :1].shape)", "(-1, 1)"),
    ],
)
def test_numpy_comes_with_the_first_array(program: str, said: str) -> None:
    assert run(f"import paddle; {program}") == said


@pytest.mark.parametrize(
    "program",
    [
        "import paddle; print(paddle.static.nn.fc.__name__, paddle.fluid.dataloader.Subset.__name__)",
        "import paddle; print(paddle.save.__name__, paddle.DataParallel.__name__, paddle.device.ParallelEnv.__name__)",
        "import paddle.io as io; print(io.DataLoader.__name__)",
        "from paddle import amp, distributed, jit, metric, static; print(distributed.fleet.__name__, jit.TracedLayer)",
        "from paddle.static.nn.common import deform_conv2d; print(deform_conv2d.__name__)",
        "from paddle import *; print(static.data, nn.Linear, optimizer.SGD, save)",
        "import paddle; print(paddle.fluid.incubate.fleet.utils.fleet_util.FleetUtil)",
    ],
)
def test_a_room_is_named_first(program: str) -> None:
    assert run(program)


@pytest.mark.parametrize("room", ["paddle.static", "paddle.io", "paddle.optimizer", "paddle.amp", "paddle.distributed"])
def test_a_room_imported_first_speaks_of_missing_names(room: str) -> None:
    said = run(f"import {room} as room\ntry: room.nobody\nexcept AttributeError as e: print(e)")
    assert said.startswith(f"module {room!r} has no attribute 'nobody'; a name of Paddle 2.0.2 that is missing")


def test_no_name_at_all_is_missing_as_any_other() -> None:
    assert run("import paddle; print(getattr(paddle, '', 'nothing'))") == "nothing"
