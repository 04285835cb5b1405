"""Sums of many tensors over the ranks of a ring: they are packed into a bucket, which NCCL sums on a stream of its own
while others are computed and packed."""

from __future__ import annotations

from typing import Any

from ..optim.multi import launcher
from . import rings


def start(machine: Any, ring: int, table: tuple, flat: int) -> None:
    """Starts the sum of a bucket over the ranks of an NCCL ring: the table of its tensors, the address of its flat
    memory. All ranks call it with tensors of the same sizes. The memory must stay until `join`."""
    device, dtype, addresses, sizes = table
    with machine.on(device):
        found, aside = rings.ring_of(machine, ring), machine.aside()
        own = launcher(machine, device, dtype, sizes)
        own.run("pack", own.packed, [*addresses, flat])
        aside.follow()
        kind = getattr(found.nccl, rings.NUMBERS[dtype])
        found.comm.allReduce(flat, flat, sum(sizes), kind, found.nccl.NCCL_SUM, aside.stream)


def join(machine: Any, device: int) -> None:
    """Later operations on the device's stream follow the sums that were started."""
    with machine.on(device):
        machine.aside().join()
