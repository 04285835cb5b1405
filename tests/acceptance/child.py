"""One program as a user starts it, with what makes two runs comparable.

    python child.py OUT STOP SCRIPT|-m MODULE [ARG ...]

Runs under Python 3.7 and Paddle 1.8.5, too. The script is not touched. Before it starts
- the generators of Python and numpy get a seed, and so do they at each run of a startup Program;
- what a startup Program, or a Layer's constructor, draws is replaced by values that depend on the parameter's name;
- environments of gym get a seed;
- dropout drops nothing (its generators are not the same in 1.8.5 and 2.0.2);
- 1.8.5 gets the names of 2.0 that switch modes;
- a place on a GPU is one on the CPU.
Each run's loss goes to OUT, as a line of JSON; after STOP of them the process ends. LEGACY=1 in the environment starts
the script by paddle.legacy.
"""

import json
import os
import random
import runpy
import sys
import zlib

import numpy as np

OUT, STOP = open(sys.argv[1], "w"), int(sys.argv[2])
DRAWS = ("uniform_random", "gaussian_random", "truncated_gaussian_random")
CHANGE = float(os.environ.get("CHANGE", "0"))
count = [0]


def record(kind, values, counted=True):
    OUT.write(json.dumps([kind, values]) + "\n")
    OUT.flush()
    count[0] += counted
    if count[0] >= STOP:
        sys.stdout.flush()
        os._exit(0)


def seed():
    random.seed(7)
    np.random.seed(7)


def numbers(fetched):
    """Mean and mean magnitude of what was fetched."""
    array = np.array(fetched).astype("float64").ravel()
    array = array if array.size else np.zeros(1)
    return [float(array.mean()), float(np.abs(array).mean())]


def changed(value, draw):
    """Initial values, or with CHANGE others that differ from them in the last digits."""
    return value * (1 + CHANGE * draw.standard_normal(value.shape)) if CHANGE else value


def drawn(name, shape, kind, attrs):
    draw = np.random.RandomState(zlib.crc32(name.encode()))
    if kind == "uniform_random":
        value = draw.uniform(attrs["min"], attrs["max"], shape)
    else:
        value = attrs["mean"] + attrs["std"] * np.clip(draw.standard_normal(shape), -2, 2)
    return changed(value, draw)


def loss_of(program):
    """The name of the variable whose gradient the Program starts with."""
    for op in program.global_block().ops:
        if op.type == "fill_constant" and op.has_attr("op_role") and op.attr("op_role") == 257:
            return op.output("Out")[0][: -len("@GRAD")]
    return None


def watch_programs(fluid):
    run = fluid.Executor.run
    seen = {}

    def place(name):
        return fluid.global_scope().find_var(name).get_tensor()

    def overwrite(program):
        block = program.global_block()
        for op in block.ops:
            name = op.output("Out")[0] if op.type in DRAWS else None
            if name is None or not block.has_var(name) or not block.var(name).persistable:
                continue
            value = drawn(
                name,
                op.attr("shape"),
                op.type,
                {k: op.attr(k) for k in ("min", "max", "mean", "std") if op.has_attr(k)},
            )
            target = place(name)
            kept = np.array(target)
            target.set(value.astype(kept.dtype).reshape(kept.shape), fluid.CPUPlace())

    def watched(self, program=None, feed=None, fetch_list=None, *args, **kwargs):
        program = fluid.default_main_program() if program is None else program
        plain = program if isinstance(program, fluid.Program) else getattr(program, "_program", None)
        if plain is None:
            return run(self, program, feed, fetch_list, *args, **kwargs)
        loss = loss_of(plain)
        number = seen.setdefault(id(plain), (len(seen), plain))[0]
        wanted = list(fetch_list) if isinstance(fetch_list, (list, tuple)) else [fetch_list] if fetch_list else []
        more = [] if loss is None else [loss]
        found = run(self, program, feed, wanted + more, *args, **kwargs)
        if not wanted and not more:
            seed()
            overwrite(plain)
            return found
        found = list(found)
        if more:
            record("loss %d" % number, numbers(found.pop()))
        else:
            fetched = [f for f in found if not isinstance(f, list)]
            fetched = [np.array(f) for f in fetched if f is not None]
            record("fetch %d" % number, [numbers(f) for f in fetched if f.dtype.kind == "f"], counted=False)
        return found if wanted else []

    fluid.Executor.run = watched

    def after(method):
        def watched_dataset(self, program=None, *args, **kwargs):
            result = method(self, program, *args, **kwargs)
            plain = fluid.default_main_program() if program is None else program
            plain = getattr(plain, "_program", None) or plain
            for parameter in sorted(plain.all_parameters(), key=lambda p: p.name):
                record("parameter " + parameter.name, numbers(np.array(place(parameter.name))), counted=False)
            record("epoch", [])
            return result

        return watched_dataset

    fluid.Executor.train_from_dataset = after(fluid.Executor.train_from_dataset)


