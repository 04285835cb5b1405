"""paddle.legacy: runs programs of Paddle 1.x unmodified, with today's Python, numpy, Pillow and PyYAML.

``python -m paddle.legacy train.py ARGS...`` runs a program; ``import paddle.legacy`` as its first line does the same,
and ``--legacy`` does for ``python -m paddle.distributed.launch``. Names that newer releases have removed come back for
the program's own modules (`paddle._basics.removed_names` is the table); installed packages are untouched. A module
that is not the program calls `install`; an interactive session need not.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from . import loader, runner

__all__ = ["install"]


def install() -> None:
    """From now on modules of the program that are imported are rewritten, and see the restored names.

    Examples:
        >>> import paddle.legacy
        >>> paddle.legacy.install()
    """
    loader.install()


def _importing_script() -> Any:
    """The frame of the main script, if it is the one that imports this package."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name, file = frame.f_globals.get("__name__"), frame.f_code.co_filename
        if frame.f_code.co_name == "<module>" and not loader.installed(file) and not file.startswith("<"):
            return frame if name == "__main__" and os.path.isfile(file) else None
        frame = frame.f_back
    return None


def _take_over() -> None:
    """Runs the main script that imports this package from its beginning, by the runner; the process ends with it."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if runner.active or spec is not None and spec.name.startswith("paddle.legacy"):
        return
    frame = _importing_script()
    if frame is None:
        return
    try:
        runner.run_script(frame.f_code.co_filename, sys.argv[1:])
    finally:
        sys.stdout.flush()
    raise SystemExit(0)


_take_over()
if not hasattr(sys.modules.get("__main__"), "__file__"):
    loader.install()  # an interactive session
