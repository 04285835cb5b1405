"""The abi3 module works on every installed Python from 3.11 on, with numpy 1.26 and 2.x; its wheel on every declared
platform."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import licences
import pytest
import wheel_symbols
from paddle import _core

ROOT = Path(__file__).resolve().parent.parent
SMOKE = """
import paddle, numpy
x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
(x @ x).sum().backward()
assert x.grad.tolist() == [[7.0, 11.0], [9.0, 13.0]], x.grad
print(numpy.__version__)
"""


def pythons():
    found = {}
    candidates = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    candidates += glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))
    for path in filter(None, candidates):
        try:
            code = "import sys; print(*sys.version_info[:2])"
            out = subprocess.run([path, "-c", code], capture_output=True, text=True)
        except OSError:
            continue
        if out.returncode == 0:
            version = tuple(map(int, out.stdout.split()))
            if version >= (3, 11):
                found.setdefault(version, path)
    return sorted(found.items())


@pytest.mark.slow
@pytest.mark.parametrize("numpy", ["numpy>=1.26,<2", "numpy>=2"])
@pytest.mark.parametrize(("version", "python"), pythons(), ids=lambda v: str(v))
def test_smoke(version, python, numpy, tmp_path):
    if version >= (3, 13) and "<2" in numpy:
        pytest.skip("numpy 1.26 has no build for this Python")
    subprocess.run([python, "-m", "venv", tmp_path / "v"], check=True)
    pip = [tmp_path / "v" / "bin" / "pip", "install", "-q", numpy]
    subprocess.run(pip, check=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    run = subprocess.run([tmp_path / "v" / "bin" / "python", "-c", SMOKE], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_numpy_is_the_only_dependency():
    code = "import sys, paddle; print(sorted({m.split('.')[0] for m in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("cupy", "scipy", "torch", "sklearn", "pandas", "matplotlib"):
        assert f"'{name}'" not in run.stdout, name


def test_symbols_of_wheels_are_checked(tmp_path):
    """The checks of `make wheel` refuse a wheel that was linked against this machine's libraries."""
    library = Path(_core.__file__).read_bytes()
    libraries, versions = wheel_symbols.asks_for(library)
    assert "libc.so.6" in libraries <= wheel_symbols.LIBRARIES
    numbers = [tuple(map(int, v.removeprefix("GLIBC_").split("."))) for v in versions if v.startswith("GLIBC_2")]
    assert numbers

    def made(name, **files):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for path in wheel_symbols.TYPES:
                archive.writestr(path, "")
            for path, content in files.items():
                archive.writestr(f"paddle/{path}.so", content)
        return wheel_symbols.problems(tmp_path / name)

    found = made("oar_paddle-0.1.0-cp311-abi3-manylinux_2_17_x86_64.whl", _core=library)
    assert len(found) == sum(n > (2, 17) for n in numbers) and all("_core.so needs GLIBC_2." in f for f in found)
    assert made("oar_paddle-0.1.0-cp311-abi3-manylinux_2_17_x86_64.whl") == []
    assert made("oar_paddle-0.1.0-cp311-abi3-manylinux_2_35_x86_64.whl") == [
        "its name says neither manylinux_2_17 nor musllinux_1_2"
    ]
    musl = made("oar_paddle-0.1.0-cp311-abi3-musllinux_1_2_x86_64.whl", _core=library)
    assert any("needs the library libc.so.6" in problem for problem in musl)
    other = library.replace(b"libm.so.6\0", b"libz.so.6\0")
    assert "paddle/_core.so needs the library libz.so.6" in made("oar_paddle-manylinux_2_17_x86_64.whl", _core=other)
    with pytest.raises(ValueError, match="ELF"):
        wheel_symbols.asks_for(b"MZ")
    with zipfile.ZipFile(tmp_path / "untyped-manylinux_2_17_x86_64.whl", "w") as archive:
        archive.writestr("paddle/py.typed", "")
    assert len(wheel_symbols.problems(tmp_path / "untyped-manylinux_2_17_x86_64.whl")) == len(wheel_symbols.TYPES) - 1


def test_licences_of_all_crates_are_listed():
    """The wheel carries THIRD_PARTY_LICENSES.txt; tools/licences.py writes it again."""
    text = licences.FILE.read_text()
    wanted = {f"{name} {version}" for name, version in licences.linked_crates()}
    assert wanted and not [crate for crate in wanted if crate not in text]


def test_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["name"] == "oar-paddle"
    for name in project["project"]["license-files"]:
        assert (ROOT / name).is_file()
    assert {"keywords", "classifiers", "urls", "license"} <= set(project["project"])
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert (
        project["project"]["version"] == cargo["workspace"]["package"]["version"] == dict(_core.build_info)["version"]
    )
