"""Loads mutated pickles; run by test_pickle_fuzz.py in a separate process.

``python pickle_fuzz_child.py SEED FIRST COUNT``: the mutations FIRST, FIRST + 1, ... of a seed. A mutation depends on
the seed and its number. A load returns an object, all of which is read, or raises an error of damaged files. Anything
else is printed as a line ``number: what``; the last line has the numbers of loads and of objects.
"""

from __future__ import annotations

import collections
import faulthandler
import pickle
import random
import resource
import sys
from typing import Any

import numpy as np
import paddle  # noqa: F401
from paddle._persistence import safe_pickle

ERRORS = (pickle.UnpicklingError, EOFError, MemoryError, OSError)
CODES = "? b B h H i I l L q Q e f d g F D G S7 U3 V5 M8 m8 O p P n N".split()
UNITS = "Y M W D h m s ms us ns ps fs as 25s 7D".split()
RECORDS = (
    [("a", "f4"), ("b", "i8", (2, 3))],
    [("x", "S3"), ("y", [("z", ">u2")])],
    {"names": ["p", "q"], "formats": ["u1", "f8"], "offsets": [4, 8], "itemsize": 24},
)


def dtypes() -> list[np.dtype]:
    made: list[Any] = [np.dtype(code) for code in CODES if code not in "pP"]
    made += [np.dtype(f"{kind}8[{unit}]") for unit in UNITS for kind in "Mm"]
    made += [dtype.newbyteorder(">") for dtype in made if dtype.itemsize > 1]
    made += [np.dtype(record) for record in RECORDS]
    made += [np.dtype(("f4", (2, 2))), np.dtype([("a", "M8[s]")]), np.dtype("f4", align=True)]
    return made


def arrays(dtype: np.dtype) -> list[Any]:
    a = np.zeros((2, 3), dtype)
    if dtype.kind in "biufc":
        a[...] = np.arange(6).reshape(2, 3) % 2
    made: list[Any] = [a, np.asfortranarray(a), a[:, 0], a.reshape(-1)[:0], dtype]
    return made if dtype.kind == "O" else [*made, a.reshape(-1)[0]]


def originals() -> list[bytes]:
    """Pickles of every kind of dtype, as numpy and as paddle.save write them."""
    out: list[bytes] = []
    for dtype in dtypes():
        for value in arrays(dtype):
            out += [pickle.dumps(value, protocol) for protocol in (0, 1, 2, 3, 4, 5)]
    state = collections.OrderedDict(w=np.ones((3, 2), "f4"), step=3, lr=0.1, names={"w": "p_0"}, ids=[1, (2, 3)])
    extra = {"set": {1, 2}, "frozen": frozenset("ab"), "bytes": b"xy", "array": bytearray(b"z"), "c": 1j, "r": range(3)}
    out += [pickle.dumps(value, protocol) for value in (state, extra) for protocol in (0, 1, 2, 3, 4, 5)]
    return out


#: numbers that sizes, counts and flags take at their limits
LIMITS = [n.to_bytes(k, "little") for k in (1, 2, 4, 8) for n in (0, 1, 2 ** (8 * k) - 1, 2 ** (8 * k - 1))]
OPCODES = [
    getattr(pickle, name) for name in pickle.__all__ if len(name) > 2 and isinstance(getattr(pickle, name), bytes)
]


def mutated(draw: random.Random, pool: list[bytes]) -> bytes:
    data = bytearray(draw.choice(pool))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        at, kind = draw.randrange(len(data) + 1), draw.randrange(8)
        end = min(len(data), at + draw.choice((1, 1, 2, 4, 8, 30)))
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = draw.randrange(256)
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            data[at:at] = data[at:end] * draw.choice((1, 2, 20))
        elif kind == 4:
            limit = draw.choice(LIMITS)
            data[at : at + len(limit)] = limit
        elif kind == 5:
            data[at:at] = draw.choice(OPCODES)
        elif kind == 6:
            other = draw.choice(pool)
            start = draw.randrange(len(other))
            data[at:end] = other[start : start + draw.choice((1, 4, 20, 100))]
        elif data.find(b"M") >= 0 or data.find(b"(") >= 0:
            marks = [i for i, b in enumerate(data) if b in b"M(tJKNbR"]
            at = draw.choice(marks) if marks else 0
            data[at : at + 1] = draw.choice(OPCODES)
        data = data or bytearray(b".")
    return bytes(data)


def read(value: Any, depth: int = 0) -> None:
    """Reads all of an object, of which a part may be invalid memory."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.nbytes < 1_000_000:
            value.tobytes()
            if value.dtype.kind != "O":
                np.array(value).ravel()[:4].tolist()
        str(value.dtype)
    elif isinstance(value, np.dtype):
        str(value), value.itemsize, np.zeros(2, value)
    elif isinstance(value, dict) and depth < 20:
        for item in list(value.values())[:100]:
            read(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)) and depth < 20:
        for item in list(value)[:100]:
            read(item, depth + 1)


def main(seed: int, first: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    faulthandler.enable()
    pool = originals()
    for data in pool:
        try:
            read(safe_pickle.loads(data))
        except ERRORS:
            pass  # kinds that are refused
    objects = 0
    for number in range(first, first + count):
        if number % 500 == 0 or number == first:
            faulthandler.dump_traceback_later(60, exit=True)
        data = mutated(random.Random(seed * 1_000_003 + number), pool)
        try:
            value = safe_pickle.loads(data)
        except ERRORS:
            continue
        except BaseException as error:
            print(f"{number}: {type(error).__name__}: {error}", flush=True)
            continue
        objects += 1
        try:
            read(value)
        except (ValueError, OverflowError, MemoryError, UnicodeError):
            pass  # a value that numpy refuses to convert, such as a date beyond its calendar
    print(f"{count} loads, {objects} objects")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
