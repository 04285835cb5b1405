"""The samples of users' pages run as written, with CPU places for CUDA; the names of the pages exist."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import paddle
import pytest
from page_samples import numbered, samples, text_of
from specification import find as specification_file

TESTS = Path(__file__).resolve().parents[1]
#: defined by the page without its text
NETS = """
import paddle

def mlp(input_x, input_y, hid_dim=128, label_dim=2):
    fc_1 = paddle.static.nn.fc(input_x, size=hid_dim, activation="tanh")
    fc_2 = paddle.static.nn.fc(fc_1, size=hid_dim, activation="tanh")
    prediction = paddle.static.nn.fc(fc_2, size=label_dim, activation="softmax")
    cost = paddle.nn.functional.loss.cross_entropy(input=prediction, label=input_y)
    return paddle.mean(x=cost)
"""


def run(folder: Path, *command: str) -> str:
    """What Python prints; its exit status must be 0."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CPU_NUM", "PADDLE_", "OAR_JOB"))}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    logs = "\n".join(p.read_text()[-2000:] for p in folder.glob("log/*log.*"))
    assert done.returncode == 0, done.stderr + logs
    return done.stdout + logs


@pytest.mark.parametrize("number", range(3), ids=["class", "run", "drop_local_exe_scopes"])
def test_parallel_executor(number, tmp_path):
    code = samples("parallel_executor.txt")
    assert len(code) == 3 and all("ParallelExecutor(use_cuda=use_cuda" in one for one in code)
    run(tmp_path, "-c", code[number])


@pytest.fixture
def fleet_samples(tmp_path):
    """The samples of the page, with the modules that they import in `tmp_path`."""
    made, alone, collective, servers, worker, launch = numbered("fleet_api.txt")
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "utils.py").write_text("import numpy as np\n" + made)
    assert launch.split() == "python -m paddle.distributed.launch trainer.py".split()
    return {"alone": alone, "collective": collective, "servers": servers, "worker": worker, "launch": launch.split()}


def test_fleet_api_alone(fleet_samples, tmp_path):
    (tmp_path / "trainer.py").write_text(fleet_samples["alone"])
    costs = re.findall(r"step(\d+) cost=([\d.]+)", run(tmp_path, "trainer.py"))
    assert len(costs) == 1001
    assert abs(float(costs[-1][1]) - 0.69) < 0.1  # the labels are random


def test_fleet_api_collective(fleet_samples, tmp_path):
    code = fleet_samples["collective"]
    assert "step = 1001\ncost_val" in code
    # The page omits the head of the loop, which the previous sample has.
    head, body = code.split("step = 1001\n")
    looped = head + "step = 101\nfor i in range(step):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    (tmp_path / "trainer.py").write_text(looped)
    said = run(tmp_path, *fleet_samples["launch"][1:-1], "--nproc_per_node=2", "trainer.py")
    for rank in range(2):
        found = re.findall(rf"worker_index: {rank}, step(\d+) cost = [\d.]+", said)
        assert found and found[-1] == "100"


#: The launcher kills the servers when the workers have ended, so these wait until the server has printed.
ROLES = """
import os, time
print('server', fleet.is_server(), 'worker', fleet.is_worker(), 'index', fleet.worker_index(), flush=True)
if fleet.is_server():
    open('printed_mark', 'w').close()
while fleet.server_num() and not os.path.exists('printed_mark'):
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("which", "flags"), [("servers", ["--server_num=1", "--worker_num=2"]), ("worker", ["--nproc_per_node=2"])]
)
def test_fleet_api_roles(fleet_samples, tmp_path, which, flags):
    (tmp_path / "trainer.py").write_text(fleet_samples[which] + ROLES)
    said = run(tmp_path, *fleet_samples["launch"][1:-1], *flags, "trainer.py")
    for rank in range(2):
        assert f"server False worker True index {rank}" in said
    assert ("server True worker False" in said) == (which == "servers")


def find(name: str) -> Any:
    """The object of a dotted name."""
    parts, found = name.split("."), paddle
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[:i]))
        found = getattr(found, part)
    return found


def test_distributed_overview():
    names = re.findall(r":ref:`([\w.]+) <", text_of("distributed_overview.txt"))
    assert len(names) == 30
    fleet = paddle.distributed.fleet
    for name in names:
        name = {"ReduceOP": "ReduceOp"}.get(name, name)
        parts = name.split(".")
        package = next(at for at in (paddle.distributed, fleet) if hasattr(at, parts[0]))
        if parts[0] == "utils":  # paddle.distributed.utils is another module
            package = fleet
        assert callable(find(f"{package.__name__}.{name}")) or name == "launch", name


def test_incubate_fleet_and_executor():
    """Classes, their methods, and the arguments by name, as on the page, with corrected spelling."""
    page = text_of("incubate_fleet_and_executor.txt").replace("woker", "worker")
    checked = 0
    for part in re.split(r"^class ", page, flags=re.M)[1:]:
        where = part.split("(")[0].split()[0]
        one = find(where)
        for name, given in re.findall(r"^ ?-? ?`?(\w+)\((.*)\)`?:?(?: -> .*)?`?$", part, re.M):
            # An argument with its type looks nearly like a method.
            if name in (one.__name__, "CompiledProgram") or given and not re.search("[,=]", given):
                continue
            method = getattr(one, name, None) or getattr(paddle.fluid.CompiledProgram, name)
            known = {"self", *inspect.signature(method).parameters}
            for argument in re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", given):
                assert argument in known, (where, name, argument)
            checked += 1
    assert checked == 22


SECTIONS = (
    "fluid DistributeTranspiler page (end of the list file)",
    "paddle.distributed overview",
    "incubate fleet classes, role makers, Executor",
    "ParallelExecutor page",
    "Fleet API page",
)


def seeds() -> list[str]:
    """The names of the table's sections about processes."""
    rows = re.findall(r"^- `([\w.]+)` \| \S+ \| (.*?) \| \w+$", specification_file("seed_table.md").read_text(), re.M)
    return [name for name, section in rows if section in SECTIONS]


@cache
def words_of_tests() -> frozenset[str]:
    here = Path(__file__).resolve()
    return frozenset(w for p in TESTS.rglob("*.py") if p != here for w in re.findall(r"\w+", p.read_text()))


def test_seed_names_are_there_and_tested():
    names = seeds()
    assert len(names) == 99
    for name in names:
        assert find(name) is not None
    unnamed = [name for name in names if name.rpartition(".")[2] not in words_of_tests()]
    assert not unnamed
