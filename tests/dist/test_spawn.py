"""paddle.distributed.spawn: environments, results and exceptions of processes; leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import warnings
from importlib import import_module
from pathlib import Path

import pytest
import spawned
from launching import FOREIGN, clean_environment, gone, pids

module = import_module("paddle.distributed.spawn")
spawn = module.spawn


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name == "CPU_NUM":
            monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_environment(method, monkeypatch):
    monkeypatch.setenv("http_proxy", "x")
    cores = sorted(os.sched_getaffinity(0))
    context = spawn(spawned.environment, args=("a", 1), nprocs=2, start_method=method)
    assert context.join()
    found = [q.get() for q in context.return_queues]
    endpoints = found[0]["PADDLE_TRAINER_ENDPOINTS"].split(",")
    assert len(set(endpoints)) == 2
    for rank, env in enumerate(found):
        assert env["PADDLE_TRAINER_ID"] == str(rank) and env["PADDLE_TRAINERS_NUM"] == "2"
        assert env["PADDLE_CURRENT_ENDPOINT"] == endpoints[rank] and env["args"] == ("a", 1)
        assert env["OAR_JOB_TOKEN"] == found[0]["OAR_JOB_TOKEN"] and "http_proxy" not in env
        assert "FLAGS_selected_gpus" not in env
    if len(cores) >= 2:
        assert sorted(found[0]["cores"] + found[1]["cores"]) == cores
    assert "PADDLE_TRAINER_ID" not in os.environ and os.environ["http_proxy"] == "x"


def test_the_number_of_processes(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "3")
    assert len(spawn(spawned.short, args=(0,), start_method="fork").processes) == 3
    monkeypatch.delenv("CPU_NUM")
    assert len(spawn(spawned.short, args=(0,), start_method="fork").processes) == len(os.sched_getaffinity(0))
    for wrong in (0, -2, 1.5, "2", True):
        with pytest.raises(ValueError, match="nprocs"):
            spawn(spawned.short, nprocs=wrong)


def test_large_results():
    context = spawn(spawned.large, nprocs=2, start_method="fork")
    assert [q.get() for q in context.return_queues] == [bytes([r]) * (1 << 22) for r in (0, 1)]
    with pytest.raises(EOFError):
        context.return_queues[0].get()


def test_without_join():
    context = spawn(spawned.short, args=(1.0,), nprocs=2, join=False, daemon=True, start_method="fork")
    assert all(p.daemon for p in context.processes)
    assert not context.join(timeout=0.01)
    assert context.return_queues[1].get() == 1
    while not context.join():
        continue
    assert context.join() and context.return_queues[0].get() == 0


@pytest.mark.parametrize(
    ("how", "said", "code"),
    [
        ("raise", "KeyError: 'fails on purpose'", 1),
        ("unpicklable", "Local: fails on purpose", 1),
        ("lambda", "pickle", 1),
        (5, "Process 1 exited with code 5", 5),
        ("SIGKILL", "Process 1 was ended by signal SIGKILL", -9),
    ],
)
def test_failures(how, said, code):
    with pytest.raises(Exception, match="Process 1") as caught:
        spawn(spawned.fail, args=(how,), nprocs=3, start_method="spawn" if how == "raise" else "fork")
    error = caught.value
    assert said in str(error) and error.index == 1 and error.exitcode == code
    if how == "raise":
        assert "in fail" in str(error) and isinstance(error.__cause__, KeyError)  # with its traceback
    assert not module._unfinished


def test_a_function_that_cannot_be_sent():
    with pytest.raises((AttributeError, TypeError, Exception), match="pickle|local object"):
        spawn(lambda: 0, nprocs=2)
    assert not module._unfinished


def test_options():
    with pytest.raises(ValueError, match="not supported"):
        spawn(spawned.short, nprocs=2, nonsense=1)
    with pytest.warns(DeprecationWarning, match="node_ip"):
        spawn(spawned.short, args=(0,), nprocs=1, node_ip="127.0.0.1", start_method="fork")
    for options in ({"gpus": "100,101"}, {"gpus": "1,2,3"}):
        with pytest.raises(ValueError, match="GPU"):
            spawn(spawned.short, nprocs=2, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        options = {"cluster_node_ips": "127.0.0.1,127.0.0.2", "node_ip": "127.0.0.2", "started_port": 7000}
        found = module._get_subprocess_env_list(2, options)
        module._options_valid_check(options)
    assert [e["PADDLE_TRAINER_ID"] for e in found] == ["2", "3"]
    assert found[0]["PADDLE_TRAINER_ENDPOINTS"] == "127.0.0.1:7000,127.0.0.1:7001,127.0.0.2:7000,127.0.0.2:7001"


def test_print_config(capsys):
    spawn(spawned.short, args=(0,), nprocs=1, print_config=True, start_method="fork")
    assert "1 processes" in capsys.readouterr().out


def test_gpus(monkeypatch):
    monkeypatch.setattr("paddle.distributed.launch.collective.gpu_count", lambda env: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert [e["FLAGS_selected_gpus"] for e in module._get_subprocess_env_list(2, {"gpus": "1,0"})] == ["1", "0"]
    monkeypatch.setattr("paddle.device.get_device", lambda: "gpu:0")
    assert [e["FLAGS_selected_gpus"] for e in module._get_subprocess_env_list(2, {})] == ["0", "1"]
    with pytest.raises(RuntimeError, match="3 processes need as many GPUs"):
        module._get_subprocess_env_list(3, {})


PARENT = """
    import sys
    sys.path.insert(0, {here!r})
    import spawned
    from paddle.distributed.spawn import spawn
    if __name__ == "__main__":
        spawn(spawned.stubborn, args=({folder!r},), nprocs=2, start_method={method!r}, join={join})
        if not {join}:
            import time
            time.sleep(60)
"""


def parent(tmp_path: Path, method: str, join: bool) -> tuple[subprocess.Popen, list[int]]:
    script = tmp_path / "parent.py"
    text = PARENT.format(here=str(Path(__file__).parent), folder=str(tmp_path), method=method, join=join)
    script.write_text(textwrap.dedent(text))
    job = subprocess.Popen(
        [sys.executable, str(script)],
        env=clean_environment(),
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
    )
    return job, pids(tmp_path, 2, job)


@pytest.mark.parametrize(("method", "join"), [("spawn", True), ("fork", False), ("forkserver", True)])
def test_a_killed_parent_leaves_no_processes(tmp_path, method, join):
    job, found = parent(tmp_path, method, join)
    job.kill()
    job.wait()
    assert not gone(found, 60)


def test_ctrl_c_ends_all(tmp_path):
    job, found = parent(tmp_path, "fork", True)
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=300)
    assert job.returncode == -signal.SIGINT and "KeyboardInterrupt" in err and not gone(found, 0.1)
