"""Callback: the base of all callbacks."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


class Callback:
    """Base of all callbacks; a subclass defines those methods whose events it wants.

    `model` is the paddle.Model, `params` a dict with "batch_size", "epochs", "steps" (of an epoch, or None), "verbose"
    and "metrics" (names, of which "loss" is one).

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
        """Takes the settings of a run."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Takes the model."""
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""

    def on_train_end(self, logs: Any = None) -> None:
        """After training; `logs` are the last batch's."""

    def on_eval_begin(self, logs: Any = None) -> None:
        """Before an evaluation; `logs` has "steps" and "metrics" (names)."""

    def on_eval_end(self, logs: Any = None) -> None:
        """After an evaluation; `logs` has loss and metrics."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Before a prediction; `logs` has "steps"."""

    def on_predict_end(self, logs: Any = None) -> None:
        """After a prediction."""

    def on_epoch_begin(self, epoch: Any, logs: Any = None) -> None:
        """Before an epoch; they are counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch; `logs` are the last batch's."""

    def on_train_batch_begin(self, step: int, logs: Any = None) -> None:
        """Before a batch of training; they are counted from 0."""

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """After a batch of training; `logs` has its loss, the metrics so far, "step" and "batch_size"."""

    def on_eval_batch_begin(self, step: int, logs: Any = None) -> None:
        """Before a batch of an evaluation."""

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        """After a batch of an evaluation; `logs` as of training."""

    def on_predict_batch_begin(self, step: int, logs: Any = None) -> None:
        """Before a batch of a prediction."""

    def on_predict_batch_end(self, step: int, logs: Any = None) -> None:
        """After a batch of a prediction; `logs` has "step" and "batch_size"."""
