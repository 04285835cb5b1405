"""The programs of the gallery run."""

import os
import subprocess
import sys
from pathlib import Path

import paddle
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


@pytest.mark.parametrize("script", sorted((FOLDER / "gallery").glob("plot_*.py")), ids=lambda path: path.stem)
def test_gallery(script: Path, tmp_path: Path) -> None:
    folders = [str(Path(paddle.__file__).parents[1]), str(FOLDER)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


#: run as notebooks in every test run; the others are marked slow
QUICK = ("plot_history", "plot_program")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow])
        for path in sorted((FOLDER / "gallery").glob("plot_*.py"))
    ],
)
def test_notebooks(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sphinx_gallery")
    folders = [str(Path(paddle.__file__).parents[1]), str(FOLDER)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "MPLBACKEND": "Agg"}
    tool = FOLDER.parent / "tools" / "notebooks.py"
    command = [sys.executable, str(tool), str(tmp_path), "--run", "--only", name.removeprefix("plot_")]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{name}.ipynb").is_file()
