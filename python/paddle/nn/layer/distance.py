"""PairwiseDistance: the p-norm of differences of vectors."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._dispatch.argument_checks import check_arguments
from paddle.nn.functional.norm import p_norm
from paddle.nn.layer.layers import Layer

__all__ = ["PairwiseDistance"]


class PairwiseDistance(Layer):
    """The p-norm of the differences of vectors.

    Args:
        p: the exponent of the norm; also inf, -inf and 0.
        epsilon: keeps the gradient finite for equal vectors.
        keepdim: whether to keep the vector dimension with size 1.
        name: ignored.

    Examples:
        >>> import paddle
        >>> x, y = paddle.to_tensor([[1.0, 3.0]]), paddle.to_tensor([[5.0, 6.0]])
        >>> paddle.nn.PairwiseDistance()(x, y).numpy().tolist()
        [5.0]
    """

    def __init__(self, p: float = 2.0, epsilon: float = 1e-06, keepdim: bool = False, name: str | None = None) -> None:
        super().__init__()
        check_arguments("PairwiseDistance", p, epsilon, keepdim)
        self.p = p
        self.epsilon = epsilon
        self.keepdim = keepdim
        self.name = name

    def forward(self, x: Any, y: Any) -> Any:
        """`x` and `y` [N, D] (float32 or float64) to the distances [N]."""
        check_arguments("PairwiseDistance.forward", x, y)
        return p_norm(_ops.elementwise_sub(x, y), self.p, 1, self.keepdim)

    def extra_repr(self) -> str:
        """The arguments that differ from the defaults."""
        text = f"p={self.p}"
        if self.epsilon != 1e-06:
            text += f", epsilon={self.epsilon}"
        if self.keepdim:
            text += f", keepdim={self.keepdim}"
        return text if self.name is None else f"{text}, name={self.name}"
