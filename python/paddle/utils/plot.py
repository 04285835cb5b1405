"""Curves of training, drawn by matplotlib: paddle.utils.plot of 1.x."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["PlotData", "Ploter"]


class PlotData:
    """The points of one curve.

    Attributes:
        step (list), value (list): their coordinates.
    """

    def __init__(self) -> None:
        self.step: list[Any] = []
        self.value: list[Any] = []

    def append(self, step: Any, value: Any) -> None:
        """Adds a point."""
        self.step.append(step)
        self.value.append(value)

    def reset(self) -> None:
        """Removes all points."""
        self.step, self.value = [], []


class Ploter:
    """Draws curves into one figure.

    The environment variable DISABLE_PLOT set to ``True`` turns drawing off; matplotlib is not needed then.

    Args:
        args (str): the titles of the curves.

    Raises:
        ImportError: without matplotlib.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/beginners_guide/basics/fit_a_line/README.html

    Examples:
        >>> import os
        >>> os.environ["DISABLE_PLOT"] = "True"
        >>> from paddle.utils.plot import Ploter
        >>> curves = Ploter("train", "test")
        >>> curves.append("train", 0, 1.5)
        >>> curves.plot()
    """

    def __init__(self, *args: str) -> None:
        self._curves = {title: PlotData() for title in args}
        self._plt: Any = None
        if os.environ.get("DISABLE_PLOT") != "True":
            import matplotlib.pyplot

            self._plt = matplotlib.pyplot

    def append(self, title: str, step: Any, value: Any) -> None:
        """Adds a point to the curve `title`.

        Raises:
            AssertionError: for a title that was not given.
        """
        assert title in self._curves, f"Ploter.append: title must be one of {list(self._curves)}, got {title!r}"
        self._curves[title].append(step, value)

    def plot(self, path: str | None = None) -> None:
        """Draws all curves.

        Args:
            path (str, optional): the file of the picture; None shows it in the notebook, or in a window.
        """
        if self._plt is None:
            return
        drawn = {title: curve for title, curve in self._curves.items() if curve.step}
        for curve in drawn.values():
            self._plt.plot(curve.step, curve.value)
        self._plt.legend(list(drawn), loc="upper left")
        if path is not None:
            self._plt.savefig(path)
        else:
            self._show()
        self._plt.gcf().clear()

    def _show(self) -> None:
        try:
            from IPython import display
        except ImportError:
            self._plt.pause(0.001)
        else:
            display.clear_output(wait=True)
            display.display(self._plt.gcf())

    def reset(self) -> None:
        """Removes the points of all curves."""
        for curve in self._curves.values():
            curve.reset()
