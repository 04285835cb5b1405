"""If the specification is missing, its tests are skipped; in CI they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from specification import find

HERE = Path(__file__).resolve().parent
TESTS = ["test_api_spec.py", "ops/test_table.py", "ops/test_coverage.py", "api/test_missing_names.py"]


@pytest.mark.parametrize(("ci", "failures"), [("true", True), ("1", True), ("false", False), ("", False)])
def test_without_the_specification(tmp_path, ci, failures):
    env = {**os.environ, "OAR_SPEC": str(tmp_path), "CI": ci}
    args = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *[str(HERE / t) for t in TESTS]]
    done = subprocess.run(args, env=env, cwd=HERE.parent, capture_output=True, text=True)
    last = done.stdout.strip().splitlines()[-1]
    assert (done.returncode == 1) == failures, done.stdout
    # two tests of operators, one of second gradients, one of signatures, one of modules
    assert ("5 errors" in last and "skipped" not in last) if failures else "5 skipped" in last, last


def test_the_given_folder_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("OAR_SPEC", str(tmp_path))
    assert find("ops.json") is None
    (tmp_path / "ops.json").write_text("[]")
    assert find("ops.json") == tmp_path / "ops.json"
