"""Serves mutated copies of a model: each must run or raise; prints a line before each, so that a crash names its seed.

Usage: mutate_child.py FOLDER FIRST COUNT, with FOLDER/model.pdmodel and FOLDER/model.pdiparams.
"""

from __future__ import annotations

import random
import sys
import time

import numpy as np
import paddle
from paddle.inference import Config, create_predictor

LIMIT = 20.0


def mutated(data: bytes, r: random.Random) -> bytes:
    """One to four changes: flipped bits, other bytes, cut, doubled or removed parts."""
    out = bytearray(data)
    for _ in range(r.randint(1, 4)):
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


def main(folder: str, first: int, count: int) -> None:
    paddle.enable_static()
    with open(folder + "/model.pdmodel", "rb") as file:
        model = file.read()
    with open(folder + "/model.pdiparams", "rb") as file:
        params = file.read()
    ran = raised = 0
    slowest = (0.0, -1)
    for seed in range(first, first + count):
        print(f"seed {seed}", flush=True)
        r = random.Random(seed)
        content = mutated(model, r) if r.random() < 0.8 else model
        values = params if content is not model and r.random() < 0.8 else mutated(params, r)
        start = time.monotonic()
        try:
            config = Config()
            config.set_model_buffer(content, len(content), values, len(values))
            config.switch_ir_optim(r.random() < 0.8)
            predictor = create_predictor(config)
            for name in predictor.get_input_names():
                declared = predictor._session.model.inputs[name]
                shape = [2 if d < 0 else min(d, 64) for d in declared.shape]
                predictor.get_input_handle(name).copy_from_cpu(np.zeros(shape, "float32"))
            predictor.run()
            for name in predictor.get_output_names():
                predictor.get_output_handle(name).copy_to_cpu()
            ran += 1
        except Exception as error:  # noqa: BLE001 -- any exception is a valid answer; a crash or a hang is not
            raised += 1
            if not str(error):
                raise AssertionError(f"seed {seed}: {type(error)} says nothing") from error
        took = time.monotonic() - start
        slowest = max(slowest, (took, seed))
        if took > LIMIT:
            raise AssertionError(f"seed {seed} took {took:.1f} s")
    print(f"ran {ran} raised {raised} slowest {slowest[0]:.2f} s (seed {slowest[1]})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
