"""Splitting of arrays too large for pickle protocols 2 and 3, and joining of the pieces."""

from __future__ import annotations

import math

import numpy as np

__all__: list[str] = []

#: the most bytes of an object in protocols 2 and 3
_PIECE_BYTES = 2**30 - 1
_PIECES = "UnpackBigParamInfor@@"


def split_arrays(saved_obj, protocol: int):
    """State with large arrays split into pieces for protocols 2 and 3."""
    if not 1 < protocol < 4 or not isinstance(saved_obj, dict):
        return saved_obj
    out, cut = {}, {}
    for key, value in saved_obj.items():
        limit = _PIECE_BYTES // value.dtype.itemsize if isinstance(value, np.ndarray) else 0
        if not limit or value.size <= limit:
            out[key] = value
            continue
        flat = value.flatten()
        names = [f"{key}@@.{i}" for i in range(math.ceil(value.size / limit))]
        for i, name in enumerate(names):
            out[name] = flat[i * limit : (i + 1) * limit]
        cut[key] = {"OriginShape": value.shape, "slices": names}
    if cut:
        out[_PIECES] = cut
    return out


def join_arrays(load_obj):
    """Join the pieces of split arrays."""
    if isinstance(load_obj, dict) and _PIECES in load_obj:
        for key, info in load_obj.pop(_PIECES).items():
            pieces = [load_obj.pop(name) for name in info["slices"]]
            if not all(isinstance(piece, np.ndarray) for piece in pieces):
                raise TypeError(f"the pieces of '{key}' are not arrays")
            load_obj[key] = np.concatenate(pieces).reshape(info["OriginShape"])
    return load_obj
