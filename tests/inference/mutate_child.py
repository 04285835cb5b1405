"""Runs mutated copies of a model: each must run or raise; prints a line before each, so that a crash names its seed.

Usage: mutate_child.py KIND FIRST COUNT, with a kind of `mutable_models.KINDS`.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from typing import Any

import paddle
from mutable_models import KINDS, read

#: Seconds until a run is interrupted (a loop whose condition was mutated has no end), and after which it hangs.
PATIENCE, LIMIT = 5.0, 20.0
#: Bytes of address space: a mutated size must not exhaust the machine.
SPACE = 8 << 30


class Interrupted(Exception):
    pass


def interrupt(*_: Any) -> None:
    raise Interrupted("interrupted")


def mutated(data: bytes, r: random.Random) -> bytes:
    """One to four changes: flipped bits, other bytes, cut, doubled or removed parts."""
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        if not out:
            break
        at, kind = r.randrange(len(out)), r.randrange(6)
        length = min(r.choice((1, 2, 4, 8, 64)), len(out) - at)
        if kind == 0:
            out[at] ^= 1 << r.randrange(8)
        elif kind == 1:
            out[at : at + length] = r.randbytes(length)
        elif kind == 2:
            out[at : at + length] = r.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * length
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            del out[at : at + length]
        else:
            out[at:at] = out[at : at + length]
    return bytes(out)


def changed(files: dict[str, bytes], r: random.Random) -> dict[str, bytes]:
    """The files, with the model mutated in most cases and parameters in some."""
    model = next(name for name in files if name in ("__model__", "model.pdmodel"))
    chosen = [model] if r.random() < 0.8 else []
    if not chosen or r.random() < 0.2:
        chosen.append(r.choice([name for name in files if name != model]))
    return {name: mutated(data, r) if name in chosen else data for name, data in files.items()}


def main(kind: str, first: int, count: int) -> None:
    paddle.enable_static()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, interrupt)
    work = tempfile.mkdtemp()
    os.mkdir(work + "/whole")
    os.mkdir(work + "/mutated")
    save, run = KINDS[kind]
    save(work + "/whole")
    whole = read(work + "/whole")
    run(work + "/whole", whole, True)
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ran = raised = interrupted = 0
    slowest = (0.0, -1)
    for seed in range(first, first + count):
        print(f"{kind} seed {seed}", flush=True)
        r = random.Random(seed)
        files = changed(whole, r)
        for name, data in files.items():
            with open(f"{work}/mutated/{name}", "wb") as file:
                file.write(data)
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            run(work + "/mutated", files, r.random() < 0.8)
            ran += 1
        except Interrupted:
            interrupted += 1
        except Exception as error:  # noqa: BLE001 -- any exception is a valid answer; a crash or a hang is not
            raised += 1
            if not str(error) and not isinstance(error, MemoryError):
                raise AssertionError(f"{kind} seed {seed}: {type(error)} says nothing") from error
            if "internal error" in str(error):
                raise AssertionError(f"{kind} seed {seed}: {error}") from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.monotonic() - start
        slowest = max(slowest, (took, seed))
        if took > LIMIT:
            raise AssertionError(f"{kind} seed {seed} took {took:.1f} s")
    print(
        f"ran {ran} raised {raised} interrupted {interrupted} slowest {slowest[0]:.2f} s (seed {slowest[1]})",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
