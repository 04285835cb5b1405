"""A user's script with Downpour's tables (fleet.parameter_server.pslib).

    python -m paddle.distributed.launch --server_num 2 --worker_num 2 pslib_training.py FOLDER KIND STEPS

Losses of each worker go to FOLDER; worker 0 also trains on a file of FOLDER, and then computes the loss again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.fluid as fluid

ROWS, WIDTH, BATCH, RATE = 40, 6, 8, 0.2
#: rule -> settings of the sparse table and of the dense one
RULES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sgd": ({"sparse_optimizer": "naive"}, {"dense_optimizer": "naive", "dense_naive_lr": RATE}),
    "adagrad": ({"sparse_optimizer": "adagrad"}, {"dense_optimizer": "naive", "dense_naive_lr": RATE}),
    "adam": ({"sparse_optimizer": "adam", "sparse_learning_rate": 0.05}, {"dense_learning_rate": 0.02}),
}


#: click accessors: by the variable of clicks, and by the layer continuous_value_model
CLICKS = ("clicks", "cvm")


def settings(kind: str) -> dict[str, Any]:
    """The argument of `distributed_optimizer`: settings of tables named "table", and of dense ones."""
    if kind in CLICKS:
        row = {
            "sparse_accessor_class": "DownpourCtrAccessor",
            "sparse_embedx_dim": WIDTH - 3,
            "sparse_embedx_threshold": 2,
            "sparse_learning_rate": RATE,
        }
        return {"table": row, "dense_table": {"dense_optimizer": "naive", "dense_naive_lr": RATE}}
    sparse, dense = RULES[kind]
    row = {
        "sparse_accessor_class": "DownpourSparseValueAccessor",
        "sparse_embedx_dim": WIDTH,
        "sparse_learning_rate": RATE,
        "sparse_initial_range": 0,
        **sparse,
    }
    return {"table": row, "dense_table": dense}


def network(embedding: Any, clicks: bool = False, **how: Any) -> Any:
    """A loss of two lookups in one table, the first of sequences; with `clicks` the first two columns are counts."""
    ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
    more = fluid.data("more", [None, 1], "int64", lod_level=1)
    click = fluid.data("click", [None, 1], "float32")
    attr = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.0))
    found = [embedding(slot, [ROWS, WIDTH], True, True, param_attr=attr, **how) for slot in (ids, more)]
    if clicks:
        counts = fluid.layers.concat([fluid.layers.ones_like(click), click], axis=1)
        found = [fluid.layers.continuous_value_model(f, counts, use_cvm=False) for f in found]
    x = fluid.layers.concat([fluid.layers.sequence_pool(f, "sum") for f in found], axis=1)
    values = np.random.RandomState(5).uniform(-0.5, 0.5, [int(x.shape[1]), 1]).astype("float32")
    w = fluid.ParamAttr(name="w", initializer=fluid.initializer.NumpyArrayInitializer(values))
    guess = fluid.layers.fc(x, 1, param_attr=w, bias_attr="b")
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, click))


def samples(me: int, step: int) -> list[tuple[list[int], list[int], float]]:
    r = np.random.RandomState(100 * me + step % 4)
    made = []
    for _ in range(BATCH):
        ids = r.randint(1, ROWS, r.randint(1, 4)).tolist()
        made.append((ids, r.randint(1, ROWS, 1).tolist(), float(ids[0] % 2)))
    return made


def feed(rows: list[tuple[list[int], list[int], float]]) -> dict[str, Any]:
    def slot(i: int) -> Any:
        ids = np.array([[n] for row in rows for n in row[i]], "int64")
        return fluid.create_lod_tensor(ids, [[len(row[i]) for row in rows]], fluid.CPUPlace())

    return {"ids": slot(0), "more": slot(1), "click": np.array([[row[2]] for row in rows], "float32")}


def dataset(folder: Path, block: Any) -> Any:
    """The samples of four steps in a file."""
    lines = [" ".join(map(str, (len(i), *i, len(m), *m, 1, c))) for step in range(4) for i, m, c in samples(0, step)]
    (folder / "samples").write_text("\n".join(lines) + "\n")
    made = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    made.set_use_var([block.var(name) for name in ("ids", "more", "click")])
    made.set_batch_size(BATCH)
    made.set_thread(1)
    made.set_pipe_command("cat")
    made.set_filelist([str(folder / "samples")])
    made.load_into_memory()
    return made


def main() -> None:
    from paddle.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
    from paddle.fluid.incubate.fleet.parameter_server.pslib import fleet, fleet_embedding

    paddle.enable_static()
    folder, kind, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    fleet.init(PaddleCloudRoleMaker())
    with fleet_embedding(None if kind == "cvm" else "click", scale_sparse_grad=kind in CLICKS):
        loss = network(fluid.layers.embedding, kind in CLICKS)
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.1), settings(kind)).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe, program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
    exe.run(fluid.default_startup_program())
    fleet.init_worker()
    me = fleet.worker_index()

    def step(n: int) -> float:
        return exe.run(program, feed=feed(samples(me, n)), fetch_list=[loss])[0].item()

    losses = [step(n) for n in range(steps)]
    if me == 0:
        fleet.train_from_dataset(exe, program, dataset(folder, loss.block))
        losses.append(step(0))
    (folder / f"losses.{me}").write_text(json.dumps(losses))
    fleet.stop_worker()


if __name__ == "__main__":
    main()
