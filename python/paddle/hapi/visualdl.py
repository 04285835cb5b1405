"""The callback that writes logs for VisualDL and TensorBoard."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import paddle._core as _core
from paddle._basics import png
from paddle._programs.scope import global_scope

from .callback import Callback, _first_rank, _scalar
from .event_file import EventFile
from .export import model_program

__all__: list[str] = []


def _visualdl_writer(folder: str) -> Any:
    """The LogWriter of the package visualdl; None where it is not installed."""
    try:
        from visualdl import LogWriter
    except ImportError:
        return None
    except Exception as error:  # releases before 2.4 fail with newer protobuf
        warnings.warn(f"VisualDL: the package visualdl cannot be imported ({error!s:.200}); event files only")
        return None
    return LogWriter(folder)


def _value(parameter: Any) -> np.ndarray:
    if isinstance(parameter, _core.Tensor):
        return parameter.numpy()
    return np.array(global_scope().find_var(parameter.name).get_tensor())


class VisualDL(Callback):
    """Writes loss and metrics for ``visualdl`` (where that package is installed) and for ``tensorboard``.

    The tags are training values at each step as ``train/<name>``, evaluation values at each epoch as ``eval/<name>``.

    Args:
        log_dir (str): the folder of the files; it is created.
        histograms (bool): also the distribution of each parameter at each epoch.
        graph (bool): also the Program, of a Model with `inputs` or in static mode.

    Examples:
        >>> import paddle
        >>> log = paddle.callbacks.VisualDL(log_dir="logs")
    """

    def __init__(self, log_dir: str, histograms: bool = False, graph: bool = False) -> None:
        super().__init__()
        self.log_dir = log_dir
        self.histograms, self.graph = histograms, graph
        self.epochs: int | None = None
        self.steps: int | None = None
        self.epoch = 0
        self.train_step = 0
        self._training = False
        self._file: EventFile | None = None
        self._writer: Any = None
        self._eval_metrics: list[str] = []

    def _open(self) -> EventFile | None:
        if self._file is None and _first_rank():
            self._file = EventFile(self.log_dir)
            self._writer = _visualdl_writer(self.log_dir)
        return self._file

    def _write(self, mode: str, names: list[str], step: int, logs: Any) -> None:
        file = self._open()
        for name in names if file is not None else ():
            value = _scalar((logs or {}).get(name))
            if value is not None:
                assert file is not None
                file.add_scalar(f"{mode}/{name}", float(value), step)
                if self._writer is not None:
                    self._writer.add_scalar(tag=f"{mode}/{name}", value=float(value), step=step)

    def add_image(self, tag: str, image: Any, step: int = 0) -> None:
        """Writes an image, between ``on_train_begin`` and ``on_train_end``.

        Args:
            tag (str): its name.
            image (Tensor|numpy.ndarray): [height, width] or [height, width, channels], bytes or floats in [0, 1].
            step (int): the step.

        Raises:
            ValueError: for another shape.
        """
        file = self._open()
        if file is not None:
            array = png.as_bytes(np.asarray(image))
            file.add_image(tag, array, step)
            if self._writer is not None:
                self._writer.add_image(tag=tag, img=array, step=step)

    def _histograms(self, epoch: int) -> None:
        file = self._open()
        for parameter in self.model.parameters() if self.histograms and file is not None else ():
            assert file is not None
            values = _value(parameter)
            file.add_histogram(parameter.name, values, epoch)
            if self._writer is not None:
                self._writer.add_histogram(tag=parameter.name, values=values.ravel(), step=epoch, buckets=30)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Counts steps from 0; writes the graph."""
        self.epochs = self.params["epochs"]
        self._training = True
        self.train_step = 0
        program = model_program(self.model) if self.graph else None
        file = self._open() if program is not None else None
        if file is not None:
            file.add_graph(program)

    def on_epoch_begin(self, epoch: Any = None, logs: Any = None) -> None:
        """Stores the index of the epoch."""
        self.steps = self.params["steps"]
        self.epoch = epoch

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """Writes the values of a step."""
        self.train_step += 1
        self._write("train", self.params["metrics"], self.train_step, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Writes the histograms and flushes the file."""
        self._histograms(epoch)
        if self._file is not None:
            self._file.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the files."""
        self._training = False
        self._close()

    def on_eval_begin(self, logs: Any = None) -> None:
        """Stores the names of the metrics."""
        self._eval_metrics = (logs or {}).get("metrics", [])

    def on_eval_end(self, logs: Any = None) -> None:
        """Writes the values of an evaluation."""
        self._write("eval", self._eval_metrics, self.epoch, logs)
        if not self._training:
            self._close()
