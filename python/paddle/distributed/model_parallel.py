"""`split`: a layer whose weight is partitioned over several ranks."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle import _ops, nn
from paddle._basics.mode import in_static_mode
from paddle._programs.guards import default_main_program, default_startup_program
from paddle._programs.variable import Variable
from paddle.tensor.manipulation import concat
from paddle.tensor.math import cast

from .collective import _planned, all_gather, new_group
from .parallel import get_rank, get_world_size

Tensor = Any

_made: dict[tuple[int, ...], Any] = {}


def _partners(partitions: int):
    """The group of `partitions` consecutive ranks with this rank, and its index in it."""
    rank, world = get_rank(), get_world_size()
    if partitions < 1 or world % partitions:
        raise ValueError(f"num_partitions is {partitions}, which does not divide the {world} ranks of the job.")
    first = rank // partitions * partitions
    if partitions == world:
        return 0, rank - first
    if in_static_mode():
        raise ValueError(f"In static mode num_partitions ({partitions}) must be the number of ranks ({world}).")
    ranks = tuple(range(first, first + partitions))
    if ranks not in _made:
        _made[ranks] = new_group(list(ranks))
    return _made[ranks], rank - first


def _ring(group) -> int:
    return group if isinstance(group, int) else group.id


def _sum(x, group):
    """The sum over the ranks; the gradient of each rank's summand is the whole gradient, as in an unsplit layer."""
    if in_static_mode():
        return _ops.c_allreduce_sum(x, ring_id=_ring(group), use_calc_stream=True)
    whole = _ops.c_allreduce_sum(x.detach(), ring_id=_ring(group), use_calc_stream=True)
    return whole if x.stop_gradient else whole + (x - x.detach())


def _joined(x, group, place: int):
    """The concatenation of all ranks' parts; only this rank's part gets a gradient."""
    if _planned(group)[1] == 1:
        return x
    parts: list = []
    if in_static_mode():
        all_gather(parts, x, group)
    else:
        all_gather(parts, x.detach(), group)
        parts[place] = x
    return concat(parts, axis=len(x.shape) - 1)


def _shared(x, group):
    """Identity; the gradient of `x` is the sum over the ranks' parts of the layer."""
    if in_static_mode() or x.stop_gradient or not _core.is_grad_enabled() or _planned(group)[1] == 1:
        return x
    nothing = _ops.c_allreduce_sum(x - x.detach(), ring_id=_ring(group), use_calc_stream=True)
    return x.detach() + nothing


def _distributed(weight) -> None:
    weight.is_distributed = True
    if in_static_mode():
        for program in (default_startup_program(), default_main_program()):
            variable: Any = program.global_block().vars[weight.name]
            variable.is_distributed = True


def _linear(x, rows, columns, axis, weight_attr, bias_attr, gather_out, group, place, name):
    scope = f"{name or 'fc'}_by_{'row' if axis == 0 else 'col'}_rank_{place}"
    # The bias is added once: after the sum, or to one summand.
    late = axis == 0 and bias_attr is not False
    layer = nn.Linear(rows, columns, weight_attr, False if late else bias_attr, name=scope)
    _distributed(layer.weight)
    if axis == 1:
        out = layer(_shared(x, group))
        return _joined(out, group, place) if gather_out else out
    out = layer(x)
    if gather_out:
        out = _sum(out, group)
    if late and (gather_out or place == 0):
        out = out + layer.create_parameter([columns], attr=bias_attr, is_bias=True)
    return out


def _embedding(x, rows, size, weight_attr, group, place, partitions, name):
    layer = nn.Embedding(
        rows, size[1], padding_idx=rows - 1, sparse=False, weight_attr=weight_attr, name=f"{name or 'emb'}_rank_{place}"
    )
    _distributed(layer.weight)
    if len(x.shape) != 2 and x.shape[-1] != 1:
        raise ValueError(f"The last size of x must be 1 unless it has two, but its shape is {list(x.shape)}.")
    # Ids are relative to this part's first row; those of other parts become its last row, of zeros.
    part = (size[0] + partitions - 1) // partitions
    here = x - place * part
    mine = cast(here >= 0, x.dtype) * cast(here < part, x.dtype)
    return _sum(layer(here * mine + (rows - 1) * (1 - mine)), group)


