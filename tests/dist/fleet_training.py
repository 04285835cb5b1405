"""A small model trained with the strategies of fleet, data parallel.

    python -m paddle.distributed.launch --nproc_per_node 2 fleet_training.py OUT NAME...

Each name is a strategy of `STRATEGIES`; losses, parameters and other results go to OUT.RANK as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import paddle
import paddle.distributed.fleet as fleet
from paddle import fluid

WIDTH, HIDDEN, BATCH, STEPS = 8, 24, 16, 20
OPTIMIZERS = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "momentum": lambda: fluid.optimizer.Momentum(0.05, 0.9),
    "adam": lambda: fluid.optimizer.Adam(0.01),
    "clipped": lambda: fluid.optimizer.Momentum(
        0.05, 0.9, regularization=fluid.regularizer.L2Decay(0.01), grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1)
    ),
    "decayed": lambda: paddle.optimizer.Momentum(
        paddle.optimizer.lr.ExponentialDecay(0.05, 0.9), 0.9, weight_decay=0.01
    ),
}
#: groups of two ranks that share the parameters
HYBRID = {"fuse_broadcast_MB": 0.0005, "hybrid_dp": True, "sharding_group_size": 2}
#: name -> (optimizer, fields of the strategy)
STRATEGIES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("momentum", {}),
    "decayed": ("decayed", {}),
    "clipped": ("clipped", {}),
    "batch_norm": ("sgd", {"sync_batch_norm": True}),
    "recompute": ("adam", {"recompute": True, "recompute_configs": {"checkpoints": ["h0", "h1"]}}),
    "lars": ("momentum", {"lars": True, "lars_configs": {"lars_coeff": 0.5, "lars_weight_decay": 0.01}}),
    "lamb": ("adam", {"lamb": True}),
    "merge": ("momentum", {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2, "avg": True}}),
    "half": ("momentum", {"fp16_allreduce": True}),
    "amp": ("momentum", {"amp": True, "amp_configs": {"init_loss_scaling": 8.0}}),
    "pure": ("momentum", {"amp": True, "amp_configs": {"use_pure_fp16": True, "use_fp16_guard": False}}),
    "local1": ("sgd", {"localsgd": True}),
    "local3": ("sgd", {"localsgd": True, "localsgd_configs": {"k_steps": 3, "begin_step": 4}}),
    "adaptive": ("sgd", {"adaptive_localsgd": True}),
    "pipe": ("momentum", {"pipeline": True, "pipeline_configs": {"micro_batch": 4}}),
    "pipe_adam": ("adam", {"pipeline": True, "pipeline_configs": {"micro_batch": 2}}),
    "pipe_decayed": ("decayed", {"pipeline": True, "pipeline_configs": {"micro_batch": 2}}),
    "shards": ("momentum", {"sharding": True}),
    "small_shards": ("adam", {"sharding": True, "sharding_configs": {"fuse_broadcast_MB": 0.0005}}),
    "clipped_shards": ("clipped", {"sharding": True, "sharding_configs": {"fuse_broadcast_MB": 0.0005}}),
    "half_shards": ("momentum", {"sharding": True, "amp": True, "amp_configs": {"init_loss_scaling": 8.0}}),
    "hybrid": ("momentum", {"sharding": True, "sharding_configs": HYBRID}),
    "hybrid_adam": ("adam", {"sharding": True, "sharding_configs": HYBRID}),
    "sparse": ("momentum", {}),
    "again_shards": (
        "adam",
        {
            "sharding": True,
            "recompute": True,
            "recompute_configs": {"checkpoints": ["h0", "h1"]},
            "sharding_configs": {"fuse_broadcast_MB": 0.0005},
        },
    ),
}


PIPES = ("pipe", "pipe_adam", "pipe_decayed")


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-0.5, 0.5, shape).astype("float32")


def batch(step: int) -> dict[str, np.ndarray]:
    x = numbers(100 + step, BATCH, WIDTH)
    return {"x": x, "y": np.sin(x.sum(1, keepdims=True)).astype("float32")}


def values(name: str, seed: int, *shape: int) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(numbers(seed, *shape)))


def build(name: str) -> Any:
    with fluid.device_guard("gpu:0" if name in PIPES else None):
        x, y = fluid.data("x", [None, WIDTH]), fluid.data("y", [None, 1])
        if name == "sparse":
            x = looked_up(x)
        x = hidden(name, 0, x)
    with fluid.device_guard("gpu:1" if name in PIPES else None):
        x = hidden(name, 1, x)
        x = fluid.layers.fc(x, 1, param_attr=values("w2", 2, HIDDEN, 1), bias_attr=fluid.ParamAttr(name="b2"))
        return fluid.layers.reduce_mean(fluid.layers.square_error_cost(x, y))


def looked_up(x: Any) -> Any:
    """A lookup of a row by the first digit of each number; the gradient is sparse."""
    ids = fluid.layers.cast(fluid.layers.floor(fluid.layers.scale(x, 10.0, 5.0)), "int64")
    rows = fluid.embedding(ids, [12, WIDTH], is_sparse=True, param_attr=values("table", 3, 12, WIDTH))
    return fluid.layers.reduce_sum(rows, dim=1)


def hidden(name: str, i: int, x: Any) -> Any:
    x = fluid.layers.fc(
        x,
        HIDDEN,
        act="tanh",
        param_attr=values(f"w{i}", i, WIDTH if not i else HIDDEN, HIDDEN),
        bias_attr=fluid.ParamAttr(name=f"b{i}"),
    )
    if name == "batch_norm":
        x = fluid.layers.batch_norm(x, param_attr=f"scale{i}", bias_attr=f"shift{i}")
    x = fluid.layers.scale(x, name=f"h{i}")
    x.block._rename_var(x.name, f"h{i}")
    return x.block.var(f"h{i}")


def strategy_of(name: str) -> tuple[Any, fleet.DistributedStrategy]:
    optimizer, fields = STRATEGIES[name]
    strategy = fleet.DistributedStrategy()
    for field, value in fields.items():
        setattr(strategy, field, value)
    return OPTIMIZERS[optimizer](), strategy


def parameters(program: Any, scope: Any) -> dict[str, list]:
    found = {p.name: scope.find_var(p.name) for p in program.all_parameters()}
    return {name: np.array(var.get_tensor()).tolist() for name, var in found.items() if var is not None}


def train(
    name: str, steps: Iterable[int] = range(STEPS), batch: Callable[[int], dict[str, np.ndarray]] = batch
) -> dict[str, Any]:
    """The results of this rank."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        fleet.init(is_collective=True)
        rank, ranks = fleet.worker_index(), fleet.worker_num()
        loss = build(name)
        optimizer, strategy = strategy_of(name)
        optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(loss, startup)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        if name == "pure":
            optimizer.amp_init(fluid.CPUPlace())
        losses = []
        for step in steps:
            # The two sections of a pipeline get the same samples.
            sections = 2 if name in PIPES else 1
            feed = {k: np.array_split(v, ranks // sections)[rank // sections] for k, v in batch(step).items()}
            if name == "pure":
                feed = {k: v.astype("float16") for k, v in feed.items()}
            (value,) = exe.run(main, feed, [loss])
            losses.append(None if value is None else float(np.asarray(value).mean()))
        kept = sum(
            np.array(v.get_tensor()).nbytes
            for v in map(scope.find_var, main.global_block().vars)
            if v is not None and v.get_tensor()._is_initialized()
        )
        return {
            "losses": losses,
            "parameters": parameters(main, scope),
            "meta": fleet._get_applied_meta_list(),
            "bytes": kept,
        }


def run() -> None:
    paddle.enable_static()
    out, *names = sys.argv[1:]
    found = {name: train(name) for name in names}
    with open(f"{out}.{os.environ['PADDLE_TRAINER_ID']}", "w") as f:
        json.dump(found, f)


if __name__ == "__main__":
    run()
