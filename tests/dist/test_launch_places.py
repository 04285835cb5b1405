"""Which processes a launcher starts, by its flags and its environment: --ips, PaddleCloud, Kubernetes, SLURM, MPI."""

from __future__ import annotations

import argparse
import os

import pytest
from paddle.distributed import cloud_utils, utils
from paddle.distributed.fleet import cloud_utils as fleet_cloud
from paddle.distributed.launch import collective, cores, environment, job, ports, ps
from paddle.distributed.launch.args import LaunchError, parse

TOKEN = {"OAR_JOB_TOKEN": "00ff"}


def plan(flags: str, env: dict[str, str] | None = None) -> job.Job:
    args = parse([*flags.split(), "train.py"])
    return (ps if args.ps else collective).plan(args, {"CUDA_VISIBLE_DEVICES": ""} | (env or {}))


def ranks(found: job.Job) -> list[int]:
    return [p.rank for p in found.processes]


@pytest.mark.parametrize(
    "flags",
    [
        "--ips=10.0.0.1,10.0.0.2 --node_ip=10.0.0.2",
        "--cluster_node_ips=10.0.0.1,10.0.0.2 --node_ip=10.0.0.2 --selected_gpus=0,1",
    ],
)
def test_nodes_by_flags(flags):
    found = plan(flags + " --started_port=7000" + (" --nproc_per_node=2" if "gpus" not in flags else ""), TOKEN)
    assert found.endpoints == ["10.0.0.1:7000", "10.0.0.1:7001", "10.0.0.2:7000", "10.0.0.2:7001"]
    assert ranks(found) == [2, 3] and found.processes[0].env["PADDLE_CURRENT_ENDPOINT"] == "10.0.0.2:7000"
    assert found.master == ("10.0.0.1", 7000) and not found.hosts_master and found.token == "00ff"
    assert [p.env.get("FLAGS_selected_gpus") for p in found.processes] == (
        ["0", "1"] if "gpus" in flags else [None] * 2
    )


def test_the_default_ports_and_the_first_node():
    found = plan("--ips=10.0.0.1,10.0.0.2", {"POD_IP": "10.0.0.1", **TOKEN})
    assert found.endpoints == ["10.0.0.1:6070", "10.0.0.2:6070"] and found.hosts_master
    found = plan("--nproc_per_node=2", {"FLAGS_START_PORT": "35789"})
    assert found.endpoints == ["127.0.0.1:35789", "127.0.0.1:35790"]
    assert found.master == ("127.0.0.1", None) and found.hosts_master  # a free port


def test_this_node_is_found(monkeypatch):
    monkeypatch.setattr("socket.gethostbyname", lambda name: "10.0.0.2")
    assert ranks(plan("--ips=10.0.0.1,10.0.0.2", TOKEN)) == [1]
    monkeypatch.setattr("socket.gethostbyname", lambda name: "10.9.9.9")
    assert ranks(plan("--ips=192.0.2.1,127.0.0.1", TOKEN)) == [1]  # the only one that is local
    with pytest.raises(LaunchError, match="--node_ip"):
        plan("--ips=127.0.0.1,127.0.0.2")
    with pytest.raises(LaunchError, match="not among"):
        plan("--ips=10.0.0.1,10.0.0.2 --node_ip=10.0.0.3", TOKEN)
    with pytest.raises(LaunchError, match="twice"):
        plan("--ips=10.0.0.1,10.0.0.1", TOKEN)


def test_several_machines_need_a_token():
    with pytest.raises(LaunchError, match="OAR_JOB_TOKEN"):
        plan("--ips=10.0.0.1,10.0.0.2 --node_ip=10.0.0.1")
    with pytest.raises(LaunchError, match="hexadecimal"):
        plan("--ips=10.0.0.1,10.0.0.2 --node_ip=10.0.0.1", {"OAR_JOB_TOKEN": "xyz"})
    assert plan("--ips=127.0.0.1,127.0.0.2 --node_ip=127.0.0.1").token == ""  # not needed on one machine
    one, two = plan(""), plan("")
    assert one.token != two.token and one.name != two.name and len(one.token) == 64


