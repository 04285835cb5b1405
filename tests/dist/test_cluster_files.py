"""examples/cluster: the files of clusters, run with stand-ins for srun and ssh."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from launching import clean_environment
from paddle.distributed.launch import args, environment
from paddle.distributed.launch.ports import free

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "cluster"
PRINTS = """
import os, sys
import paddle.distributed as dist
dist.init_parallel_env()
print("rank", dist.get_rank(), "of", dist.get_world_size(), "at", os.environ["PADDLE_CURRENT_ENDPOINT"].split(":")[0],
sys.argv[1:])
"""


def place(env: dict[str, str], *flags: str) -> environment.Placement:
    return environment.find(args.parse([*flags, "train.py"]), env)


def test_kubernetes():
    text = (FOLDER / "kubernetes.yaml").read_text()
    service, job = text.split("\n---\n")
    named = dict(re.findall(r"- name: (\w+)\n\s+value: \"?([^\"\n]+)", job))
    pods = int(re.search(r"completions: (\d+)", job)[1])
    assert {"completionMode: Indexed", f"parallelism: {pods}"} <= {line.strip() for line in job.splitlines()}
    assert int(named["NNODES"]) == pods
    # The first pod of the indexed Job, by the subdomain that the headless service answers for.
    name, subdomain = re.search(r"name: (\S+)", job)[1], re.search(r"subdomain: (\S+)", job)[1]
    assert named["MASTER_ADDR"] == f"{name}-0.{subdomain}"
    assert f"name: {subdomain}\n" in service and "clusterIP: None" in service and f"job-name: {name}" in service
    assert re.search(r"name: OAR_JOB_TOKEN\n\s+valueFrom:\n\s+secretKeyRef", job)
    command = re.search(r"command: \[(.*)\]", job)[1].split(", ")
    assert command[:3] == ["python", "-m", "paddle.distributed.launch"]
    for index in range(pods):
        found = place({**named, "JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"{name}-{index}"}, *command[3:-1])
        assert (found.source, found.index, len(found.ips)) == ("MASTER_ADDR", index, pods)
        assert found.master == (named["MASTER_ADDR"], int(named["MASTER_PORT"]))


def test_slurm(tmp_path):
    """A stand-in for srun: one task for each node, in sequence, which prints the address of the first."""
    printed = dict(re.findall(r"#SBATCH --([\w-]+)=(\S+)", (FOLDER / "slurm.sbatch").read_text()))
    nodes = int(printed["nodes"])
    (tmp_path / "srun").write_text('#!/bin/sh\nprintf "%s\\n" "$OAR_JOB_TOKEN" "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    env = clean_environment(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}", PYTHON="py")
    done = subprocess.run(
        ["sh", FOLDER / "slurm.sbatch", "train.py", "--epochs", "3"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    token, *command = done.stdout.splitlines()
    assert (
        len(token) == 64
        and command[:3] == ["py", "-m", "paddle.distributed.launch"]
        and command[-2:] == ["--epochs", "3"]
    )
    for index in range(nodes):
        step = {
            "SLURM_STEP_ID": "0",
            "SLURM_JOB_ID": "9",
            "SLURM_STEP_NUM_TASKS": str(nodes * int(printed["ntasks-per-node"])),
            "SLURM_PROCID": str(index),
            "SLURM_STEP_NODELIST": f"n[1-{nodes}]",
            "SLURM_NODEID": str(index),
            "SLURM_LOCALID": "0",
            "SLURM_STEP_TASKS_PER_NODE": f"1(x{nodes})",
        }
        found = place(step, command[3])
        assert (found.index, len(found.ips), found.master[0]) == (index, nodes, "n1")


@pytest.mark.parametrize("fails", [False, True])
def test_over_ssh(fails, tmp_path):
    """A stand-in for ssh that runs commands locally: two addresses of this machine are two hosts."""
    (tmp_path / "ssh").write_text(
        '#!/bin/sh\necho "$1" >> hosts\ncase $2 in *$OAR_JOB_TOKEN*) exit 77;; esac\nexec sh -c "$2"\n'
    )
    (tmp_path / "ssh").chmod(0o755)
    script = tmp_path / "print me.py"
    script.write_text(PRINTS + ("sys.exit(3 if dist.get_rank() == 1 else 0)\n" if fails else ""))
    token = "5" * 64
    env = clean_environment(
        PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        PYTHON=sys.executable,
        OAR_JOB_TOKEN=token,
        FLAGS_START_PORT=str(free(1)[0]),
        OAR_TIMEOUT="60",
        OAR_INIT_TIMEOUT="60",
    )
    command = ["sh", FOLDER / "over_ssh.sh", "127.0.0.1,127.0.0.2", "--nproc_per_node=1", str(script), "two words"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert sorted((tmp_path / "hosts").read_text().split()) == ["127.0.0.1", "127.0.0.2"]
    if fails:
        assert done.returncode != 0 and "rank 1 exited with code 3" in done.stderr, done.stderr
        return
    assert done.returncode == 0, done.stderr
    logs = "".join(p.read_text() for p in tmp_path.glob("log/*/workerlog.*"))
    for rank in range(2):
        assert f"rank {rank} of 2 at 127.0.0.{rank + 1} ['two words']" in logs, logs
