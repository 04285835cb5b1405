"""PipelineOptimizer, whose Programs need a runner of sections."""
from __future__ import annotations

from typing import Any, NoReturn

from paddle._basics import mode
from paddle.optimizer.base import OptimizerBase

__all__ = ["PipelineOptimizer"]


class PipelineOptimizer:
    """An optimizer around another, for Programs that are cut at their `device_guard`s into sections on several GPUs.

    Args:
        optimizer: the one that updates (ValueError for anything else).
        num_microbatches: into how many parts a batch is cut, 1 or more (AssertionError).
        start_cpu_core_id: of the first section's thread, 0 or more (AssertionError).

    Raises:
        Exception: in dygraph mode.
    """

    def __init__(self, optimizer: Any, num_microbatches: int = 1, start_cpu_core_id: int = 0) -> None:
        if mode.in_dygraph_mode():
            raise Exception("PipelineOptimizer is for Programs only")
        if not isinstance(optimizer, OptimizerBase):
            raise ValueError(f"PipelineOptimizer: optimizer must be an Optimizer, got {type(optimizer)}")
        assert num_microbatches >= 1, f"num_microbatches must be 1 or more, got {num_microbatches}"
        assert start_cpu_core_id >= 0, f"start_cpu_core_id must not be negative, got {start_cpu_core_id}"
        self._optimizer = optimizer
        self._num_microbatches = num_microbatches
        self._start_cpu_core_id = start_cpu_core_id

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> NoReturn:
        """Would cut the Program of `loss` into sections.

        Raises:
            NotImplementedError: always; Paddle's runner of sections, which needs fleet and GPUs, is not there.
        """
        raise NotImplementedError(
            "PipelineOptimizer.minimize: cutting a Program into sections for several GPUs, and the trainer that runs "
            "them (PipelineTrainer, by fleet), are not there yet; minimize with the optimizer inside trains the "
            "whole Program"
        )
