"""Case: a call of an operator that has a CUDA launcher."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Case:
    op: str
    ins: dict[str, Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float64", "float32")
    # Whether kernels of this package must have run; False: the work is CuPy's.
    own: bool = True

    def name(self) -> str:
        shapes = ["x".join(map(str, a.shape)) for a in self.ins.values() if hasattr(a, "shape")]
        return "-".join([self.op, *shapes, *(f"{k}={v}".replace(" ", "") for k, v in self.attrs.items())])


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(repr((shape, low, high)).encode()))
    return rng.uniform(low, high, shape)
