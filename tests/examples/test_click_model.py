"""The click model with 2 servers and 2 trainers has the losses of a single process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "click_model.py"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_servers_train_like_one_process(mode, tmp_path) -> None:
    command = [sys.executable, str(SCRIPT), "--mode", mode, "--rows", "1500"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (alone, alone_auc), (servers, servers_auc) = (
        map(float, pair) for pair in re.findall(r"loss ([0-9.]+) +AUC ([0-9.]+)", done.stdout)
    )
    assert alone_auc > 0.8
    if mode == "sync":
        assert abs(servers - alone) <= 3e-4 and abs(servers_auc - alone_auc) <= 5e-3
    else:
        assert servers <= 1.02 * alone and servers_auc >= alone_auc - 0.02