def split(
    x,
    size,
    operation,
    axis=0,
    num_partitions=1,
    gather_out=True,
    weight_attr=None,
    bias_attr=None,
    name=None,
):
    """A linear layer or an embedding whose weight is partitioned over `num_partitions` ranks.

    Linear, ``axis=0``: rows are partitioned; `x` holds this rank's part of the columns of the whole input, and the
    products are summed. Linear, ``axis=1``: columns are partitioned, and the products concatenated. Embedding: rows are
    partitioned (each part has an additional row of zeros for ids of other parts), and the results summed.

    Every call creates new parameters, local to the rank. In dygraph mode the gradients are those of the unsplit layer;
    in static mode those of the operators, which sum the gradients of all ranks, as in 2.0.2.

    Args:
        x (Tensor): [..., size[0]] for a linear layer (with ``axis=0`` [..., size[0] / num_partitions]); int64 of two
            dimensions, or with a last one of 1, for an embedding.
        size (list|tuple): the sizes of the whole weight.
        operation (str): ``"linear"`` or ``"embedding"``.
        axis (int): 0 or 1; 0 for an embedding.
        num_partitions (int): the number of consecutive ranks that share the layer; a divisor of the number of ranks.
        gather_out (bool): False returns this rank's part of the result of a linear layer.
        weight_attr (ParamAttr, optional): of this rank's part of the weight.
        bias_attr (ParamAttr|bool, optional): of the bias; False: none.
        name (str, optional): prefix of the parameters' names.

    Raises:
        TypeError: for `x` that is not a Tensor.
        ValueError: for sizes or `num_partitions` that do not match.

    Examples:
        >>> import paddle
        >>> paddle.distributed.split(paddle.ones([2, 8]), (8, 6), "linear", axis=1).shape
        [2, 6]
        >>> paddle.distributed.split(paddle.zeros([2, 3], "int64"), (10, 4), "embedding").shape
        [2, 3, 4]
    """
    if not isinstance(size, (list, tuple)) or len(size) != 2:
        raise ValueError(
            f"The size of paddle.distributed.split must be a list or tuple of two, but received {size!r:.200}."
        )
    if operation not in ("linear", "embedding"):
        raise ValueError(f"The operation must be 'linear' or 'embedding', but received {operation!r}.")
    if axis not in ((0,) if operation == "embedding" else (0, 1)):
        raise ValueError(f"The axis must be 0, or 1 for a linear layer, but received {axis!r}.")
    if not isinstance(x, Variable if in_static_mode() else _core.Tensor):
        raise TypeError(f"The type of 'x' in split must be Tensor, but received {type(x)}.")
    group, place = _partners(num_partitions)
    if operation == "embedding":
        rows = (size[0] + num_partitions - 1) // num_partitions
        if place == num_partitions - 1:
            rows = size[0] - rows * (num_partitions - 1)
        if rows < 1:
            raise ValueError(f"An embedding of {size[0]} rows cannot be partitioned into {num_partitions} parts.")
        return _embedding(x, rows + 1, size, weight_attr, group, place, num_partitions, name)
    if size[axis] % num_partitions:
        raise ValueError(f"Size {size[axis]} of the weight is not divisible by num_partitions ({num_partitions}).")
    rows, columns = (n // num_partitions if i == axis else n for i, n in enumerate(size))
    if x.shape[-1] != rows:
        raise ValueError(
            f"The last size of x ({x.shape[-1]}) must be {rows}, the rows of this rank's part of the weight; "
            "paddle.split splits an input."
        )
    return _linear(x, rows, columns, axis, weight_attr, bias_attr, gather_out, group, place, name)
