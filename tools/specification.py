"""The specification data: names, signatures and operators of PaddlePaddle 2.0.2, in `spec/` (see its README).

The environment variable OAR_SPEC names another folder.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def find(name: str) -> Path:
    """The file `name` of the specification data.

    Raises:
        FileNotFoundError: when the folder has no such file.
    """
    folder = Path(os.environ.get("OAR_SPEC") or ROOT / "spec")
    if not (folder / name).is_file():
        raise FileNotFoundError(f"the specification data in {folder} have no file {name}")
    return folder / name


def resolve(name: str) -> Any:
    """The object with this full name.

    Raises:
        AttributeError, ImportError: when there is none.
    """
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ImportError(name)
