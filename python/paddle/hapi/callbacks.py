"""Callbacks of `paddle.Model`: checkpoints, learning rate, early stopping, event files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from paddle.optimizer.lr_scheduler import LRScheduler as Schedule

from .callback import Callback, _first_rank, _scalar
from .progress import ProgBarLogger
from .visualdl import VisualDL

__all__ = [
    "Callback",
    "ProgBarLogger",
    "ModelCheckpoint",
    "VisualDL",
    "LRScheduler",
    "EarlyStopping",
    "ReduceLROnPlateau",
]


def config_callbacks(
    callbacks: Any = None,
    model: Any = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    log_freq: int = 2,
    verbose: int = 2,
    save_freq: int = 1,
    save_dir: str | None = None,
    metrics: list[str] | None = None,
    mode: str = "train",
) -> CallbackList:
    """The user's callbacks plus the default ones: ProgBarLogger, ModelCheckpoint, LRScheduler.

    Args:
        callbacks (Callback|list, optional): a callback of a default class replaces the default one.
        model (Model): the model that calls them.
        batch_size, epochs, steps, verbose, metrics: entries of `params`.
        log_freq, verbose: arguments of ProgBarLogger.
        save_freq, save_dir: arguments of ModelCheckpoint; EarlyStopping also saves the best model in save_dir.
        mode (str): "test" has no metrics.
    """
    chosen = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
    if verbose and not any(isinstance(c, ProgBarLogger) for c in chosen):
        chosen.insert(0, ProgBarLogger(log_freq, verbose=verbose))
    if not any(isinstance(c, ModelCheckpoint) for c in chosen):
        chosen.append(ModelCheckpoint(save_freq, save_dir))
    if not any(isinstance(c, LRScheduler) for c in chosen):
        chosen.append(LRScheduler())
    for callback in chosen:
        if isinstance(callback, EarlyStopping):
            callback.save_dir = save_dir
    together = CallbackList(chosen)
    together.set_model(model)
    together.set_params(
        {
            "batch_size": batch_size,
            "epochs": epochs,
            "steps": steps,
            "verbose": verbose,
            "metrics": [] if mode == "test" else metrics or [],
        }
    )
    return together


class CallbackList:
    """A list of callbacks that are called in order.

    Args:
        callbacks (list): Callback objects.
    """

    def __init__(self, callbacks: Any = None) -> None:
        self.callbacks = list(callbacks or ())
        self.params: dict[str, Any] = {}
        self.model: Any = None

    def append(self, callback: Callback) -> None:
        """Appends a callback."""
        self.callbacks.append(callback)

    def __iter__(self) -> Iterator[Callback]:
        return iter(self.callbacks)

    def set_params(self, params: dict[str, Any]) -> None:
        """Passes the settings of the run to all callbacks."""
        for callback in self.callbacks:
            callback.set_params(params)

    def set_model(self, model: Any) -> None:
        """Passes the model to all callbacks."""
        for callback in self.callbacks:
            callback.set_model(model)

    def _call(self, event: str, mode: str | None, *args: Any) -> None:
        if mode is not None:
            assert mode in ("train", "eval", "predict"), f"mode should be train, eval or predict, got {mode!r:.200}"
            event = event.format(mode)
        for callback in self.callbacks:
            getattr(callback, event)(*args)

    def on_begin(self, mode: str, logs: Any = None) -> None:
        """Training, evaluation or prediction begins."""
        self._call("on_{}_begin", mode, logs)

    def on_end(self, mode: str, logs: Any = None) -> None:
        """Training, evaluation or prediction ends."""
        self._call("on_{}_end", mode, logs)

    def on_epoch_begin(self, epoch: Any = None, logs: Any = None) -> None:
        """An epoch of training begins."""
        self._call("on_epoch_begin", None, epoch, logs)

    def on_epoch_end(self, epoch: Any = None, logs: Any = None) -> None:
        """An epoch of training ends."""
        self._call("on_epoch_end", None, epoch, logs)

    def on_batch_begin(self, mode: str, step: Any = None, logs: Any = None) -> None:
        """A batch begins."""
        self._call("on_{}_batch_begin", mode, step, logs)

    def on_batch_end(self, mode: str, step: Any = None, logs: Any = None) -> None:
        """A batch ends."""
        self._call("on_{}_batch_end", mode, step, logs)


class ModelCheckpoint(Callback):
    """Saves the model and the optimizer state every `save_freq` epochs as ``save_dir/<epoch>``, and finally as
    ``save_dir/final``.

    Args:
        save_freq (int): number of epochs between checkpoints.
        save_dir (str, optional): the folder; None disables saving.

    Examples:
        >>> import paddle
        >>> checkpoint = paddle.callbacks.ModelCheckpoint(save_freq=2, save_dir="checkpoints")
    """

    def __init__(self, save_freq: int = 1, save_dir: str | None = None) -> None:
        super().__init__()
        self.save_freq = save_freq
        self.save_dir = save_dir
        self.epoch: int | None = None

    def on_epoch_begin(self, epoch: Any = None, logs: Any = None) -> None:
        """Stores the index of the epoch."""
        self.epoch = epoch

    def _save(self, name: Any) -> None:
        if self.model and self.save_dir and _first_rank():
            path = f"{self.save_dir}/{name}"
            print(f"save checkpoint at {os.path.abspath(path)}")
            self.model.save(path)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves a checkpoint if it is due."""
        if epoch % self.save_freq == 0:
            self._save(epoch)

    def on_train_end(self, logs: Any = None) -> None:
        """Saves the final state."""
        self._save("final")


