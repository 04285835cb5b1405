"""Saved models of every kind, and how each is loaded and run: what `mutate_child.py` mutates."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import paddle
from paddle import fluid, nn
from paddle.fluid import core
from paddle.inference import Config, create_predictor

PLACE = fluid.CPUPlace()
Files = dict[str, bytes]


class Kind(NamedTuple):
    save: Callable[[str], Any]  # writes the files to a folder
    run: Callable[[str, Files, bool], Any]  # folder with the mutated files, the files, whether passes run


def _values(shape: Any, dtype: str) -> np.ndarray:
    return np.zeros([2 if d < 0 else min(d, 64) for d in shape], dtype)


def _save_static(folder: str, build: Callable, passes: Callable | None = None, **where: Any) -> None:
    """A folder of 1.x: `__model__`, and the parameters in files of their own or in `params_filename`."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), fluid.scope_guard(core.Scope()):
        names, outs = build()
        program = main.clone(for_test=True)
        exe = fluid.Executor(PLACE)
        exe.run(startup)
        if passes is not None:
            program = passes(main, program, exe)
            outs = [program.global_block().var(out.name) for out in outs]
        fluid.io.save_inference_model(folder, names, outs, exe, program, **where)


def _convolutions() -> tuple[list, list]:
    x = fluid.data("x", [None, 3, 6, 6])
    y = fluid.layers.batch_norm(fluid.layers.conv2d(x, 4, 3, padding=1), act="relu")
    return ["x"], [fluid.layers.fc(fluid.layers.dropout(y, 0.3), 5, act="softmax")]


def _sequences() -> tuple[list, list]:
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    rows = fluid.layers.fc(fluid.layers.embedding(words, [20, 8]), 16)
    hidden, _ = fluid.layers.dynamic_lstm(rows, 16)
    last, best = fluid.layers.sequence_last_step(hidden), fluid.layers.sequence_pool(hidden, "max")
    return ["words"], [fluid.layers.fc([last, best], 3, act="softmax")]


def _blocks() -> tuple[list, list]:
    """A loop and a branch."""
    x = fluid.data("x", [None, 4])
    count, limit = fluid.layers.zeros([1], "int64"), fluid.layers.fill_constant([1], "int64", 3)
    step = lambda i, y: [i + 1, fluid.layers.fc(y, 4, param_attr="w", bias_attr="b")]  # noqa: E731
    count, y = fluid.layers.while_loop(lambda i, y: fluid.layers.less_than(i, limit), step, [count, x])
    larger = fluid.layers.reduce_sum(y) > 0.0
    return ["x"], [fluid.layers.cond(larger, lambda: y * 2.0, lambda: fluid.layers.tanh(y))]


def _quantise(main: Any, test: Any, exe: Any) -> Any:
    from paddle.fluid.contrib.slim import quantization as slim
    from paddle.fluid.framework import IrGraph

    scope = fluid.global_scope()
    graphs = IrGraph(core.Graph(main.desc), for_test=False), IrGraph(core.Graph(test.desc), for_test=True)
    for graph in graphs:
        slim.QuantizationTransformPass(scope, PLACE, weight_quantize_type="channel_wise_abs_max").apply(graph)
        slim.AddQuantDequantPass(scope, PLACE).apply(graph)
    data = np.random.RandomState(0).rand(4, 3, 6, 6).astype("float32")
    exe.run(graphs[0].to_program(), feed={"x": data})
    slim.QuantizationFreezePass(scope, PLACE, weight_quantize_type="channel_wise_abs_max").apply(graphs[1])
    return graphs[1].to_program()


class Network(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.linear = nn.Embedding(20, 8), nn.LSTM(8, 8), nn.Linear(8, 3)

    @paddle.jit.to_static(input_spec=[paddle.static.InputSpec([None, 4], "int64", "words")])
    def forward(self, words):
        y, _ = self.lstm(self.embedding(words))
        y = y[:, -1]
        for _ in range(words.shape[1]):
            y = y * 0.5 if y.sum() > 0 else y
        return self.linear(y)


def _save_jit(folder: str) -> None:
    paddle.disable_static()
    try:
        paddle.seed(3)
        paddle.jit.save(Network(), folder + "/model")
    finally:
        paddle.enable_static()


def _save_2(folder: str) -> None:
    """prefix.pdmodel and prefix.pdiparams."""
    _save_static(folder, _convolutions, model_filename="model.pdmodel", params_filename="model.pdiparams")


def _served(config: Any, passes: bool) -> None:
    config.switch_ir_optim(passes)
    predictor = create_predictor(config)
    declared = predictor._session.model.inputs
    for name in predictor.get_input_names():
        predictor.get_input_handle(name).copy_from_cpu(_values(declared[name].shape, "float32"))
    predictor.run()
    for name in predictor.get_output_names():
        predictor.get_output_handle(name).copy_to_cpu()


def _from_memory(_folder: str, files: Files, passes: bool) -> None:
    config = Config()
    model, values = files["model.pdmodel"], files["model.pdiparams"]
    config.set_model_buffer(model, len(model), values, len(values))
    _served(config, passes)


def _from_folder(folder: str, _files: Files, passes: bool) -> None:
    _served(Config(folder), passes)


def _by_executor(folder: str, files: Files, passes: bool) -> None:
    with fluid.scope_guard(core.Scope()):
        exe = fluid.Executor(PLACE)
        params = "__params__" if "__params__" in files else None
        program, names, outs = fluid.io.load_inference_model(folder, exe, params_filename=params)
        feed = {}
        for name in names:
            var = program.global_block().var(name)
            words = paddle.fluid.data_feeder.convert_dtype(var.dtype) == "int64"
            feed[name] = _values(var.shape, "int64" if words else "float32")
            if var.lod_level:
                rows = len(feed[name])
                feed[name] = fluid.create_lod_tensor(feed[name], [[rows - rows // 2, rows // 2]], PLACE)
        exe.run(program, feed=feed, fetch_list=outs, return_numpy=False)


def _by_jit(folder: str, _files: Files, _passes: bool) -> None:
    paddle.disable_static()
    try:
        layer = paddle.jit.load(folder + "/model")
        layer(paddle.zeros([2, 4], "int64"))
        layer.state_dict()
    finally:
        paddle.enable_static()


KINDS = {
    "memory": Kind(_save_2, _from_memory),
    "folder": Kind(lambda folder: _save_static(folder, _sequences), _by_executor),
    "blocks": Kind(lambda folder: _save_static(folder, _blocks, params_filename="__params__"), _by_executor),
    "quantised": Kind(lambda folder: _save_static(folder, _convolutions, _quantise), _from_folder),
    "jit": Kind(_save_jit, _by_jit),
}


def read(folder: str) -> Files:
    """The files of a folder."""
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found
