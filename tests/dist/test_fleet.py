"""paddle.distributed.fleet: roles from the environment, small values between processes, training in both modes."""

from __future__ import annotations

import copy
import threading
import warnings

import numpy as np
import paddle
import paddle.distributed as dist
import pytest
from paddle import nn, static
from paddle._basics import unique_name
from paddle.distributed import fleet
from paddle.distributed.fleet.base import exchange
from paddle.distributed.fleet.base.role_maker import Gloo
from paddle.distributed.fleet.utils.fs import FSFileExistsError, FSFileNotExistsError, LocalFS
from paddle.distributed.fleet.utils.http_server import KVServer

SERVERS = {
    "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:6000,10.0.0.2:6000",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_ENDPOINTS": "10.0.0.3:6000,10.0.0.4:6000",
}
NAMES = [*SERVERS, "TRAINING_ROLE", "PADDLE_TRAINER_ID", "POD_IP", "PADDLE_PORT", "PADDLE_WITH_GLOO"]


@pytest.fixture
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return lambda **values: [monkeypatch.setenv(k, v) for k, v in values.items()]


def test_a_process_without_variables_is_alone(environment):
    for collective in (False, True):
        role = fleet.PaddleCloudRoleMaker(is_collective=collective)
        assert (role._is_worker(), role._is_first_worker(), role._worker_num()) == (True, True, 1)
        assert role._is_non_distributed() and not role._is_server()


def test_roles_of_a_job_with_servers(environment):
    environment(**SERVERS, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID="1")
    worker = fleet.PaddleCloudRoleMaker()
    assert (worker._is_worker(), worker._worker_index(), worker._worker_num(), worker._server_num()) == (True, 1, 2, 2)
    assert (worker._is_first_worker(), worker._node_num()) == (False, 2)
    environment(TRAINING_ROLE="PSERVER", POD_IP="10.0.0.2", PADDLE_PORT="6000")
    server = fleet.PaddleCloudRoleMaker()
    assert (server._is_server(), server._server_index()) == (True, 1)


