"""Data parallelism under the names of 1.x."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle import _ops
from paddle.distributed.data_parallel import DataParallel
from paddle.distributed.parallel import Env, ParallelEnv, ParallelStrategy, prepare_context
from paddle.tensor.manipulation import concat, reshape

__all__ = ["prepare_context", "ParallelEnv", "DataParallel"]


def _coalesce_tensors(var_groups: dict) -> list:
    """The tensors of each group in one vector, with the tensors and their shapes: [[vector, tensors, shapes], ...]."""
    return [
        [concat([reshape(v, [-1]) for v in tensors]), tensors, [v.shape for v in tensors]]
        for tensors in var_groups.values()
    ]


def _reshape_inplace(x: Any, shape: list[int]) -> None:
    """Reshapes a Tensor in place."""
    _ops.reshape2(x, shape=shape, Out=x)


def _split_tensors(coalesced_grads_and_grad_vars: list) -> None:
    """Copies the elements of each vector of `_coalesce_tensors` back into its tensors."""
    for row, tensors, shapes in coalesced_grads_and_grad_vars:
        _ops.split(row, sections=[int(np.prod(shape)) for shape in shapes], axis=0, Out=list(tensors))
        for tensor, shape in zip(tensors, shapes, strict=True):
            _reshape_inplace(tensor, shape)
