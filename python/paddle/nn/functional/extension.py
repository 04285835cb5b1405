"""`diag_embed`: vectors as diagonals of matrices."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs.variable import Variable
from paddle.tensor.creation import assign

__all__ = ["diag_embed"]


def diag_embed(input, offset=0, dim1=-2, dim2=-1) -> Tensor:  # noqa: A002
    """The last dimension of `input` as diagonals of square matrices in two new dimensions.

    Args:
        input (Tensor|numpy.ndarray): at least one dimension; float16, float32, float64, int32 or int64.
        offset (int): the diagonal: above the main one if positive, below if negative.
        dim1, dim2 (int): the new dimensions.

    Returns:
        Tensor: zero off the diagonals; no gradient flows through it.

    Raises:
        AssertionError: in static mode, for dimensions out of range or equal.
        IndexError: in dygraph mode, for dimensions out of range. ValueError: for equal ones.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.diag_embed(paddle.to_tensor([[1, 2], [3, 4]])).numpy().tolist()
        [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    """
    if not isinstance(input, Variable):
        input = assign(input)  # noqa: A001
    if in_static_mode():
        check_arguments("diag_embed", input)
        rank = len(input.shape)
        assert rank >= 1, "diag_embed: input must have at least one dimension"
        for dim, what in ((dim1, "dim1"), (dim2, "dim2")):
            assert -rank - 1 <= dim <= rank, f"diag_embed: {what} must be in [{-rank - 1}, {rank}], got {dim}"
        assert dim1 % (rank + 1) != dim2 % (rank + 1), f"diag_embed: dim1 and dim2 must differ, got {dim1} and {dim2}"
    out = _ops.diag_embed(input, offset=offset, dim1=dim1, dim2=dim2)
    out.stop_gradient = True
    return out