class LRScheduler(Callback):
    """Steps the optimizer's learning rate if it is a paddle.optimizer.lr.LRScheduler.

    Args:
        by_step (bool): after each batch.
        by_epoch (bool): after each epoch.

    Raises:
        ValueError: if both are set.

    Examples:
        >>> import paddle
        >>> after_each_epoch = paddle.callbacks.LRScheduler(by_step=False, by_epoch=True)
    """

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step and by_epoch:
            raise ValueError("LRScheduler: by_step and by_epoch cannot both be True")
        self.by_step = by_step
        self.by_epoch = by_epoch

    def _step(self) -> None:
        rate = getattr(self.model._optimizer, "_learning_rate", None)
        if isinstance(rate, Schedule):
            rate.step()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Steps if by_epoch."""
        if self.by_epoch:
            self._step()

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """Steps if by_step."""
        if self.by_step:
            self._step()


def _rises(mode: str, monitor: str, name: str) -> tuple[str, bool]:
    """The mode, and whether higher monitored values are better."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(f"{name}: mode must be auto, min or max, got {mode!s:.200}; auto is used", stacklevel=3)
        mode = "auto"
    return mode, mode == "max" or (mode == "auto" and "acc" in monitor)


class _Monitor(Callback):
    """Base of callbacks that monitor one logged value of evaluations."""

    monitor: str

    def _current(self, logs: Any) -> Any:
        if logs is None or self.monitor not in logs:
            warnings.warn(f"Monitor of {type(self).__name__} should be loss or metric name.", stacklevel=3)
            return None
        return _scalar(logs[self.monitor])


