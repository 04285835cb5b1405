"""Executor.train_from_dataset and infer_from_dataset."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import paddle
import paddle._core as core
import pytest
from paddle import fluid
from paddle.distributed import InMemoryDataset, QueueDataset

pytestmark = pytest.mark.usefixtures("static")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(1)
    made = []
    for f in range(3):
        path = tmp_path / f"{f}.txt"
        with path.open("w") as out:
            for _ in range(50):
                ids = rng.integers(1, 40, rng.integers(1, 4))
                dense = f"{rng.random():.4f} {rng.random():.4f}"
                out.write(f"{len(ids)} {' '.join(map(str, ids))} 2 {dense} 1 {ids[0] % 2}\n")
        made.append(str(path))
    return made


class Model:
    """A click model with fixed initial values."""

    def __init__(self, optimizer=None):
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.main.random_seed = self.startup.random_seed = 7
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
            self.dense = fluid.data("dense", [None, 2], "float32")
            self.label = fluid.data("label", [None, 1], "int64")
            rows = fluid.layers.embedding(self.ids, [40, 4], is_sparse=True, param_attr="table")
            both = fluid.layers.concat([fluid.layers.sequence_pool(rows, "sum"), self.dense], axis=1)
            hidden = fluid.layers.fc(both, 8, act="relu")
            out = fluid.layers.fc(hidden, 2, act="softmax")
            self.loss = fluid.layers.mean(fluid.layers.cross_entropy(out, self.label))
            if optimizer is not None:
                optimizer().minimize(self.loss)
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.exe.run(self.startup, scope=self.scope)

    def dataset(self, kind, files, **settings):
        dataset = kind()
        dataset.init(**{"batch_size": 8, "use_var": [self.ids, self.dense, self.label], **settings})
        dataset.set_filelist(files)
        if isinstance(dataset, InMemoryDataset):
            dataset.load_into_memory()
        return dataset

    def parameters(self):
        names = [p.name for p in self.main.all_parameters()]
        return {n: np.array(self.scope.find_var(n).get_tensor()) for n in names}

    def losses(self, dataset):
        dataset._prepare_to_run()
        names, (reader,) = dataset.dataset.batches(1)
        while (batch := reader.next()) is not None:
            feed = dict(zip(names, batch[1], strict=True))
            yield self.exe.run(self.main, feed=feed, fetch_list=[self.loss], scope=self.scope)[0].item()


def sgd():
    return fluid.optimizer.SGD(0.1)


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
@pytest.mark.parametrize("optimizer", [sgd, lambda: fluid.optimizer.Adam(0.01, lazy_mode=True)])
def test_one_thread_equals_run(files, kind, optimizer):
    one, other = Model(optimizer), Model(optimizer)
    for _ in range(2):
        one.exe.train_from_dataset(one.main, one.dataset(kind, files), scope=one.scope)
        losses = list(other.losses(other.dataset(kind, files)))
    assert len(losses) == 19
    found, wanted = one.parameters(), other.parameters()
    assert len(wanted) == 5
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
def test_threads_train_together(files, kind):
    model = Model(sgd)
    dataset = model.dataset(kind, files, thread_num=3)
    first = np.mean(list(Model().losses(dataset)))
    for _ in range(15):
        model.exe.train_from_dataset(model.main, dataset, scope=model.scope)
    assert np.mean(list(model.losses(dataset))) < 0.8 * first
    assert model.scope.find_var("ids") is None  # variables of a run are local to it


def test_every_instance_is_trained_on_once(files):
    x = fluid.data("ids", [None, 1], "int64", lod_level=1)
    dense = fluid.data("dense", [None, 2], "float32")
    label = fluid.data("label", [None, 1], "int64")
    seen, lock = [], threading.Lock()

    def keep(values):
        with lock:
            seen.extend(np.array(values).reshape(-1).tolist())
        return np.zeros(1, np.float32)

    out = fluid.default_main_program().current_block().create_var(name="out", dtype="float32", shape=[1])
    fluid.layers.py_func(keep, dense, out)
    exe = fluid.Executor(fluid.CPUPlace())
    wanted = [v for f in files for line in open(f) for v in line.split()[-4:-2]]
    for kind in (InMemoryDataset, QueueDataset):
        for threads in (1, 2, 5):
            dataset = kind()
            dataset.init(batch_size=7, use_var=[x, dense, label], thread_num=threads)
            dataset.set_filelist(files)
            if kind is InMemoryDataset:
                dataset.load_into_memory()
            seen.clear()
            exe.train_from_dataset(dataset=dataset)
            assert sorted(seen) == sorted(float(np.float32(v)) for v in wanted)


def test_what_is_printed(files, capsys):
    model = Model(sgd)
    dataset = model.dataset(QueueDataset, files[:1])
    fetched = {"fetch_list": [model.loss, model.label], "fetch_info": ["loss", "label"]}
    model.exe.train_from_dataset(model.main, dataset, model.scope, print_period=3, **fetched)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    time = r"time: \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]"
    assert re.fullmatch(time + r", batch: \[3\], loss\[1\]:\[0\.\d+\], label\[8\]:\[[01 ]{15}\]", lines[0])
    with pytest.raises(AssertionError, match="fetch_info"):
        model.exe.train_from_dataset(model.main, dataset, model.scope, fetch_list=[model.loss], fetch_info=[])


def test_infer_changes_nothing(files, capsys):
    model = Model()
    before = model.parameters()
    dataset = model.dataset(InMemoryDataset, files, thread_num=2)
    model.exe.infer_from_dataset(model.main, dataset, model.scope, fetch_list=[model.loss], print_period=1)
    assert (
        capsys.readouterr().out.count("mean_0.tmp_0[1]:[") == 10
    )  # half of the 150 instances, in batches of 8, are the first thread's
    for name, value in model.parameters().items():
        np.testing.assert_array_equal(value, before[name])


def test_debug(files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = Model(sgd)
    dataset = model.dataset(InMemoryDataset, files)
    model.exe.train_from_dataset(model.main, dataset, model.scope, debug=True, thread=2)
    assert re.search(r"op_name:\[\d+\]\[softmax\], op_mean_time:\[0\.\d+s\]", capsys.readouterr().err)
    (desc,) = tmp_path.glob("*_train_desc.prototxt")
    begin = 'class_name: "MultiTrainer"\ndevice_worker_name: "HogwildWorker"\nthread_num: 2\n'
    assert desc.read_text().startswith(begin)


def test_fetch_handler(files):
    model = Model(sgd)
    got = []

    class Handler(fluid.executor.FetchHandler):
        def handler(self, res_dict):
            got.append(res_dict)

    dataset = model.dataset(QueueDataset, files, pipe_command="sleep 0.3; cat")
    handler = Handler({"cost": model.loss, "nothing": None}, period_secs=0.05)
    model.exe.train_from_dataset(model.main, dataset, model.scope, fetch_handler=handler)
    assert got and all(set(values) == {"cost", "nothing"} and values["nothing"] is None for values in got)
    losses = [values["cost"].item() for values in got if values["cost"] is not None]
    assert losses and all(0 < loss < 5 for loss in losses)
    count = len(got)
    assert threading.active_count() < 20 and len(got) == count


def test_what_the_handler_prints(capsys):
    handler = fluid.executor.FetchHandler({"a": None})
    handler.handler({"a": np.array([3, 4]), "b": None})
    handler.help()
    out = capsys.readouterr().out
    assert out.startswith("a[0]: 3 \n") and "class Auc(FetchHandler)" in out


@pytest.mark.parametrize("kind", [InMemoryDataset, QueueDataset])
@pytest.mark.parametrize("threads", [1, 3])
def test_errors_of_operators_and_data(files, tmp_path, kind, threads):
    model = Model(sgd)
    (tmp_path / "big.txt").write_text("1 1000 2 1 1 1 0\n")
    dataset = model.dataset(kind, [*files, str(tmp_path / "big.txt")], thread_num=threads)
    with pytest.raises((ValueError, IndexError), match="lookup_table"):
        model.exe.train_from_dataset(model.main, dataset, model.scope)
    (tmp_path / "bad.txt").write_text("1 1 2 1 1 1 0\n1 1 2 1\n")
    if kind is QueueDataset:
        dataset = model.dataset(kind, [*files, str(tmp_path / "bad.txt")], thread_num=threads)
        with pytest.raises(ValueError, match="bad.txt:2: slot 'dense'"):
            model.exe.train_from_dataset(model.main, dataset, model.scope)
        dataset = model.dataset(kind, files, thread_num=threads, pipe_command="head -n 9; exit 4")
        with pytest.raises(OSError, match="ended with status 4"):
            model.exe.train_from_dataset(model.main, dataset, model.scope)
    model.exe.train_from_dataset(model.main, model.dataset(kind, files), model.scope)


def test_wrong_calls(files):
    model = Model(sgd)
    dataset = model.dataset(QueueDataset, files)
    with pytest.raises(RuntimeError, match="dataset is need and should be initialized"):
        model.exe.train_from_dataset(model.main, None)
    with pytest.raises(TypeError, match="must be a Program"):
        model.exe.train_from_dataset("main", dataset)
    with pytest.raises(core.EnforceNotMet, match="startup program has not been run"):
        model.exe.train_from_dataset(model.main, dataset, fluid.Scope())
    model.main._fleet_opt = {"trainer": "DistMultiTrainer", "device_worker": "DownpourSGD"}
    with pytest.raises(NotImplementedError, match="DownpourSGD needs a service"):
        model.exe.train_from_dataset(model.main, dataset, model.scope)
    model.main._fleet_opt = {"trainer": "MultiTrainer", "device_worker": "Hogwild"}
    model.exe.train_from_dataset(model.main, dataset, model.scope)
    model.exe.close()
    with pytest.raises(RuntimeError, match="closed"):
        model.exe.train_from_dataset(model.main, dataset, model.scope)


def test_compiled_programs_and_schedules(files):
    def optimizer():
        return paddle.optimizer.SGD(paddle.optimizer.lr.StepDecay(0.1, 1))

    one, other = Model(optimizer), Model(optimizer)
    one.exe.train_from_dataset(fluid.CompiledProgram(one.main), one.dataset(InMemoryDataset, files), scope=one.scope)
    list(other.losses(other.dataset(InMemoryDataset, files)))
    for name, value in other.parameters().items():
        np.testing.assert_array_equal(one.parameters()[name], value)


#: a Program over a file whose pipe command does not end: `command` leaves its number, `train` starts the training
ENDLESS = """
import os, signal, threading, paddle
from paddle import fluid
paddle.enable_static()
x = fluid.data("x", [None, 1], "float32")
fluid.layers.scale(x, 2.0)
open("a.txt", "w").write("1 1\\n" * 100)
dataset = paddle.distributed.QueueDataset()
dataset.init(batch_size=4, use_var=[x], pipe_command="{command}; cat; sleep 1000")
dataset.set_filelist(["a.txt"])
"""
TRAIN = "fluid.Executor(fluid.CPUPlace()).train_from_dataset(dataset=dataset)"


def test_ctrl_c_ends_training(tmp_path):
    script = ENDLESS.format(command="echo $$ > pid") + textwrap.dedent(f"""
        threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            {TRAIN}
        except KeyboardInterrupt:
            print("interrupted", os.path.exists("/proc/" + open("pid").read().strip()))
    """)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["interrupted", "False"], done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_trainer_that_is_killed_leaves_no_pipe_command(tmp_path, number):
    script = ENDLESS.format(command="echo $$ > part; mv part pid") + TRAIN
    trainer = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    end, pid = time.monotonic() + 60, tmp_path / "pid"

    def until(holds):
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.01)

    until(pid.exists)
    command = Path("/proc") / pid.read_text().strip()
    assert command.exists() and trainer.poll() is None
    trainer.send_signal(number)
    assert trainer.wait(60) == -number
    until(lambda: not command.exists())


# ------------------------------------------------------------------------------------------------ descriptions


class Table:
    """A table as described by a pslib worker."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


