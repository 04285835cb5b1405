"""What the runner has changed for a script: counted always, and with file and line for `--explain`."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

__all__ = ["note", "report", "start"]

_seen: Counter[tuple[str, str]] = Counter()
_explaining = False
_FOLDER = __file__.rpartition("/")[0]


def start() -> None:
    """From now on changes are recorded."""
    global _explaining
    _explaining = True


def _place() -> str:
    """``file:line`` of the innermost frame outside of this package."""
    frame: Any = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename.startswith(_FOLDER) or "importlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "?"


def note(what: str, where: str | None = None) -> None:
    """Records a change at the script's current line."""
    if _explaining:
        _seen[what, where or _place()] += 1


def report() -> str:
    """The changes, one a line."""
    if not _seen:
        return "paddle.legacy: nothing was changed\n"
    lines = [
        f"  {place}: {what}" + (f" ({n} times)" if n > 1 else "")
        for (what, place), n in sorted(_seen.items(), key=_order)
    ]
    return "\n".join(["paddle.legacy changed:", *lines, ""])


def _order(entry: Any) -> tuple[str, int, str]:
    (what, place), _ = entry
    file, _, line = place.rpartition(":")
    return file, int(line) if line.isdigit() else 0, what
