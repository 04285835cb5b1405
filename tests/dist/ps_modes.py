"""A well-conditioned model in asynchronous modes, by servers and trainers or by one process.

    python ps_modes.py server|trainer|alone INDEX ENDPOINTS OUT NAME...

Arguments are those of ps_training.py; the result is the final loss over all samples.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.communicator import Communicator
from paddle.fluid.transpiler.geo_sgd_transpiler import GeoSgdTranspiler

FEATURES, ROWS, SAMPLES, BATCH, EPOCHS, TRAINERS = 16, 8, 1024, 64, 30, 2
RATE = 0.01


def samples() -> dict[str, np.ndarray]:
    """A linear law with noise, so that the minimum loss is far from 0."""
    r = np.random.RandomState(7)
    x = r.normal(size=(SAMPLES, FEATURES)).astype("float32")
    ids = r.randint(0, ROWS, (SAMPLES, 1)).astype("int64")
    y = x @ r.normal(size=(FEATURES, 1)) + r.normal(size=ROWS)[ids] + 0.5 * r.normal(size=(SAMPLES, 1))
    return {"x": x, "ids": ids, "y": y.astype("float32")}


def build():
    x = fluid.data("x", [None, FEATURES])
    ids = fluid.data("ids", [None, 1], "int64")
    y = fluid.data("y", [None, 1])
    constant = fluid.initializer.Constant(0.0)
    table = fluid.layers.embedding(
        ids,
        [ROWS, 1],
        is_sparse=True,
        # as fast as the others, though a sample updates only one row
        param_attr=fluid.ParamAttr(name="table", initializer=constant, learning_rate=float(ROWS)),
    )
    out = fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(name="w", initializer=constant), bias_attr=False) + table
    loss = fluid.layers.reduce_mean(fluid.layers.square_error_cost(out, y))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(RATE).minimize(loss)
    return loss, test


def batches(part: int, parts: int):
    """The batches of a trainer, by a permutation for each epoch."""
    data = samples()
    for epoch in range(EPOCHS):
        order = np.random.RandomState(epoch).permutation(SAMPLES)[part::parts]
        for at in range(0, len(order) - BATCH + 1, BATCH):
            yield {k: v[order[at : at + BATCH]] for k, v in data.items()}


def transpiler(kind: str):
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    if kind == "geo":
        config.geo_sgd_need_push_nums = 5
        return GeoSgdTranspiler(config)
    config.runtime_split_send_recv = True
    config.half_async = kind in ("half", "sync")
    config.completely_not_async = kind == "sync"
    return fluid.DistributeTranspiler(config)


def get_table(t, executor) -> None:
    """The whole table of the server."""
    program = fluid.Program()
    block = program.global_block()
    block.create_var(name="table", shape=[ROWS, 1], dtype="float32", persistable=True)
    endpoint = t.vars_overview.get_distributed_var_by_slice("table").endpoint
    block.append_op(
        type="recv", inputs={"X": []}, outputs={"Out": "table"}, attrs={"epmap": [endpoint], "trainer_id": t.trainer_id}
    )
    executor.run(program)


def run(role: str, index: int, name: str, endpoints: str) -> float:
    kind, *flags = name.split("+")
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss, test = build()
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        if role == "alone":
            executor.run(startup)
            for feed in batches(0, 1):
                executor.run(main, feed=feed, fetch_list=[])
            return float(executor.run(test, feed=samples(), fetch_list=[loss.name])[0])
        t = transpiler(kind)
        t.transpile(
            index if role == "trainer" else 0,
            program=main,
            startup_program=startup,
            pservers=endpoints,
            trainers=TRAINERS,
            sync_mode=False,
        )
        if role == "server":
            main, startup = t.get_pserver_programs(endpoints.split(",")[index])
            executor.run(startup)
            executor.run(main)
            return 0.0
        trainer = t.get_trainer_program()
        executor.run(startup)
        bound = {"communicator_max_staleness": 4} if "bound" in flags else {}
        comm = Communicator(trainer, envs={"communicator_send_wait_times": 0, **bound})
        comm.start()
        assert comm.is_running()
        for feed in batches(index, TRAINERS):
            executor.run(trainer, feed=feed, fetch_list=[])
        comm.stop()
        assert not comm.is_running()
        # all sends are complete before the loss is computed
        open(f"{os.environ['MEET']}/{name}.{index}", "w").close()
        while not all(os.path.exists(f"{os.environ['MEET']}/{name}.{i}") for i in range(TRAINERS)):
            time.sleep(0.01)
        if kind == "geo":
            comm.start()  # starts with the servers' parameters
            comm.stop()
        else:
            comm.recv()
            get_table(t, executor)
        found = float(executor.run(test, feed=samples(), fetch_list=[loss.name])[0])
        executor.close()
        return found


def main() -> None:
    paddle.enable_static()
    role, index, endpoints, out, *names = sys.argv[1:]
    places = endpoints.split(";") if endpoints else [""] * len(names)
    found = {name: run(role, int(index), name, place) for name, place in zip(names, places, strict=True)}
    with open(out, "w") as f:
        json.dump(found, f)


if __name__ == "__main__":
    main()
