"""Layers that compare feature maps: fsp_matrix and similarity_focus of fluid.layers.nn."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["fsp_matrix", "similarity_focus"]


def fsp_matrix(x, y):
    """The flow-of-solution-procedure matrix, for distillation: products of all channels of `x` with those of `y`,
    averaged over the positions.

    Args:
        x (Variable): [N, C1, H, W], float32 or float64.
        y (Variable): [N, C2, H, W].

    Returns:
        Variable: [N, C1, C2].

    Raises:
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> fluid.layers.fsp_matrix(paddle.ones([1, 2, 4, 4]), paddle.ones([1, 3, 4, 4])).numpy().tolist()
        [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]
    """
    for text, value in (("x", x), ("y", y)):
        check_variable_and_dtype(value, text, takes("fsp"), "fsp_matrix")
    return _ops.fsp(x, y)


def similarity_focus(input, axis, indexes, name=None):  # noqa: A002
    """A mask of the largest elements of the matrices at `indexes` of an axis: greedily the largest in rows and
    columns that have none yet. The mask is the same at all indices of the axis.

    Args:
        input (Variable): of four dimensions, the first being the batch; float32 or float64.
        axis (int): 1, 2 or 3.
        indexes (list of int): indices along that axis.
        name (str): a name for the output.

    Returns:
        Variable: 1 at marked elements, else 0, of the shape of `input`.

    Raises:
        TypeError: if `axis` is not an int, or `indexes` not a list.
        ValueError: for an invalid axis or index, or no indexes.

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
