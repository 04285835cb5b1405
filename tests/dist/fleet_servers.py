"""A user's fleet script with parameter servers: worker 0 saves the model at the end.

python -m paddle.distributed.launch --server_num 2 --worker_num 2 fleet_servers.py FOLDER MODE STEPS [MODEL]
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
import ps_training as model
from paddle import fluid


def prediction(loss):
    """The model's output for the fed ids."""
    cost = next(op for op in loss.block.ops if op.type == "elementwise_sub")
    return loss.block.var(cost.input("X")[0])


def main() -> None:
    paddle.enable_static()
    folder, mode, steps, *saved = sys.argv[1:]
    fleet.init(fleet.PaddleCloudRoleMaker())
    loss = model.build({"sparse"})
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    if mode == "geo":
        strategy.a_sync_configs = {"k_steps": 4}
    optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.05), strategy)
    optimizer.minimize(loss)
    if fleet.is_server():
        fleet.init_server(*saved)
        fleet.run_server()
        return
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    me = fleet.worker_index()
    losses = []
    for step in range(int(steps)):
        (value,) = exe.run(paddle.static.default_main_program(), feed=model.batch(me, step), fetch_list=[loss])
        losses.append(float(np.asarray(value).mean()))
    if fleet.is_first_worker():
        fleet.save_persistables(exe, os.path.join(folder, "persistables"))
        fleet.save_inference_model(exe, os.path.join(folder, "inference"), ["ids", "more"], [prediction(loss)])
    with open(os.path.join(folder, f"losses.{me}"), "w") as f:
        json.dump(losses, f)
    fleet.stop_worker()


if __name__ == "__main__":
    main()