def watch_layers(fluid):
    minimize = fluid.optimizer.Optimizer.minimize

    def watched(self, loss, *args, **kwargs):
        if fluid.in_dygraph_mode():
            record("loss", numbers(loss.numpy()))
        return minimize(self, loss, *args, **kwargs)

    fluid.optimizer.Optimizer.minimize = watched

    for name in ("Uniform", "Normal", "TruncatedNormal", "Xavier", "MSRA"):
        kind = getattr(fluid.initializer, name + "Initializer")

        def filled(self, var, block=None, _call=kind.__call__):
            result = _call(self, var, block)
            if fluid.in_dygraph_mode():
                draw = np.random.RandomState(zlib.crc32(var.name.encode()))
                scale = (min(var.shape) / float(np.prod(var.shape))) ** 0.5
                value = changed(scale * np.clip(draw.standard_normal(var.shape), -2, 2), draw)
                var.set_value(value.astype(var.numpy().dtype))
            return result

        kind.__call__ = filled


def watch_dropout(fluid):
    dropout = fluid.layers.nn.dropout

    def kept(x, dropout_prob, *args, **kwargs):
        return dropout(x, 0.0, *args, **kwargs)

    fluid.layers.nn.dropout = fluid.layers.dropout = kept
    constructor = fluid.dygraph.Dropout.__init__

    def built(self, *args, **kwargs):
        constructor(self, 0.0, *args[1:], **{k: v for k, v in kwargs.items() if k != "p"})

    fluid.dygraph.Dropout.__init__ = built


def watch_environments():
    """Environments of gym begin with the same seed."""
    try:
        import gym
    except ImportError:
        return
    make = gym.make

    def seeded(*args, **kwargs):
        environment = make(*args, **kwargs)
        environment.seed(7)
        environment.action_space.seed(7)
        return environment

    gym.make = seeded


class Ordered(dict):
    """In 1.8.5 the numbers of words and labels depend on the order of a set; here they come in the files' order."""

    def __init__(self, *args):
        dict.__init__(self, dict.fromkeys(*args) if args else {})

    def add(self, key):
        self[key] = None


def use_local_files(paddle):
    try:
        import paddle._basics.fetch as fetch
    except ImportError:
        common = paddle.dataset.common

        def local(url, module_name, md5sum, save_name=None):
            return os.path.join(common.DATA_HOME, module_name, save_name or url.split("/")[-1])

        common.download = local
        for module in (paddle.dataset.movielens, paddle.dataset.conll05):
            module.set = Ordered
        return
    fetch.is_whole = lambda path, md5: os.path.isfile(path)


def main():
    import paddle
    import paddle.fluid as fluid

    use_local_files(paddle)
    if paddle.__version__.startswith("1."):
        paddle.enable_static = paddle.disable_static = lambda *args: None
    on_cpu = {"__init__": lambda self, device=0: fluid.CPUPlace.__init__(self)}
    fluid.CUDAPlace = type("CUDAPlace", (fluid.CPUPlace,), on_cpu)
    watch_programs(fluid)
    watch_layers(fluid)
    watch_dropout(fluid)
    watch_environments()
    seed()
    if os.environ.get("LEGACY"):
        from paddle.legacy import command

        command.main(sys.argv[3:])
    if sys.argv[3] == "-m":
        sys.argv[:] = sys.argv[4:]
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = sys.argv[3:]
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
