"""paddle.save and paddle.load."""

from __future__ import annotations

import os
from typing import Any

from paddle._persistence import safetensors_file
from paddle._persistence.atomic_files import where
from paddle._persistence.saving import load_state, save
from paddle.jit.saved_files import read_info
from paddle.static import io as static_io

__all__ = ["save", "load"]


def _model_state(path: str, model_filename: str | None, params_filename: str | None) -> dict:
    """The parameters in a folder or of the files with a prefix; an inference model lists their names."""
    if not os.path.isdir(path) and os.path.exists(where(path + ".pdiparams")):
        folder, name = os.path.split(path)
        state = static_io.state_of_model(folder, name + ".pdmodel", name + ".pdiparams")
        # `jit.save` keeps the Layer's own names
        info = read_info(path) or {}
        return {info.get(key, {}).get("structured_name", key): value for key, value in state.items()}
    if model_filename or os.path.isfile(where(os.path.join(path, "__model__"))):
        return static_io.state_of_model(path, model_filename or "__model__", params_filename)
    return static_io.load_program_state(path)


def load(path, **configs) -> Any:
    """Read what `save` wrote; also parameters saved with an inference model or by `fluid.io.save_params`.

    Args:
        path (str): a file (of `paddle.save`, or ".safetensors"); the prefix or folder of an inference model.
        keep_name_table (bool, optional): keep the table of parameter names in the result.
        model_filename, params_filename (str, optional): names within a folder.

    Returns:
        dict: numpy arrays, and other saved values, by name.

    Raises:
        ValueError: when there is no file at `path`.
        pickle.UnpicklingError: for a file with other objects than state.
    """
    unknown = set(configs) - {
        "keep_name_table",
        "model_filename",
        "params_filename",
        "separate_params",
        "return_numpy",
        "output_spec",
    }
    if unknown:
        raise ValueError(f"load: unknown configuration {sorted(unknown)[0]}")
    if safetensors_file.is_path(path) and os.path.isfile(where(os.fspath(path))):
        return safetensors_file.load(path)
    if os.path.isfile(where(path)):
        return load_state(path, bool(configs.get("keep_name_table")))
    if os.path.isdir(path) or any(os.path.exists(where(path + suffix)) for suffix in (".pdmodel", ".pdiparams")):
        return _model_state(path, configs.get("model_filename"), configs.get("params_filename"))
    near = [path + suffix for suffix in (".pdparams", ".pdopt") if os.path.isfile(path + suffix)]
    hint = f" Is {' or '.join(near)} meant?" if near else ""
    raise ValueError(f"The ``path`` ({path}) to load model not exists.{hint}")
