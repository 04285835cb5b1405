"""Files of saved layers: their suffixes, and the table of variables in ``.pdiparams.info``."""

from __future__ import annotations

import os
import pickle
from typing import Any

from paddle._persistence import safe_pickle
from paddle._persistence.atomic_files import where

__all__ = [
    "BUFFER_NAME_PREFIX",
    "INFER_MODEL_SUFFIX",
    "INFER_PARAMS_INFO_SUFFIX",
    "INFER_PARAMS_SUFFIX",
    "LOADED_VAR_SUFFIX",
    "PARAMETER_NAME_PREFIX",
    "read_info",
]

INFER_MODEL_SUFFIX = ".pdmodel"
INFER_PARAMS_SUFFIX = ".pdiparams"
INFER_PARAMS_INFO_SUFFIX = ".pdiparams.info"

LOADED_VAR_SUFFIX = "load"
PARAMETER_NAME_PREFIX = "param"
BUFFER_NAME_PREFIX = "buffer"


def read_info(prefix: str) -> dict[str, dict[str, Any]] | None:
    """The table of a saved layer: a variable's name to `structured_name`, `stop_gradient` and `trainable`.

    Args:
        prefix (str): folder and name of the files, without suffix.

    Returns:
        dict; None where the model was not saved by `paddle.jit.save`.

    Raises:
        ValueError: when the file holds something else.
    """
    path = where(prefix + INFER_PARAMS_INFO_SUFFIX)
    if not os.path.exists(path):
        return None
    try:
        with open(path, "rb") as file:
            info = safe_pickle.load(file)
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"jit.load: {path} cannot be read: {error}") from error
    if not isinstance(info, dict) or not all(isinstance(k, str) and isinstance(v, dict) for k, v in info.items()):
        raise ValueError(f"jit.load: {path} is no table of variables")
    return info
