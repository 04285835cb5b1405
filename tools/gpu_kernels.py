"""Runs every kernel of the CUDA tests' cases once, for compute-sanitizer.

    python tools/gpu_kernels.py [--shared]    all kernels, or those that share memory between threads
    python tools/gpu_kernels.py --facts       the versions and devices of this machine

With OAR_KIT_DEVICE=shim a few cases run on the stand-in of tests/cuda. An operator that falls back is an error.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "cuda"))

#: operators whose kernels use shared memory
SHARED = ("softmax", "layer_norm", "instance_norm", "reduce_", "mean")
IN_DRY_RUN = 12


def facts() -> None:
    import numpy as np
    import paddle
    from paddle import _cuda

    print("python", sys.version.split()[0], "numpy", np.__version__, "paddle", paddle.__version__)
    for name in ("cupy", "torch", "pytest"):
        try:
            print(name, __import__(name).__version__)
        except Exception as e:  # a failing import is a fact too
            print(name, "is missing:", e)
    print("CUDA:", _cuda.reason() or f"{_cuda.device_count()} devices")


def main(argv: list[str]) -> int:
    if os.environ.get("OAR_KIT_DEVICE") == "shim":
        import shim

        shim.use()
        most = IN_DRY_RUN
    else:
        most = sys.maxsize
    if "--facts" in argv:
        facts()
        return 0
    import paddle
    from cases import ALL, run

    warnings.simplefilter("error", RuntimeWarning)
    chosen = [c for c in ALL if c.own and ("--shared" not in argv or any(name in c.op for name in SHARED))][:most]
    count = 0
    for case in chosen:
        for dtype in case.dtypes:
            run(case, dtype, paddle.CUDAPlace(0))
            count += 1
    print(f"{count} calls of {len(chosen)} cases ran")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
