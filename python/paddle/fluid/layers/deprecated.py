"""Functions of fluid.layers that 2.0.2 deprecates: their docstrings begin with the replacement."""

from __future__ import annotations

from collections.abc import Mapping

from ...utils.deprecated import deprecated

__all__: list[str] = []

_NN = "paddle.nn.functional."

#: Functions deprecated since 2.0.0, with their replacements.
INSTEAD = {
    "adaptive_pool2d": "",
    "adaptive_pool3d": "",
    "cumsum": "paddle.cumsum",
    "diag": "paddle.diag",
    "dropout": _NN + "dropout",
    "elementwise_div": "paddle.divide",
    "elementwise_floordiv": "paddle.floor_divide",
    "elementwise_mod": "paddle.remainder",
    "elementwise_mul": "paddle.multiply",
    "elu": _NN + "elu",
    "embedding": _NN + "embedding",
    "expand": "paddle.expand",
    "expand_as": "paddle.expand_as",
    "gather": "paddle.gather",
    "gather_nd": "paddle.gather_nd",
    "gaussian_random": "paddle.normal",
    "gelu": _NN + "gelu",
    "hard_shrink": _NN + "hardshrink",
    "kldiv_loss": _NN + "kl_div",
    "leaky_relu": _NN + "leaky_relu",
    "lstm": "paddle.nn.LSTM",
    "matmul": "paddle.matmul",
    "maxout": _NN + "maxout",
    "mean": "paddle.mean",
    "one_hot": _NN + "one_hot",
    "prelu": "paddle.static.nn.prelu",
    "reduce_mean": "paddle.mean",
    "relu": _NN + "relu",
    "relu6": _NN + "relu6",
    "scatter": "paddle.scatter",
    "selu": _NN + "selu",
    "shard_index": "paddle.shard_index",
    "sign": "paddle.sign",
    "size": "paddle.numel",
    "softmax": _NN + "softmax",
    "strided_slice": "paddle.strided_slice",
    "triu": "paddle.triu",
    "uniform_random": "paddle.uniform",
    "yolo_box": "paddle.vision.ops.yolo_box",
    "yolov3_loss": "paddle.vision.ops.yolo_loss",
}

#: Functions deprecated earlier: (since, replacement).
BEFORE = {
    "fill_constant_batch_size_like": ("1.8.0", "paddle.fluid.layers.fill_constant"),
    "gaussian_random_batch_size_like": ("1.8.0", "paddle.normal"),
    "get_places": ("0.15.0", "paddle.fluid.ParallelExecutor"),
    "uniform_random_batch_size_like": ("1.8.0", "paddle.uniform"),
}


def mark(functions: Mapping[str, object]) -> None:
    """Marks those functions that fluid defines itself; functions shared with the 2.0 API are not deprecated."""
    for name, (since, instead) in {**{name: ("2.0.0", to) for name, to in INSTEAD.items()}, **BEFORE}.items():
        function = functions.get(name)
        if callable(function) and function.__module__.startswith("paddle.fluid."):
            deprecated(update_to=instead, since=since)(function)
