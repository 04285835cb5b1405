"""Strategy: what a Compressor calls at the beginnings and ends of compression, epochs and batches."""

from __future__ import annotations

from typing import Any

__all__ = ["Strategy"]


class Strategy:
    """The base of strategies of slim: methods that a Compressor calls, which do nothing here.

    Args:
        start_epoch, end_epoch (int): the first and the last epoch in which the strategy acts.

    `context` of the methods is the Compressor's `Context`.

    Source: fluid.contrib.slim.core.Strategy of Paddle 1.8.
    """

    def __init__(self, start_epoch: int = 0, end_epoch: int = 0) -> None:
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch

    def __getstate__(self) -> dict[str, Any]:
        """A checkpoint has the state without the epochs: those of the configuration hold."""
        return {k: v for k, v in self.__dict__.items() if k not in ("start_epoch", "end_epoch")}

    def on_compression_begin(self, context: Any) -> None:
        """Called once, before the first epoch."""

    def on_compression_end(self, context: Any) -> None:
        """Called once, after the last epoch."""

    def on_epoch_begin(self, context: Any) -> None:
        """Called before the training of each epoch."""

    def on_epoch_end(self, context: Any) -> None:
        """Called after training, evaluation and checkpoint of each epoch."""

    def on_batch_begin(self, context: Any) -> None:
        """Called before each batch."""

    def on_batch_end(self, context: Any) -> None:
        """Called after each batch."""

    def restore_from_checkpoint(self, context: Any) -> None:
        """Called after a checkpoint was found, before its parameters are loaded."""
