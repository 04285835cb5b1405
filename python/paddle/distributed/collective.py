"""Collectives on Tensors: they run in dygraph mode, and append a ``c_*`` operator in static mode."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as _core
from paddle import _ops
from paddle._basics.element_types import HALF_NUMERIC
from paddle._basics.mode import in_static_mode
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper
from paddle.tensor import concat
from paddle.tensor import split as split_tensor

from . import mpi, nccl, on_device
from .parallel import ParallelEnv, _groups, _made_groups

Tensor = Any
Group = _core.dist.Group

__all__ = ["broadcast", "all_reduce", "reduce", "all_gather", "scatter", "barrier", "ReduceOp"]


class ReduceOp:
    """The reductions: ``SUM``, ``MAX``, ``MIN``, ``PROD`` or ``AVG``.

    Examples:
        >>> import paddle
        >>> from paddle.distributed import ReduceOp
        >>> data = paddle.to_tensor([[4, 5, 6], [4, 5, 6]])
        >>> paddle.distributed.all_reduce(data, op=ReduceOp.MAX)
        >>> data.numpy().tolist()
        [[4, 5, 6], [4, 5, 6]]
    """

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AVG = 4


_NAMES = {ReduceOp.SUM: "sum", ReduceOp.MAX: "max", ReduceOp.MIN: "min", ReduceOp.PROD: "prod"}


def get_group(id: int = 0):  # noqa: A002
    """The group of this ring id; 0 is the group of all ranks.

    Raises:
        ValueError: for an unknown group, or before init_parallel_env.

    Examples:
        >>> import paddle.distributed as dist
        >>> dist.get_group(0)
        Group(id=0, rank=0, ranks=[0])
    """
    if isinstance(id, bool) or not isinstance(id, int):
        raise ValueError(f"A group is an int or what new_group made, but received {type(id).__name__}.")
    known = _groups.get(id) or _made_groups.get(id)
    if known is not None:
        return known
    _groups[id] = group = _core.dist.get_group(id)
    return group


def _group(group):
    return group if isinstance(group, Group) else get_group(group)


def _ring(group) -> int:
    """The ring id of a group, for an operator of a Program."""
    if isinstance(group, Group):
        return group.id
    if isinstance(group, bool) or not isinstance(group, int):
        raise ValueError(f"The type of 'group' should be int, but received {type(group).__name__}.")
    return group


def _planned(group) -> tuple[int, int]:
    """This process's global rank (-1 outside) and the number of ranks of a group, for a Program.

    A Program may be built before init_parallel_env: then both are read from the environment, as in 2.0.2.
    """
    if isinstance(group, Group) or _ring(group) in _groups or _core.dist.joined():
        known = _group(group)
        return (known.ranks[known.rank] if known.is_member() else -1), known.nranks
    env = ParallelEnv()
    return env.rank, env.nranks


def new_group(ranks=None, backend=None):
    """Creates a group of some of the ranks, with an order of operations of its own.

    Every rank of the job calls this, in the same order; ranks outside of the group get a Group without operations.

    Args:
        ranks (list[int], optional): distinct global ranks; their order is the order in the group. None: all.
        backend (str, optional): "mpi" for MPI, by mpi4py under mpirun; "nccl" for NCCL between CUDA devices, by CuPy;
            any other name means the default transport.

    Returns:
        Group: has ``id``, ``rank`` (-1 outside), ``nranks``, ``ranks``, ``is_member()``, ``get_group_rank(rank)``.

    Raises:
        ValueError: `ranks` are not distinct ranks of the job.

    Examples:
        >>> import paddle.distributed as dist
        >>> group = dist.new_group([0])
        >>> group.rank, group.nranks
        (0, 1)
    """
    ranks = list(range(get_group(0).nranks)) if ranks is None else [int(r) for r in ranks]
    if any(r < 0 for r in ranks):
        raise ValueError(f"{ranks} are not ranks of the job.")
    group = nccl.group_of(_core.dist.new_group(ranks, over=mpi.maker(backend)), backend)
    _made_groups[group._number] = group
    return group


def _done(work, sync_op: bool):
    return None if sync_op else work


def _recorded(tensor) -> bool:
    """Whether an operation on this Tensor is recorded for backward."""
    return not tensor.stop_gradient and _core.is_grad_enabled()


def _check_tensor(tensor, argument: str, name: str) -> None:
    if not isinstance(tensor, _core.Tensor):
        what = "Tensor, as it works in dygraph mode only" if isinstance(tensor, Variable) else "Tensor"
        raise TypeError(f"The type of '{argument}' in {name} must be {what}, but received {type(tensor)}.")


def _check_list(tensors, argument: str, name: str, *, holds_tensors: bool = True) -> list:
    if not isinstance(tensors, list | tuple if holds_tensors else list):
        raise ValueError(f"The type of '{argument}' for {name} should be list, but received {type(tensors)}.")
    for i, one in enumerate(tensors if holds_tensors else ()):
        _check_tensor(one, f"{argument}[{i}]", name)
    return list(tensors)


def _check_rank(rank, argument: str, name: str) -> int:
    if isinstance(rank, bool | np.bool_) or not isinstance(rank, int | np.integer):
        raise ValueError(f"The type of '{argument}' for {name} should be int, but received {type(rank)}.")
    return int(rank)


def _check_op(op, *, average: bool = False) -> int:
    if isinstance(op, bool) or not isinstance(op, int) or op not in _NAMES and not (average and op == ReduceOp.AVG):
        raise ValueError(
            f"The op must be one of ReduceOp.SUM, MAX, MIN, PROD (and AVG in dygraph mode), not {op!r:.200}."
        )
    return op


def _append(op_type: str, x, out, **attrs) -> None:
    LayerHelper(op_type).append_op(
        type=op_type, inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"use_calc_stream": True, **attrs}
    )


def all_reduce(tensor, op=ReduceOp.SUM, group=0, *, sync_op=True):
    """Reduces the tensors of all ranks into `tensor`, with the same bits on every rank.

    As in 2.0.2 a sum is recorded for backward where a gradient is needed; its gradient is the sum over the ranks.

    Args:
        tensor (Tensor): any shape and real dtype, the same on all ranks; written in place.
        op (int): a `ReduceOp`; ``AVG`` in dygraph mode only.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns at once.

    Returns:
        None; with ``sync_op=False`` a Work: the tensor changes when ``work.wait()`` returns.

    Raises:
        TypeError: for an argument that is not a Tensor.
        ValueError: the ranks differ in operation, dtype or shape, or an argument is invalid.
        RuntimeError: another rank failed; the message names the rank, its host and the operation.

    Examples:
        >>> import paddle
        >>> data = paddle.to_tensor([[1, 2, 3], [1, 2, 3]])
        >>> paddle.distributed.all_reduce(data)
        >>> data.numpy().tolist()
        [[1, 2, 3], [1, 2, 3]]
    """
    if in_static_mode():
        check_variable_and_dtype(tensor, "tensor", HALF_NUMERIC, "all_reduce")
        _check_op(op)
        return _append(f"c_allreduce_{_NAMES[op]}", tensor, tensor, ring_id=_ring(group))
    _check_tensor(tensor, "tensor", "all_reduce")
    _check_op(op, average=True)
    if op in (ReduceOp.SUM, ReduceOp.AVG) and _recorded(tensor):
        return _recorded_sum(tensor, op, group, sync_op)
    if on_device.is_on_device(tensor):
        return on_device.combined("allreduce", tensor, op, _group(group), sync_op)
    return _done(_group(group).all_reduce(tensor, op, (sync_op, None)), sync_op)


def _recorded_sum(tensor, op, group, sync_op) -> None:
    """The sum as a recorded operator (its gradient is a sum over the ranks, too), written to `tensor`."""
    if tensor.is_leaf:
        raise ValueError(
            "all_reduce: a leaf Tensor with stop_gradient=False cannot be changed in place; use paddle.no_grad()"
        )
    if op != ReduceOp.SUM or not sync_op:
        raise ValueError("a gradient goes through all_reduce only with ReduceOp.SUM and sync_op=True")
    out = _ops.c_allreduce_sum(tensor, ring_id=_ring(group), use_calc_stream=True)
    _ops.assign(out, Out=tensor)
    tensor._bump_inplace_version()


def reduce(tensor, dst, op=ReduceOp.SUM, group=0, *, sync_op=True):
    """Reduces the tensors of all ranks into that of rank `dst`; the others stay unchanged.

    Args:
        tensor (Tensor): any shape and real dtype, the same on all ranks; written in place on `dst`.
        dst (int): a global rank.
        op (int): a `ReduceOp`.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns a Work.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`.

    Examples:
        >>> import paddle
        >>> data = paddle.to_tensor([1.0, 2.0])
        >>> paddle.distributed.reduce(data, 0)
        >>> data.numpy().tolist()
        [1.0, 2.0]
    """
    if in_static_mode():
        check_variable_and_dtype(tensor, "tensor", HALF_NUMERIC, "reduce")
        _check_op(op)
        dst = _check_rank(dst, "dst", "reduce")
        return _append(f"c_reduce_{_NAMES[op]}", tensor, tensor, ring_id=_ring(group), root_id=dst)
    _check_tensor(tensor, "tensor", "reduce")
    _check_op(op, average=True)
    dst = _check_rank(dst, "dst", "reduce")
    if on_device.is_on_device(tensor):
        return on_device.combined("reduce", tensor, op, _group(group), sync_op, dst)
    return _done(_group(group).reduce(tensor, dst, op, (sync_op, None)), sync_op)


def broadcast(tensor, src, group=0, *, sync_op=True):
    """Copies the tensor of rank `src` to `tensor` on every rank.

    Args:
        tensor (Tensor): any shape and dtype, the same on all ranks; written in place.
        src (int): a global rank.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns a Work.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`.

    Examples:
        >>> import paddle
        >>> data = paddle.to_tensor([1, 2, 3])
        >>> paddle.distributed.broadcast(data, 0)
        >>> data.numpy().tolist()
        [1, 2, 3]
    """
    if in_static_mode():
        check_variable_and_dtype(tensor, "tensor", HALF_NUMERIC, "broadcast")
        src = _check_rank(src, "src", "broadcast")
        return _append("c_broadcast", tensor, tensor, ring_id=_ring(group), root=src)
    _check_tensor(tensor, "tensor", "broadcast")
    src = _check_rank(src, "src", "broadcast")
    if on_device.is_on_device(tensor):
        known = _group(group)
        return on_device.run("c_broadcast", tensor, known, sync_op, root=known.get_group_rank(src))
    return _done(_group(group).broadcast(tensor, src, (sync_op, None)), sync_op)


def all_gather(tensor_list, tensor, group=0, *, sync_op=True):
    """Appends the tensors of all ranks to `tensor_list`, in the order of the ranks.

    Args:
        tensor_list (list): receives a Tensor for each rank of the group.
        tensor (Tensor): any shape and dtype, the same on all ranks.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns a Work; the new Tensors are zeros until it has ended.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`.

    Examples:
        >>> import paddle
        >>> tensors = []
        >>> paddle.distributed.all_gather(tensors, paddle.to_tensor([4, 5, 6]))
        >>> [t.numpy().tolist() for t in tensors]
        [[4, 5, 6]]
    """
    _check_list(tensor_list, "tensor_list", "all_gather", holds_tensors=False)
    if in_static_mode():
        for one in tensor_list:
            check_variable_and_dtype(one, "tensor_list", HALF_NUMERIC, "all_gather")
        check_variable_and_dtype(tensor, "tensor", HALF_NUMERIC, "all_gather")
        _, n = _planned(group)
        out = LayerHelper("c_allgather").create_variable_for_type_inference(dtype=tensor.dtype)
        _append("c_allgather", tensor, out, ring_id=_ring(group), nranks=n)
        tensor_list.extend(split_tensor(out, n, 0))
        return None
    _check_tensor(tensor, "tensor", "all_gather")
    if _recorded(tensor) or on_device.is_on_device(tensor):
        if not sync_op and _recorded(tensor):
            raise ValueError("a gradient goes through all_gather only with sync_op=True")
        n = _group(group).nranks
        # a recorded operator needs the group in backward
        ring = _ring(group) if _recorded(tensor) else _group(group)._number
        attrs = {"ring_id": ring, "use_calc_stream": True, "nranks": n}
        # the operator needs several ranks
        out = _ops.c_allgather(tensor, **attrs) if n > 1 else _ops.assign(tensor)
        tensor_list.extend(split_tensor(out, n, 0))
        return None if sync_op else on_device.Ended()
    made, work = _group(group).all_gather(tensor, (sync_op, None))
    tensor_list.extend(made)
    return _done(work, sync_op)


def scatter(tensor, tensor_list=None, src=0, group=0, *, sync_op=True):
    """Copies Tensor r of the list of rank `src` to `tensor` on rank r.

    Args:
        tensor (Tensor): any shape and dtype, the same on all ranks; written in place.
        tensor_list (list, optional): on rank `src` a Tensor like `tensor` for each rank; not read on others.
        src (int): a global rank.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns a Work.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`.

    Examples:
        >>> import paddle
        >>> data = paddle.to_tensor([1, 2, 3])
        >>> paddle.distributed.scatter(data, [paddle.to_tensor([7, 8, 9])])
        >>> data.numpy().tolist()
        [7, 8, 9]
    """
    if in_static_mode():
        return _append_scatter(tensor, tensor_list, src, group)
    _check_tensor(tensor, "tensor", "scatter")
    src, known = _check_rank(src, "src", "scatter"), _group(group)
    here = known.is_member() and known.ranks[known.rank] == src
    parts = _check_list([] if tensor_list is None else tensor_list, "tensor_list", "scatter") if here else []
    if on_device.is_on_device(tensor) and known.nranks > 1:
        n, root = known.nranks, known.get_group_rank(src)
        whole = concat(parts if here else [tensor] * n, axis=0)
        return on_device.run("c_scatter", tensor, known, sync_op, whole, root=root, nranks=n)
    return _done(known.scatter(tensor, parts, src, (sync_op, None)), sync_op)


def _append_scatter(tensor, tensor_list, src, group) -> None:
    check_variable_and_dtype(tensor, "tensor", HALF_NUMERIC, "scatter")
    src = _check_rank(src, "src", "scatter")
    rank, n = _planned(group)
    parts = list(tensor_list or []) if rank == src else [tensor] * n
    _append("c_scatter", concat(parts, axis=0), tensor, ring_id=_ring(group), root=src, nranks=n)


def reduce_scatter(tensor, tensor_list, op=ReduceOp.SUM, group=0, *, sync_op=True):
    """Rank r's `tensor` becomes the combination of all ranks' Tensors r.

    Args:
        tensor (Tensor): the result, written in place; any shape and real dtype, the same on all ranks.
        tensor_list (list): a Tensor like `tensor` for each rank.
        op (int): a `ReduceOp`.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns a Work.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`.

    Examples:
        >>> import paddle
        >>> data = paddle.zeros([2])
        >>> paddle.distributed.reduce_scatter(data, [paddle.to_tensor([1.0, 2.0])])
        >>> data.numpy().tolist()
        [1.0, 2.0]
    """
    _check_tensor(tensor, "tensor", "reduce_scatter")
    parts = _check_list(tensor_list, "tensor_list", "reduce_scatter")
    _check_op(op, average=True)
    if on_device.is_on_device(tensor) and op in (ReduceOp.SUM, ReduceOp.AVG):
        return on_device.sum_of_parts(tensor, concat(parts, axis=0), op, _group(group), sync_op)
    return _done(_group(group).reduce_scatter(tensor, parts, op, (sync_op, None)), sync_op)


def all_to_all(in_tensor_list, out_tensor_list, group=0, *, sync_op=True):
    """`out_tensor_list` gets a Tensor from every rank: Tensor r (this rank's number) of that rank's `in_tensor_list`.

    Args:
        in_tensor_list (list): a Tensor for each rank, all of one shape and dtype.
        out_tensor_list (list): the new Tensors are appended.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns a Work; the new Tensors are zeros until it has ended.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`.

    Examples:
        >>> import paddle
        >>> out = []
        >>> paddle.distributed.all_to_all([paddle.to_tensor([1, 2])], out)
        >>> out[0].numpy().tolist()
        [1, 2]
    """
    parts = _check_list(in_tensor_list, "in_tensor_list", "all_to_all")
    _check_list(out_tensor_list, "out_tensor_list", "all_to_all", holds_tensors=False)
    made, work = _group(group).all_to_all(parts, (sync_op, None))
    out_tensor_list.extend(made)
    return _done(work, sync_op)


alltoall = all_to_all


def send(tensor, dst=0, group=0, *, sync_op=True):
    """Sends a Tensor to rank `dst`, which must call `recv` with this rank, this shape and this dtype.

    Args:
        tensor (Tensor): any shape and dtype.
        dst (int): a global rank, not this one.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns a Work.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`.
    """
    _check_tensor(tensor, "tensor", "send")
    dst = _check_rank(dst, "dst", "send")
    if on_device.is_on_device(tensor) and nccl.serves(_group(group)._number):
        return on_device.send(tensor, dst, _group(group), sync_op)
    return _done(_group(group).send(tensor, dst, (sync_op, None)), sync_op)


def recv(tensor, src=0, group=0, *, sync_op=True):
    """Receives `tensor` from rank `src`.

    Args:
        tensor (Tensor): shape and dtype as sent; written in place.
        src (int): a global rank, not this one.
        group (int|Group): a ring id, or a result of `new_group`.
        sync_op (bool): False starts the operation and returns a Work.

    Raises:
        TypeError, ValueError, RuntimeError: as `all_reduce`.
    """
    _check_tensor(tensor, "tensor", "recv")
    src = _check_rank(src, "src", "recv")
    if on_device.is_on_device(tensor) and nccl.serves(_group(group)._number):
        return on_device.recv(tensor, src, _group(group), sync_op)
    return _done(_group(group).recv(tensor, src, (sync_op, None)), sync_op)


def wait(tensor, group=0, use_calc_stream=True) -> None:
    """Waits until all operations started in the group with ``sync_op=False`` have ended.

    Args:
        tensor (Tensor): a Tensor of such an operation; all of the group are waited for.
        group (int|Group): a ring id, or a result of `new_group`.
        use_calc_stream (bool): ignored; a CPU has no streams.

    Raises:
        ValueError, RuntimeError: those of the operations, as `all_reduce`.

    Examples:
        >>> import paddle
        >>> data = paddle.to_tensor([1.0])
        >>> work = paddle.distributed.all_reduce(data, sync_op=False)
        >>> paddle.distributed.wait(data)
        >>> work.is_completed()
        True
    """
    del use_calc_stream
    _check_tensor(tensor, "tensor", "wait")
    _group(group).wait()


def barrier(group=0):
    """Waits until all ranks of the group have called this.

    Args:
        group (int|Group): a ring id, or a result of `new_group`.

    Raises:
        ValueError, RuntimeError: as `all_reduce`.

    Examples:
        >>> import paddle
        >>> paddle.distributed.barrier()
    """
    if in_static_mode():
        temp = LayerHelper("barrier").create_variable_for_type_inference(dtype="int32")
        LayerHelper("barrier").append_op(
            type="fill_constant", outputs={"Out": [temp]}, attrs={"shape": [1], "dtype": temp.dtype, "value": 1.0}
        )
        LayerHelper("barrier").append_op(
            type="barrier", inputs={"X": [temp]}, outputs={"Out": [temp]}, attrs={"ring_id": _ring(group)}
        )
        return
    _group(group).barrier((True, None))