def described(worker, trainer="DistMultiTrainer", infer=False, **more):
    program = fluid.Program()
    key = str(id(program))
    desc = Table(
        dense_table=[Table(table_id=1, dense_variable_name=["w"], dense_gradient_variable_name=["w@GRAD"])],
        sparse_table=[Table(table_id=0, slot_key=["ids"], slot_value=["emb"], slot_gradient=["emb@GRAD"])],
        skip_op=["lookup_table"],
    )
    accessor = Table(accessor=Table(fea_dim=11))
    server = Table(server_param=Table(downpour_server_param=Table(downpour_table_param=[accessor])))
    tables = {"pull_sparse": [0], "push_sparse": [0], "pull_dense": [1], "push_dense": [1]}
    program._fleet_opt = {
        "trainer": trainer,
        "device_worker": worker,
        "fleet_desc": server,
        "use_cvm": False,
        "stat_var_names": ["stat"],
        "program_configs": {key: tables},
        "program_id_to_worker": {key: Table(get_desc=lambda: desc)},
        "scale_datanorm": -1,
        "dump_slot": False,
        **more,
    }
    made = fluid.trainer_factory.TrainerFactory()._create_trainer(program._fleet_opt)
    made._set_program(program)
    made._set_infer(infer)
    made._gen_trainer_desc()
    return made


