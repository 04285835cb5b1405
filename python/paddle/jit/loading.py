"""jit.load: a Layer of a saved model."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import numpy as np

import paddle._core as _core
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import _dygraph_guard, in_static_mode
from paddle._basics.place import CPUPlace
from paddle._persistence.atomic_files import file_names, read_together, where
from paddle._programs.parameter import ParamBase
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard
from paddle.static.executor import Executor
from paddle.static.inference_io import load_from_file
from paddle.static.newer_models import translate
from paddle.static.vars_io import is_persistable, load_vars

from .loaded_program import LoadedProgram
from .saved_files import INFER_MODEL_SUFFIX, INFER_PARAMS_SUFFIX, read_info
from .stop_flags import flags
from .translated_layer import TranslatedLayer

__all__ = ["load"]

_CONFIGS = ("model_filename", "params_filename")


def load(path: str, **configs: Any) -> TranslatedLayer:
    """A Layer of a model that `paddle.jit.save` or `save_inference_model` of this package or Paddle saved.

    Args:
        path (str): folder and name without suffix; or the folder of a model of 1.x.
        model_filename (str, optional): in a folder: the model's file, ``__model__`` when None.
        params_filename (str, optional): in a folder: the file of all parameters; a file for each when None.

    Returns:
        TranslatedLayer: in eval mode.

    Raises:
        ValueError: when there is no model at `path`, or it is incomplete; for other keywords or empty names.
        RuntimeError: when the parameters do not fit the model; in static mode.

    Examples:
        >>> import paddle
        >>> from paddle.static import InputSpec
        >>> net = paddle.nn.Linear(4, 2)
        >>> paddle.jit.save(net, "to_load", [InputSpec([None, 4], "float32", "x")])
        >>> paddle.jit.load("to_load")(paddle.ones([3, 4])).shape
        [3, 2]
    """
    if in_static_mode():
        raise RuntimeError("jit.load makes a Layer of dygraph mode: call paddle.disable_static() first")
    for name, value in configs.items():
        if name not in _CONFIGS:
            raise ValueError(f"jit.load: keyword '{name}' is not known: {' and '.join(_CONFIGS)} are")
        if value is not None and not isinstance(value, str):
            raise TypeError(f"jit.load: {name} must be a str, got {type(value)}")
        if value == "":
            raise ValueError(f"jit.load: {name} must not be empty")
    prefixed, folder = os.path.exists(where(path + INFER_MODEL_SUFFIX)), os.path.isdir(path)
    if prefixed and folder:
        raise ValueError(f"jit.load: both {path}.pdmodel and the folder {path} exist: rename one of them")
    if not prefixed and not folder:
        raise ValueError(f"The ``path`` ({path}) to load model not exists.")
    if prefixed:
        for name in _CONFIGS:
            if configs.get(name) is not None:
                warnings.warn(f"jit.load: {name} has no effect where path is a prefix", stacklevel=2)
        return read_together([path + INFER_MODEL_SUFFIX], lambda: _load_prefix(path))
    return _load_folder(path, configs.get("model_filename"), configs.get("params_filename"))


def _program(path: str) -> Program:
    content = load_from_file(path)
    try:
        with _dygraph_guard(None):
            program = Program.parse_from_string(content)
    except (ValueError, RuntimeError, _core.EnforceNotMet) as error:
        raise ValueError(f"jit.load: {path} cannot be read: {error}") from error
    for block, names in zip(program.blocks, flags(content), strict=False):
        for name in names & block.vars.keys():
            block.vars[name].stop_gradient = True
    translate(program.desc, f"jit.load: {path}")
    return program


def _method_files(prefix: str) -> dict[str, str]:
    """Method to the prefix of its files."""
    folder, name = os.path.split(prefix)
    pattern = re.compile(re.escape(name) + r"\.(\w+)" + re.escape(INFER_MODEL_SUFFIX))
    found = {"forward": prefix}
    for file in sorted(file_names(folder or ".")):
        match = pattern.fullmatch(file)
        if match:
            found[match[1]] = f"{prefix}.{match[1]}"
    return found


def _load_prefix(prefix: str) -> TranslatedLayer:
    info = read_info(prefix)
    methods: dict[str, LoadedProgram] = {}
    tensors: dict[str, Any] = {}
    for method, files in (_method_files(prefix) if info is not None else {"forward": prefix}).items():
        loaded = methods[method] = LoadedProgram(method, _program(files + INFER_MODEL_SUFFIX))
        if info is not None:
            for name in loaded.names:
                if name not in info:
                    raise RuntimeError(
                        f"jit.load: the model at {prefix} is not complete: its variable '{name}' is not in "
                        f"{prefix}.pdiparams.info"
                    )
        path = files + INFER_PARAMS_SUFFIX
        if not os.path.exists(where(path)):
            if loaded.names:
                raise ValueError(f"jit.load: the model at {prefix} is not complete: there is no file {path}")
            continue
        folder, name = os.path.split(path)
        _read_tensors(loaded, folder or ".", name, info, tensors)
    return TranslatedLayer(methods, tensors)


def _load_folder(folder: str, model_filename: str | None, params_filename: str | None) -> TranslatedLayer:
    path = os.path.join(folder, model_filename or "__model__")
    if not os.path.exists(where(path)):
        raise ValueError(f"jit.load: there is no file {path}: model_filename names the model in a folder")

    def read() -> TranslatedLayer:
        loaded = LoadedProgram("forward", _program(path))
        tensors: dict[str, Any] = {}
        _read_tensors(loaded, folder, params_filename, None, tensors)
        return TranslatedLayer({"forward": loaded}, tensors)

    return read_together([path], read)


def _read_tensors(
    loaded: LoadedProgram, folder: str, filename: str | None, info: dict | None, tensors: dict[str, Any]
) -> None:
    """Adds the persistable Tensors of a method to `tensors`; methods share those of equal names."""
    scope, written = _core._Scope(), loaded.written()
    with scope_guard(scope), _dygraph_guard(None):
        load_vars(Executor(CPUPlace()), folder, loaded.program, None, is_persistable, filename)
    for name in loaded.names:
        if name in tensors:
            continue
        row = (info or {}).get(name)
        value = scope.find_var(name).get_tensor()
        is_param = "trainable" in row if row is not None else name not in written and _is_float(value)
        tensors[name] = _tensor(name, value, is_param, row)


def _is_float(value: Any) -> bool:
    return value._dtype() in (VarType.FP32, VarType.FP64, VarType.FP16, VarType.BF16)


def _tensor(name: str, value: Any, is_param: bool, row: dict | None) -> Any:
    # its own name where that is free in this process, as unique_name counts
    base, _, number = name.rpartition("_")
    new_name = unique_name.generate(base if base and number.isdigit() else name)
    if is_param:
        tensor: Any = ParamBase(shape=value.shape(), dtype=value._dtype(), name=new_name, persistable=True)
        tensor.value().get_tensor()._share_data_with(value)
        tensor.trainable = bool(row.get("trainable", True)) if row is not None else True
    else:
        tensor = _core.tensor_from_array(np.array(value), True)
        tensor.name, tensor.persistable = new_name, True
    tensor.stop_gradient = bool(row["stop_gradient"]) if row and "stop_gradient" in row else not is_param
    return tensor
