"""paddle.save and paddle.load."""
from __future__ import annotations

import os
from typing import Any

from paddle._persistence.saving import load_state, save
from paddle._persistence.whole_files import where
from paddle.static.io import load_program_state

__all__ = ["save", "load"]


def load(path, **configs) -> Any:
    """Read what `save` wrote; also parameters saved with an inference model or by `fluid.io.save_params`.

    Args:
        path (str): a file; the prefix or folder of an inference model.
        keep_name_table (bool, optional): keep the table of parameter names in the result.
        model_filename, params_filename (str, optional): names within a folder.

    Returns:
        dict: numpy arrays (and what else was saved) by name.

    Raises:
        ValueError: when there is nothing at `path`.
        pickle.UnpicklingError: for a file that holds anything but state.
    """
    unknown = set(configs) - {"keep_name_table", "model_filename", "params_filename", "separate_params",
                              "return_numpy", "output_spec"}
    if unknown:
        raise ValueError(f"load: unknown configuration {sorted(unknown)[0]}")
    if os.path.isfile(where(path)):
        return load_state(path, bool(configs.get("keep_name_table")))
    if os.path.isdir(path) or any(os.path.exists(where(path + suffix)) for suffix in (".pdmodel", ".pdiparams")):
        return load_program_state(path)
    near = [path + suffix for suffix in (".pdparams", ".pdopt") if os.path.isfile(path + suffix)]
    hint = f" Is {' or '.join(near)} meant?" if near else ""
    raise ValueError(f"The ``path`` ({path}) to load model not exists.{hint}")
