"""Images per second of a DataLoader with 0, 2 and 4 workers, and of another library's.

    python benches/dataloader.py [--theirs PYTHON_WITH_TORCH] [--rounds 3] [--images 512] [--batch 64]

A sample is an image of 256 x 256 bytes, cropped to 224 x 224, mirrored at random and normalised to float32 by numpy:
the same code on both sides. The passes of both libraries alternate; the greatest rate counts. `--raw` reads images that
are float32 already, so that collation and transport dominate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

WORKERS = (0, 2, 4)


def child(library: str, images: int, batch: int, raw: bool) -> None:
    import numpy as np

    if library == "paddle":
        import paddle
        from paddle.io import DataLoader, Dataset

        paddle.set_device("cpu")
    else:
        import torch
        from torch.utils.data import DataLoader, Dataset

        torch.set_num_threads(1)
    source = np.random.RandomState(0).randint(0, 256, (16, 256, 256, 3)).astype("uint8")
    ready = np.random.RandomState(1).rand(16, 3, 224, 224).astype("float32")

    class Images(Dataset):
        def __len__(self):
            return images

        def __getitem__(self, i):
            if raw:
                return ready[i % 16], i
            top, left = np.random.randint(0, 33, 2)
            image = source[i % 16, top : top + 224, left : left + 224]
            if np.random.rand() < 0.5:
                image = image[:, ::-1]
            return np.ascontiguousarray(image.transpose(2, 0, 1), "float32") / 127.5 - 1.0, i

    loaders = {
        n: DataLoader(Images(), batch_size=batch, num_workers=n, persistent_workers=n > 0, prefetch_factor=2)
        if n or library == "paddle"
        else DataLoader(Images(), batch_size=batch)
        for n in WORKERS
    }
    for loader in loaders.values():  # starts the workers
        for _ in loader:
            pass
    for line in sys.stdin:
        started = time.perf_counter()
        seen = 0
        for data, _ in loaders[int(line)]:
            seen += data.shape[0]
        assert seen == images
        print(images / (time.perf_counter() - started), flush=True)


class Side:
    """A process that times a pass when it gets a number of workers."""

    def __init__(self, python: str, library: str, options: list[str]) -> None:
        command = [python, __file__, "--child", library, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rate(self, workers: int) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(workers, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--theirs", help="a Python with torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.images, args.batch, args.raw)
        return
    options = ["--images", str(args.images), "--batch", str(args.batch), *(["--raw"] if args.raw else [])]
    sides = {"paddle": Side(sys.executable, "paddle", options)}
    if args.theirs:
        sides["torch"] = Side(args.theirs, "torch", options)
    best = {name: dict.fromkeys(WORKERS, 0.0) for name in sides}
    for _ in range(args.rounds):
        for workers in WORKERS:
            for name, side in sides.items():
                best[name][workers] = max(best[name][workers], side.rate(workers))
    for side in sides.values():
        side.close()
    for workers in WORKERS:
        row = {name: round(best[name][workers]) for name in sides}
        print(json.dumps({"workers": workers, **row}), flush=True)


if __name__ == "__main__":
    main()
