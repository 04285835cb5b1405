"""Cost of each strategy of fleet over plain data parallelism, on two ranks of this machine.

    python benches/strategies.py [--steps 40] [--rounds 2] [--batch 64] [NAME...]

A multilayer perceptron (784 - 4 x 1024 - 10, Adam, 64 samples a rank and step; a pipeline gets those of both).
Prints a table: the operators added to the plain main Program; bytes that a rank keeps between steps (parameters,
optimizer states, sums), peak bytes, and steps per second, all three over "plain". Strategies alternate, and the best
round of each counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

WIDTH, HIDDEN, LAYERS = 784, 1024, 4
STRATEGIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "amp": {"amp": True},
    "recompute": {"recompute": True, "recompute_configs": {"checkpoints": ["h1", "h3"]}},
    "gradient_merge": {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 4, "avg": True}},
    "localsgd": {"localsgd": True, "localsgd_configs": {"k_steps": 4, "begin_step": 1}},
    "adaptive_localsgd": {"adaptive_localsgd": True},
    "lars": {"lars": True},
    "lamb": {"lamb": True},
    "fp16_allreduce": {"fp16_allreduce": True},
    "dgc": {"dgc": True, "dgc_configs": {"rampup_begin_step": 0, "sparsity": [0.999]}},
    "sharding": {"sharding": True, "sharding_configs": {"fuse_broadcast_MB": 4.0}},
    "pipeline": {"pipeline": True, "pipeline_configs": {"micro_batch": 4}},
}
#: modes with two servers, which run Adam; in geo mode trainers run SGD and send differences
SERVERS = {"sync": (), "async": (), "half_async": (), "geo": (4,)}
#: optimizers that these strategies need
INSIDE = {"localsgd": "SGD", "adaptive_localsgd": "SGD", "lars": "Momentum", "dgc": "Momentum", "geo": "SGD"}


def build(name: str, fluid: Any) -> Any:
    def device(section: int) -> Any:
        return fluid.device_guard(f"gpu:{section}" if name == "pipeline" else None)

    with device(0):
        x, y = fluid.data("x", [None, WIDTH]), fluid.data("y", [None, 1], "int64")
        for i in range(LAYERS // 2):
            x = layer(i, x, fluid)
    with device(1):
        for i in range(LAYERS // 2, LAYERS):
            x = layer(i, x, fluid)
        return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(x, 10), y))


def layer(i: int, x: Any, fluid: Any) -> Any:
    x = fluid.layers.fc(x, HIDDEN, act="relu", name=f"fc{i}")
    x.block._rename_var(x.name, f"h{i}")
    return x.block.var(f"h{i}")


def collective(name: str) -> tuple[Any, Any]:
    """fleet, and the strategy of that name."""
    from paddle.distributed import fleet

    fleet.init(is_collective=True)
    strategy = fleet.DistributedStrategy()
    for field, value in STRATEGIES[name].items():
        setattr(strategy, field, value)
    return fleet, strategy


def servers(name: str) -> tuple[Any, Any]:
    """fleet with servers, and the strategy of that name."""
    from paddle.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet

    fleet.init(PaddleCloudRoleMaker())
    return fleet, getattr(StrategyFactory, f"create_{name}_strategy")(*SERVERS[name])


def measure(name: str, steps: int, batch: int) -> dict[str, Any]:
    """The measurement of this process's rank."""
    import numpy as np
    from paddle import _core, fluid

    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        fleet, strategy = servers(name) if name in SERVERS else collective(name)
        loss = build(name, fluid)
        kind = INSIDE.get(name, "Adam")
        inside = fluid.optimizer.Momentum(0.01, 0.9) if kind == "Momentum" else getattr(fluid.optimizer, kind)(0.001)
        fleet.distributed_optimizer(inside, strategy).minimize(loss, startup)
        if name in SERVERS:
            if fleet.is_server():
                fleet.init_server()
                fleet.run_server()
                return {}
            main, startup = fleet.main_program, fleet.startup_program
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        if name in SERVERS:
            fleet.init_worker()
        samples = batch * (fleet.worker_num() if name == "pipeline" else 1)
        random = np.random.RandomState(fleet.worker_index())
        feed = {
            "x": random.uniform(size=(samples, WIDTH)).astype("float32"),
            "y": random.randint(0, 10, (samples, 1)).astype("int64"),
        }
        for _ in range(5):
            exe.run(main, feed, [loss])
        _core.reset_peak_memory()
        begin = time.perf_counter()
        for _ in range(steps):
            exe.run(main, feed, [loss])
        rate = steps / (time.perf_counter() - begin)
        held = (v for v in map(scope.find_var, main.global_block().vars) if v is not None)
        kept = sum(np.array(v.get_tensor()).nbytes for v in held if v.get_tensor()._is_initialized())
        types = Counter(op.type for block in main.blocks for op in block.ops)
        if name in SERVERS:
            fleet.stop_worker()
    return {"rate": rate, "kept": kept, "peak": _core.memory_stats()[1], "types": types}


def job(name: str, steps: int, batch: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        sizes = ["--server_num=2", "--worker_num=2"] if name in SERVERS else ["--nproc_per_node=2"]
        launch = [sys.executable, "-m", "paddle.distributed.launch", *sizes, f"--log_dir={folder}/log"]
        child = [__file__, "--child", str(out), "--steps", str(steps), "--batch", str(batch), name]
        subprocess.run([*launch, *child], check=True, stdout=subprocess.DEVNULL, timeout=300)
        return [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(2)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64, help="samples a rank and step (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        import os

        import paddle

        paddle.enable_static()
        found = measure(args.names[0], args.steps, args.batch)
        if not found:
            return  # a server
        Path(f"{args.child}.{os.environ['PADDLE_TRAINER_ID']}").write_text(json.dumps(found))
        return
    names = list(dict.fromkeys(["plain", *(args.names or [*STRATEGIES, *SERVERS])]))
    rounds: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in names}
    for _ in range(args.rounds):
        for name in names:
            rounds[name].append(job(name, args.steps, args.batch))
    rate = {name: max(min(r["rate"] for r in one) for one in rounds[name]) for name in names}
    kept = {name: max(r["kept"] for r in rounds[name][0]) for name in names}
    peak = {name: max(r["peak"] for r in rounds[name][0]) for name in names}
    plain = Counter(rounds["plain"][0][0]["types"])
    print("| strategy | operators more (or fewer) | kept a rank | at most a rank | steps/s |\n|---|---|---|---|---|")
    for name in names:
        more = Counter(rounds[name][0][0]["types"])
        more.subtract(plain)
        text = ", ".join(f"{n:+d} {kind}" for kind, n in sorted(more.items()) if n)
        over = [f"{of[name] / of['plain']:.2f}" for of in (kept, peak, rate)]
        print(f"| {name} | {text or '-'} | {' | '.join(over)} |")
    sizes = f"{kept['plain'] / 2**20:.1f} MB kept, {peak['plain'] / 2**20:.1f} MB at most"
    print(f"plain: {sizes}, {rate['plain']:.1f} steps/s")


if __name__ == "__main__":
    main()
