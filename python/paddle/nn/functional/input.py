"""Functions of ids: one_hot and embedding."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.arguments import number
from paddle._programs.variable import Variable

__all__ = ["one_hot", "embedding"]


def one_hot(x: Any, num_classes: Any, name: str | None = None) -> Tensor:
    """One-hot encoding: a float32 row for each id with a one at its position and zeros elsewhere.

    Args:
        x: int32 or int64 Tensor of any shape, each id in [0, num_classes) (ValueError otherwise).
        num_classes: the length of a row: an int, or a Tensor of shape [1].
        name: a name for the output.

    Returns:
        Tensor of shape x.shape + [num_classes].

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.one_hot(paddle.to_tensor([1, 0]), 2).numpy().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    if not in_static_mode():
        return _ops.one_hot_v2(x, depth=int(number(num_classes)))
    if isinstance(num_classes, Variable):
        num_classes.stop_gradient = True
        out = checked(name, _ops.one_hot_v2, x, num_classes)
    else:
        out = checked(name, _ops.one_hot_v2, x, depth=num_classes)
    out.stop_gradient = True
    return out


def embedding(
    x: Any, weight: Any, padding_idx: int | None = None, sparse: bool = False, name: str | None = None
) -> Tensor:
    """Rows of the table `weight` for the ids `x`.

    Args:
        x: int32 or int64 Tensor of any shape; an id out of range raises ValueError.
        weight: Tensor of shape [rows, width].
        padding_idx: the row of this id (negative: from the end) is zero and has no gradient.
        sparse: whether the gradient of `weight` holds only the rows looked up (SelectedRows).
        name: a name for the output.

    Returns:
        Tensor of shape x.shape + [width].

    Examples:
        >>> import paddle
        >>> table = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> paddle.nn.functional.embedding(paddle.to_tensor([1, 0]), table).numpy().tolist()
        [[3.0, 4.0], [1.0, 2.0]]
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise ValueError(f"padding_idx must be within [-{rows}, {rows})")
        padding_idx %= rows
    if not in_static_mode():
        return _ops.lookup_table_v2(weight, x, is_sparse=sparse, padding_idx=padding_idx)
    check_arguments("embedding", x)
    return named(
        name or unique_name.generate("embedding"),
        _ops.lookup_table_v2,
        weight,
        x,
        is_sparse=sparse,
        is_distributed=False,
        remote_prefetch=sparse,
        padding_idx=padding_idx,
    )