def test_downpour_is_described():
    desc = described("DownpourSGD").proto_desc
    assert (desc.class_name, desc.device_worker_name) == ("DistMultiTrainer", "DownpourWorker")
    (sparse,), (dense,) = desc.downpour_param.sparse_table, desc.downpour_param.dense_table
    assert (sparse.fea_dim, sparse.emb_dim, sparse.label_var_name) == (11, 9, "click")
    assert (list(dense.dense_grad_name), list(desc.downpour_param.skip_ops)) == (["w@GRAD"], ["lookup_table"])
    assert list(desc.pull_dense_param.dense_table[0].dense_value_name) == ["w"]
    assert described("DownpourSGD", use_cvm=True).proto_desc.downpour_param.sparse_table[0].emb_dim == 11
    opt = described("DownpourSGDOPT", local_tables=[0], infer=True).proto_desc
    assert (opt.device_worker_name, opt.downpour_param.push_dense) == ("DownpourWorkerOpt", False)
    assert opt.downpour_param.sparse_table[0].is_local and not opt.downpour_param.sparse_table[0].is_async
    hogwild = described("Hogwild", infer=True).proto_desc
    assert hogwild.hogwild_param.skip_ops[-1] == "push_dense" and hogwild.downpour_param.sparse_table[0].emb_dim == -1


