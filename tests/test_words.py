"""Retired words (docs/dev/style.md) do not occur in comments, docstrings, messages, documents and names."""

from __future__ import annotations

from pathlib import Path

import pytest
import words

#: Path -> words that stand for themselves there, with the reason in a comment. Upstream's texts and proper names only.
ALLOWED: dict[str, set[str]] = {}

#: Prefixes of paths whose findings do not count yet. Must stay empty.
PENDING: tuple[str, ...] = ()


def test_no_retired_word() -> None:
    found = []
    for path in words.tracked([]):
        if not path.exists():
            continue  # removed from the working tree, not yet from the index
        name = path.relative_to(words.ROOT).as_posix()
        if not name.startswith(PENDING or ("\0",)):
            allowed = ALLOWED.get(name, set())
            found += [
                f"{name}:{n}: {word}: {text}" for n, word, text in words.findings(path) if word.lower() not in allowed
            ]
    assert not found, "\n".join(found)


WORD = words.RETIRED.split()[0].partition("|")[0]


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("a.rs", f'// {WORD}\nlet a = "{WORD} is here";\nlet {WORD} = "{WORD}";\n', [1, 2, 3]),
        ("a.rs", f"let of_{WORD} = {WORD}le;\n", [1]),
        ("a.py", f'"""One\n\nand {WORD}: {WORD}."""\n{WORD} = 1  # `{WORD}` {WORD}\n', [3, 3, 4, 4]),
        ("a.py", f"x = of_{WORD}({WORD}le, '{WORD}')\n", [1]),
        ("a.md", f"{WORD.title()}.\n\n```\n{WORD}\n```\n", [1]),
        ("a.txt", f"{WORD}\n", []),
    ],
)
def test_findings(tmp_path: Path, name: str, text: str, expected: list[int]) -> None:
    """Comments, docstrings, messages and names count, other strings do not."""
    (tmp_path / name).write_text(text)
    assert sorted(line for line, _, _ in words.findings(tmp_path / name)) == expected
