"""A small model by incubate.fleet with parameter servers: trainers and servers are processes.

    python fleet_ps_training.py server|trainer INDEX ENDPOINTS OUT STRATEGY
"""
from __future__ import annotations

import json
import sys

import nccl2_training as training
import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet

TRAINERS = 2


def main() -> None:
    paddle.enable_static()
    role, index, endpoints, out, kind = sys.argv[1:]
    is_server = role == "server"
    kinds = Role.SERVER if is_server else Role.WORKER
    fleet.init(UserDefinedRoleMaker(int(index), kinds, TRAINERS, endpoints.split(",")))
    program, startup, loss = training.network(0, "none")
    with fluid.program_guard(program, startup), fluid.unique_name.guard("fleet"):
        strategy = getattr(StrategyFactory, f"create_{kind}_strategy")()
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
    found = {}
    if is_server:
        fleet.init_server()
        fleet.run_server()
    else:
        fleet.init_worker()

        def save(exe):
            if index == "0":
                result = fleet._origin_main_program.global_block().var("fc_1.tmp_1")
                fleet.save_inference_model(exe, out + ".model", ["x"], [result])

        found = training.run(fleet.main_program, fleet.startup_program, loss, int(index), TRAINERS, save)
        fleet.stop_worker()
    with open(out, "w") as f:
        json.dump({k: v if k == "loss" else v.tolist() for k, v in found.items()}, f)


if __name__ == "__main__":
    main()
