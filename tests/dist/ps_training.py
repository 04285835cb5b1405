"""A small model under many optimizers, trained by servers and trainers or by one process on the joined batches.

    python ps_training.py server|trainer|alone INDEX ENDPOINTS OUT NAME...

Each name is an optimizer, with options such as ``+sparse``, ``+slice``, ``+decay``, ``+async``; ENDPOINTS has the
servers of each name, separated by ``;``. Losses go to OUT as JSON. ``+save`` runs half of the steps and saves to the
folder SAVED; ``+load`` continues from there.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import paddle
import paddle.fluid as fluid

ROWS, WIDTH, BATCH, STEPS, TRAINERS = 700, 24, 16, 20, 2
DIES_AT = 5

OPTIMIZERS = {
    "sgd": lambda rate, **more: fluid.optimizer.SGD(rate, **more),
    "momentum": lambda rate, **more: fluid.optimizer.Momentum(rate, 0.9, **more),
    "adam": lambda rate, **more: fluid.optimizer.Adam(rate, **more),
    "adagrad": lambda rate, **more: fluid.optimizer.Adagrad(rate, **more),
}


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-0.1, 0.1, shape).astype("float32")


def values(name: str, seed: int, *shape: int) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(numbers(seed, *shape)))


def build(flags: set[str]):
    """A table with two lookups, and two layers."""
    ids = fluid.layers.data("ids", [3, 1], dtype="int64")
    more = fluid.layers.data("more", [1], dtype="int64")
    label = fluid.layers.data("label", [1], dtype="float32")
    sparse = "sparse" in flags
    table = values("table", 1, ROWS, WIDTH)
    parts = [
        fluid.layers.embedding(ids, [ROWS, WIDTH], is_sparse=sparse, param_attr=table),
        fluid.layers.embedding(more, [ROWS, WIDTH], is_sparse=sparse, param_attr=table),
    ]
    x = fluid.layers.concat([fluid.layers.reshape(parts[0], [-1, 3 * WIDTH]), parts[1]], axis=1)
    x = fluid.layers.fc(x, 256, act="tanh", param_attr=values("w0", 2, 4 * WIDTH, 256), bias_attr=values("b0", 3, 256))
    x = fluid.layers.fc(x, 1, param_attr=values("w1", 4, 256, 1), bias_attr=fluid.ParamAttr(name="b1"))
    return fluid.layers.reduce_mean(fluid.layers.square_error_cost(x, label))


def batch(trainer: int, step: int) -> dict[str, np.ndarray]:
    r = np.random.RandomState(1000 * trainer + step)
    ids = r.randint(0, ROWS, (BATCH, 3, 1))
    return {
        "ids": ids.astype("int64"),
        "more": r.randint(0, ROWS, (BATCH, 1)).astype("int64"),
        "label": (ids[:, 0] % 7 / 7).astype("float32"),
    }


def programs(name: str):
    kind, *flags = name.split("+")
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = build(set(flags))
        rate = 0.002 if kind == "adam" else 0.05  # adam amplifies rounding errors of small gradients
        more = {}
        if "decay" in flags:
            rate = fluid.layers.piecewise_decay([5, 12], [0.05, 0.02, 0.01])
        if "exponential" in flags:
            rate = fluid.layers.exponential_decay(rate, 4, 0.5)
        if "l2" in flags:
            more["regularization"] = fluid.regularizer.L2Decay(0.01)
        if "clip" in flags:
            more["grad_clip"] = fluid.clip.GradientClipByValue(0.002)
        if "lazy" in flags:
            more["lazy_mode"] = True
        OPTIMIZERS[kind](rate, **more).minimize(loss)
    return main, startup, loss, set(flags)


def train(executor, main, loss, feeds) -> list[float]:
    return [float(np.asarray(executor.run(main, feed=f, fetch_list=[loss])[0]).mean()) for f in feeds]


def prediction(program: fluid.Program):
    """The output of the last layer: the loss's input that is not the label."""
    (op,) = [op for op in program.global_block().ops if op.type == "elementwise_sub"]
    return program.global_block().var(op.input("X")[0])


def save_models(executor, trainer: fluid.Program, folder: str) -> None:
    """Inference models of a trainer's Program, in each format."""
    feeds, fetches = ["ids", "more"], [prediction(trainer)]
    fluid.io.save_inference_model(folder + ".files", feeds, fetches, executor, trainer)
    fluid.io.save_inference_model(folder + ".file", feeds, fetches, executor, trainer, None, "all")
    feeds = [trainer.global_block().var(name) for name in feeds]
    paddle.static.save_inference_model(folder + ".pair", feeds, fetches, executor, program=trainer)
    with open(folder + ".bytes", "wb") as f:
        f.write(paddle.static.serialize_persistables(feeds, fetches, executor, program=trainer))


def run(role: str, index: int, name: str, endpoints: str) -> list[float]:
    main, startup, loss, flags = programs(name)
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        if role == "alone":
            executor.run(startup)
            steps = ([batch(i, s) for i in range(TRAINERS)] for s in range(STEPS))
            return train(executor, main, loss, ({k: np.concatenate([p[k] for p in ps]) for k in ps[0]} for ps in steps))
        config = fluid.DistributeTranspilerConfig()
        config.slice_var_up = "slice" in flags
        if "hash" in flags:
            config.split_method = fluid.transpiler.HashName
        if "async" in flags or "dc" in flags:
            config.sync_mode = False
        config.enable_dc_asgd = "dc" in flags
        t = fluid.DistributeTranspiler(config)
        sync = config.sync_mode and "argument" not in flags  # without the config's settings
        os.environ["OAR_PS_BACKGROUND"] = str(int("background" in flags))
        # with a staleness of 8 the few steps would end before parameters are received
        fluid.set_flags({"FLAGS_communicator_max_staleness": 2 if "background" in flags else 0})
        t.transpile(
            index if role == "trainer" else 0,
            program=main,
            startup_program=startup,
            pservers=endpoints,
            trainers=TRAINERS,
            sync_mode=sync,
            current_endpoint=endpoints.split(",")[index] if role == "server" else "",
        )
        if role == "server":
            main, startup = t.get_pserver_programs(endpoints.split(",")[index])
            executor.run(startup)
            if "load" in flags:
                fluid.io.load_persistables(executor, os.environ["SAVED"], main)
            executor.run(main)
            return []
        trainer = t.get_trainer_program()
        executor.run(startup)
        first, last = STEPS // 2 if "load" in flags else 0, STEPS // 2 if "save" in flags else STEPS
        steps = DIES_AT if "die" in flags and index == 1 else last
        losses = train(executor, trainer, loss, (batch(index, s) for s in range(first, steps)))
        if steps == DIES_AT:
            os._exit(9)
        if "save" in flags and index == 0:
            fluid.io.save_persistables(executor, os.environ["SAVED"], trainer)
            save_models(executor, trainer, os.environ["SAVED"])
        executor.close()
        return losses


def main() -> None:
    paddle.enable_static()
    role, index, endpoints, out, *names = sys.argv[1:]
    places = endpoints.split(";") if endpoints else [""] * len(names)
    found = {name: run(role, int(index), name, place) for name, place in zip(names, places, strict=True)}
    with open(out, "w") as f:
        json.dump(found, f)


if __name__ == "__main__":
    main()
