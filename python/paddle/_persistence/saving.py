"""paddle.save, and what paddle.load reads of it: state dicts as pickles of numpy arrays, in real Paddle's form."""
from __future__ import annotations

import contextlib
import os
import pickle
import threading
import warnings

import numpy as np

from paddle import _core

from . import safe_pickle
from .pieces import join_arrays, split_arrays

__all__: list[str] = []

#: where a file keeps which parameter stands behind a structured name
NAME_TABLE = "StructuredToParameterName@@"


#: what a file of `save` holds besides containers and arrays: `load` makes no instances of other classes
_LEAVES = frozenset({type(None), bool, int, float, complex, str, bytes, bytearray, range, slice, set, frozenset})


def _plain(value, where: str = ""):
    """A value as it goes into the file: tensors become arrays, containers are walked."""
    if isinstance(value, (_core.Tensor, _core.LoDTensor)):
        return np.array(value)
    if isinstance(value, dict):
        return {k: _plain(v, f"{where}[{k!r}]") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        kind = tuple if isinstance(value, tuple) else list
        return kind(_plain(v, f"{where}[{i}]") for i, v in enumerate(value))
    if type(value) in _LEAVES or isinstance(value, (np.ndarray, np.generic, np.dtype)):
        return value
    raise TypeError(
        f"paddle.save writes tensors, arrays, numbers, texts and containers of these, but obj{where} is a "
        f"{type(value).__module__}.{type(value).__qualname__}, which paddle.load would refuse to make"
    )


@contextlib.contextmanager
def whole_file(path):
    """A file to write, which takes the place of `path` when all of it is written; links and devices stay such."""
    path = os.fsdecode(os.path.realpath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            yield file
        return
    part = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def save(obj, path, pickle_protocol=2) -> None:
    """Write the state of a Layer or Optimizer to a file.

    Args:
        obj (dict): what `state_dict()` gave.
        path (str): the file; folders are made.
        pickle_protocol (int): 2 to 4.

    Raises:
        NotImplementedError: for an object that is no dict.
        TypeError: for a value in it that `load` could not read.
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
    if os.path.basename(path) == "":
        raise ValueError("save: path must end in a file name (dirname/filename), but the filename is empty")
    if not isinstance(pickle_protocol, int):
        raise ValueError(f"save: protocol must be an int, got {type(pickle_protocol)}")
    if not 1 < pickle_protocol < 5:
        raise ValueError(f"save: protocol must be 2, 3 or 4, got {pickle_protocol}")
    saved = _plain(obj)
    saved[NAME_TABLE] = {k: v.name for k, v in obj.items() if isinstance(v, _core.Tensor)}
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with whole_file(path) as file:
        pickle.dump(split_arrays(saved, pickle_protocol), file, protocol=pickle_protocol)


def _arrays(value):
    """Newer files hold (name, array) where a tensor was."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], np.ndarray):
        return value[1]
    if isinstance(value, dict):
        return {k: _arrays(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_arrays(v) for v in value)
    return value


def load_state(path, keep_name_table: bool = False):
    """What :func:`save` wrote to the file `path`."""
    state = safe_pickle.load_file(path, join_arrays)
    # Newer versions' files without a table hold pairs for tensors; a pair in ours is the user's.
    if not (isinstance(state, dict) and NAME_TABLE in state):
        return _arrays(state)
    if not keep_name_table:
        state.pop(NAME_TABLE, None)
    return state