CLOUD = {
    "PADDLE_TRAINERS_NUM": "2",
    "POD_IP": "127.0.0.1",
    "PADDLE_TRAINERS": "127.0.0.1,127.0.0.2",
    "PADDLE_TRAINER_ID": "1",
    "TRAINER_PORTS_NUM": "2",
}


def test_paddlecloud():
    found = plan("--gpus=0,1", CLOUD | {"PADDLE_PORT": "35789"})
    assert found.endpoints == ["127.0.0.1:35789", "127.0.0.1:35790", "127.0.0.2:35789", "127.0.0.2:35790"]
    assert ranks(found) == [2, 3] and found.master == ("127.0.0.1", 35789)
    listed = "127.0.0.1:6170,127.0.0.1:6171,127.0.0.2:6172,127.0.0.2:6173"
    found = plan("--nproc_per_node=1", CLOUD | {"DISTRIBUTED_TRAINER_ENDPOINTS": listed})
    assert found.endpoints == ["127.0.0.1:6170", "127.0.0.2:6172"] and ranks(found) == [1]
    assert len(plan("", CLOUD | {"PADDLE_TRAINERS_NUM": "1"}).endpoints) == 1
    for wrong, said in (
        ({"DISTRIBUTED_TRAINER_ENDPOINTS": "127.0.0.1:1"}, "4"),
        ({"PADDLE_TRAINER_ID": "2"}, "2 nodes"),
        ({"TRAINER_PORTS_NUM": "x"}, "TRAINER_PORTS_NUM"),
    ):
        with pytest.raises(LaunchError, match=said):
            plan("", CLOUD | wrong)
    with pytest.raises(LaunchError, match="ports a node"):
        plan("--nproc_per_node=3", CLOUD | {"DISTRIBUTED_TRAINER_ENDPOINTS": listed})


def test_parameter_servers_by_paddlecloud():
    env = CLOUD | {
        "TRAINING_ROLE": "PSERVER",
        "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:7000,127.0.0.2:7000",
        "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:7001,127.0.0.2:7001",
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_PORT": "7000",
    }
    assert ps.by_cloud(env) and not ps.by_cloud(CLOUD)
    found = ps.plan_cloud(env)
    assert [(p.role, p.name, p.endpoint) for p in found.processes] == [("PSERVER", "server 0", "127.0.0.1:7000")]
    assert found.hosts_master and found.master == ("127.0.0.1", 7001 + 0)
    found = ps.plan_cloud(env | {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "1"})
    assert found.processes[0].name == "rank 1" and not found.hosts_master
    with pytest.raises(LaunchError, match="TRAINING_ROLE"):
        ps.plan_cloud(env | {"TRAINING_ROLE": "COOK"})


@pytest.mark.parametrize(
    "index", [{"PADDLE_NODE_RANK": "1"}, {"HOSTNAME": "job-worker-1"}, {"JOB_COMPLETION_INDEX": "1"}]
)
def test_kubernetes_paddle_job(index):
    env = {"PADDLE_MASTER": "10.0.0.1:37777", "PADDLE_NNODES": "2", "PADDLE_JOB_ID": "job"} | TOKEN | index
    found = plan("--nproc_per_node=2", env)
    assert ranks(found) == [2, 3] and found.master == ("10.0.0.1", 37777) and found.name == "job"
    assert not found.hosts_master and len(set(found.endpoints)) == 4
    assert plan(
        "",
        env
        | {"PADDLE_NNODES": "1"}
        | {k: "0" for k in index if k != "HOSTNAME"}
        | ({"HOSTNAME": "job-worker-0"} if "HOSTNAME" in index else {}),
    ).master == ("127.0.0.1", None)


