"""bilateral_slice."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.element_types import takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["bilateral_slice"]


def bilateral_slice(x, guide, grid, has_offset, name=None):
    """An affine map of the channels for every pixel, read from a coarse grid.

    Args:
        x (Variable): [N, C, H, W], float32 or float64.
        guide (Variable): [N, H, W]: how deep in the grid a pixel reads, from 0 to 1.
        grid (Variable): [N, channels, depth, rows, columns]; for each channel of the result C numbers, which a pixel's
            channels are multiplied by, and with `has_offset` one more, which is added.
        has_offset (bool): as above.

    Returns:
        Variable: [N, channels of the grid / (C or C + 1), H, W]. Gradients flow to all three.

    Raises:
        ValueError: for shapes that do not fit.

    Examples:
        >>> import paddle
        >>> x, guide, grid = paddle.ones([1, 3, 4, 4]), paddle.ones([1, 4, 4]), paddle.ones([1, 6, 2, 2, 2])
        >>> paddle.fluid.contrib.bilateral_slice(x, guide, grid, False).shape
        [1, 2, 4, 4]
    """
    for what, value in (("x", x), ("guide", guide), ("grid", grid)):
        check_variable_and_dtype(value, what, takes("bilateral_slice"), "bilateral_slice")
    return named(name, _ops.bilateral_slice, x, grid, guide, has_offset=has_offset)
