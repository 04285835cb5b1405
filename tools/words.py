"""Words that the style guide retires, found in comments, docstrings, messages, documents and names.

    python tools/words.py                  every tracked source and document
    python tools/words.py rust/core docs   these folders or files

Prints `file:line: word: text` for each finding; the exit status is 1 where there is one. The rules and the terms that
replace these words are in docs/dev/style.md.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# People as subjects, and terms of a private dialect. One alternative a line; a word matches whole.
RETIRED = """
who|whoever|whom|nobody|somebody|anybody
told|tell|tells
beside
twin|twins
stranger|strangers
kin
mailbox|doorstep
reckon|reckons|reckoned
hears|overheard
is asked for|are asked for|asked for by
of these there (?:is|are)
all the same
by turns
as it were
in company
comes to nothing
gives for
has got
house rules
seam|seams
"""
PATTERN = re.compile(r"\b(?:%s)\b" % "|".join(line for line in RETIRED.split("\n") if line), re.I)

# Words that are no part of a name in code (`told_by`). Other retired words occur in names of Python and Paddle.
NAMES = set("who whoever nobody somebody anybody told beside twin twins stranger kin mailbox doorstep reckon".split())
NAME = re.compile(r"[A-Za-z_]\w*")
NAMED = re.compile(r"(?<![^\W_])(?:%s)(?![^\W_])" % "|".join(sorted(NAMES)), re.I)

# Names of files, code and upstream's own texts, where a word stands for itself.
CODE_SPAN = re.compile(r"`[^`\n]*`|https?://\S+|\$[^$\n]*\$")

RUST_STRING = re.compile(r'r(#*)".*?"\1|"(?:\\.|[^"\\])*"', re.S)
RUST_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|" + RUST_STRING.pattern + r"|'(?:\\[^']+|[^\\'])'", re.S)


def rust_texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment, and of each string that holds a space (a message)."""
    for found in RUST_TOKEN.finditer(source):
        text = found[0]
        if text.startswith("/") or (text[0] in '"r' and " " in text):
            yield source.count("\n", 0, found.start()) + 1, text


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment, docstring, and string that holds a space."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def document_texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each line outside of fenced code."""
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, line


READERS = {".rs": rust_texts, ".py": python_texts, ".pyi": python_texts, ".md": document_texts}


def names(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of each name in code, outside of comments and strings, that has a retired word as a part."""
    if not NAMED.search(source):
        return
    if path.suffix == ".rs":
        blank = RUST_TOKEN.sub(lambda found: "\n" * found[0].count("\n"), source)
        for number, line in enumerate(blank.split("\n"), 1):
            yield from ((number, name) for name in NAME.findall(line) if NAMED.search(name))
    elif path.suffix in (".py", ".pyi"):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME and NAMED.search(token.string):
                yield token.start[0], token.string


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, retired word, line of text) for each finding in one file."""
    reader = READERS.get(path.suffix)
    if reader is None:
        return
    source = path.read_text()
    for number, name in names(path, source):
        yield number, name, "a name in code"
    for start, text in reader(source):
        for offset, line in enumerate(text.split("\n")):
            for found in PATTERN.finditer(CODE_SPAN.sub("``", line)):
                yield start + offset, found[0], line.strip()


def tracked(places: list[str]) -> list[Path]:
    """The tracked files below `places`, without the specification's data and texts that quote retired words."""
    listed = subprocess.run(["git", "ls-files", "--", *places], cwd=ROOT, capture_output=True, text=True, check=True)
    own = {"tools/words.py", "docs/dev/style.md", "docs/dev/glossary.md"}
    return [ROOT / name for name in listed.stdout.split() if name not in own and not name.startswith("spec/")]


def main(places: list[str]) -> int:
    count = 0
    for path in tracked(places):
        for line, word, text in findings(path):
            print(f"{path.relative_to(ROOT)}:{line}: {word}: {text[:110]}")
            count += 1
    if count:
        print(f"{count} retired words")
    return bool(count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