@pytest.mark.parametrize("env", [{"WORLD_SIZE": "3", "RANK": "2"}, {"NNODES": "3", "NODE_RANK": "2"}])
def test_kubernetes_master_address(env):
    found = plan("--nproc_per_node=2", {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "23456"} | env | TOKEN)
    assert ranks(found) == [4, 5] and len(found.endpoints) == 6 and found.master == ("10.0.0.1", 23456)
    with pytest.raises(LaunchError, match="index 2 of 2"):
        plan("", {"MASTER_ADDR": "10.0.0.1"} | {k: "2" for k in env} | TOKEN)


SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "n[01-02]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
} | TOKEN


def test_slurm(monkeypatch):
    monkeypatch.setattr("socket.getaddrinfo", lambda *a: [(0, 0, 0, "", ("10.0.0.1", 0))])
    found = plan("", SLURM)
    assert ranks(found) == [3] and found.processes[0].env["PADDLE_TRAINERS_NUM"] == "4"
    assert found.master[0] == "n01" and not found.hosts_master and found.name == "slurm-77.0"
    assert found.master == plan("", SLURM | {"SLURM_PROCID": "0", "SLURM_NODEID": "0"}).master  # all agree
    assert found.master[1] != plan("", SLURM | {"SLURM_JOB_ID": "78"}).master[1]
    assert plan("", SLURM | {"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "1234"}).master == ("10.0.0.9", 1234)
    one = plan("--nproc_per_node=2", SLURM | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"})
    assert ranks(one) == [0, 1] and one.hosts_master
    # the batch script is not a step: its launcher is the only one
    batch = {k: v for k, v in SLURM.items() if k != "SLURM_STEP_ID"}
    assert len(plan("", batch).endpoints) == len(plan("", SLURM | {"SLURM_STEP_ID": "4294967290"}).endpoints) == 1


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12]", ["n08", "n09", "n10", "n12"]),
        ("r[1-2]n[1,3],x", ["r1n1", "r1n3", "r2n1", "r2n3", "x"]),
        ("n[1-2]-ib", ["n1-ib", "n2-ib"]),
        ("", []),
    ],
)
def test_slurm_lists_of_nodes(text, nodes):
    assert environment.expand(text) == nodes


def test_slurm_wrong_lists():
    with pytest.raises(LaunchError, match="list of nodes"):
        environment.expand("n[a-b]")


def mpi(rank: int, size: int = 2, local: int = 2) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % local),
        "PMIX_NAMESPACE": "2834169857",
    }


