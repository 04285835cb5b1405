"""fluid.layers that draw classes: nce, sampling_id."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle.static.nn.sampled import nce

__all__ = ["nce", "sampling_id"]


def sampling_id(x: Any, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: str = "float32") -> Any:
    """An index for each row of probabilities: the first at which their sum is above a random number.

    Args:
        x (Variable): [N, classes], float32 or float64.
        min, max (float): between which the random number lies; min must be less (ValueError).
        seed (int): of the draws; 0 for the global generator.
        dtype (str): not used: the indices are int64.

    Returns:
        Variable: int64 [N].

    Examples:
        >>> import paddle
        >>> p = paddle.to_tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> paddle.fluid.layers.sampling_id(p).numpy().tolist()
        [1, 0]
    """
    return _ops.sampling_id(x, min=min, max=max, seed=seed)
