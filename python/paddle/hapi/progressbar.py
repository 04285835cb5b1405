"""ProgressBar: the progress bar of `paddle.Model`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO

import numpy as np

__all__ = ["ProgressBar"]


def _number(value: Any) -> str:
    """A value with four decimals, in exponent form if it is small."""
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind == "f":
        value = value.reshape(-1)[0]
    if isinstance(value, (float, np.floating)):
        value = float(value)
        return f"{value:.4f}" if abs(value) > 1e-3 else f"{value:.4e}"
    return str(value)


def _per_step(seconds: float) -> str:
    if seconds >= 1 or seconds == 0:
        return f"{seconds:.0f}s/step"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.0f}ms/step"
    return f"{seconds * 1e6:.0f}us/step"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole > 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    if whole > 60:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole}s"


class ProgressBar:
    """Shows the progress of a loop with values of its steps.

    Args:
        num (int, optional): number of steps; None if unknown.
        width (int): columns of the bar; fewer on a narrow terminal.
        verbose (int): 1 draws a bar (overwritten on a terminal, a new line otherwise), 2 and 3 write a line for each
            update.
        start (bool): start the timer now.
        file (optional): output stream; standard output when None.

    Raises:
        TypeError: if num is not positive.

    Examples:
        >>> from paddle.hapi.progressbar import ProgressBar
        >>> ProgressBar(num=20, verbose=2).update(5, [("loss", 0.25)])
        step  5/20 - loss: 0.2500 - .../step
    """

    def __init__(
        self, num: int | None = None, width: int = 30, verbose: int = 1, start: bool = True, file: TextIO | None = None
    ) -> None:
        if isinstance(num, int) and num <= 0:
            raise TypeError(f"ProgressBar: num must be None or a positive int, got {num}")
        self._num = num
        columns = shutil.get_terminal_size().columns or 80
        self._width = max(min(width, int(columns * 0.6), columns - 50), 1)
        self._verbose = verbose
        self._file = file
        self._total_width = 0
        self._start = time.time() if start else 0.0
        self._dynamic_display = self._is_terminal()

    @property
    def file(self) -> TextIO:
        """The output stream: the current standard output unless another one was given."""
        return sys.stdout if self._file is None else self._file

    def _is_terminal(self) -> bool:
        isatty = getattr(self.file, "isatty", None)
        return bool(isatty and isatty()) or "ipykernel" in sys.modules or "PYCHARM_HOSTED" in os.environ

    def start(self) -> None:
        """Starts the timer."""
        self.file.flush()
        self._start = time.time()

    def _values(self, values: Iterable[tuple[str, Any]]) -> str:
        text = ""
        for name, value in values:
            many = value if isinstance(value, list) else [value]
            text += f" - {name}:" + "".join(" " + _number(v) for v in many)
        return text

    def _count(self, current: float) -> str:
        if self._num is None:
            return f"step {int(current):3d}"
        return f"step {int(current):{len(str(self._num))}d}/{self._num}"

    def _bar(self, current: float) -> str:
        if self._num is None:
            return ""
        done = max(min(int(self._width * current / self._num), self._width), 0)
        head = "" if not done else "=" * (done - 1) + (">" if current < self._num else "=")
        return f" [{head}{'.' * (self._width - done)}]"

    def update(self, current_num: float, values: Iterable[tuple[str, Any]] | None = None) -> None:
        """Shows that `current_num` steps are done.

        Args:
            current_num (int): number of completed steps.
            values (list): pairs of a name and a number, or a list of numbers.
        """
        step = (time.time() - self._start) / current_num if current_num else 0.0
        text = self._count(current_num)
        shown = self._values(values or ())
        if self._verbose == 1:
            text += self._bar(current_num) + shown
            if self._num is not None and current_num < self._num:
                text += " - ETA: " + _duration(step * (self._num - current_num))
            text += " - " + _per_step(step)
            former, self._total_width = self._total_width, len(text)
            text += " " * (former - len(text))
            ended = self._num is None or current_num >= self._num
            if self._dynamic_display:
                text = "\b" * former + "\r" + text + ("\n" if ended else "")
                self._total_width = 0 if ended else self._total_width
            else:
                text = text.rstrip() + "\n"
        elif self._verbose in (2, 3):
            text += shown + " - " + _per_step(step) + "\n"
        else:
            return
        self.file.write(text)
        self.file.flush()
