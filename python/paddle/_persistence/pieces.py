"""Large arrays in pickles of protocols 2 and 3: cut into pieces, and put together again."""

from __future__ import annotations

import math

import numpy as np

__all__: list[str] = []

#: what a pickle of protocol 2 or 3 can hold in one piece
_PIECE_BYTES = 2**30 - 1
_PIECES = "UnpackBigParamInfor@@"


def split_arrays(saved_obj, protocol: int):
    """Large arrays cut into pieces, as old pickle protocols need."""
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
    """Put the pieces of large arrays together again."""
    if isinstance(load_obj, dict) and _PIECES in load_obj:
        for key, info in load_obj.pop(_PIECES).items():
            pieces = [load_obj.pop(name) for name in info["slices"]]
            if not all(isinstance(piece, np.ndarray) for piece in pieces):
                raise TypeError(f"the pieces of '{key}' are not arrays")
            load_obj[key] = np.concatenate(pieces).reshape(info["OriginShape"])
    return load_obj
