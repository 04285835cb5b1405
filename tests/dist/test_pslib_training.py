"""Training with Downpour's tables: jobs under the launcher, and each rule against numpy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.fluid as fluid
import pslib_training as model
import pytest
from launching import clean_environment
from paddle.distributed.ps.pslib import server_programs, trainer_programs
from paddle.fluid.distributed import fleet as downpour
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddle.fluid.incubate.fleet.parameter_server import pslib
from paddle.fluid.incubate.fleet.parameter_server.pslib.node import DownpourServer
from paddle.fluid.transpiler.details import delete_ops

SCRIPT = str(Path(__file__).with_name("pslib_training.py"))


@pytest.fixture
def static():
    paddle.enable_static()
    with (
        fluid.scope_guard(fluid.Scope()),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
    ):
        yield
    paddle.disable_static()


def job(folder: Path, count: int, *arguments: str, script: str = SCRIPT) -> list[list[float]]:
    """The losses of the workers of a job with as many servers."""
    sizes = [f"--server_num={count}", f"--worker_num={count}"]
    command = [sys.executable, "-m", "paddle.distributed.launch", *sizes, script, str(folder), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(OAR_TIMEOUT="60"), capture_output=True, text=True, timeout=300
    )
    logs = "\n".join(p.read_text()[-3000:] for p in sorted((folder / "log").glob("*")))
    assert done.returncode == 0, done.stderr + logs
    return [json.loads((folder / f"losses.{i}").read_text()) for i in range(count)]


def test_sgd_is_that_of_one_process(tmp_path, static):
    (found,) = job(tmp_path, 1, "sgd", "20")
    loss = model.network(lambda ids, size, *_, **how: fluid.layers.embedding(ids, size, **how))
    fluid.optimizer.SGD(model.RATE).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    # Twenty steps, the four of the file, one more.
    steps = [*range(20), 0, 1, 2, 3, 0]
    want = [exe.run(feed=model.feed(model.samples(0, n)), fetch_list=[loss])[0].item() for n in steps]
    np.testing.assert_allclose(found, want[:20] + want[24:], rtol=1e-5, atol=1e-6)
    assert want[-1] < want[0] / 2


@pytest.mark.parametrize("kind", ["adagrad", "clicks", "cvm"])
def test_two_workers_and_two_servers(tmp_path, kind):
    for losses in job(tmp_path, 2, kind, "24"):
        assert np.isfinite(losses).all()
        assert np.mean(losses[20:24]) < np.mean(losses[:4]) * 0.8


def test_downpour_of_fluid_distributed(tmp_path):
    """Its tables count clicks; its lookups return rows without counts."""
    script = str(Path(__file__).with_name("downpour_training.py"))
    for losses in job(tmp_path, 2, "24", script=script):
        assert np.isfinite(losses).all()
        assert np.mean(losses[20:24]) < np.mean(losses[:4]) * 0.8
    assert [p.name for p in sorted((tmp_path / "saved" / "000").iterdir())] == ["part-000-00000", "part-001-00000"]
    assert sorted(p.name for p in (tmp_path / "saved" / "001").iterdir() if "." not in p.name) == ["b", "w"]


def test_downpour_needs_a_description():
    made = downpour.Fleet(UserDefinedRoleMaker(0, Role.SERVER, 1, ["127.0.0.1:6174"]))
    for run in (made.init_pserver, made.init_worker):
        with pytest.raises(ValueError, match="the `_fleet_opt` of a Program that DownpourSGD.minimize has described"):
            run({})


def described(**settings):
    """A sparse table of a description."""
    server = DownpourServer()
    server.add_sparse_table(7, {"sparse_" + k if "sparse_" not in k else k: v for k, v in settings.items()})
    return server_programs.SparseTable(server.get_desc().downpour_server_param.downpour_table_param[0])


def pushed(table, numbers, *values):
    """The lookup after these pushes."""
    main, begin, exe = fluid.default_main_program(), fluid.Program(), fluid.Executor(fluid.CPUPlace())
    begin.global_block().append_op(
        type="lookup_sparse_table_init", inputs={}, outputs={}, attrs={"large_scale_metas": [table.meta()]}
    )
    ids, value = fluid.data("ids", [None, 1], "int64"), fluid.data("value", [None, table.width])
    row = fluid.layers.fill_constant([1, table.width], "float32", 0.0)
    grad = main.global_block().create_var(name="grad", type=fluid.core.VarDesc.VarType.SELECTED_ROWS, dtype="float32")
    main.global_block().append_op(
        type="lookup_table_grad",
        inputs={"W": row, "Ids": ids, "Out@GRAD": value},
        outputs={"W@GRAD": grad},
        attrs={"is_sparse": True},
    )
    table.push(grad)
    table.lookup(ids)
    exe.run(begin)
    out = main.global_block().ops[-1].output("Out")[0]
    return [exe.run(feed={"ids": numbers, "value": v}, fetch_list=[out])[0] for v in values][-1]


IDS = np.array([[1 << 40], [3], [1 << 40]])
GRADS = [np.random.RandomState(i).uniform(-1, 1, [3, 4]).astype("float32") for i in range(3)]
SUMS = [np.stack([g[0] + g[2], g[1]]) for g in GRADS]


class TestRules:
    def check(self, want, **settings):
        kind = {
            "accessor_class": "DownpourSparseValueAccessor",
            "embedx_dim": 4,
            "initial_range": 0,
            "learning_rate": 0.1,
        }
        rounds = settings.pop("rounds", 3)
        found = pushed(described(**{**kind, **settings}), IDS, *GRADS[:rounds])
        np.testing.assert_allclose(found, want[[0, 1, 0]], rtol=1e-5, atol=1e-6)

    def test_naive(self, static):
        self.check(-0.1 * sum(SUMS), optimizer="naive")

    def test_bounds(self, static):
        self.check(np.clip(-9 * SUMS[0], -1, 2), optimizer="naive", learning_rate=9, weight_bounds=[-1, 2], rounds=1)

    def test_adagrad(self, static):
        w, g2sum = np.zeros([2, 4]), np.zeros([2, 1])
        for g in SUMS:
            w = w - 0.1 * g * np.sqrt(2 / (2 + g2sum))
            g2sum = g2sum + np.square(g).mean(1, keepdims=True)
        self.check(w, optimizer="adagrad", initial_g2sum=2)

    def test_adam(self, static):
        w, m, v = np.zeros([2, 4]), np.zeros([2, 4]), np.zeros([2, 4])
        for i, g in enumerate(SUMS, 1):
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            w = w - 0.1 * np.sqrt(1 - 0.99**i) / (1 - 0.9**i) * m / (np.sqrt(v) + 1e-8)
        self.check(w, optimizer="adam", beta2_decay_rate=0.99)

    def test_clicks(self, static):
        """The gradient is the mean over shows; columns after the first need enough clicks."""
        table = described(
            embedx_dim=2, embedx_threshold=2, learning_rate=0.1, initial_range=0, nonclk_coeff=0.5, click_coeff=1.5
        )
        assert table.width == 5
        push = np.array([[1, 1, 0.5, 1, 2], [1, 0, 0.3, 1, 2], [1, 0, 0.7, 1, 4]], "float32")
        found = pushed(table, IDS, push, push)
        g = np.array([0.6, 1, 3])  # of the row with two shows and a click at each push
        first = 0.1 * g[0] + 0.1 * g[0] * np.sqrt(3 / (3 + g[0] ** 2))
        # After the first push its score is 0.5 + 1.5; the other row's is 0.5, and 1 after the second.
        want = [[4, 2, -first, *(-0.1 * g[1:])], [2, 0, -0.03 - 0.03 * np.sqrt(3 / 3.09), 0, 0]]
        np.testing.assert_allclose(found, np.array(want)[[0, 1, 0]], rtol=1e-5)

    @pytest.mark.parametrize("name", ["naive", "adam", "summary"])
    def test_dense(self, static, name):
        server = DownpourServer()
        server.add_dense_table(
            0, [], [], {"dense_optimizer": name, "dense_naive_lr": 0.5, "dense_learning_rate": 0.5}, []
        )
        rule = server.get_desc().downpour_server_param.downpour_table_param[0].accessor.dense_sgd_param
        rule.summary.summary_decay_rate = 0.9
        param = fluid.layers.create_parameter([4], "float32", "p", default_initializer=fluid.initializer.Constant(1.0))
        server_programs._dense_push(param, fluid.data("g", [4]), rule)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        p, d2sum, g2sum, velocity = 1.0, 0.0, 0.0, 0.0
        for grad in (g[0] for g in GRADS):
            (found,) = exe.run(feed={"g": grad}, fetch_list=[param])
            if name == "naive":
                p = p - 0.5 * grad
            elif name == "summary":
                p = 0.9 * p + grad
            else:
                d2sum, g2sum = d2sum * 0.9999 + 1, g2sum * 0.9999 + grad**2
                velocity = (velocity - grad) * 0.99 + grad
                p = p - 0.5 * velocity * np.sqrt(d2sum * (1 + 1e-8) / (g2sum + d2sum * 1e-8))
            np.testing.assert_allclose(found, p, rtol=1e-4, atol=1e-5)


class TestRefused:
    def job(self, endpoints=("127.0.0.1:6174",), **settings):
        pslib.fleet.init(UserDefinedRoleMaker(0, Role.SERVER, 1, list(endpoints)))
        with pslib.fleet_embedding("click"):
            loss = model.network(fluid.layers.embedding)
        given = model.settings("sgd")
        given["table"] |= settings
        pslib.fleet.distributed_optimizer(fluid.optimizer.Adam(0.1), given).minimize(loss)
        return pslib.fleet

    @pytest.fixture(autouse=True)
    def fresh(self, monkeypatch, static):
        begin = {"enable": False, "emb_to_table": {}, "emb_to_accessor": {}, "emb_to_size": {}, "cur_sparse_id": 0}
        for name, value in begin.items():
            monkeypatch.setitem(pslib.FLEET_GLOBAL_DICT, name, value)

    def test_a_rule(self):
        with pytest.raises(NotImplementedError, match="sparse table 0: the rule 'mine' is not one of naive, adagrad"):
            self.job(sparse_optimizer="mine").run_server()

    def test_endpoints(self):
        with pytest.raises(ValueError, match=r"must know the servers' endpoints \(ip:port\), got \['here'\]"):
            self.job(["here"]).run_server()

    def test_a_folder(self):
        for path in ("hdfs:/x", "afs:/x"):
            with pytest.raises(
                ValueError, match=f"fleet.init_server: {path}: the servers write and read folders of their"
            ):
                self.job().init_server(path)

    def test_a_parameter_without_a_value(self, monkeypatch):
        fleet = self.job()
        monkeypatch.setattr(trainer_programs, "_ready", lambda *_: lambda: False)
        with pytest.raises(RuntimeError, match="the parameter b has no value: run the startup Program before"):
            trainer_programs.init_servers(fleet._opt_info["fleet_desc"], [fluid.global_scope()], ["127.0.0.1:6174"], 0)

    @pytest.mark.parametrize("epsilon", [-1, 0.5])
    def test_scaled_sums(self, epsilon):
        """The increments of data_norm are divided by the batch size, squares except epsilon."""
        pslib.fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1, ["127.0.0.1:6174"]))
        with pslib.fleet_embedding("click"):
            loss = model.network(lambda *a, **k: fluid.layers.data_norm(fluid.layers.embedding(*a, **k), name="norm"))
        given = model.settings("sgd") | {"scale_datanorm": epsilon}
        pslib.fleet.distributed_optimizer(fluid.optimizer.Adam(0.1), given).minimize(loss)
        program = pslib.fleet._main_programs[0]
        trainer_programs.Trainer(program, pslib.fleet._opt_info, ["127.0.0.1:6174"], 0).change()
        (send,) = [
            op for op in program.global_block().ops if op.type == "send" and "b@GRAD" in op.attr("send_varnames")
        ]
        sent = dict(zip(send.attr("send_varnames"), send.input("X"), strict=True))
        sums = {n: v for n, v in sent.items() if ".batch_" in n}
        assert sent["b@GRAD"] == "b@GRAD" and len(sums) == 3
        if epsilon < 0:
            assert all(n == v for n, v in sums.items())
            return
        # the operators after the gradients, with fed gradients
        block, start = program.global_block(), {n: np.full(model.WIDTH, 12, "float32") for n in sums}
        feed = model.feed(model.samples(0, 0)) | start
        needed, asked = [], set(sums.values()) - set(start)
        for op in reversed(block.ops):
            if asked & set(op.output_arg_names):
                needed.append(op)
                asked |= set(op.input_arg_names) - set(start)
        delete_ops(block, [op for op in block.ops if not any(op is one for one in needed)])
        assert not [op for op in block.ops if "lookup" in op.type]
        found = dict(zip(sums, fluid.Executor().run(program, feed, list(sums.values())), strict=True))
        for name, value in found.items():
            want = (12 - 8 * 0.5) / 8 + 8 * 0.5 if "square" in name else 12 / 8
            np.testing.assert_allclose(value, want, rtol=1e-6, err_msg=name)

    def test_what_a_trainer_s_program_holds(self):
        fleet = self.job()
        program = fleet._main_programs[0]
        trainer_programs.Trainer(program, fleet._opt_info, ["127.0.0.1:6174", "127.0.0.1:6175"], 0).change()
        ops = [op.type for op in program.global_block().ops]
        assert ops[:2] == ["recv", "fill_constant"] and ops[-2:] == ["send", "send_barrier"]
        assert ops.count("distributed_lookup_table") == 2 and ops.count("send") == 2 and ops.count("split_ids") == 1
        assert not {"pull_sparse", "push_sparse", "push_dense"} & set(ops)