@pytest.mark.parametrize(
    "values, named",
    [
        ({}, "TRAINING_ROLE"),
        ({"TRAINING_ROLE": "COOK"}, "COOK"),
        ({"TRAINING_ROLE": "TRAINER"}, "PADDLE_TRAINER_ID"),
        ({"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "5"}, "5"),
        ({"TRAINING_ROLE": "PSERVER", "POD_IP": "10.0.0.9", "PADDLE_PORT": "6000"}, "10.0.0.9:6000"),
    ],
)
def test_what_the_environment_lacks_is_named(environment, values, named):
    environment(**SERVERS, **values)
    with pytest.raises(ValueError, match=named):
        fleet.PaddleCloudRoleMaker()._is_worker()


def test_wrong_arguments():
    with pytest.raises(ValueError, match="is_collective"):
        fleet.init(is_collective="yes")
    with pytest.raises(ValueError, match="role_maker"):
        fleet.init("worker")
    with pytest.raises(AssertionError, match="worker_num"):
        fleet.UserDefinedRoleMaker(role=fleet.Role.WORKER, current_id=0)._is_worker()
    with pytest.raises(TypeError, match="list"):
        fleet.UtilBase().get_file_shard("file")
    with pytest.raises(RuntimeError, match="fleet.init"):
        fleet.Fleet().worker_num()


@pytest.mark.parametrize("workers, files", [(1, 3), (2, 3), (3, 2), (4, 10)])
def test_files_are_partitioned(workers, files):
    names, parts = [f"f{i}" for i in range(files)], []
    for me in range(workers):
        util = fleet.UtilBase()
        endpoints = [f"h:{i}" for i in range(workers)]
        role = fleet.UserDefinedRoleMaker(role=fleet.Role.WORKER, current_id=me, worker_endpoints=endpoints)
        util._set_role_maker(role)
        part = util.get_file_shard(names)
        assert len(part) in (files // workers, files // workers + 1)
        parts += part
    assert parts == names


def meet(rendezvous, settings, workers=2, servers=1):
    """The results of Gloo in every process of a job (as threads)."""
    found, failed = {}, []

    def process(role, me):
        try:
            gloo = Gloo()
            mine = dict(settings, start_http_server=role == fleet.Role.SERVER and me == 0)
            gloo.init(rendezvous, role, me, workers, servers, True, mine)
            name = "worker" if role == fleet.Role.WORKER else "server"
            for step in range(4):  # noqa: B007 (read after the loop)
                total = gloo.all_reduce(np.int64([[me, 10]]), "sum", name)
                peak = gloo.all_reduce([float(me)], "max", "all")
            found[name, me] = (total.tolist(), float(peak[0]), gloo.all_gather(me + step, "all"))
            gloo.barrier("all")
            if gloo._http_server is not None:
                found["server"] = gloo._http_server
        except Exception as e:  # noqa: BLE001
            failed.append(e)

    jobs = [(fleet.Role.WORKER, i) for i in range(workers)] + [(fleet.Role.SERVER, i) for i in range(servers)]
    threads = [threading.Thread(target=process, args=job) for job in jobs]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not failed and not any(t.is_alive() for t in threads), failed
    return found


def test_rendezvous_by_folder_and_server(tmp_path):
    board = KVServer(0)
    port = board.http_server.server_port
    board.http_server.server_close()
    here = {"http.host": "127.0.0.1", "http.port": port}
    ways = [(Gloo.RENDEZVOUS.FILE, {"dfs.path": str(tmp_path)}), (Gloo.RENDEZVOUS.HTTP, here)]
    for rendezvous, settings in ways:
        found = meet(rendezvous, {**settings, "store.prefix": "job"})
        if "server" in found:
            found.pop("server").stop()
        assert found["worker", 0] == found["worker", 1] == ([[1, 20]], 1.0, [3, 4, 3])
        assert found["server", 0] == ([[0, 10]], 1.0, [3, 4, 3])
    # old values are deleted: those of two operations for each group remain
    assert len(list((tmp_path / "job").iterdir())) <= 2 * (3 + 2 + 1)


def test_gloo_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="dfs.path"):
        Gloo().init(Gloo.RENDEZVOUS.FILE, fleet.Role.WORKER, 0, 1, 0)
    with pytest.raises(ValueError, match="rendezvous"):
        Gloo().init(7, fleet.Role.WORKER, 0, 1, 0)
    with pytest.warns(UserWarning, match="not initialized"):
        assert Gloo().all_reduce([1]) == [1]
    gloo = Gloo()
    gloo.init(Gloo.RENDEZVOUS.FILE, fleet.Role.WORKER, 0, 1, 0, kwargs={"dfs.path": str(tmp_path)})
    with pytest.raises(ValueError, match="comm_world"):
        gloo.barrier("moon")
    with pytest.raises(ValueError, match="'server'"):
        gloo.barrier("server")
    with pytest.raises(ValueError, match="mode"):
        gloo.all_reduce([1], "mean")
    gloo._groups["worker"].size, gloo._groups["worker"].seconds = 2, 0.2
    with pytest.raises(TimeoutError, match=r"\[1\]"):
        gloo.barrier("worker")


# ------------------------------------------------------------------------------------------------- strategy

# The file of Paddle 2.6.2 for the strategy below.
TEXT = """amp: true
recompute: true
localsgd: true
lars: true
fuse_grad_size_in_MB: 16
recompute_configs {
  checkpoints: "x"
}
amp_configs {
  incr_ratio: 1.5
  custom_white_list: "conv2d"
  custom_white_list: "a\\"b"
}
localsgd_configs {
  k_steps: 4
}
lars_configs {
  lars_coeff: 0.002
  epsilon: 1e-09
}
"""


def test_a_strategy_in_protobufs_text(tmp_path):
    s = fleet.DistributedStrategy()
    s.amp = s.recompute = s.localsgd = s.lars = True
    s.amp_configs = {"custom_white_list": ["conv2d", 'a"b'], "incr_ratio": 1.5}
    s.recompute_configs, s.localsgd_configs = {"checkpoints": ["x"]}, {"k_steps": 4}
    s.lars_configs = {"lars_coeff": 0.002, "epsilon": 1e-9}
    s.fuse_grad_size_in_MB = 16
    file = tmp_path / "strategy"
    s.save_to_prototxt(str(file))
    assert file.read_text() == TEXT
    other = fleet.DistributedStrategy()
    other.load_from_prototxt(str(file))
    assert (other.amp_configs, other.lars_configs) == (s.amp_configs, s.lars_configs)
    assert "amp=True <-> amp_configs" in str(other) and "lars_coeff" in str(other)


def test_a_copy_of_a_strategy_is_its_own():
    s = fleet.DistributedStrategy()
    s.amp_configs = {"custom_white_list": ["conv2d"]}
    other = copy.deepcopy(s)
    other.amp_configs = {"custom_white_list": ["mul"], "incr_ratio": 1.5}
    other.sharding = True
    assert s.amp_configs["custom_white_list"] == ["conv2d"] and s.amp_configs["incr_ratio"] == 2.0
    assert (s.sharding, other.amp_configs["incr_ratio"]) == (False, 1.5)


@pytest.mark.parametrize(
    "text, line",
    [
        ("amp: true\nfoo: 1", "line 2.*foo"),
        ("lamb: 3.5", "line 1.*lamb"),
        ("amp true", "line 1.*':'"),
        ("\namp_configs {\n incr_ratio: 2", "line 3"),
        ("amp_configs {\n incr_ratio: x }", "line 2.*incr_ratio"),
        ("amp: true }", "line 1"),
        ("nccl_comm_num: 99999999999", "nccl_comm_num"),
        ('recompute_configs { checkpoints: "a', "line 1"),
    ],
)
def test_a_wrong_text_is_refused_by_its_line(tmp_path, text, line):
    (tmp_path / "s").write_text(text)
    with pytest.raises(ValueError, match=line):
        fleet.DistributedStrategy().load_from_prototxt(str(tmp_path / "s"))


def test_fields_of_a_strategy():
    s = fleet.DistributedStrategy()
    with pytest.raises(TypeError, match="unknown"):
        s.unknown = 1
    with pytest.raises(AssertionError, match="k_stepz"):
        s.localsgd_configs = {"k_stepz": 1}
    with pytest.raises(TypeError, match="k_steps"):
        s.localsgd_configs = {"k_steps": "1"}
    with pytest.warns(UserWarning, match="amp takes a bool"):
        s.amp = "True"
    assert s.amp is False and s.a_sync is True
    build = static.BuildStrategy()
    build.fuse_bn_act_ops = True
    s.build_strategy = build
    assert s.build_strategy.fuse_bn_act_ops


def test_local_files(tmp_path):
    fs, a, b = LocalFS(), str(tmp_path / "a"), str(tmp_path / "b")
    fs.touch(a)
    fs.touch(b)
    with pytest.raises(FSFileExistsError):
        fs.touch(a, exist_ok=False)
    with pytest.raises(FSFileExistsError):
        fs.mv(a, b)
    fs.mv(a, b, overwrite=True)
    with pytest.raises(FSFileNotExistsError):
        fs.mv(a, b)
    with pytest.raises(AssertionError, match="file"):
        fs.mkdirs(b)
    fs.mkdirs(str(tmp_path / "$(touch x)" / "c"))
    assert fs.ls_dir(str(tmp_path)) == (["$(touch x)"], ["b"])
    fs.delete(str(tmp_path / "$(touch x)"))
    fs.delete(a)
    assert fs.list_dirs(str(tmp_path)) == [] and fs.ls_dir(a) == ([], [])


def test_auc_of_all_workers():
    score, label = np.random.RandomState(0).rand(2, 200)
    label = (label < score).astype("int64")
    bucket = (score * 64).astype(int)
    stats = [np.bincount(bucket[label == k], minlength=65)[None] for k in (1, 0)]

    class Alone:
        def all_reduce(self, value, mode):
            return value

    pairs = bucket[label == 1][:, None] - bucket[label == 0][None]
    want = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
    assert fleet.metrics.auc(*stats, util=Alone()) == pytest.approx(want)
    assert fleet.metrics.auc(stats[0], stats[1] * 0, util=Alone()) == 0.5
    assert fleet.metrics.rmse(np.float32([8]), np.float32([2]), util=Alone()) == 2.0


# ------------------------------------------------------------------------------------------------- training

X = np.random.RandomState(1).rand(12, 4).astype("float32")


def job(rank, ranks):
    warnings.simplefilter("ignore")
    endpoints = [f"127.0.0.1:{6170 + i}" for i in range(ranks)]
    fleet.init(fleet.UserDefinedRoleMaker(is_collective=True, current_id=rank, worker_endpoints=endpoints))


def dygraph():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    job(rank, ranks)
    paddle.seed(3 + rank)  # rank 0's parameters are broadcast
    net = nn.Linear(4, 1)
    optimizer = fleet.distributed_optimizer(paddle.optimizer.Momentum(0.1, parameters=net.parameters()))
    model = fleet.distributed_model(net)
    for _ in range(5):
        loss = (model(paddle.to_tensor(np.array_split(X, ranks)[rank])) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    return net.weight.numpy(), fleet.get_lr(), fleet.worker_num()


def program():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    paddle.enable_static()
    try:
        job(rank, ranks)
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup), static.scope_guard(static.Scope()), unique_name.guard():
            main.random_seed = startup.random_seed = 3 + rank
            loss = paddle.mean(paddle.square(static.nn.fc(static.data("x", [None, 4]), 1, weight_attr="w")))
            fleet.distributed_optimizer(paddle.optimizer.Momentum(0.1)).minimize(loss, startup)
            exe = static.Executor()
            exe.run(startup)
            for _ in range(5):
                (w,) = exe.run(main, {"x": np.array_split(X, ranks)[rank]}, ["w"])
            return w
    finally:
        paddle.disable_static()


def test_three_workers_train_as_one(three):
    first, *others = three.run(dygraph)
    assert first[1:] == (pytest.approx(0.1), 3)
    for found in others:
        np.testing.assert_array_equal(found[0], first[0])
    np.testing.assert_allclose(first[0], dygraph()[0], rtol=2e-5)


def test_three_workers_train_a_program_as_one(three):
    first, *others = three.run(program)
    for found in others:
        np.testing.assert_array_equal(found, first)
    np.testing.assert_allclose(first, program(), rtol=2e-5)


def test_steps_of_a_job_with_servers_come_after_minimize():
    role = fleet.UserDefinedRoleMaker(
        current_id=0, role=fleet.Role.WORKER, worker_endpoints=["h:1", "h:2"], server_endpoints=["h:3"]
    )
    alone, fresh = fleet.Fleet(), fleet.Fleet()
    alone.init(fleet.UserDefinedRoleMaker(is_collective=True, current_id=0, worker_endpoints=["h:1"]))
    fresh.init(role)
    with pytest.raises(ValueError, match="fleet.init_server: call fleet.minimize first"):
        fresh.init_server()
    with pytest.raises(ValueError, match="minimize"):
        fresh.save_persistables(None, "folder")
    with pytest.warns(UserWarning, match="minimize"):
        assert alone._get_applied_meta_list() == []
    alone.distributed_optimizer(paddle.optimizer.SGD(parameters=nn.Linear(1, 1).parameters()))
    with pytest.raises(AssertionError, match="amp"):
        alone.amp_init(paddle.CPUPlace())


def test_a_generator_of_strings_and_what_one_rank_prints(capsys):
    class Generator(fleet.MultiSlotStringDataGenerator):
        def generate_sample(self, line):
            return lambda: iter([[("words", line.split()), ("label", ["1"])]])

    made = Generator()
    assert made._gen_str([("words", ["1926", "08"]), ("label", ["1"])]) == "2 1926 08 1 1\n"
    with pytest.raises(ValueError, match="a sample is a list or tuple"):
        made._gen_str("words")
    endpoints = [f"h:{i}" for i in range(2)]
    for me in range(2):
        util = fleet.UtilBase()
        util._set_role_maker(
            fleet.UserDefinedRoleMaker(role=fleet.Role.WORKER, current_id=me, worker_endpoints=endpoints)
        )
        util.print_on_rank(f"of {me}", 1)
    assert capsys.readouterr().out == "of 1\n"


def test_a_lost_rendezvous_server_is_named(monkeypatch):
    monkeypatch.setattr(exchange, "_GONE", 0.2)
    board = KVServer(0)
    board.start()
    port = board.http_server.server_port
    web = exchange.Web("127.0.0.1", port, "job")
    group = exchange.Exchange(web, "worker", 0, 2, 60)
    web.put("worker.0.1", b"7")
    assert group.all_gather(3) == [3, 7]
    board.stop()
    with pytest.raises(RuntimeError, match="answered before and has been gone for 0 s"):
        group.barrier()
    late = exchange.Exchange(exchange.Web("127.0.0.1", port, "job"), "worker", 0, 2, 0.3)
    with pytest.raises(OSError):  # before the first answer the server may still start
        late.barrier()
