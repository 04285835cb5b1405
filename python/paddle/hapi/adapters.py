"""Base of the adapters that run a `paddle.Model` in dygraph or static mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.distributed.parallel import ParallelEnv
from paddle.io import DataLoader

__all__: list[str] = []

NOT_READY = "Model is not ready, please call `model.prepare()` first"


def to_list(value: Any) -> list[Any]:
    """A value as a list; None becomes an empty list."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


class Adapter:
    """Runs batches of a model in one mode.

    Several processes evaluate and predict jointly: each processes its part of a batch, and all outputs are gathered.
    Their sampler repeats samples at the end so that all have the same number; the repeated samples are dropped here.
    """

    def __init__(self, model: Any) -> None:
        env = ParallelEnv()
        self.model = model
        self._nranks, self._local_rank = env.nranks, env.local_rank
        # samples processed in this pass, and in the last batch; 0 if nothing is gathered
        self._merge_count = {"eval_total": 0, "test_total": 0, "eval_batch": 0, "test_batch": 0}
        #: shapes and types of the inputs of the last batch
        self._input_info: tuple[list[Any], list[Any]] | None = None

    @property
    def mode(self) -> str:
        return self.model.mode

    @mode.setter
    def mode(self, value: str) -> None:
        self.model.mode = value

    def begin(self) -> None:
        """Starts a pass over the data."""
        for key in self._merge_count:
            self._merge_count[key] = 0

    def _genuine(self, samples: int) -> int:
        """Number of samples in a gathered batch that are not repetitions."""
        loader = self.model._test_dataloader
        if self._nranks < 2 or not isinstance(loader, DataLoader):
            return samples
        try:
            whole = len(loader.dataset)
        except (TypeError, RuntimeError):
            return samples
        total, batch = self.mode + "_total", self.mode + "_batch"
        kept = max(min(samples, whole - self._merge_count[total]), 0)
        self._merge_count[total] += kept
        self._merge_count[batch] = kept
        return kept

    def _result(self, losses: list[Any], metrics: list[Any]) -> Any:
        """The result of a training or evaluation batch: losses, metrics, or both."""
        if self.model._loss and self.model._metrics:
            return losses, metrics
        return losses if self.model._loss else metrics

    def _load_optimizer(self, state: dict[str, Any]) -> dict[str, Any]:
        """Optimizer state with the names of this mode: static Programs count one step less."""
        state = dict(state)
        counter, own = self._counters
        if counter in state:
            state[own] = np.asarray(state.pop(counter)) + (1 if own == "global_step" else -1)
        return state

    _counters = ("@LR_DECAY_COUNTER@", "global_step")
