"""Writes the table of what 2.0 computes otherwise than 1.8 in docs/guides/fluid.md, from paddle/_basics/changes.py.

python docs/_ext/changes_table.py            rewrites the page
python docs/_ext/changes_table.py --check    fails where the page is out of date
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "fluid.md"
BEGIN, END = "<!-- begin: written by docs/_ext/changes_table.py -->", "<!-- end -->"


def table() -> str:
    """The rows as Markdown."""
    rows = runpy.run_path(str(ROOT / "python" / "paddle" / "_basics" / "changes.py"))["CHANGES"]
    lines = ["| what | 1.8 | 2.0 |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {row.what} | {row.before} | {row.now} |" for row in rows)])


def page(text: str) -> str:
    """The page with the table of today."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def main() -> int:
    text = PAGE.read_text()
    made = page(text)
    if "--check" in sys.argv:
        return int(made != text)
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
