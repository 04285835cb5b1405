"""Sphinx extension: the documents of the repository's root (ARCHITECTURE.md, ...) become pages of the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

NAMES = ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY")
ROOT_LINK = re.compile(r"\]\((?:\.\./)+(%s)\.md" % "|".join(NAMES))


def write_pages(app: Any) -> None:
    """Copies the documents to project/, with links relative to that folder."""
    source = Path(app.srcdir)
    folder = source / "project"
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        text = (source.parent / f"{name}.md").read_text()
        text = re.sub(r"\]\(docs/", "](../", text)
        page = folder / f"{name}.md"
        if not page.is_file() or page.read_text() != text:
            page.write_text(text)


def link_to_pages(app: Any, name: str, content: list[str]) -> None:
    """Links from pages of the site to these documents lead to their copies."""
    if not name.startswith("project/"):
        up = "../" * name.count("/")
        content[0] = ROOT_LINK.sub(rf"]({up}project/\1.md", content[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_to_pages)
    return {"parallel_read_safe": True}
