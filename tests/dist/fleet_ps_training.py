"""A small model by incubate.fleet with parameter servers: trainers and servers are processes.

python fleet_ps_training.py server|trainer INDEX ENDPOINTS OUT STRATEGY[+momentum] [MODEL]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import nccl2_training as training
import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet

TRAINERS, ROUNDS = 2, 4


def together(folder: Path, index: int, step: int) -> None:
    """Synchronizes the trainers by files: on a slow machine one could finish before the other starts."""
    (folder / f"step{step}.{index}").touch()
    until = time.monotonic() + 60
    while not all((folder / f"step{step}.{i}").exists() for i in range(TRAINERS)):
        assert time.monotonic() < until, f"the other trainer does not reach step {step}"
        time.sleep(0.001)


def by_geo(index: int, loss: Any, save: Any, folder: Path) -> dict[str, Any]:
    """A GEO-SGD trainer; scripts start in both orders."""
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        first = [fleet.init_worker, lambda: exe.run(fleet.startup_program)]
        for begin in first if index == 0 else first[::-1]:
            begin()
        losses = []
        for step, batch in enumerate(training.batches() * ROUNDS):
            together(folder, index, step)
            feed = training.part(batch, index, TRAINERS)
            losses.append(exe.run(fleet.main_program, feed=feed, fetch_list=[loss])[0].tolist())
        save(exe)
        names = [p.name for p in fleet._origin_main_program.all_parameters()]
        found = {n: np.array(scope.find_var(n).get_tensor()) for n in names}
        fleet.stop_worker()  # the rest is exchanged
        return {"loss": losses, **found}


def main() -> None:
    paddle.enable_static()
    role, index, endpoints, out, kind, *saved = sys.argv[1:]
    is_server = role == "server"
    kinds = Role.SERVER if is_server else Role.WORKER
    fleet.init(UserDefinedRoleMaker(int(index), kinds, TRAINERS, endpoints.split(",")))
    program, startup, loss = training.network(0, "none")
    with fluid.program_guard(program, startup), fluid.unique_name.guard("fleet"):
        name, _, optimizer = kind.partition("+")
        strategy = getattr(StrategyFactory, f"create_{name}_strategy")(*([2] if name == "geo" else []))
        made = fluid.optimizer.Momentum(0.1, 0.9) if optimizer else fluid.optimizer.SGD(0.1)
        fleet.distributed_optimizer(made, strategy).minimize(loss)
    found = {}
    if is_server:
        fleet.init_server(*saved)
        fleet.run_server()
    else:

        def save(exe):
            if index == "0":
                result = fleet._origin_main_program.global_block().var("fc_1.tmp_1")
                fleet.save_inference_model(exe, out + ".model", ["x"], [result])
                fleet.save_persistables(exe, out + ".persistables")

        if name == "geo":
            found = by_geo(int(index), loss, save, Path(out).parent)
        else:
            fleet.init_worker()
            found = training.run(fleet.main_program, fleet.startup_program, loss, int(index), TRAINERS, save)
            fleet.stop_worker()
    with open(out, "w") as f:
        json.dump({k: v if k == "loss" else v.tolist() for k, v in found.items()}, f)


if __name__ == "__main__":
    main()
