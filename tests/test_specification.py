"""The specification data are in the repository; OAR_SPEC names another folder."""

import os
import subprocess
import sys

import pytest
from specification import ROOT, find


def test_the_data_are_in_the_repository(monkeypatch):
    monkeypatch.delenv("OAR_SPEC", raising=False)
    assert find("ops.json") == ROOT / "spec" / "ops.json" and find("api.json").parent == ROOT / "spec"


def test_another_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OAR_SPEC", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"ops\.json"):
        find("ops.json")
    (tmp_path / "ops.json").write_text("[]")
    assert find("ops.json") == tmp_path / "ops.json"


def test_status_without_data(tmp_path):
    env = {**os.environ, "OAR_SPEC": str(tmp_path)}
    done = subprocess.run([sys.executable, ROOT / "tools" / "status.py"], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("status: the specification data in")
