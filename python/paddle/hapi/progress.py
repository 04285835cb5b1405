"""ProgBarLogger: progress output of `paddle.Model`."""

from __future__ import annotations

import time
from typing import Any

from paddle.distributed.parallel import ParallelEnv

from .callback import Callback
from .progressbar import ProgressBar

__all__: list[str] = []

_NOTE = "The loss value printed in the log is the current {}, and the metric is the average value of previous step."


class _Run:
    """State of one training epoch, evaluation or prediction: progress bar, steps and times."""

    def __init__(self, steps: int | None, names: list[str], verbose: int) -> None:
        self.steps = steps
        self.names = names
        self.bar = ProgressBar(num=steps or None, verbose=verbose)
        self.step = 0
        self.samples = 0
        self.reading = self.working = 0.0
        self.mark = time.time()

    def _since_mark(self) -> float:
        former, self.mark = self.mark, time.time()
        return self.mark - former

    def begin(self) -> None:
        self.reading += self._since_mark()

    def end(self, samples: int) -> None:
        self.working += self._since_mark()
        self.step += 1
        self.samples += samples

    def show(self, logs: dict[str, Any], timed: bool) -> None:
        values = [(name, logs[name]) for name in self.names if name in logs]
        if timed:
            count = self.step or 1
            whole = self.reading + self.working
            values += [
                ("avg_reader_cost", f"{self.reading / count:.5f} sec"),
                ("avg_batch_cost", f"{self.working / count:.5f} sec"),
                ("ips", f"{self.samples / whole if whole else 0.0:.5f} samples/sec"),
            ]
        self.bar.update(self.step, values)


class ProgBarLogger(Callback):
    """Writes loss and metrics to standard output, on rank 0.

    Args:
        log_freq (int): number of steps between outputs.
        verbose (int): 0 nothing, 1 a progress bar, 2 lines, 3 lines with reading and computing times per batch.

    Examples:
        >>> import paddle
        >>> every_ten_steps = paddle.callbacks.ProgBarLogger(log_freq=10, verbose=1)
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        self.epochs: int | None = None
        self.steps: int | None = None
        self.verbose = verbose
        self.log_freq = log_freq
        # an evaluation may run within a training
        self._runs: dict[str, _Run] = {}

    def _is_print(self) -> bool:
        return bool(self.verbose) and ParallelEnv().local_rank == 0

    def _say(self, text: str) -> None:
        if self._is_print():
            print(text)

    def _start(self, mode: str, steps: int | None, names: list[str]) -> None:
        self._runs[mode] = _Run(steps, names, self.verbose)

    def _batch_end(self, mode: str, logs: Any) -> None:
        run, logs = self._runs[mode], logs or {}
        run.end(logs.get("batch_size", 1))
        last = run.steps is not None and run.step >= run.steps  # printed at the end of the pass
        if self._is_print() and run.step % self.log_freq == 0 and not last:
            run.show(logs, self.verbose == 3)

    def _end(self, mode: str, logs: Any) -> _Run:
        run = self._runs[mode]
        if self._is_print() and run.steps is not None:
            run.show(logs or {}, self.verbose == 3)
        return run

    def on_train_begin(self, logs: Any = None) -> None:
        """Explains the printed values."""
        self.epochs = self.params["epochs"]
        self._say(_NOTE.format("step"))

    def on_epoch_begin(self, epoch: Any = None, logs: Any = None) -> None:
        """Starts a bar."""
        self.steps = self.params["steps"]
        self._say(f"Epoch {epoch + 1}/{self.epochs}")
        self._start("train", self.steps, self.params["metrics"])

    def on_train_batch_begin(self, step: int, logs: Any = None) -> None:
        """Records the time after reading a batch."""
        self._runs["train"].begin()

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """Prints every `log_freq` steps."""
        self._batch_end("train", logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Prints the last step."""
        self._end("train", logs)

    def on_eval_begin(self, logs: Any = None) -> None:
        """Starts a bar."""
        logs = logs or {}
        self._say("Eval begin...")
        self._say(_NOTE.format("batch"))
        self._start("eval", logs.get("steps"), logs.get("metrics", []))

    def on_eval_batch_begin(self, step: int, logs: Any = None) -> None:
        """Records the time after reading a batch."""
        self._runs["eval"].begin()

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        """Prints every `log_freq` steps."""
        self._batch_end("eval", logs)

    def on_eval_end(self, logs: Any = None) -> None:
        """Prints the last step and the number of samples."""
        self._say(f"Eval samples: {self._end('eval', logs).samples}")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Starts a bar."""
        logs = logs or {}
        self._say("Predict begin...")
        self._start("predict", logs.get("steps"), logs.get("metrics", []))

    def on_predict_batch_begin(self, step: int, logs: Any = None) -> None:
        """Records the time after reading a batch."""
        self._runs["predict"].begin()

    def on_predict_batch_end(self, step: int, logs: Any = None) -> None:
        """Prints every `log_freq` steps."""
        self._batch_end("predict", logs)

    def on_predict_end(self, logs: Any = None) -> None:
        """Prints the last step and the number of samples."""
        self._say(f"Predict samples: {self._end('predict', logs).samples}")