def test_open_mpi():
    found = [plan("", mpi(r)) for r in (0, 1)]
    assert [ranks(f) for f in found] == [[0], [1]] and [f.hosts_master for f in found] == [True, False]
    assert found[0].master == found[1].master and found[0].master[0] == "127.0.0.1" and found[0].name == found[1].name
    assert found[0].endpoints == found[1].endpoints and len(set(found[0].endpoints)) == 2
    all_cores = sorted(os.sched_getaffinity(0))
    if len(all_cores) == os.cpu_count() and len(all_cores) >= 2:
        assert sorted(found[0].processes[0].cores + found[1].processes[0].cores) == all_cores
    with pytest.raises(LaunchError, match="MASTER_ADDR"):
        plan("", mpi(0, 4, 2))
    far = plan("", mpi(3, 4, 2) | {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"} | TOKEN)
    assert ranks(far) == [3] and far.master == ("10.0.0.1", 29500)


def test_mpich():
    env = {"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1", "MASTER_PORT": "29501"}
    found = plan("", env)
    assert ranks(found) == [1] and found.master == ("127.0.0.1", 29501)


def test_wrong_numbers_in_the_environment():
    for env in (
        {"FLAGS_START_PORT": "x"},
        mpi(5),
        mpi(0) | {"OMPI_COMM_WORLD_RANK": "-1"},
        CLOUD | {"PADDLE_TRAINER_ID": ""},
    ):
        with pytest.raises(LaunchError):
            plan("", env)


def test_parameter_servers_on_one_machine():
    found = plan("--server_num=2 --worker_num=3")
    assert [p.name for p in found.processes] == ["server 0", "server 1", "rank 0", "rank 1", "rank 2"]
    assert [p.log for p in found.processes] == [
        "serverlog.0",
        "serverlog.1",
        "workerlog.0",
        "workerlog.1",
        "workerlog.2",
    ]
    server, worker = found.processes[0].env, found.processes[3].env
    listed = server["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
    assert server["TRAINING_ROLE"] == "PSERVER" and worker["TRAINING_ROLE"] == "TRAINER"
    assert f"{server['POD_IP']}:{server['PADDLE_PORT']}" == listed[0] and len(set(listed + found.endpoints)) == 5
    assert worker["PADDLE_TRAINER_ID"] == "1" and "PADDLE_TRAINER_ID" not in server and "PADDLE_PORT" not in worker
    for name in ("PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_GLOO_HTTP_ENDPOINT"):
        assert server[name] == worker[name] and server[name]
    assert server["PADDLE_TRAINERS_NUM"] == worker["PADDLE_TRAINERS_NUM"] == "3"
    found = plan("--server_num=1 --worker_num=1 --http_port=7777", {"FLAGS_START_PORT": "7000"})
    assert [p.endpoint for p in found.processes] == ["127.0.0.1:7000", "127.0.0.1:7001"]
    assert found.processes[0].env["PADDLE_GLOO_HTTP_ENDPOINT"] == "127.0.0.1:7777"


def test_parameter_servers_on_several_machines():
    flags = "--servers=10.0.0.1:7000,10.0.0.2:7000 --workers=10.0.0.1,10.0.0.2,10.0.0.1"
    found = plan(flags, {"POD_IP": "10.0.0.2"} | TOKEN)
    assert [(p.name, p.endpoint, p.log) for p in found.processes] == [
        ("server 1", "10.0.0.2:7000", "serverlog.0"),
        ("rank 1", "10.0.0.2:6173", "workerlog.0"),
    ]
    assert found.processes[0].env["POD_IP"] == "10.0.0.2" and not found.hosts_master
    assert found.processes[1].env["PADDLE_TRAINER_ENDPOINTS"] == "10.0.0.1:6172,10.0.0.2:6173,10.0.0.1:6174"


def test_heterogeneous_workers():
    found = plan("--server_num=1 --worker_num=1 --heter_workers=127.0.0.1:7005,127.0.0.1:7006")
    heter = found.processes[2:]
    assert [(p.role, p.log, p.env["PADDLE_PORT"]) for p in heter] == [
        ("HETER_TRAINER", "heterlog.0", "7005"),
        ("HETER_TRAINER", "heterlog.1", "7006"),
    ]
    assert found.processes[0].env["PADDLE_HETER_TRAINER_IP_PORT_LIST"] == "127.0.0.1:7005,127.0.0.1:7006"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--server_num=2 --servers=127.0.0.1:1 --worker_num=1", "--server_num=2"),
        ("--worker_num=1", "--server_num"),
        ("--server_num=1 --workers=127.0.0.1:99999", "ip:port"),
        ("--servers=127.0.0.1 --worker_num=1", "ip:port"),
        ("--servers=127.0.0.1:7 --workers=127.0.0.1:7", "share the endpoint"),
        ("--server_num=1 --http_port=7", "--worker_num"),
    ],
)
def test_wrong_roles(flags, said):
    with pytest.raises(LaunchError, match=said):
        plan(flags)


@pytest.mark.parametrize(
    ("processes", "cpus", "local", "divided"),
    [
        (2, {0, 1, 2, 3}, (0, 1), [[0, 1], [2, 3]]),
        (3, {0, 1, 2, 3}, (0, 1), [[0], [1], [2, 3]]),
        (3, {5, 9}, (0, 1), [[]] * 3),
        (1, set(range(4096)), (1, 2), [list(range(2048, 4096))]),
        (1, {7}, (1, 2), [[7]]),
    ],
)
def test_dividing_cores(processes, cpus, local, divided, monkeypatch):
    monkeypatch.setattr(cores, "_key", lambda cpu: (0, cpu, cpu))
    assert cores.divide(processes, cpus, *local) == divided


def test_threads_of_a_core_stay_together(monkeypatch):
    monkeypatch.setattr(cores, "_key", lambda cpu: (0, cpu % 4, cpu))
    assert cores.divide(2, set(range(8))) == [[0, 4, 1, 5], [2, 6, 3, 7]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:1", ("a", 1)),
        ("a", ("a", None)),
        ("[::1]:5", ("::1", 5)),
        ("[::1]", ("::1", None)),
        (" a:1 ", ("a", 1)),
    ],
)
def test_endpoints(text, found):
    assert ports.split(text) == found
    for wrong in ("", ":1", "a:", "a:b", "a:0", "a:70000", "a:1:2", "::1"):
        with pytest.raises(LaunchError, match="ip:port"):
            ports.split(wrong)


