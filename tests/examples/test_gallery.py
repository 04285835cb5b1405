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
