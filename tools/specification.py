"""The specification data, which lie outside of the repository, and what its names stand for.

OAR_SPEC names their folder (default: shared/spec beside the checkout, or beside the checkout of a worktree).
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def find(name: str) -> Path | None:
    """The file `name` of the specification data, None where it is not there."""
    if "OAR_SPEC" in os.environ:
        path = Path(os.environ["OAR_SPEC"], name)
        return path if path.is_file() else None
    folders = [p / "shared" / "spec" for p in ROOT.parents]
    mark = ROOT / ".git"
    if mark.is_file():  # a worktree: "gitdir: CHECKOUT/.git/worktrees/NAME"
        folders += [p / "shared" / "spec" for p in Path(mark.read_text().split(": ", 1)[1].strip()).parents]
    return next((f / name for f in folders if (f / name).is_file()), None)


def resolve(name: str) -> Any:
    """The object with this full name; AttributeError or ImportError if it is not there."""
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
