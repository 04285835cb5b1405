"""python -m paddle.distributed.launch: environments of processes, ends of jobs, leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launching import FOREIGN, SCRIPT, alive, begin, clean_environment, gone, known, launch, pids
from paddle.distributed.launch import main

MODULES = ("paddle.distributed.launch", "paddle.distributed.fleet.launch")


def variables(found: dict) -> dict:
    return found["environ"]


def shm() -> set[str]:
    return {n for n in os.listdir("/dev/shm") if not n.startswith("sem.")}


@pytest.mark.parametrize("module", MODULES)
def test_collective(tmp_path, module):
    run = launch(["--nproc_per_node=3", "--cores=all"], "env", str(tmp_path), "a", "--b=c", cwd=tmp_path, module=module)
    assert run.returncode == 0, run.stderr
    found = known(tmp_path)
    assert list(found) == ["TRAINER.0", "TRAINER.1", "TRAINER.2"]
    first = variables(found["TRAINER.0"])
    endpoints = first["PADDLE_TRAINER_ENDPOINTS"].split(",")
    assert len(set(endpoints)) == 3
    for rank in range(3):
        env = variables(found[f"TRAINER.{rank}"])
        assert env["PADDLE_TRAINER_ID"] == str(rank) and env["PADDLE_TRAINERS_NUM"] == "3"
        assert env["PADDLE_CURRENT_ENDPOINT"] == endpoints[rank]
        assert env["PADDLE_WITH_GLOO"] == "0" and env["PADDLE_GLOO_RENDEZVOUS"] == "3"
        assert not os.path.exists(env["PADDLE_GLOO_FS_PATH"])  # the launcher has removed it
        assert "FLAGS_selected_gpus" not in env and "OMP_NUM_THREADS" not in env
        for name in ("PADDLE_TRAINER_ENDPOINTS", "OAR_JOB_NAME", "OAR_JOB_TOKEN"):
            assert env[name] == first[name]
        assert found[f"TRAINER.{rank}"]["argv"] == ["env", str(tmp_path), "a", "--b=c"]
        assert (tmp_path / "log" / f"workerlog.{rank}").read_text() == f"hello of TRAINER {rank}\n"
    assert len(bytes.fromhex(first["OAR_JOB_TOKEN"])) == 32
    assert run.stdout == "hello of TRAINER 0\n"  # the first one only
    assert (tmp_path / "log" / "endpoints.log").read_text().split()[1:] == endpoints


def test_one_process_is_the_default(tmp_path):
    assert launch([], "env", str(tmp_path), cwd=tmp_path).returncode == 0
    (env,) = map(variables, known(tmp_path).values())
    assert env["PADDLE_TRAINERS_NUM"] == "1" and env["PADDLE_TRAINER_ENDPOINTS"] == env["PADDLE_CURRENT_ENDPOINT"]


def test_proxies_are_removed(tmp_path):
    launch([], "env", str(tmp_path), cwd=tmp_path, env={"http_proxy": "x", "https_proxy": "y", "KEPT": "z"})
    (env,) = map(variables, known(tmp_path).values())
    assert "http_proxy" not in env and "https_proxy" not in env and env["KEPT"] == "z"


def test_gpus_are_numbers_among_the_visible_ones(tmp_path):
    run = launch(
        ["--gpus=5,7", "--cores=all"], "env", str(tmp_path), cwd=tmp_path, env={"CUDA_VISIBLE_DEVICES": "4,5,6,7"}
    )
    assert run.returncode == 0, run.stderr
    assert [variables(v)["FLAGS_selected_gpus"] for v in known(tmp_path).values()] == ["1", "3"]


def test_without_log_dir_all_goes_to_the_terminal(tmp_path):
    run = launch(["--nproc_per_node=2", "--log_dir="], "env", str(tmp_path), cwd=tmp_path)
    assert sorted(run.stdout.splitlines()) == ["hello of TRAINER 0", "hello of TRAINER 1"]
    assert not (tmp_path / "log").exists()


def test_logs_are_continued_and_a_whole_log_is_copied(tmp_path):
    flags = ["--log_dir=x/y", "--print_config=false"]
    for _ in range(2):
        run = launch(flags, "many", "20000", cwd=tmp_path)
        assert run.stdout.splitlines() == [f"line {i}" for i in range(20000)] and not run.stderr
    assert len((tmp_path / "x/y/workerlog.0").read_text().splitlines()) == 40000


def test_a_closed_reader_does_not_end_the_job(tmp_path):
    job = begin([], "many", "200000", cwd=tmp_path)
    assert job.stdout is not None
    job.stdout.close()
    job.communicate(timeout=300)
    assert job.returncode == 0


@pytest.mark.parametrize("given", [None, "3", "--cores=divide", "--cores=all"])
def test_cores_are_divided(tmp_path, given):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    env = {"OMP_NUM_THREADS": "3"} if given in ("3", "--cores=divide") else {}
    flags = ["--nproc_per_node=2", *([given] if given and given.startswith("--") else [])]
    launch(flags, "env", str(tmp_path), cwd=tmp_path, env=env)
    found = [known(tmp_path)[f"TRAINER.{r}"] for r in (0, 1)]
    if given in (None, "--cores=divide"):
        assert sorted(found[0]["cores"] + found[1]["cores"]) == cores
        assert all(f["cores"] and variables(f)["OMP_NUM_THREADS"] == str(len(f["cores"])) for f in found)
    else:
        assert all(
            f["cores"] == cores and variables(f).get("OMP_NUM_THREADS") == env.get("OMP_NUM_THREADS") for f in found
        )


def test_more_processes_than_cores_are_not_bound(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    launch([f"--nproc_per_node={len(cores) + 1}"], "env", str(tmp_path), cwd=tmp_path)
    for f in known(tmp_path).values():
        assert f["cores"] == cores and variables(f)["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("3", 3, "rank 1 (pid "),
        ("raise", 1, "rank fails on purpose"),
        ("SIGKILL", 137, "was ended by SIGKILL"),
        ("SIGSEGV", 139, "was ended by SIGSEGV"),
    ],
)
def test_one_failing_rank_ends_the_job(tmp_path, how, status, said):
    run = launch(["--nproc_per_node=3"], "fail", how, cwd=tmp_path)
    assert run.returncode == status
    assert said in run.stderr and "rank 1 (pid" in run.stderr and "    about to fail" in run.stderr, run.stderr
    assert "log/workerlog.1" in run.stderr
    assert "rank 0 did not end by itself and was ended" in run.stderr


def test_the_first_rank_may_fail_and_the_others_may_report(tmp_path):
    run = launch(["--nproc_per_node=3"], "late", "0", cwd=tmp_path)
    assert run.returncode == 7
    assert "launch: rank 0 (pid" in run.stderr and "rank 1 exited with code 9, too" in run.stderr, run.stderr
    assert "reports its own error" in (tmp_path / "log/workerlog.2").read_text()


def test_processes_that_refuse_to_end_are_killed(tmp_path):
    job = begin(["--nproc_per_node=2"], "stubborn", str(tmp_path), cwd=tmp_path)
    found = pids(tmp_path, 2, job)
    os.kill(found[0], signal.SIGKILL)
    _, err = job.communicate(timeout=300)
    assert job.returncode == 137 and "was ended by SIGKILL" in err
    assert not gone(found, 0.1)  # also their children, when the launcher returns


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_reach_all(tmp_path, number, status):
    job = begin(
        ["--nproc_per_node=2"], "polite" if number != signal.SIGHUP else "stubborn", str(tmp_path), cwd=tmp_path
    )
    found = pids(tmp_path, 2, job)
    job.send_signal(number)
    job.communicate(timeout=300)
    assert job.returncode == status and not gone(found, 0.1)
    if number != signal.SIGHUP:
        assert [(tmp_path / f"cleaned.{r}").read_text() for r in (0, 1)] == [number.name] * 2


def test_a_second_ctrl_c_does_not_wait(tmp_path):
    job = begin(["--nproc_per_node=2"], "stubborn", str(tmp_path), cwd=tmp_path)
    found = pids(tmp_path, 2, job)
    job.send_signal(signal.SIGINT)
    assert job.stderr is not None
    while "ending" not in job.stderr.readline():
        assert job.poll() is None
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=300)
    assert job.returncode == 130 and "again: killing" in err and not gone(found, 0.1)


@pytest.mark.parametrize("mode", ["stubborn", "polite"])
@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_killed_launcher_leaves_no_processes(tmp_path, mode, all_of_it):
    job = begin(["--nproc_per_node=2"], mode, str(tmp_path), cwd=tmp_path)
    found = pids(tmp_path, 2, job)
    scratch = Path(f"/proc/{found[0]}/environ").read_text().split("PADDLE_GLOO_FS_PATH=")[1].split("\0")[0]
    if all_of_it:
        os.killpg(job.pid, signal.SIGKILL)
    else:
        job.kill()
    job.communicate(timeout=300)  # its output is closed
    assert not gone(found, 60)
    assert not gone([p for p in [job.pid] if alive(p)], 0.1)
    limit = time.monotonic() + 3
    while os.path.exists(scratch) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not os.path.exists(scratch)


def test_nothing_is_left_of_a_job_that_ended_well(tmp_path):
    assert launch(["--nproc_per_node=2"], "leave", str(tmp_path), cwd=tmp_path).returncode == 0
    assert not gone(pids(tmp_path, 2), 0.1)


def test_sigusr1_prints_reports(tmp_path):
    job = begin(["--nproc_per_node=2"], "report", str(tmp_path), cwd=tmp_path)
    pids(tmp_path, 2, job)
    job.send_signal(signal.SIGUSR1)
    assert job.stderr is not None
    seen = ""
    while "waiting for rank 0" not in seen:
        line = job.stderr.readline()
        assert line, seen
        seen += line
    assert "rank 0 (pid" in seen and "is running for" in seen and "launch: rank 1: rank 1 reports" in seen
    (tmp_path / "stop").touch()
    job.communicate(timeout=300)
    assert job.returncode == 0


def test_wrong_flags(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for flags, said in (
        (["--nproc_per_node=0"], "not a number of processes"),
        (["--nproc_per_node=x"], "not a number of processes"),
        (["--ips=127.0.0.1", "--server_num=1"], "choose one"),
        (["--server_num=1"], "--worker_num or --workers"),
        (["--gpus=a"], "distinct GPU indices"),
        (["--gpus=0,1", "--nproc_per_node=3"], "evenly"),
        (["--started_port=70000"], "not a port"),
        (["--ips=no.such.host.invalid,127.0.0.1", "--node_ip=127.0.0.1"], "no.such.host.invalid"),
        (["--use_paddlecloud"], "PADDLE_TRAINERS"),
        (["--log_dir=/proc/x"], "--log_dir=/proc/x"),
        (["--started_port=65535", "--nproc_per_node=2"], "beyond 65535"),
    ):
        try:
            status = main.run([*flags, SCRIPT, "nothing"])
        except SystemExit as e:
            status = e.code
        assert status == 2 and said in capsys.readouterr().err, flags
    run = subprocess.run(
        [sys.executable, "-m", MODULES[0], "no_such_script.py"], capture_output=True, text=True, env=clean_environment()
    )
    assert run.returncode == 2 and "no_such_script.py" in run.stderr and "Traceback" not in run.stderr


def test_fleetrun(tmp_path):
    """The console command, as an installer creates it from pyproject.toml."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, function = project["project"]["scripts"]["fleetrun"].split(":")
    script = tmp_path / "fleetrun"
    script.write_text(f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n")
    run = subprocess.run(
        [sys.executable, str(script), "--nproc_per_node=2", SCRIPT, "env", str(tmp_path)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert sorted(known(tmp_path)) == ["TRAINER.0", "TRAINER.1"]


def test_importing_starts_nothing():
    code = "import paddle.distributed.launch as m; assert callable(m.launch)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


EMPTY_JOBS = """
import os, sys
from paddle.distributed.launch.main import run
for i in range(int(sys.argv[1])):
    status = run(["--nproc_per_node=2", "--log_dir=", "--print_config=no", sys.argv[2], "nothing"])
    assert status == 0, (i, status)
    fds = len(os.listdir("/proc/self/fd"))
    assert i == 0 or fds == before, (i, before, fds)
    before = fds
"""


def empty_jobs(times: int, tmp_path: Path) -> None:
    """Consecutive empty jobs by one launcher: no resources are left in the process or the system."""
    before = shm()
    run = subprocess.run(
        [sys.executable, "-c", EMPTY_JOBS, str(times), SCRIPT],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0 and not run.stderr, run.stderr
    assert shm() <= before
    assert not [p for p in os.listdir("/proc") if p.isdecimal() and str(tmp_path) in _cwd(p)]


def _cwd(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def test_empty_jobs(tmp_path):
    empty_jobs(20, tmp_path)


@pytest.mark.slow
def test_a_thousand_empty_jobs(tmp_path):
    empty_jobs(1000, tmp_path)


def test_jobs_side_by_side(tmp_path):
    flags = ["--nproc_per_node=2", "--log_dir=", "--print_config=no"]
    with ThreadPoolExecutor(4) as pool:
        for run in pool.map(lambda _: launch(flags, "nothing", cwd=tmp_path), range(4)):
            assert run.returncode == 0 and not run.stderr, run.stderr


def test_parameter_server_mode(tmp_path):
    run = launch(["--server_num=2", "--worker_num=2"], "server", str(tmp_path), cwd=tmp_path)
    assert run.returncode == 0 and "the workers have finished; stopping 2 servers" in run.stderr, run.stderr
    found = known(tmp_path)
    assert sorted(f.split(".")[0] for f in found) == ["PSERVER", "PSERVER", "TRAINER", "TRAINER"]
    assert sorted(os.listdir(tmp_path / "log")) == [
        "endpoints.log",
        "serverlog.0",
        "serverlog.1",
        "workerlog.0",
        "workerlog.1",
    ]
    assert run.stdout == "hello of TRAINER 0\n"
    for name, f in found.items():
        env = variables(f)
        ports = [e.split(":")[1] for e in env["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")]
        assert len(set(ports)) == 2 and env["PADDLE_TRAINERS_NUM"] == "2"
        assert (env["PADDLE_PORT"] in ports) if name.startswith("PSERVER") else (env["PADDLE_TRAINER_ID"] in "01")


def test_launch_ps(tmp_path):
    run = launch(
        ["--server_num=1", "--worker_num=1", "--start_port=16170"],
        "server",
        str(tmp_path),
        cwd=tmp_path,
        module="paddle.distributed.launch_ps",
    )
    assert run.returncode == 0, run.stderr
    assert sorted(known(tmp_path)) == ["PSERVER.16170", "TRAINER.0"] and (tmp_path / "logs" / "serverlog.0").exists()


def test_a_failing_worker_ends_the_servers(tmp_path):
    run = launch(["--server_num=1", "--worker_num=1"], "no_such_mode", cwd=tmp_path)
    assert run.returncode == 1 and "KeyError: 'no_such_mode'" in run.stderr


def test_open_mpi(tmp_path):
    """Two launchers as started by mpirun, each with its rank."""
    env = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": str(os.getpid())}
    jobs = [
        begin(
            [f"--log_dir=log{r}"],
            "env",
            str(tmp_path),
            cwd=tmp_path,
            env=env | {"OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_LOCAL_RANK": r},
        )
        for r in "01"
    ]
    for job in jobs:
        _, err = job.communicate(timeout=300)
        assert job.returncode == 0, err
    found = [variables(f) for f in known(tmp_path).values()]
    assert [e["PADDLE_TRAINER_ID"] for e in found] == ["0", "1"]
    assert found[0]["PADDLE_TRAINER_ENDPOINTS"] == found[1]["PADDLE_TRAINER_ENDPOINTS"]
