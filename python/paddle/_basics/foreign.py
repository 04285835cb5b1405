"""Detects files of the package paddlepaddle in this package's folder: both install into the folder `paddle`."""

from __future__ import annotations

import os

__all__ = ["check"]

#: Folders of every paddlepaddle since 1.0 that this package does not have.
FOLDERS = ("libs", "proto")


def check(folder: str) -> None:
    """Raises ImportError if `folder`, that of the package `paddle`, holds modules of paddlepaddle."""
    found = [name for name in FOLDERS if os.path.isdir(os.path.join(folder, name))]
    if found:
        raise ImportError(
            f"{folder} holds files of another package, paddlepaddle ({', '.join(f'paddle/{name}' for name in found)}): "
            "oar-paddle and paddlepaddle both install as `paddle` and cannot share an environment. Either\n"
            "  pip uninstall -y paddlepaddle paddlepaddle-gpu && pip install --force-reinstall --no-deps oar-paddle\n"
            "or install oar-paddle in a virtual environment of its own:\n"
            "  python -m venv oar && oar/bin/pip install oar-paddle"
        )
