"""The source distribution builds and installs outside the repository, in an environment that has only pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SMOKE = """
import os, sys
import importlib.metadata as metadata
import paddle

assert paddle.__file__.startswith(sys.prefix), paddle.__file__
x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
(x @ x).sum().backward()
assert x.grad.tolist() == [[7.0, 11.0], [9.0, 13.0]], x.grad
found = metadata.distribution("oar-paddle")
assert found.metadata["License-Expression"] == "Apache-2.0", found.metadata
assert {"LICENSE", "THIRD_PARTY_LICENSES.txt"} <= {os.path.basename(f) for f in found.files}, found.files
assert any(str(f).endswith("py.typed") for f in found.files)
paddle.version.show()
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The unpacked source distribution."""
    maturin = shutil.which("maturin", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if maturin is None:
        pytest.skip("maturin is missing, which makes the source distribution")
    folder = tmp_path_factory.mktemp("sdist")
    command = [maturin, "sdist", "-m", str(ROOT / "Cargo.toml"), "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    [packed] = folder.glob("oar_paddle-*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / packed.name.removesuffix(".tar.gz")


@pytest.mark.slow
def test_it_has_what_the_build_reads(source):
    wanted = ["Cargo.lock", ".cargo/config.toml", "LICENSE", "THIRD_PARTY_LICENSES.txt", "README.md", "PKG-INFO"]
    assert not [name for name in wanted if not (source / name).is_file()]
    tracked = subprocess.run(["git", "ls-files", "-z", "python", "rust"], cwd=ROOT, capture_output=True, text=True)
    names = [name for name in tracked.stdout.split("\0") if name]
    assert not [name for name in names if not name.startswith("rust/net/fuzz/") and not (source / name).is_file()]
    assert not list(source.rglob("*.so"))


@pytest.mark.slow
def test_pip_installs_it_in_a_clean_environment(source, tmp_path):
    """`pip install .` downloads the build requirements; without a network the test is skipped by name.

    Optimisation is off: what is tested is that the build is complete.
    """
    if shutil.which("cargo") is None:
        pytest.skip("cargo is missing")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"CARGO_TARGET_DIR": str(tmp_path / "target"), "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0"}
    python = str(tmp_path / "clean" / "bin" / "python")
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "."]
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True)
    if "No matching distribution found for maturin" in done.stderr:
        pytest.skip("no package index: maturin cannot be downloaded")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    run = subprocess.run([python, "-c", SMOKE], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "oar-paddle:" in run.stdout
