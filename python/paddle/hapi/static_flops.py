"""static_flops: counts the floating-point operations of a Program."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddle._basics.op_proto import is_gradient

from .table import framed

__all__: list[str] = []


class _Op:
    """Shapes of an operator's operands."""

    def __init__(self, op: Any, program: Any) -> None:
        self.op, self.blocks = op, program.blocks

    def _variable(self, slot: str) -> Any:
        names = [
            *(self.op.input(slot) if slot in self.op.input_names else ()),
            *(self.op.output(slot) if slot in self.op.output_names else ()),
        ]
        if not names:
            return None
        return next((b.var(names[0]) for b in self.blocks if b.has_var(names[0])), None)

    def shape(self, slot: str) -> tuple[int, ...]:
        return tuple(self._variable(slot).shape)

    def has(self, slot: str) -> bool:
        return self._variable(slot) is not None

    def of_one_sample(self, slot: str) -> int:
        return math.prod(self.shape(slot)[1:])


def _conv(op: _Op) -> int:
    return op.of_one_sample("Output") * (math.prod(op.shape("Filter")[1:]) + op.has("Bias"))


def _product(op: _Op) -> int:
    return op.shape("Y")[0] * op.of_one_sample("Out")


def _pool(op: _Op) -> int:
    window = np.array(op.shape("X")[2:]) // np.array(op.shape("Out")[2:])
    return (int(window.prod()) + 1) * op.of_one_sample("Out")


# operator type -> (counting function, slot of the parameter)
_COUNTS: dict[str, tuple[Any, str]] = {
    "conv2d": (_conv, "Filter"),
    "depthwise_conv2d": (_conv, "Filter"),
    "mul": (_product, "Y"),
    "matmul": (_product, "Y"),
    "matmul_v2": (_product, "Y"),
    "pool2d": (_pool, ""),
    "batch_norm": (lambda op: 2 * op.of_one_sample("Y"), ""),
}


def static_flops(program: Any, print_detail: bool = False) -> int:
    """The number of operations for one sample; `print_detail` prints a row for each counted operator."""
    rows, total = [], 0
    for block in program.blocks:
        for each in block.ops:
            op = _Op(each, program)
            count, parameter = _COUNTS.get(each.type, (None, ""))
            if count is None and each.type.startswith("elementwise_") and not is_gradient(each.type):
                count = lambda op: op.of_one_sample("X")  # noqa: E731
            if count is None:
                continue
            found = int(count(op))
            total += found
            if found:
                rows.append((each.type, op._variable(parameter).name if parameter else "", found))
    if print_detail:
        print(framed(["OP Type", "Param name", "Flops"], rows))
    return total
