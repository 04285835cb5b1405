"""Collective trainers by Programs of the transpilers, one in each process."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker
from paddle.fluid.incubate.fleet.collective import DistributedStrategy, fleet

STEPS, BATCH = 6, 12


def batches() -> list[dict[str, np.ndarray]]:
    random = np.random.RandomState(0)
    return [
        {"x": random.normal(size=(BATCH, 13)).astype("float32"), "y": random.normal(size=(BATCH, 1)).astype("float32")}
        for _ in range(STEPS)
    ]


def part(batch: dict[str, np.ndarray], rank: int, ranks: int) -> dict[str, np.ndarray]:
    size = BATCH // ranks
    return {k: v[rank * size : (rank + 1) * size] for k, v in batch.items()}


def network(rank: int, optimizer: str = "momentum") -> tuple[Any, Any, Any]:
    """Main and startup Program and the loss; ranks have different initial parameters before rank 0's are broadcast."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = rank + 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 13]), fluid.data("y", [None, 1])
        hidden = fluid.layers.fc(x, 7, act="tanh")
        loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
        made: dict[str, Any] = {
            "sgd": lambda: fluid.optimizer.SGD(0.1),
            "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
            "clip": lambda: fluid.optimizer.Adam(0.05, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5)),
        }
        if optimizer in made:
            made[optimizer]().minimize(loss)
        elif optimizer == "layers":
            # the Program itself averages gradients
            one = made["momentum"]()
            one.apply_gradients([(p, fluid.layers.collective._allreduce(g)) for p, g in one.backward(loss)])
    return main, startup, loss


def run(
    program: Any, startup: Any, loss: Any, rank: int, ranks: int, then: Any = None, rounds: int = 1
) -> dict[str, Any]:
    """The loss of each step, and the final parameters, before which `then` is called with the Executor; `rounds` is the
    number of passes over the batches."""
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        losses = []
        for batch in batches() * rounds:
            found = exe.run(program, feed=part(batch, rank, ranks), fetch_list=[loss])[0]
            losses.append(np.asarray(found).reshape(-1).tolist())
        if then is not None:
            then(exe)
        names = [v.name for v in startup.list_vars() if v.name.startswith("fc_") and "velocity" not in v.name]
        kept = [n for n in names if "moment" not in n and "pow" not in n and "@" not in n]
        return {"loss": losses, **{n: np.array(scope.find_var(n).get_tensor()) for n in sorted(kept)}}


def alone(optimizer: str = "momentum", rounds: int = 1) -> dict[str, Any]:
    """One process with the whole batches."""
    return run(*network(0, optimizer), 0, 1, rounds=rounds)


def check_saved(folder: str, want: dict[str, Any]) -> None:
    """Checks that an inference model in `folder` has the parameters `want`."""
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        x = batches()[0]["x"]
        (got,) = exe.run(program, feed={feeds[0]: x}, fetch_list=fetches)
    hidden = np.tanh(x @ want["fc_0.w_0"] + want["fc_0.b_0"])
    np.testing.assert_allclose(got, hidden @ want["fc_1.w_0"] + want["fc_1.b_0"], rtol=1e-4, atol=1e-5)


def means(rank: int, ranks: int, steps: int = STEPS) -> dict[str, Any]:
    """A reference of LocalSGD in one process: every rank updates, then all have the mean."""
    exe = fluid.Executor(fluid.CPUPlace())
    scopes = [fluid.Scope() for _ in range(ranks)]
    main, startup, loss = network(0, "sgd")
    names = [p.name for p in main.all_parameters()]
    for scope in scopes:
        exe.run(startup, scope=scope)
    losses = []
    for batch in batches()[:steps]:
        for r, scope in enumerate(scopes):
            found = exe.run(main, feed=part(batch, r, ranks), fetch_list=[loss], scope=scope)[0]
            if r == rank:
                losses.append(np.asarray(found).reshape(-1).tolist())
        for name in names:
            tensors = [scope.find_var(name).get_tensor() for scope in scopes]
            mean = np.mean([np.array(t) for t in tensors], 0)
            for t in tensors:
                t.set(mean, fluid.CPUPlace())
    return {"loss": losses, **{n: np.array(scopes[rank].find_var(n).get_tensor()) for n in names}}


