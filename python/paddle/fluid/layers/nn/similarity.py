"""Layers of fluid.layers that compare feature maps, or the elements of one."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["fsp_matrix", "similarity_focus"]


def fsp_matrix(x, y):
    """The products of all channels of `x` with those of `y`, averaged over the places (the flow of a solution
    procedure, which networks are distilled with).

    Args:
        x (Variable): [N, C1, H, W], float32 or float64.
        y (Variable): [N, C2, H, W].

    Returns:
        Variable: [N, C1, C2].

    Raises:
        ValueError: for shapes that do not fit.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> fluid.layers.fsp_matrix(paddle.ones([1, 2, 4, 4]), paddle.ones([1, 3, 4, 4])).numpy().tolist()
        [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]
    """
    for text, value in (("x", x), ("y", y)):
        check_variable_and_dtype(value, text, takes("fsp"), "fsp_matrix")
    return _ops.fsp(x, y)


def similarity_focus(input, axis, indexes, name=None):  # noqa: A002
    """Marks the largest elements of the matrices at `indexes` of an axis: the largest, then the largest in another row
    and another column, and so on. The marks stand at all places of the axis.

    Args:
        input (Variable): of four dimensions, float32 or float64; the first one is the batch.
        axis (int): 1, 2 or 3.
        indexes (list of int): places on that axis.
        name (str): a name for the output.

    Returns:
        Variable: 1 where there is a mark, else 0, of the shape of `input`.

    Raises:
        TypeError: for an `axis` that is no int, `indexes` that are no list.
        ValueError: for another axis, no indexes, or indexes that are none.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> x = paddle.to_tensor([[[[0.8, 0.1], [0.4, 0.5]], [[0.0, 0.0], [0.0, 0.0]]]])
        >>> fluid.layers.similarity_focus(x, axis=1, indexes=[0])[0, 1].numpy().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    check_variable_and_dtype(input, "input", takes("similarity_focus"), "similarity_focus")
    check_type(axis, "axis", int, "similarity_focus")
    check_type(indexes, "indexes", list, "similarity_focus")
    if axis not in (1, 2, 3):
        raise ValueError(f"similarity_focus: axis must be 1, 2 or 3, got {axis}")
    if not indexes:
        raise ValueError("similarity_focus: indexes can not be empty")
    return named(name, _ops.similarity_focus, input, axis=axis, indexes=indexes)
