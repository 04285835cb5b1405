"""Writes or reads files of parameters: python files_child.py write|read FOLDER. Runs on 1.8.5, 2.6.2 and this package.

A kind is skipped where the release lacks it; `read` prints a line of JSON: {kind: what it found}. 2.6.2 has no fluid.
"""

import json
import os
import sys
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import paddle  # noqa: E402

HOW, FOLDER = sys.argv[1:]
VALUES = {"w": np.arange(6, dtype="float32").reshape(2, 3) / 4, "b": np.float32([-1, 0.5, 2])}
FIRST = paddle.__version__.startswith("1.")
try:
    import paddle.fluid as fluid
except ImportError:
    fluid = None
api = paddle.static if fluid is None else fluid
place = (paddle if fluid is None else fluid).CPUPlace()


def path(name):
    return os.path.join(FOLDER, name)


def program():
    """A Program of one fc whose parameters have the values."""
    main, startup = api.Program(), api.Program()
    with api.program_guard(main, startup):
        x = api.data("x", [None, 2], "float32")
        if fluid is None:
            out = api.nn.fc(x, 3, weight_attr=paddle.ParamAttr("w"), bias_attr=paddle.ParamAttr("b"))
        else:
            out = fluid.layers.fc(x, 3, param_attr=fluid.ParamAttr("w"), bias_attr=fluid.ParamAttr("b"))
    return main, startup, x, out


def values():
    found = {name: np.array(api.global_scope().find_var(name).get_tensor()) for name in VALUES}
    return {name: np.asarray(value).tolist() for name, value in found.items()}


def fill(value=None):
    for name, array in VALUES.items():
        tensor = api.global_scope().find_var(name).get_tensor()
        tensor.set(array if value is None else np.zeros_like(array), place)


def arrays(state):
    return {name: np.asarray(state[name]).astype("float32").tolist() for name in VALUES}


def tensors():
    return {name: paddle.to_tensor(array) for name, array in VALUES.items()}


def eager(task):
    """A task in dygraph mode."""

    def run():
        if fluid is not None:
            with fluid.dygraph.guard():
                return task()
        paddle.disable_static()
        return task()

    return run


def dygraph_states():
    layer = fluid.dygraph.Layer("states")
    state = {name: layer.create_parameter(list(array.shape), dtype="float32") for name, array in VALUES.items()}
    for name, array in VALUES.items():
        state[name].set_value(array)
    fluid.save_dygraph(state, path("dygraph"))


def dygraph_optimizer():
    """The states of a Layer and of its Adam after a step."""
    layer = fluid.dygraph.Linear(2, 3)
    layer.weight.set_value(VALUES["w"])
    adam = fluid.optimizer.Adam(0.1, parameter_list=layer.parameters())
    fluid.layers.reduce_sum(layer(fluid.dygraph.to_variable(np.ones((1, 2), "float32")))).backward()
    adam.minimize(fluid.layers.reduce_sum(layer(fluid.dygraph.to_variable(np.ones((1, 2), "float32")))))
    fluid.save_dygraph(layer.state_dict(), path("trained"))
    fluid.save_dygraph(adam.state_dict(), path("trained"))


def read_optimizer():
    parameters, state = fluid.load_dygraph(path("trained"))
    moments = [np.asarray(v) for k, v in state.items() if "moment1" in k]
    return [sorted(np.asarray(v).shape for v in parameters.values()), sorted(m.shape for m in moments)]


def in_program(task):
    def run():
        if hasattr(paddle, "enable_static"):
            paddle.enable_static()
        main, startup, x, out = program()
        exe = api.Executor(place)
        exe.run(startup)
        fill()
        return task(exe, main, x, out)

    return run


def after_zeros(task):
    """Reads into zeros, and returns the values of the scope."""

    def run(exe, main, x, out):
        fill(0)
        task(exe, main)
        return values()

    return in_program(run)


def inference(folder):
    def read(exe, main, x, out):
        loaded, names, targets = fluid.io.load_inference_model(path(folder), exe)
        return [names, exe.run(loaded, feed={names[0]: np.ones((1, 2), "float32")}, fetch_list=targets)[0].tolist()]

    return in_program(read)


#: kind -> (whether the release has it, write, read)
KINDS = {
    "save": (
        not FIRST,
        eager(lambda: paddle.save(tensors(), path("s.pdparams"))),
        eager(lambda: arrays(paddle.load(path("s.pdparams")))),
    ),
    "save_dygraph": (
        fluid is not None,
        eager(dygraph_states),
        eager(lambda: arrays(fluid.load_dygraph(path("dygraph"))[0])),
    ),
    "trained": (fluid is not None, eager(dygraph_optimizer), eager(read_optimizer)),
    "load_of_dygraph": (not FIRST, None, eager(lambda: arrays(paddle.load(path("dygraph.pdparams"))))),
    "static.save": (
        True,
        in_program(lambda exe, main, x, out: api.save(main, path("static"))),
        after_zeros(lambda exe, main: api.load(main, path("static"), exe)),
    ),
    "program_state": (
        True,
        None,
        lambda: arrays(api.load_program_state(path("static"))),
    ),
    "save_params": (
        fluid is not None,
        in_program(lambda exe, main, x, out: fluid.io.save_params(exe, path("params"), main)),
        after_zeros(lambda exe, main: fluid.io.load_params(exe, path("params"), main)),
    ),
    "save_params_one": (
        fluid is not None,
        in_program(lambda exe, main, x, out: fluid.io.save_persistables(exe, path("one"), main, "all")),
        after_zeros(lambda exe, main: fluid.io.load_persistables(exe, path("one"), main, "all")),
    ),
    "inference_model": (
        fluid is not None,
        in_program(lambda exe, main, x, out: fluid.io.save_inference_model(path("model"), ["x"], [out], exe, main)),
        inference("model"),
    ),
}


def main():
    found = {}
    for kind, (able, write, read) in KINDS.items():
        task = write if HOW == "write" else read
        if able and task is not None:
            try:
                found[kind] = task()
            except Exception as error:
                found[kind] = "%s: %s" % (type(error).__name__, str(error).strip()[-300:])
    print(json.dumps(found if HOW == "read" else {k: v for k, v in found.items() if isinstance(v, str)}))


main()
