"""Role makers of 1.x (fluid.incubate.fleet.base.role_maker)."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from paddle.fluid.incubate.fleet.base import role_maker as rm

ENDPOINTS = {
    "PADDLE_PSERVERS_IP_PORT_LIST": "h:1,h:2",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_ENDPOINTS": "h:3,h:4",
}
NAMES = [*ENDPOINTS, "TRAINING_ROLE", "PADDLE_TRAINER_ID", "POD_IP", "PADDLE_PORT", "PADDLE_PSERVER_ID", "SYS_JOB_ID"]


@pytest.fixture
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return lambda **values: [monkeypatch.setenv(k, v) for k, v in values.items()]


def test_the_base_knows_nothing():
    base = rm.RoleMakerBase()
    for name in ("is_worker", "is_server", "is_first_worker", "worker_num", "worker_index", "server_index", "role_id"):
        with pytest.raises(NotImplementedError):
            getattr(base, name)()
    assert (base.get_trainer_endpoints(), base.get_pserver_endpoints()) == ([], [])
    with pytest.warns(UserWarning, match="barrier_all"):
        base.barrier_all()


def test_paddlecloud(environment):
    environment(**ENDPOINTS, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID="1")
    worker = rm.PaddleCloudRoleMaker()
    assert (worker.is_worker(), worker.is_first_worker(), worker.worker_index(), worker.worker_num()) == (
        True,
        False,
        1,
        2,
    )
    assert (worker.role_id(), worker.get_pserver_endpoints()) == (1, ["h:1", "h:2"])
    environment(TRAINING_ROLE="PSERVER", POD_IP="h", PADDLE_PORT="2")
    server = rm.PaddleCloudRoleMaker()
    assert (server.is_server(), server.server_index()) == (True, 1)
    collective = rm.PaddleCloudRoleMaker(is_collective=True)
    assert (collective.worker_num(), collective.worker_index()) == (2, 1)
    environment(TRAINING_ROLE="COOK")
    with pytest.raises(ValueError, match="COOK"):
        rm.PaddleCloudRoleMaker().is_worker()


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({}, TypeError),
        ({"server_endpoints": []}, ValueError),
        ({"server_endpoints": ["a", "a"], "worker_num": 1}, ValueError),
        ({"server_endpoints": [1], "worker_num": 1}, TypeError),
        ({"server_endpoints": ["a"], "worker_num": 0}, ValueError),
        ({"server_endpoints": ["a"], "worker_num": 1, "current_id": 1}, ValueError),
        ({"server_endpoints": ["a"], "worker_num": 1, "current_id": "0"}, TypeError),
        ({"server_endpoints": ["a"], "worker_num": 1, "role": "server"}, TypeError),
    ],
)
def test_wrong_definitions(arguments, error):
    with pytest.raises(error, match="UserDefinedRoleMaker"):
        rm.UserDefinedRoleMaker(**arguments)


def test_defined_by_the_user():
    server = rm.UserDefinedRoleMaker(1, rm.Role.SERVER, 3, ["a:1", "b:1"])
    assert (server.is_server(), server.server_index(), server.worker_num()) == (True, 1, 3)
    worker = rm.UserDefinedCollectiveRoleMaker(0, ["a:1", "b:1"])
    assert (worker.is_first_worker(), worker.worker_num(), worker.get_trainer_endpoints()) == (True, 2, ["a:1", "b:1"])
    with pytest.raises(ValueError, match="current_id"):
        rm.UserDefinedCollectiveRoleMaker(2, ["a:1", "b:1"])


def test_a_general_job_with_a_folder(environment, tmp_path):
    makers = []
    for role, number in (("TRAINER", "0"), ("TRAINER", "1"), ("PSERVER", "0"), ("PSERVER", "1")):
        environment(**ENDPOINTS, TRAINING_ROLE=role, PADDLE_TRAINER_ID=number, PADDLE_PSERVER_ID=number, SYS_JOB_ID="j")
        makers.append(rm.GeneralRoleMaker(path=str(tmp_path)))
        # processes are threads with one environment: they start in sequence
        read, met = threading.Event(), makers[-1]._gloo.init
        makers[-1]._gloo.init = lambda *a, read=read, met=met: (read.set(), met(*a))
        thread = threading.Thread(target=makers[-1].generate_role)
        thread.start()
        assert read.wait(30)
        makers[-1].thread = thread
    found = {}

    def work(i, maker):
        maker.thread.join(30)
        out = np.zeros(2)
        maker.all_reduce_worker(np.array([i, 1.0]), out)
        maker.barrier_worker()
        found[i] = (maker.all_gather(i), out.tolist(), maker.get_local_endpoint(), maker.server_num())
        maker.barrier_all()

    threads = [threading.Thread(target=work, args=job) for job in enumerate(makers)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    sums = [[1.0, 2.0]] * 2 + [[0.0, 0.0]] * 2
    assert found == {i: ([0, 1, 2, 3], sums[i], ["h:3", "h:4", "h:1", "h:2"][i], 2) for i in range(4)}


def test_workers_on_xpus(environment, tmp_path):
    makers = []
    for role in ("TRAINER", "XPU", "PSERVER"):
        environment(
            PADDLE_PSERVERS_IP_PORT_LIST="h:1",
            PADDLE_TRAINER_ENDPOINTS="h:2",
            PADDLE_XPU_ENDPOINTS="h:3",
            TRAINING_ROLE=role,
            PADDLE_TRAINER_ID="0",
            PADDLE_XPU_ID="0",
            PADDLE_PSERVER_ID="0",
            SYS_JOB_ID="x",
        )
        maker = rm.HeterRoleMaker(path=str(tmp_path))
        # as above: the environment is read before the rendezvous
        read, connect = threading.Event(), maker._connect_group
        maker._connect_group = lambda *a, read=read, connect=connect: (read.set(), connect(*a))[1]
        maker.thread = threading.Thread(target=maker.generate_role)
        maker.thread.start()
        assert read.wait(30)
        makers.append(maker)
    found = {}

    def work(i, maker):
        maker.thread.join(30)
        maker._barrier_heter()
        maker._barrier_xpu()
        found[i] = (maker.all_gather(i), maker.is_worker(), maker.is_first_xpu(), maker.is_server(), maker.xpu_num())

    threads = [threading.Thread(target=work, args=job) for job in enumerate(makers)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    # workers, then servers, then XPU workers
    assert found == {i: ([0, 2, 1], i == 0, i == 1, i == 2, 1) for i in range(3)}
    environment(TRAINING_ROLE="XPU", PADDLE_XPU_ID="5")
    with pytest.raises(ValueError, match="no number 5"):
        rm.HeterRoleMaker(path=str(tmp_path)).generate_role()


class Comm:
    """A communicator of one rank among `size` with equal values."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size

    def allgather(self, value):
        return [value] * self.size

    def Split(self, kind):
        return Comm(self.rank // 2, self.size // 2)

    def barrier(self):
        pass


def test_mpi(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match="mpi4py"):
        rm.MPISymetricRoleMaker()
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=SimpleNamespace(COMM_WORLD=Comm(3, 4))))
    base = rm.MPIRoleMaker()
    assert (base._get_rank(), base._get_size()) == (3, 4)
    role = rm.MPISymetricRoleMaker()
    with pytest.raises(NameError, match="generate_role"):
        role.is_worker()
    role.generate_role()
    assert (role.is_worker(), role.worker_index(), role.worker_num(), len(role.get_pserver_endpoints())) == (
        True,
        1,
        2,
        2,
    )
    out = np.zeros(2)
    role.all_reduce_worker(np.array([1.0, 2.0]), out)
    assert out.tolist() == [2.0, 4.0] and role.all_gather(7) == [7] * 4
