"""Data parallelism of Programs: each process runs one on its part of the batch; gradients are averaged."""

from __future__ import annotations

from typing import Any

from paddle.static import program_guard
from paddle.tensor import scale

from .collective import all_reduce, broadcast

__all__: list[str] = []


def minimize(
    optimizer: Any,
    loss: Any,
    startup_program: Any = None,
    parameters: Any = None,
    no_grad_set: Any = None,
    ranks: int = 1,
) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Appends backward, the average of each gradient over `ranks` processes, and the update.

    Returns:
        The operators of the update, and the pairs of parameter and average.
    """
    pairs = []
    for parameter, grad in optimizer.backward(loss, startup_program, parameters, no_grad_set):
        mean = scale(grad, 1.0 / ranks)
        all_reduce(mean)
        pairs.append((parameter, mean))
    return optimizer.apply_gradients(pairs), pairs


def share(program: Any, parameters: list[Any]) -> None:
    """Appends broadcasts of rank 0's parameters to `program`."""
    block = program.global_block()
    with program_guard(program):
        for p in parameters:
            var = block.vars.get(p.name)
            broadcast(var or block.create_var(name=p.name, shape=p.shape, dtype=p.dtype, persistable=True), 0)
