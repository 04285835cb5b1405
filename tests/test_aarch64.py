"""The aarch64 wheel under qemu-user: tests of tensor, nn, static and fluid, run by an aarch64 Python.

    make wheel ARCH=aarch64
    OAR_AARCH64=FOLDER python -m pytest -m slow tests/test_aarch64.py

FOLDER has `root`, the files of an aarch64 Linux with python3.11, and `site`, aarch64 wheels of numpy, scipy and
pytest, unpacked. Without qemu-aarch64, the folder or the wheel the tests are skipped by name. Tests that start
processes are left out: qemu-user runs no child of another architecture unless the kernel has binfmt_misc.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = """
api/test_layer.py api/test_tensor_indexing.py api/test_nn_values.py api/test_conv_and_pool.py
api/test_losses.py api/test_optimizer_rules.py api/test_fluid_lr.py api/test_fluid_cells.py
api/test_fluid_training.py api/test_recurrent.py api/test_later_names.py api/test_amp.py api/test_dlpack.py
api/test_matrices.py api/test_numeric_corner_cases.py ops/math ops/nn ops/shape ops/loss ops/optim
ops/sequence ops/rnn ops/detection ops/random ops/fused ops/quant ops/control ops/test_table.py
ops/test_nonfinite.py static/test_executor.py static/test_backward.py static/test_control_flow.py
static/test_arrays.py static/test_program.py static/test_programs_of_1x.py static/test_passes.py
static/test_static_io.py static/test_mixed_precision.py legacy/test_changes.py legacy/test_arguments_of_18.py
""".split()
#: tests that start a child
CHILDREN = ["legacy/test_changes.py::test_the_flag", "legacy/test_changes.py::test_the_page_has_the_table"]


@pytest.fixture(scope="module")
def run_python(tmp_path_factory):
    """A function that runs the aarch64 Python with arguments, the wheel on its path."""
    qemu, folder = shutil.which("qemu-aarch64"), os.environ.get("OAR_AARCH64")
    if qemu is None:
        pytest.skip("qemu-aarch64 is missing (Debian: qemu-user)")
    if folder is None:
        pytest.skip("OAR_AARCH64 names no folder with an aarch64 Python")
    wheels = sorted((ROOT / "dist").glob("*manylinux*_aarch64.whl"))
    if not wheels:
        pytest.skip("dist/ has no aarch64 wheel: make wheel ARCH=aarch64")
    package = tmp_path_factory.mktemp("aarch64")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        wheel.extractall(package)
    # A host with the same Python compiles for both: under qemu the import takes 1 s of processor time, not 6.
    compileall.compile_dir(package, quiet=1)
    python = [qemu, "-L", f"{folder}/root", f"{folder}/root/usr/bin/python3.11"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), f"{folder}/site"]), "OMP_NUM_THREADS": "1"}

    def run(*arguments):
        return subprocess.run([*python, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=3600)

    return run


@pytest.mark.slow
def test_the_machine_is_another_one(run_python):
    code = "import platform, paddle; print(platform.machine(), paddle.ones([2]).sum().item(), paddle.__file__)"
    done = run_python("-c", code)
    assert done.stdout.startswith("aarch64 2.0 ") and str(ROOT / "python") not in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_under_qemu(run_python, path):
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow and not gpu"]
    left_out = [f"--deselect=tests/{name}" for name in CHILDREN]
    done = run_python("-m", "pytest", *options, *left_out, f"tests/{path}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
