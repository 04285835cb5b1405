"""Collectives of Tensors on CUDA devices, by operators.

Over a ring that uses NCCL (`nccl.py`) they run on the device, over others on the CPU between two copies.
"""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._dispatch.device_step import join_sums, start_sum

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


class Averages:
    """Averages the gradients of parameters on a device, for a Reducer, over a group that NCCL serves.

    A bucket is packed and summed on a stream of its own, while backward computes the next one.
    """

    def __init__(self, parameters: list[Any], group: Any) -> None:
        self._parameters, self._group = parameters, group
        # Parameters by number, with sums (complete once the streams are joined) or averages.
        self._sums: list[tuple[int, Any]] = []
        self._averages: list[tuple[int, Any]] = []

    def start(self, bucket: list[tuple[int, Any]]) -> None:
        """Starts the sums of parameters' gradients; None counts as zeros. All ranks start the same buckets."""
        numbers, grads = [number for number, _ in bucket], []
        for number, given in bucket:
            parameter = self._parameters[number]
            grad = _ops.fill_any_like(parameter.detach(), value=0.0) if given is None else given
            grads.append(grad if is_on_device(grad) else grad.cuda(parameter.place.gpu_device_id()))
        sums = start_sum(grads, self._group._number)
        if sums is not None:
            self._sums += zip(numbers, sums, strict=True)
            return
        for number, grad in zip(numbers, grads, strict=True):
            combined("allreduce", grad, _AVG, self._group, True)
            self._averages.append((number, grad))

    def finish(self) -> list[tuple[int, Any]]:
        """The averages of all that was started, in the order of the device's stream."""
        share = 1.0 / self._group.nranks
        join_sums(total for _, total in self._sums)
        found = [*self._averages, *((number, _ops.scale(total, scale=share)) for number, total in self._sums)]
        self._sums, self._averages = [], []
        return found

    def abort(self) -> None:
        """Forgets what was started."""
        join_sums(total for _, total in self._sums)
        self._sums, self._averages = [], []
