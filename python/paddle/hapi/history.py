"""History: the values of losses and metrics that `Model.fit` returns."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from .callback import Callback, _scalar

__all__: list[str] = []


class History(Callback):
    """Losses and metrics of each epoch, and of each evaluation; in a notebook a table.

    `history` maps names to lists: "loss", "acc", ... of the training, "eval_loss", "eval_acc", ... of evaluations.

    Examples:
        >>> from paddle.hapi.history import History
        >>> log = History()
        >>> log.on_epoch_end(0, {"loss": [0.5], "acc": 0.75})
        >>> log.history
        {'loss': [0.5], 'acc': [0.75]}
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []
        self._eval_epochs: list[int] = []
        self._now = 0

    def on_epoch_begin(self, epoch: Any = None, logs: Any = None) -> None:
        """Notes the number of the epoch."""
        self._now = epoch

    def on_epoch_end(self, epoch: Any, logs: Any = None) -> None:
        """Adds the values of the epoch's last step."""
        self.epoch.append(epoch)
        self._add("", logs)

    def on_eval_end(self, logs: Any = None) -> None:
        """Adds the values of an evaluation."""
        self._eval_epochs.append(self._now)
        self._add("eval_", logs)

    def _add(self, prefix: str, logs: Any) -> None:
        for name, value in (logs or {}).items():
            number = _scalar(value)
            if number is not None and name not in ("step", "batch_size"):
                self.history.setdefault(prefix + name, []).append(float(number))

    def _epochs(self, name: str) -> list[int]:
        return self._eval_epochs if name.startswith("eval_") else self.epoch

    def _repr_html_(self) -> str:
        names = list(self.history)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("epoch", *names))
        columns = {name: dict(zip(self._epochs(name), self.history[name], strict=False)) for name in names}
        rows = []
        for epoch in self.epoch:
            cells = (columns[name].get(epoch) for name in names)
            shown = "".join(f"<td>{'' if value is None else f'{value:.4g}'}</td>" for value in cells)
            rows.append(f"<tr><td>{epoch}</td>{shown}</tr>")
        return f"<table><tr>{head}</tr>{''.join(rows)}</table>"

    def plot(self, path: Any = None) -> Any:
        """Curves of losses and metrics, one picture for each name; evaluations are dashed.

        Args:
            path (str, optional): the file that is written.

        Returns:
            matplotlib.figure.Figure

        Raises:
            ImportError: without matplotlib (the extra "plot").
        """
        figure_class = _figure()
        names = list(dict.fromkeys(name.removeprefix("eval_") for name in self.history))
        figure = figure_class(figsize=(4.5 * max(len(names), 1), 3.2), layout="constrained")
        for i, name in enumerate(names):
            axes = figure.add_subplot(1, len(names), i + 1)
            for key, style in ((name, "-o"), ("eval_" + name, "--s")):
                if key in self.history:
                    axes.plot(self._epochs(key), self.history[key], style, label=key)
            axes.set_xlabel("epoch")
            axes.set_title(name)
            axes.legend()
        if path is not None:
            figure.savefig(path)
        return figure


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install oar-paddle[plot]") from None
    return Figure


def confusion_matrix(labels: Any, predictions: Any, names: Any = None, path: Any = None) -> Any:
    """The picture of how often each class was taken for each other one.

    Args:
        labels (Tensor|numpy.ndarray|list): the classes, as integers.
        predictions (Tensor|numpy.ndarray|list): the predicted classes, or scores [samples, classes].
        names (list of str, optional): the classes' names.
        path (str, optional): the file that is written.

    Returns:
        tuple: the counts [class, predicted class] as a numpy array, and the matplotlib Figure.

    Raises:
        ValueError: for different numbers of labels and predictions.
        ImportError: without matplotlib (the extra "plot").

    Examples:
        >>> import paddle
        >>> counts, figure = paddle.utils.confusion_matrix([0, 1, 1], [0, 1, 0])
        >>> counts.tolist()
        [[1, 0], [1, 1]]
    """
    true = np.asarray(labels).astype("int64").ravel()
    found = np.asarray(predictions)
    found = found.argmax(-1).ravel() if found.ndim == 2 and found.shape[1] > 1 else found.astype("int64").ravel()
    if true.shape != found.shape:
        raise ValueError(f"confusion_matrix: {true.size} labels and {found.size} predictions; they must be as many")
    size = max([int(true.max(initial=0)), int(found.max(initial=0)), len(names or ()) - 1]) + 1
    counts = np.zeros((size, size), "int64")
    np.add.at(counts, (true, found), 1)
    side = max(3.0, 0.45 * size)
    figure = _figure()(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(counts, cmap="Blues")
    ticks = range(size)
    axes.set_xticks(ticks, names or ticks, rotation=45 if names else 0)
    axes.set_yticks(ticks, names or ticks)
    axes.set_xlabel("predicted")
    axes.set_ylabel("class")
    for i in ticks:
        for j in ticks:
            dark = counts[i, j] > counts.max() / 2
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", color="white" if dark else "black")
    if path is not None:
        figure.savefig(path)
    return counts, figure
