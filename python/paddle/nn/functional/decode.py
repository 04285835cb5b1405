"""Functions for decoding."""
from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._core import Tensor
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["gather_tree"]


def gather_tree(ids: Any, parents: Any) -> Tensor:
    """The sequences that a beam search found, followed back from its last step.

    Args:
        ids: int32 or int64 Tensor [steps, batch, beams]: what each beam chose at each step.
        parents: Tensor like `ids`: the beam that each one continued.

    Returns:
        Tensor like `ids`: the whole sequence of each beam of the last step.

    Raises:
        ValueError: a parent that is used is no beam, or the shapes differ.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0-rc/api/paddle/nn/functional/extension/gather_tree_en.html

    Examples:
        >>> import paddle
        >>> ids = paddle.to_tensor([[[1, 2]], [[3, 4]]])
        >>> parents = paddle.to_tensor([[[0, 0]], [[1, 0]]])
        >>> paddle.nn.functional.gather_tree(ids, parents).numpy().tolist()
        [[[2, 1]], [[3, 4]]]
    """
    if _core.in_static_mode():
        check_variable_and_dtype(ids, "ids", ["int32", "int64"], "gather_tree")
        check_variable_and_dtype(parents, "parents", ["int32", "int64"], "gather_tree")
    return _ops.gather_tree(ids, parents)
