"""Callback: the base class of all callbacks."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from paddle.distributed.parallel import ParallelEnv

__all__: list[str] = []


def _first_rank() -> bool:
    return ParallelEnv().local_rank == 0


def _scalar(value: Any) -> Any:
    """A logged value as a number (of a list the first one); None for other types."""
    if isinstance(value, (list, tuple)):
        value = value[0]
    return value if isinstance(value, (numbers.Number, np.generic)) else None


class Callback:
    """Base of all callbacks; a subclass overrides the methods of the events it handles.

    `model` is the paddle.Model, `params` a dict with "batch_size", "epochs", "steps" (per epoch, or None), "verbose"
    and "metrics" (names, including "loss").

    Examples:
        >>> import paddle
        >>> class Announce(paddle.callbacks.Callback):
        ...     def on_epoch_end(self, epoch, logs=None):
        ...         print("epoch", epoch, "has ended")
        >>> Announce().on_epoch_end(0)
        epoch 0 has ended
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        """Sets the settings of a run."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Sets the model."""
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Called before training."""

    def on_train_end(self, logs: Any = None) -> None:
        """Called after training; `logs` are those of the last batch."""

    def on_eval_begin(self, logs: Any = None) -> None:
        """Called before an evaluation; `logs` has "steps" and "metrics" (names)."""

    def on_eval_end(self, logs: Any = None) -> None:
        """Called after an evaluation; `logs` has loss and metrics."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Called before a prediction; `logs` has "steps"."""

    def on_predict_end(self, logs: Any = None) -> None:
        """Called after a prediction."""

    def on_epoch_begin(self, epoch: Any, logs: Any = None) -> None:
        """Called before an epoch; epochs are counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called after an epoch; `logs` are those of the last batch."""

    def on_train_batch_begin(self, step: int, logs: Any = None) -> None:
        """Called before a training batch; batches are counted from 0."""

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """Called after a training batch; `logs` has its loss, the current metrics, "step" and "batch_size"."""

    def on_eval_batch_begin(self, step: int, logs: Any = None) -> None:
        """Called before an evaluation batch."""

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        """Called after an evaluation batch; `logs` as in training."""

    def on_predict_batch_begin(self, step: int, logs: Any = None) -> None:
        """Called before a prediction batch."""

    def on_predict_batch_end(self, step: int, logs: Any = None) -> None:
        """Called after a prediction batch; `logs` has "step" and "batch_size"."""
