"""paddle.onnx.export."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from paddle._basics.mode import _dygraph_guard
from paddle._persistence.atomic_files import atomic_file
from paddle._programs.program import Program
from paddle._programs.scope import global_scope
from paddle._programs.variable import Variable

from . import rules  # noqa: F401 (registers the rules)
from .layers import program_of_layer
from .proto import model_of, require_onnx
from .translate import Translator

__all__ = ["export", "model_of_program"]

OLDEST, NEWEST = 11, 21

#: bytes of parameters from which a model does not fit the one message of a file
_LARGEST = (1 << 31) - (1 << 20)

Parameter = Callable[[str], "np.ndarray | None"]


def _opset(version: Any) -> int:
    """The version of the operator set that a model gets."""
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"paddle.onnx.export: opset_version must be an int, got {type(version).__name__}")
    if version > NEWEST or version < 7:
        raise ValueError(f"paddle.onnx.export: opset_version must be in {OLDEST} to {NEWEST}, got {version}")
    if version < OLDEST:
        warnings.warn(
            f"paddle.onnx.export: the model is written with opset {OLDEST}, the oldest one supported, "
            f"not {version}: pass opset_version={OLDEST} to {NEWEST}",
            stacklevel=4,
        )
    return max(version, OLDEST)


def model_of_program(
    program: Program, feeds: Sequence[str], fetches: Sequence[str], parameter: Parameter, opset: int, name: str
) -> Any:
    """The ModelProto of the part of a Program that computes `fetches` from `feeds`, in test mode.

    Args:
        program (Program): not changed.
        feeds, fetches (sequence of str): names of variables.
        parameter (callable): the elements of a persistable variable; None where it has no value.
        opset (int): version of the operator set, 11 to 21.
        name (str): the graph's name.

    Raises:
        NotImplementedError: for an operator without a rule; the text names operator, layer and line.
    """
    with _dygraph_guard(None):
        copy = program.clone(for_test=True)
        for each in copy.blocks:
            for op in each.ops:
                if op.has_attr("is_test"):
                    op._set_attr("is_test", True)
        graph = Translator(copy, parameter, opset).graph(feeds, fetches)
    return model_of(graph, name)


def _write(model: Any, path: str) -> None:
    size = model.ByteSize()
    if size > _LARGEST:
        raise ValueError(
            f"paddle.onnx.export: the model has {size} bytes, more than the 2 GiB of an ONNX file without external data"
        )
    with atomic_file(path) as file:
        file.write(model.SerializeToString())


def _from_scope(name: str) -> np.ndarray | None:
    """A persistable variable of the global Scope."""
    found = global_scope().find_var(name)
    if found is None or not found.get_tensor()._is_initialized():
        return None
    return np.array(found.get_tensor())


def _names(what: str, given: Any, block: Any) -> list[str]:
    """Names of variables, given by name, as Variables or as InputSpecs."""
    found = []
    for each in given if isinstance(given, (list, tuple)) else [given]:
        name = each if isinstance(each, str) else getattr(each, "name", None)
        if not isinstance(name, str) or not block.has_var(name):
            raise ValueError(f"paddle.onnx.export: {what} names {name!r}, which is no variable of the Program")
        found.append(name)
    return found


def _interface(program: Program, input_spec: Any, output_spec: Any) -> tuple[list[str], list[str]]:
    """Fed and fetched variables of a Program."""
    block = program.global_block()
    if input_spec is not None:
        feeds = _names("input_spec", input_spec, block)
    else:
        feeds = list(program.desc.get_feed_target_names())
        feeds = feeds or [v.name for v in block.vars.values() if isinstance(v, Variable) and v.is_data]
    if output_spec is not None:
        fetches = _names("output_spec", output_spec, block)
    else:
        fetches = list(program.desc.get_fetch_target_names())
    if not fetches:
        raise ValueError("paddle.onnx.export: a Program without fetch operators requires output_spec, its outputs")
    return feeds, fetches


def export(layer: Any, path: str, input_spec: Any = None, opset_version: int = 9, **configs: Any) -> None:
    """Write a layer or Program as an ONNX model, the file ``path + ".onnx"``.

    The package onnx is required (``pip install "oar-paddle[onnx]"``). Layers are exported as in eval mode; sizes that
    an InputSpec leaves open (None) stay open in the model. ``if`` and ``while`` on tensors become If and Loop.
    ``python -m paddle.onnx`` lists the operators that are exported.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/onnx/export_en.html

    Args:
        layer (Layer|StaticFunction|Program): what is exported. Parameters of a Program are read from the global Scope.
        path (str): folder and file name, without the suffix.
        input_spec (list of InputSpec|Tensor, optional): the inputs of ``layer.forward``; of a Program its Variables, or
            their names (all fed Variables when None).
        opset_version (int): version of ONNX's operator set, 11 to 21. With an older one, as the default, the model has
            version 11, and a warning says so.
        output_spec (list of Variable, optional): the outputs of the model, for a Layer some of
            ``layer.forward.outputs``; all results when None. A Program without fetch operators requires it.

    Raises:
        ImportError: without the package onnx.
        NotImplementedError: for an operator that has no rule; the message names operator, layer and line.
        ValueError: for a path without file name, another version, unknown options, or names that the Program lacks.
        TypeError: for a layer of another type.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.ReLU())
        >>> spec = [paddle.static.InputSpec([None, 4], "float32", "x")]
        >>> paddle.onnx.export(net, "net", input_spec=spec, opset_version=13)  # doctest: +SKIP
    """
    require_onnx()
    if not isinstance(path, str) or not os.path.basename(path):
        raise ValueError(
            f"paddle.onnx.export: path must have the format dirname/file_prefix, but its file_prefix is empty: {path!r}"
        )
    output_spec = configs.pop("output_spec", None)
    for name in configs:
        raise ValueError(f"paddle.onnx.export: unknown option {name!r}; output_spec is the one there is")
    opset = _opset(opset_version)
    parameter: Parameter = _from_scope
    if isinstance(layer, Program):
        program = layer
        feeds, fetches = _interface(program, input_spec, output_spec)
    else:
        program, feeds, fetches, parameter = program_of_layer(layer, input_spec, output_spec)
    _write(model_of_program(program, feeds, fetches, parameter, opset, os.path.basename(path)), path + ".onnx")
