"""Sums of many tensors over the ranks of a ring: tensors are packed into buckets, which NCCL sums on a stream of their
own while the next one is packed."""

from __future__ import annotations

import functools
from typing import Any

from ..optim.multi import Launcher, launcher
from ..units import REALS, Unit, instances
from . import rings

SOURCE = r"""
// Tensor t of the table is copied to `out` from element starts[t] on, whose address follows the tensors' in the table;
// see multi.py for table and pieces.
template <typename T> __global__ void pack_all(const i64* table, const i64* sizes, const i64* pieces, const i64* starts,
                                               i64 count, i64 piece) {
    i64 tensor = pieces[2 * (i64)blockIdx.x], from = pieces[2 * (i64)blockIdx.x + 1];
    i64 end = from + piece < sizes[tensor] ? from + piece : sizes[tensor];
    const T* x = (const T*)table[tensor];
    T* to = (T*)table[count] + starts[tensor];
    for (i64 i = from + threadIdx.x; i < end; i += blockDim.x) to[i] = x[i];
}
"""
UNIT = Unit("pack_all", SOURCE, instances("pack_all", REALS))


def _packing(own: Launcher) -> list[tuple]:
    return [own.over("pack_all", own.starts, unit=UNIT)]


def sum_all(machine: Any, ring: int, buckets: list[tuple[tuple, int]]) -> None:
    """Sums each bucket over the ranks of an NCCL ring: (table of its tensors, address of its flat memory). All ranks
    call it with tensors of the same sizes; later operations on the device's stream follow the sums."""
    device = buckets[0][0][0]
    with machine.on(device):
        found = rings.ring_of(machine, ring)
        aside = machine.aside()
        for (_, dtype, addresses, sizes), flat in buckets:
            own = launcher(machine, device, dtype, sizes)
            own.run("pack", functools.partial(_packing, own), [*addresses, flat])
            aside.follow()
            kind = getattr(found.nccl, rings.NUMBERS[dtype])
            found.comm.allReduce(flat, flat, sum(sizes), kind, found.nccl.NCCL_SUM, aside.stream)
        aside.join()