def test_free_ports():
    found = ports.free(50)
    assert len(set(found)) == 50 and len(utils.find_free_ports(3)) == 3
    with pytest.raises(LaunchError, match="free ports"):
        ports.free(100000)


def test_helpers(monkeypatch):
    args = argparse.Namespace(
        cluster_node_ips="10.0.0.1,10.0.0.2",
        node_ip="10.0.0.2",
        started_port=None,
        use_paddlecloud=False,
        selected_gpus="0,1",
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    cluster, pod = cloud_utils.get_cluster_and_pod(args)
    assert cluster.trainers_endpoints() == ["10.0.0.1:6070", "10.0.0.1:6071", "10.0.0.2:6070", "10.0.0.2:6071"]
    assert pod.rank == 1 and [t.rank for t in pod.trainers] == [2, 3] and cluster.pods_nranks() == 2
    env = utils._prepare_trainer_env(cluster, pod.trainers[1])
    assert env["PADDLE_TRAINER_ID"] == "3" and env["FLAGS_selected_gpus"] == "1" and env["PADDLE_TRAINERS_NUM"] == "4"
    again, _ = cloud_utils.get_cluster_and_pod(args)
    assert again == cluster and cluster.pods[0] != cluster.pods[1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    assert utils.get_gpus("5,6") == [1, 2]
    with pytest.raises(AssertionError, match="CUDA_VISIBLE_DEVICES"):
        utils.get_gpus("7")
    for name, value in CLOUD.items():
        monkeypatch.setenv(name, value)
    assert fleet_cloud.use_paddlecloud() and fleet_cloud.get_trainers_num() == 2
    cluster, pod = fleet_cloud.get_cloud_cluster("127.0.0.1", 0, [0, 1])
    assert cluster.trainers_endpoints()[2] == "127.0.0.2:6170" and pod.addr == "127.0.0.2"
    monkeypatch.delenv("POD_IP")
    with pytest.raises(ValueError, match="POD_IP"):
        fleet_cloud.get_cloud_cluster("127.0.0.1", 0, [0, 1])


def test_starting_processes_by_the_helpers(tmp_path, capsys):
    script = tmp_path / "s.py"
    script.write_text("import os, sys; print(os.environ['PADDLE_TRAINER_ID']); sys.exit(int(sys.argv[1]))")
    args = argparse.Namespace(
        cluster_node_ips="127.0.0.1", node_ip="127.0.0.1", started_port=None, use_paddlecloud=False
    )
    cluster, pod = utils.get_cluster_from_args(args, [0, 1])
    for code in ("0", "3"):
        procs = utils.start_local_trainers(cluster, pod, str(script), [code], log_dir=str(tmp_path / "log"))
        try:
            while utils.watch_local_trainers(procs, 2):
                continue
            assert code == "0"
        except SystemExit:
            assert code == "3"
        utils.terminate_local_procs(procs)
    # the failure of the first may end the second before its output
    assert (tmp_path / "log/workerlog.1").read_text() in ("1\n1\n", "1\n") and capsys.readouterr().out.startswith("0\n")
