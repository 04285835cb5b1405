"""Collectives of Tensors on CUDA devices, by operators.

Over a ring that uses NCCL (`nccl.py`) they run on the device, over others on the CPU between two copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle import _ops
from paddle._dispatch.device_step import sum_all

__all__: list[str] = []

_NAMES = ("sum", "max", "min", "prod", "sum")  # by the numbers of ReduceOp; the last is AVG
_AVG = 4


class Ended:
    """The Work of an operator: complete, or ordered on its device's stream."""

    def is_completed(self) -> bool:
        """True."""
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Returns at once."""


def is_on_device(tensor: Any) -> bool:
    """Whether a Tensor is on a CUDA device."""
    return bool(tensor.place.is_gpu_place())


def run(kind: str, tensor: Any, group: Any, sync_op: bool, x: Any = None, **attrs: Any) -> Ended | None:
    """Runs an operator on `x` (default: `tensor`), with its result in `tensor`."""
    x = tensor if x is None else x
    getattr(_ops, kind)(x, ring_id=group._number, use_calc_stream=True, Out=tensor, **attrs)
    return None if sync_op else Ended()


def _mean(tensor: Any, op: int, group: Any) -> None:
    """Divides the sum by the number of ranks for AVG."""
    if op == _AVG:
        _ops.scale(tensor, scale=1.0 / group.nranks, Out=tensor)


def combined(kind: str, tensor: Any, op: int, group: Any, sync_op: bool, dst: int | None = None) -> Ended | None:
    """The reduction of all ranks' tensors, on every rank or on the global rank `dst`."""
    root = {} if dst is None else {"root_id": group.get_group_rank(dst)}
    ended = run(f"c_{kind}_{_NAMES[op]}", tensor, group, sync_op, **root)
    if not root or root["root_id"] == group.rank:
        _mean(tensor, op, group)
    return ended


def sum_of_parts(tensor: Any, whole: Any, op: int, group: Any, sync_op: bool) -> Ended | None:
    """This rank's part of the sum of all ranks' `whole`."""
    ended = run("c_reducescatter", tensor, group, sync_op, whole, nranks=group.nranks)
    _mean(tensor, op, group)
    return ended


def send(tensor: Any, dst: int, group: Any, sync_op: bool) -> Ended | None:
    """Sends the shape first."""
    _ops.send_v2(tensor, ring_id=group._number, peer=group.get_group_rank(dst), use_calc_stream=True)
    return None if sync_op else Ended()


def recv(tensor: Any, src: int, group: Any, sync_op: bool) -> Ended | None:
    """Receives from the global rank `src`."""
    of = {"dtype": int(tensor.dtype), "out_shape": tensor.shape, "peer": group.get_group_rank(src)}
    _ops.recv_v2(ring_id=group._number, use_calc_stream=True, Out=tensor, **of)
    return None if sync_op else Ended()


def averages(parameters: list[Any], group: Any, limit: int) -> Callable[[list[tuple[int, Any]]], list[Any]]:
    """The function that a Reducer calls for parameters on a device: it averages their gradients over a group that NCCL
    serves.

    A gradient that is None (another rank has one) counts as zeros. `limit`: the bytes of a bucket.
    """

    def average(grads: list[tuple[int, Any]]) -> list[Any]:
        found = []
        for number, given in grads:
            parameter = parameters[number]
            grad = _ops.fill_any_like(parameter.detach(), value=0.0) if given is None else given
            if not is_on_device(grad):
                grad = grad.cuda(parameter.place.gpu_device_id())
            found.append(grad)
        together = _bucketed(found, group, limit)
        if together is not None:
            return together
        for grad in found:
            combined("allreduce", grad, _AVG, group, True)
        return found

    return average


def _bucketed(grads: list[Any], group: Any, limit: int) -> list[Any] | None:
    """The averages of gradients, packed into buckets of one data type that NCCL sums on a stream of their own; None if
    that is not possible. All ranks have the same gradients, and so the same buckets."""
    if not grads:
        return None
    buckets: list[list[int]] = []
    sizes: dict[Any, tuple[int, int]] = {}  # data type -> bucket, its bytes
    for i, grad in enumerate(grads):
        nbytes = int(grad.size) * (8 if grad._dtype_name == "float64" else 4)
        bucket, held = sizes.get(grad.dtype, (-1, 0))
        if bucket < 0 or held + nbytes > limit:
            bucket, held = len(buckets), 0
            buckets.append([])
        buckets[bucket].append(i)
        sizes[grad.dtype] = (bucket, held + nbytes)
    summed = sum_all([[grads[i] for i in indices] for indices in buckets], group._number)
    if summed is None:
        return None
    found: list[Any] = [None] * len(grads)
    for indices, sums in zip(buckets, summed, strict=True):
        for i, total in zip(indices, sums, strict=True):
            found[i] = _ops.scale(total, scale=1.0 / group.nranks)
    return found
