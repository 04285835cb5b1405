"""A job that saves, loads, shrinks and clears Downpour's tables, and writes the results.

    python -m paddle.distributed.launch --server_num 2 --worker_num 1 pslib_table_commands.py FOLDER first|second

The second job has another number of servers, and loads the tables of the first one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.fluid as fluid
import pslib_training as model


def main() -> None:
    from paddle.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
    from paddle.fluid.incubate.fleet.parameter_server.pslib import fleet, fleet_embedding

    paddle.enable_static()
    folder, part = Path(sys.argv[1]), sys.argv[2]
    fleet.init(PaddleCloudRoleMaker())
    with fleet_embedding("click"):
        loss = model.network(fluid.layers.embedding, True)
    settings = model.settings("clicks")
    settings["table"] |= {
        "sparse_base_threshold": 1.5,
        "sparse_delta_threshold": 0.5,
        "sparse_delete_threshold": 1.2,
        "sparse_cache_rate": 0.2,
        "sparse_show_click_decay_rate": 0.5,
    }
    settings["dense_table"] = {"dense_learning_rate": 0.02}
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.1), settings).minimize(loss)
    if fleet.is_server():
        fleet.init_server(str(folder / "saved") if part == "second" else None)
        fleet.run_server()
        return
    exe, program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
    exe.run(fluid.default_startup_program())
    fleet.init_worker()
    found: dict[str, Any] = {}
    test = program.clone()

    def step(n: int) -> float:
        return exe.run(program, feed=model.feed(model.samples(0, n)), fetch_list=[loss])[0].item()

    if part == "second":
        found["loss"] = step(3)
    else:
        for n in range(8):
            step(n)
        fleet.save_persistables(exe, str(folder / "saved"))
        for name, mode in (("worth", 2), ("changed", 1), ("unchanged", 1), ("day", 3)):
            fleet.save_model(str(folder / name), mode=mode)
        fleet.save_one_table(0, str(folder / "one"), prefix="mine")
        (folder / "list").write_text("3\n5\n77\n")
        fleet.save_model_with_whitelist(exe, str(folder / "listed"), str(folder / "list"))
        found["cached"] = fleet.save_cache_model(exe, str(folder / "cache"))
        fleet.print_table_stat(0)
        fleet.confirm()
        found["loss"] = step(3)
        fleet.revert()
        found["reverted"] = step(3)
        fleet.shrink_sparse_table()
        fleet.save_model(str(folder / "shrunk"))
        fleet.clear_model()
        fleet.save_model(str(folder / "cleared"))
        fleet.load_model(str(folder / "saved"))
        found["loaded"] = step(3)
        fleet.clear_one_table(0)
        fleet.load_one_table(0, str(folder / "saved"))
        fleet.load_one_table(1, str(folder / "saved"))
        found["tables"] = step(3)
        # Parameters of an ordinary model.
        scope, values = (
            fluid.Scope(),
            {
                "w": np.full([test.global_block().var("w").shape[0], 1], 0.25, "float32"),
                "b": np.full([1], 0.5, "float32"),
            },
        )
        with fluid.scope_guard(scope):
            for name, value in values.items():
                fluid.global_scope().var(name).get_tensor().set(value, fluid.CPUPlace())
            fluid.io.save_vars(exe, str(folder / "model"), program, [program.global_block().var(n) for n in values])
        (folder / "proto").write_bytes(program.desc.serialize_to_string())
        how = {"scope": fluid.global_scope(), "model_proto_file": str(folder / "proto")}
        fleet.load_one_table(1, str(folder / "model"), **how)
        fleet.save_model(str(folder / "given"))
        errors = []
        for wrong in (
            lambda: fleet.load_model(str(folder / "nothing")),
            lambda: fleet.clear_one_table(1),
            lambda: fleet.save_model(str(folder / "x"), mode=7),
            lambda: fleet.save_one_table(9, str(folder / "x")),
        ):
            try:
                wrong()
            except RuntimeError as e:
                errors.append(str(e))
        found["errors"] = errors
    (folder / part).write_text(json.dumps(found))
    fleet.stop_worker()


if __name__ == "__main__":
    main()
