"""Files in archives and word dictionaries, for the dataset readers."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

__all__: list[str] = []


def members(path: str, takes: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    """(name, open file) of the files of a tar archive whose names `takes` accepts, in archive order."""
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and takes(member.name):
                content = archive.extractfile(member)
                assert content is not None
                yield member.name, content


def lines(path: str, name: str) -> Iterator[bytes]:
    """The lines of the file `name` of a tar archive; ValueError if there is none."""
    for _, content in members(path, lambda found: found == name or found == name.removeprefix("./")):
        yield from content
        return
    raise ValueError(f"{path} has no file {name}")


def _text(word: Any) -> str:
    return word.decode("latin1") if isinstance(word, bytes) else word


def numbered(counts: dict[Any, int], least: int) -> dict[Any, int]:
    """Ids of the words with more than `least` occurrences, by descending frequency; '<unk>' is last."""
    kept = sorted((word for word, n in counts.items() if n > least), key=lambda w: (-counts[w], _text(w)))
    return {word: i for i, word in enumerate([*kept, "<unk>"])}


def pairs(content: Iterable[bytes]) -> Iterator[tuple[list[str], list[str]]]:
    """The words of both sentences of each line, which are separated by a tab; other lines are skipped."""
    for line in content:
        both = line.decode().strip().split("\t")
        if len(both) == 2:
            yield both[0].split(), both[1].split()
