"""A job whose processes are killed and restarted; its result equals that of an undisturbed job bit for bit.

    python ps_killed.py server|trainer INDEX ENDPOINTS OUT NAME
    python ps_killed.py launched FOLDER NAME

Names are those of ps_training.py. Each trainer adds to `ledger` parameters, with a cell for each step of each trainer:
its final value is the number of times that the step's gradient was applied. Finished steps go to OUT.steps; OUT is an
archive of all parameters.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.communicator import resume_steps
from ps_training import OPTIMIZERS, TRAINERS, batch, build

STEPS = int(os.environ.get("STEPS", "60"))
#: the number of steps of this job, of these
FROM, TO = int(os.environ.get("FROM", "0")), int(os.environ.get("TO", str(STEPS)))
PAUSE = float(os.environ.get("PAUSE", "0.005"))
RATE, LEDGERS = 0.25, 3


def model(name: str):
    kind, *flags = name.split("+")
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = build(set(flags))
        mine = fluid.layers.data("mine", [TRAINERS, STEPS], append_batch_size=False)
        for k in range(LEDGERS):
            ledger = fluid.layers.create_parameter(
                [TRAINERS, STEPS], "float32", f"ledger{k}", default_initializer=fluid.initializer.Constant(0.0)
            )
            loss = loss + fluid.layers.reduce_sum(ledger * mine)
        rate = RATE if kind == "sgd" else 0.002
        if "exponential" in flags:
            rate = fluid.layers.exponential_decay(rate, 4, 0.5)
        OPTIMIZERS[kind](rate).minimize(loss)
    return main, startup, loss, set(flags)


def once(trainers: int = TRAINERS) -> np.float32:
    """The value of a ledger cell whose gradient is applied once by sgd; synchronous steps average gradients."""
    return np.float32(0) - np.float32(RATE) * np.float32(1 / trainers)


def run(role: str, index: int, endpoints: str, out: str, name: str) -> None:
    main, startup, loss, flags = model(name)
    executor = fluid.Executor(fluid.CPUPlace())
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = "async" not in flags
    config.enable_dc_asgd = "dc" in flags
    t = fluid.DistributeTranspiler(config)
    t.transpile(
        index if role == "trainer" else 0,
        program=main,
        startup_program=startup,
        pservers=endpoints,
        trainers=TRAINERS,
        sync_mode=config.sync_mode,
    )
    if role == "server":
        main, startup = t.get_pserver_programs(endpoints.split(",")[index])
        executor.run(startup)
        executor.run(main)
        return
    trainer = t.get_trainer_program()
    executor.run(startup)
    names = sorted(p.name for p in main.global_block().all_parameters())
    with open(f"{out}.steps", "a") as done:
        begun = resume_steps(endpoints, index)
        print(f"begins after {begun} steps", file=sys.stderr)
        for step in range(FROM + begun, TO):
            mine = np.zeros((TRAINERS, STEPS), "float32")
            mine[index, step] = 1
            executor.run(trainer, feed=batch(index, step) | {"mine": mine}, fetch_list=[loss])
            done.write(f"{step}\n")
            done.flush()
            time.sleep(PAUSE)
    if "async" in flags:
        # after all sends the startup Program receives the servers' parameters
        folder = os.path.dirname(out)
        open(f"{folder}/sent{index}", "w").close()
        while not all(os.path.exists(f"{folder}/sent{i}") for i in range(TRAINERS)):
            time.sleep(0.01)
        executor.run(startup)
    scope = fluid.global_scope()
    values = {n: np.asarray(scope.find_var(n).get_tensor()) for n in names if n != "table" or "sparse" not in flags}
    np.savez(out, **{n: v for n, v in values.items() if v.size})
    executor.close()


def launched(folder: str, name: str) -> None:
    """Runs the role of the launcher's environment; writes its process id."""
    servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]
    if os.environ["TRAINING_ROLE"] == "PSERVER":
        role, index = "server", servers.split(",").index(f"{os.environ['POD_IP']}:{os.environ['PADDLE_PORT']}")
    else:
        role, index = "trainer", int(os.environ["PADDLE_TRAINER_ID"])
    with open(f"{folder}/{role}{index}.pid", "w") as f:
        f.write(str(os.getpid()))
    run(role, index, servers, f"{folder}/{role}{index}.npz", name)


if __name__ == "__main__":
    paddle.enable_static()
    if sys.argv[1] == "launched":
        launched(*sys.argv[2:])
    else:
        role, index, endpoints, out, *names = sys.argv[1:]
        run(role, int(index), endpoints, out.removesuffix(".json") + ".npz", names[0])
