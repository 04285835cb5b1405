"""`import paddle` loads the core modules; other packages are imported at their first use, in any order."""

from __future__ import annotations

import subprocess
import sys

import pytest

# modules that `import paddle` must not load
LATER = """
paddle.amp paddle.distributed paddle.fluid paddle.framework paddle.io paddle.jit paddle.optimizer paddle.static
paddle.utils paddle.vision importlib.resources inspect json logging multiprocessing numpy socket subprocess tempfile
""".split()


def run(program: str) -> str:
    """The output of a new process that runs `program`."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_loads_only_core_modules() -> None:
    loaded = run("import sys; had = set(sys.modules); import paddle; print(*set(sys.modules) - had)").split()
    assert not set(loaded) & set(LATER)


@pytest.mark.parametrize(
    "program, output",
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
def test_numpy_is_imported_for_the_first_array(program: str, output: str) -> None:
    assert run(f"import paddle; {program}") == output


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
def test_a_package_is_imported_at_its_first_use(program: str) -> None:
    assert run(program)


@pytest.mark.parametrize("name", ["paddle.static", "paddle.io", "paddle.optimizer", "paddle.amp", "paddle.distributed"])
def test_a_package_imported_first_reports_missing_names(name: str) -> None:
    output = run(f"import {name} as m\ntry: m.unknown\nexcept AttributeError as e: print(e)")
    assert output.startswith(f"module {name!r} has no attribute 'unknown'")


def test_the_empty_name_is_missing() -> None:
    assert run("import paddle; print(getattr(paddle, '', 'nothing'))") == "nothing"


def test_import_hooks_of_other_packages_come_first():
    """A finder that wraps loaders (coverage, type checkers) sees the modules of the package."""
    code = """
import sys
class Finder:
    seen = []
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        cls.seen.append(name)
sys.meta_path.insert(0, Finder)
import paddle.fluid
import paddle.dataset.uci_housing
print("paddle.dataset.uci_housing" in Finder.seen, paddle.fluid.layer_helper.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "paddle.fluid.layer_helper"], done.stderr


def test_a_module_of_the_table_runs_as_a_program():
    done = subprocess.run([sys.executable, "-m", "paddle.fluid.reader"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