def test_trainers_as_text_and_bytes():
    trainer = fluid.trainer_desc.MultiTrainer()
    trainer._set_thread(3)
    trainer._set_copy_table_config({"src_sparse_tables": 1, "dest_sparse_tables": [2], "dependency_map": {5: [6]}})
    trainer._set_adjust_ins_weight({"need_adjust": True, "nid_slot": "s"})
    text = str(trainer)
    assert "thread_num: 3\ncopy_table_config {\n" in text
    assert "table_denpendency_map {\n    key: 5\n    values: 6\n" in text
    assert trainer._desc().startswith(b"\x18\x03\x9a\x01")
    with pytest.raises(ValueError, match="len"):
        trainer._set_copy_table_config({"src_var_list": ["a"]})
    with pytest.raises(RuntimeError, match="_set_program"):
        trainer._gen_trainer_desc()
    with pytest.raises(ValueError, match="no trainer 'Unknown'"):
        fluid.trainer_factory.TrainerFactory()._create_trainer({"trainer": "Unknown", "device_worker": "Hogwild"})
    with pytest.raises(NotImplementedError):
        fluid.device_worker.DeviceWorker()._gen_worker_desc(None)


def test_private_methods_of_run(files):
    model = Model(sgd)
    feed = {"ids": fluid.create_lod_tensor(np.ones((2, 1), "int64"), [[2]], fluid.CPUPlace())}
    feed.update(dense=np.ones((1, 2), "float32"), label=np.zeros((1, 1), "int64"))
    how = "feed", "fetch", model.scope, True
    (one,) = model.exe._run_impl(model.main, feed, [model.loss], *how, False, True, False)
    (two,) = model.exe._run_program(model.main, feed, [model.loss], *how, False)
    compiled = fluid.CompiledProgram(model.main)
    (three,) = model.exe._run_parallel(compiled, model.scope, feed, [model.loss], "fetch", True, True)
    assert one > two > three
    minimized = [op for op in model.main.global_block().ops if op._is_optimize_op()]
    assert model.exe._split_optimize_ops_in_fetch_list([model.loss, minimized]) == ([model.loss], minimized)

    class Predictor:
        def run(self, feed):
            return feed

    assert model.exe._run_inference(Predictor(), [1]) == [1]
