"""Reading pickles of arrays without running what a file asks for."""

from __future__ import annotations

import io
import pickle
from typing import Any, BinaryIO

import numpy as np

__all__: list[str] = []

_ALLOWED = {
    ("collections", "OrderedDict"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("_codecs", "encode"),
}
_BUILTINS = {"set", "frozenset", "complex", "bytearray", "slice", "range", "tuple", "list", "dict"}


class _ArrayUnpickler(pickle.Unpickler):
    """Knows containers, numbers, strings and arrays; refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED or (module in ("builtins", "__builtin__") and name in _BUILTINS):
            if module.startswith("numpy.core") and not hasattr(np, "core"):
                module = module.replace("numpy.core", "numpy._core")
            return super().find_class(module, name)
        raise pickle.UnpicklingError(
            f"the file asks for {module}.{name}, which is no part of a model's state: loading runs no code of files"
        )


def load(file: BinaryIO) -> Any:
    """What `pickle.dump` wrote, of containers, numbers, strings and numpy arrays.

    Raises:
        pickle.UnpicklingError: for anything else in the file.
    """
    return _ArrayUnpickler(file, encoding="latin1").load()


def loads(data: bytes) -> Any:
    """As :func:`load`, from bytes."""
    return load(io.BytesIO(data))
