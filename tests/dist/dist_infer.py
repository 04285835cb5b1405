"""DistributedInfer in a training job, and in a job that loads its saved model.

python -m paddle.distributed.launch --server_num 2 --worker_num 2 dist_infer.py FOLDER train|infer
"""

from __future__ import annotations

import os
import sys

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
import ps_training as model
from paddle import fluid
from paddle.distributed.fleet.utils import DistributedInfer


def infer(made: DistributedInfer, exe: fluid.Executor, name: str, path: str) -> None:
    """Writes the model's output for a batch."""
    program = made.get_dist_infer_program()
    types = [op.type for op in program.global_block().ops]
    assert types.count("distributed_lookup_table") == 2, types
    (found,) = exe.run(program, feed=model.batch(7, 3), fetch_list=[name])
    np.save(path, found)


def main() -> None:
    paddle.enable_static()
    folder, kind = sys.argv[1:]
    exe = fluid.Executor(fluid.CPUPlace())
    saved = os.path.join(folder, "persistables")

    def out() -> str:
        return os.path.join(folder, f"{kind}.{fleet.worker_index()}.npy")

    if kind == "infer":
        loss = model.build({"sparse"})
        made = DistributedInfer()
        made.init_distributed_infer_env(exe, loss, fleet.PaddleCloudRoleMaker(), saved)
        made.init_distributed_infer_env(exe, loss)  # no effect: the process is in a job
        if fleet.is_worker():
            infer(made, exe, loss.name, out())
            fleet.stop_worker()
        return
    fleet.init(fleet.PaddleCloudRoleMaker())
    with fluid.unique_name.guard():
        loss = model.build({"sparse"})
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.05), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    for step in range(4):
        exe.run(feed=model.batch(fleet.worker_index(), step), fetch_list=[loss])
    test, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(test, startup), fluid.unique_name.guard():
        tested = model.build({"sparse"})
    infer(DistributedInfer(test, startup), exe, tested.name, out())
    if fleet.is_first_worker():
        fleet.save_persistables(exe, saved)
    fleet.stop_worker()


if __name__ == "__main__":
    main()
