"""Collectives of Tensors that lie on CUDA devices: by operators, whose results are there, too.

Over a ring that uses NCCL (`nccl.py`) they run on the device, over others on the CPU between two copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddle import _ops

__all__: list[str] = []

_NAMES = ("sum", "max", "min", "prod", "sum")  # by the numbers of ReduceOp; the last is AVG
_AVG = 4


class Ended:
    """The Work of an operator: it has ended, or is in the order of its device's stream."""

    def is_completed(self) -> bool:
        """True."""
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Nothing is left to wait for."""


def lies_there(tensor: Any) -> bool:
    """Whether a Tensor lies on a CUDA device."""
    return bool(tensor.place.is_gpu_place())


def run(kind: str, tensor: Any, group: Any, sync_op: bool, x: Any = None, **attrs: Any) -> Ended | None:
    """Runs an operator of `x` (or of `tensor`), which leaves its result in `tensor`."""
    x = tensor if x is None else x
    getattr(_ops, kind)(x, ring_id=group._number, use_calc_stream=True, Out=tensor, **attrs)
    return None if sync_op else Ended()


def _mean(tensor: Any, op: int, group: Any) -> None:
    """A sum becomes what AVG means."""
    if op == _AVG:
        _ops.scale(tensor, scale=1.0 / group.nranks, Out=tensor)


def combined(kind: str, tensor: Any, op: int, group: Any, sync_op: bool, dst: int | None = None) -> Ended | None:
    """All ranks' tensors as one, everywhere, or on the global rank `dst`."""
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
    """The receiver is told first how much comes."""
    _ops.send_v2(tensor, ring_id=group._number, peer=group.get_group_rank(dst), use_calc_stream=True)
    return None if sync_op else Ended()


def recv(tensor: Any, src: int, group: Any, sync_op: bool) -> Ended | None:
    """What the global rank `src` sends."""
    of = {"dtype": int(tensor.dtype), "out_shape": tensor.shape, "peer": group.get_group_rank(src)}
    _ops.recv_v2(ring_id=group._number, use_calc_stream=True, Out=tensor, **of)
    return None if sync_op else Ended()


def averages(parameters: list[Any], group: Any) -> Callable[[list[tuple[int, Any]]], list[Any]]:
    """What a Reducer calls for parameters on a device: their gradients become the averages over a group.

    A gradient that is None (another rank has one) counts as zeros.
    """

    def average(grads: list[tuple[int, Any]]) -> list[Any]:
        found = []
        for number, given in grads:
            parameter = parameters[number]
            grad = _ops.fill_any_like(parameter.detach(), value=0.0) if given is None else given
            if not lies_there(grad):
                grad = grad.cuda(parameter.place.gpu_device_id())
            combined("allreduce", grad, _AVG, group, True)
            found.append(grad)
        return found

    return average