class EarlyStopping(_Monitor):
    """Stops training when a value of the evaluation has not improved for some epochs.

    Args:
        monitor (str): "loss" or the name of a metric.
        mode (str): whether "min" or "max" is better; "auto" means "max" for names with "acc", else "min".
        patience (int): number of evaluations without improvement before training stops.
        verbose (int): 1 prints messages.
        min_delta (float): the smallest change that counts as an improvement.
        baseline (float, optional): the initial best value.
        save_best_model (bool): whether to save the best model as ``best_model`` in `save_dir` of Model.fit.

    Examples:
        >>> import paddle
        >>> stop = paddle.callbacks.EarlyStopping("acc", patience=3, save_best_model=False)
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__()
        self.monitor = monitor
        self.patience = patience
        self.verbose = verbose
        self.baseline = baseline
        self.wait_epoch = 0
        self.best_weights = None
        self.stopped_epoch = 0
        self.save_best_model = save_best_model
        self.save_dir: str | None = None
        rises = _rises(mode, monitor, "EarlyStopping")[1]
        self.monitor_op = np.greater if rises else np.less
        self.min_delta = abs(min_delta) if rises else -abs(min_delta)
        self.best_value: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Resets the state of an earlier training."""
        self.wait_epoch = 0
        if self.baseline is not None:
            self.best_value = self.baseline
        else:
            self.best_value = np.inf if self.monitor_op is np.less else -np.inf

    def _path(self) -> str | None:
        return os.path.join(self.save_dir, "best_model") if self.save_best_model and self.save_dir else None

    def on_eval_end(self, logs: Any = None) -> None:
        """Compares, saves the best model, and may stop training."""
        current = self._current(logs)
        if current is None:
            return
        if self.best_value is None:  # an evaluation outside of training
            self.on_train_begin()
        path = self._path()
        if self.monitor_op(current - self.min_delta, self.best_value):
            self.best_value = current
            self.wait_epoch = 0
            if path:
                self.model.save(path)
        else:
            self.wait_epoch += 1
        if self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose > 0:
                print(f"Epoch {self.stopped_epoch + 1}: Early stopping.")
                if path:
                    print(f"Best checkpoint has been saved at {os.path.abspath(path)}")
        self.stopped_epoch += 1


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor` when a value of the evaluation has not improved for some epochs.

    Args:
        monitor (str): "loss" or the name of a metric.
        factor (float): less than 1.
        patience (int): number of evaluations without improvement before the rate is reduced.
        verbose (int): 1 prints messages.
        mode (str): whether "min" or "max" is better; "auto" means "max" for names with "acc", else "min".
        min_delta (float): the smallest change that counts as an improvement.
        cooldown (int): number of evaluations after a reduction that are ignored.
        min_lr (float): lower bound of the rate.

    Raises:
        ValueError: if factor is 1 or more.

    Examples:
        >>> import paddle
        >>> slower = paddle.callbacks.ReduceLROnPlateau(factor=0.5, patience=2)
    """

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        super().__init__()
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau does not support a factor >= 1.0, got {factor}")
        self.monitor = monitor
        self.factor = factor
        self.min_lr = min_lr
        self.min_delta = min_delta
        self.patience = patience
        self.verbose = verbose
        self.cooldown = cooldown
        self.mode, self._rising = _rises(mode, monitor, "ReduceLROnPlateau")
        self.epoch = 0
        self._reset()

    def _reset(self) -> None:
        self.best = -np.inf if self._rising else np.inf
        self.cooldown_counter = 0
        self.wait = 0

    def monitor_op(self, value: Any, best: Any) -> bool:
        """Whether `value` is better than `best`."""
        return bool(value > best + self.min_delta if self._rising else value < best - self.min_delta)

    def on_train_begin(self, logs: Any = None) -> None:
        """Resets the state of an earlier training."""
        self._reset()

    def on_eval_end(self, logs: Any = None) -> None:
        """Compares, and may reduce the rate."""
        current = self._current(logs)
        if current is None:
            return
        rate = getattr(self.model._optimizer, "_learning_rate", None)
        if not isinstance(rate, float):
            warnings.warn(f"ReduceLROnPlateau requires a float learning rate, got {type(rate)}", stacklevel=2)
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self.monitor_op(current, self.best):
            self.best = current
            self.wait = 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience and rate > self.min_lr:
                self._lower(max(rate * self.factor, float(self.min_lr)))
        self.epoch += 1

    def _lower(self, rate: float) -> None:
        self.model._set_learning_rate(rate)
        if self.verbose > 0 and _first_rank():
            print(f"\nEpoch {self.epoch + 1}: ReduceLROnPlateau reducing learning rate to {rate}.")
        self.cooldown_counter = self.cooldown
        self.wait = 0

    def in_cooldown(self) -> bool:
        """Whether evaluations are ignored."""
        return self.cooldown_counter > 0
