"""A script of fluid.distributed: DownpourSGD describes the job, Fleet runs it.

python -m paddle.distributed.launch --server_num 2 --worker_num 2 downpour_training.py FOLDER STEPS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import paddle
import paddle.fluid as fluid
import pslib_training as model
from paddle.fluid.distributed.downpour import DownpourSGD
from paddle.fluid.distributed.fleet import Fleet
from paddle.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker

#: width of rows, without counts of shows and clicks
WIDTH = 9


def network():
    """A click loss of lookups in one table, whose name marks it as sparse."""
    ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
    more = fluid.data("more", [None, 1], "int64", lod_level=1)
    click = fluid.data("click", [None, 1], "float32")
    attr = fluid.ParamAttr(name="embedding", initializer=fluid.initializer.Constant(0.0))
    found = [fluid.contrib.layers.sparse_embedding(slot, [model.ROWS, WIDTH], param_attr=attr) for slot in (ids, more)]
    x = fluid.layers.concat([fluid.layers.sequence_pool(f, "sum") for f in found], axis=1)
    guess = fluid.layers.fc(
        x, 1, param_attr=fluid.ParamAttr("w", fluid.initializer.Uniform(-0.5, 0.5, 3)), bias_attr="b"
    )
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, click))


def main() -> None:
    paddle.enable_static()
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    loss = network()
    DownpourSGD(0.1).minimize([loss])
    program, job = fluid.default_main_program(), Fleet(PaddleCloudRoleMaker())
    if job.instance_.is_server():
        job.init_pserver(program._fleet_opt)
        return
    exe, me = fluid.Executor(fluid.CPUPlace()), job.instance_.worker_index()
    exe.run(fluid.default_startup_program())
    job.init_worker(program._fleet_opt)
    losses = [
        exe.run(program, feed=model.feed(model.samples(me, n)), fetch_list=[loss])[0].item() for n in range(steps)
    ]
    job.save_pserver_model(str(folder / "saved"))
    (folder / f"losses.{me}").write_text(json.dumps(losses))
    job.stop()


if __name__ == "__main__":
    main()
