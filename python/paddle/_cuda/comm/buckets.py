"""Sums of many tensors over the ranks of a ring: tensors are packed into buckets, which NCCL sums on a stream of their
own while the next one is packed."""

from __future__ import annotations

from typing import Any

from ..optim.multi import launcher
from . import rings


def sum_all(machine: Any, ring: int, buckets: list[tuple[tuple, int]]) -> None:
    """Sums each bucket over the ranks of an NCCL ring: (table of its tensors, address of its flat memory). All ranks
    call it with tensors of the same sizes; later operations on the device's stream follow the sums."""
    device = buckets[0][0][0]
    with machine.on(device):
        found = rings.ring_of(machine, ring)
        aside = machine.aside()
        for (_, dtype, addresses, sizes), flat in buckets:
            own = launcher(machine, device, dtype, sizes)
            own.run("pack", own.packed, [*addresses, flat])
            aside.follow()
            kind = getattr(found.nccl, rings.NUMBERS[dtype])
            found.comm.allReduce(flat, flat, sum(sizes), kind, found.nccl.NCCL_SUM, aside.stream)
        aside.join()
