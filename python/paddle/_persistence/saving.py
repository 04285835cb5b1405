"""paddle.save and its counterpart in paddle.load: state dicts as pickles of numpy arrays, in Paddle's format."""

from __future__ import annotations

import os
import warnings

import numpy as np

import paddle._core as _core

from . import array_pickler, atomic_files, safe_pickle, safetensors_file
from .atomic_files import atomic_file
from .pieces import join_arrays, split_arrays

__all__: list[str] = []

#: key of the table from structured names to parameter names
NAME_TABLE = "StructuredToParameterName@@"


#: types of values that `save` accepts in addition to containers and arrays: `load` creates no other instances
_LEAVES = frozenset({type(None), bool, int, float, complex, str, bytes, bytearray, range, slice, set, frozenset})


def _plain(value, seen: dict, where: str = ""):
    """The value as written to the file: tensors are converted to arrays, containers are copied, each once."""
    if isinstance(value, (_core.Tensor, _core.LoDTensor)):
        return np.array(value)
    if isinstance(value, (dict, list, tuple)):
        if id(value) in seen:
            return seen[id(value)]
        if isinstance(value, tuple):
            made = seen[id(value)] = tuple([_plain(v, seen, f"{where}[{i}]") for i, v in enumerate(value)])
            return made
        if isinstance(value, dict):
            entries = seen[id(value)] = {}
            for k, v in value.items():
                entries[k] = _plain(v, seen, f"{where}[{k!r}]")
            return entries
        items = seen[id(value)] = []
        items.extend(_plain(v, seen, f"{where}[{i}]") for i, v in enumerate(value))
        return items
    if type(value) in _LEAVES or isinstance(value, (np.ndarray, np.generic, np.dtype)):
        return value
    raise TypeError(
        f"paddle.save writes tensors, arrays, numbers, texts and containers of these, but obj{where} is a "
        f"{type(value).__module__}.{type(value).__qualname__}, which paddle.load would refuse to make"
    )


def save(obj, path, pickle_protocol=2) -> None:
    """Write the state of a Layer or Optimizer to a file.

    Args:
        obj (dict): the result of `state_dict()`.
        path (str): the file; missing folders are created. With the suffix ".safetensors" the format is that of
            safetensors, which holds Tensors and arrays only.
        pickle_protocol (int): 2 to 4.

    Raises:
        NotImplementedError: for an object that is no dict.
        TypeError: for a value that `load` cannot read.
        ValueError: for an empty file name or another protocol.

    Examples:
        >>> import paddle, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "x.pdparams")
        >>> paddle.save({"w": paddle.ones([2])}, path)
        >>> paddle.load(path)["w"].tolist()
        [1.0, 1.0]
    """
    if not isinstance(obj, dict):
        raise NotImplementedError(
            f"save: obj must be the state_dict (a dict) of a Layer or an Optimizer, got {type(obj)}"
        )
    if not obj:
        warnings.warn("save: the state dict has no entry to write")
    if safetensors_file.is_path(path):
        return safetensors_file.save(obj, path)
    if os.path.basename(path) == "":
        raise ValueError("save: path must end in a file name (dirname/filename), but the filename is empty")
    if not isinstance(pickle_protocol, int):
        raise ValueError(f"save: protocol must be an int, got {type(pickle_protocol)}")
    if not 1 < pickle_protocol < 5:
        raise ValueError(f"save: protocol must be 2, 3 or 4, got {pickle_protocol}")
    saved = _plain(obj, {})
    saved[NAME_TABLE] = {k: v.name for k, v in obj.items() if isinstance(v, _core.Tensor)}
    with atomic_file(path) as file:
        array_pickler.dump(split_arrays(saved, pickle_protocol), file, pickle_protocol)


def _arrays(value, seen: dict):
    """Replace the pairs (name, array) of newer Paddle versions by the arrays. Lists and dicts are changed in place,
    each once.
    """
    if not isinstance(value, (dict, list, tuple)):
        return value
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], np.ndarray):
        return value[1]
    # visited objects are kept alive: the id of a freed object may be reused
    if id(value) in seen:
        return seen[id(value)][1]
    if isinstance(value, tuple):
        seen[id(value)] = value, type(value)([_arrays(v, seen) for v in value])
        return seen[id(value)][1]
    seen[id(value)] = value, value
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        value[key] = _arrays(item, seen)
    return value


def load_state(path, keep_name_table: bool = False):
    """The state in a file that :func:`save` wrote."""

    def finished(state):
        # Files of newer versions have no table, and pairs for tensors; in our files a pair is the user's.
        state = join_arrays(state)
        if not (isinstance(state, dict) and NAME_TABLE in state):
            return _arrays(state, {})
        if not keep_name_table:
            state.pop(NAME_TABLE, None)
        return state

    return atomic_files.read_together([path], lambda: safe_pickle.load_file(atomic_files.where(path), finished))