def here(body: Any, *args: Any) -> Any:
    """Runs `body` in static mode."""
    paddle.enable_static()
    try:
        return body(*args)
    finally:
        paddle.disable_static()


def my_rank() -> int:
    return int(os.environ["PADDLE_TRAINER_ID"])


def collective_mode(kind: str, rings: int, optimizer: str, endpoints: list[str]) -> dict[str, Any]:
    """DistributeTranspiler in the mode "collective", on every rank."""
    rank = my_rank()
    main, startup, loss = network(rank, optimizer)
    config = fluid.DistributeTranspilerConfig()
    config.mode, config.collective_mode, config.nccl_comm_num, config.wait_port = "collective", kind, rings, False
    fluid.DistributeTranspiler(config).transpile(
        rank, program=main, startup_program=startup, trainers=",".join(endpoints), current_endpoint=endpoints[rank]
    )
    return run(main, startup, loss, rank, len(endpoints))


def nccl2(how: dict[str, Any], endpoints: list[str]) -> dict[str, Any]:
    """DistributeTranspiler in the mode "nccl2", then CompiledProgram or ParallelExecutor, on every rank."""
    rank, ranks = my_rank(), len(endpoints)
    main, startup, loss = network(rank, how.get("optimizer", "momentum"))
    config = fluid.DistributeTranspilerConfig()
    config.mode, config.wait_port, config.nccl_comm_num = "nccl2", False, how.get("comms", 1)
    if "inner" in how:
        config.use_hierarchical_allreduce, config.hierarchical_allreduce_inter_nranks = True, how["inner"]
    t = fluid.DistributeTranspiler(config)
    t.transpile(
        rank, program=main, startup_program=startup, trainers=",".join(endpoints), current_endpoint=endpoints[rank]
    )
    build = fluid.BuildStrategy()
    build.num_trainers, build.trainer_id, build.trainers_endpoints = ranks, rank, endpoints
    build.nccl_comm_num = config.nccl_comm_num
    build.use_hierarchical_allreduce = config.use_hierarchical_allreduce
    build.hierarchical_allreduce_inter_nranks = config.hierarchical_allreduce_inter_nranks
    compiled = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, build, places=[fluid.CPUPlace()] * how.get("places", 1)
    )
    return run(compiled, startup, loss, rank, ranks)


def by_parallel_executor(endpoints: list[str]) -> list[list[float]]:
    """The same by ParallelExecutor: the losses, then those of a test Program."""
    rank, ranks = my_rank(), len(endpoints)
    main, startup, loss = network(rank)
    test = main.clone(for_test=True)
    config = fluid.DistributeTranspilerConfig()
    config.mode, config.wait_port = "nccl2", False
    fluid.DistributeTranspiler(config).transpile(
        rank, program=main, startup_program=startup, trainers=",".join(endpoints), current_endpoint=endpoints[rank]
    )
    with fluid.scope_guard(fluid.Scope()):
        fluid.Executor(fluid.CPUPlace()).run(startup)
        exe = fluid.ParallelExecutor(False, loss.name, main, num_trainers=ranks, trainer_id=rank)
        tester = fluid.ParallelExecutor(False, main_program=test, share_vars_from=exe)
        found = []
        for batch in batches():
            found.append(exe.run([loss.name], feed=part(batch, rank, ranks))[0].tolist())
        return [*found, tester.run([loss.name], feed=batches()[0])[0].tolist()]


def by_fleet(options: dict[str, Any], folder: str, endpoints: list[str]) -> dict[str, Any]:
    """incubate.fleet.collective, on every rank; rank 0 saves."""
    rank, ranks = my_rank(), len(endpoints)
    main, startup, loss = network(rank, "none")
    fleet.init(UserDefinedCollectiveRoleMaker(rank, endpoints))
    strategy = DistributedStrategy()
    for name, value in options.items():
        setattr(strategy, name, value)
    with fluid.program_guard(main, startup), fluid.unique_name.guard("by_fleet"):
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss, startup)

    def save(exe: Any) -> None:
        if rank == 0:
            fleet.save_persistables(exe, folder + "/persistables")
            result = fleet._origin_program.global_block().var("fc_1.tmp_1")
            fleet.save_inference_model(exe, folder + "/model", ["x"], [result])

    return run(fleet.main_program, startup, loss, rank, ranks, save)
