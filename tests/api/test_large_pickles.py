"""Large arrays in state dicts are written in pieces, byte for byte as by `pickle.dump`, and read in pieces."""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

import numpy as np
import pytest
from paddle._persistence import array_pickler, safe_pickle

RANDOM = np.random.default_rng(7)
BYTES = RANDOM.integers(0, 256, (5, array_pickler.LARGE // 2 + 3), dtype="uint8")
FLOATS = RANDOM.normal(size=(601, 907)).astype("float32")
STATES: dict[str, Any] = {
    "plain": {"a": FLOATS, "b": BYTES, "small": FLOATS[:2, :3].copy()},
    "nested and shared": {"x": [FLOATS, {"y": (BYTES, FLOATS)}, 3, "text"], "z": FLOATS},
    "not in C's order": {"fortran": np.asfortranarray(FLOATS), "view": BYTES[:, ::2], "turned": FLOATS.T},
    "other types": {"f16": FLOATS.astype("float16"), "c": FLOATS.astype("complex64"), "bools": FLOATS > 0},
    "swapped": {"big endian": FLOATS.astype(">f4")},
}


def _steps(data: bytes) -> list:
    """The steps of a pickle; names of numpy's modules as numpy 1 has them, without the lengths of frames."""
    steps = [(step.name, arg) for step, arg, _ in pickletools.genops(data) if step.name != "FRAME"]
    return [(n, a.replace("numpy._core", "numpy.core") if isinstance(a, str) else a) for n, a in steps]


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("name", STATES)
def test_the_bytes_equal_those_of_pickle(name, protocol):
    file = io.BytesIO()
    array_pickler.dump(STATES[name], file, protocol)
    assert b"numpy._core" not in file.getvalue()
    assert _steps(file.getvalue()) == _steps(pickle.dumps(STATES[name], protocol=protocol))
    found = safe_pickle.loads(file.getvalue())
    for key, value in STATES[name].items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found[key], value)
            assert found[key].dtype == value.dtype.newbyteorder("=")


@pytest.mark.parametrize("damage", ["ends", "no latin1", "no UTF-8"])
def test_a_damaged_long_string_is_refused(damage):
    data = pickle.dumps({"a": BYTES}, protocol=2)
    middle = len(data) // 2
    if damage == "ends":
        data = data[:middle]
    else:
        text = "\u20ac".encode() if damage == "no latin1" else b"\xff\xff\xff"
        data = data[:middle] + text + data[middle + 3 :]
    with pytest.raises(pickle.UnpicklingError):
        safe_pickle.loads(data)
