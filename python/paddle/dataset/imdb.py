"""IMDB movie reviews: readers of (word ids, 0 for positive or 1 for negative)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from . import common
from .archives import members, numbered

__all__ = ["build_dict", "train", "test"]

URL = "https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
EVERY = re.compile(r"aclImdb/(train|test)/(pos|neg)/.*\.txt$")


def _file() -> str:
    return common.download(URL, "imdb", MD5)


def documents(path: str, pattern: Any) -> Iterator[list[bytes]]:
    """The words of each review whose name matches, in lower case, without punctuation."""
    dropped = string.punctuation.encode()
    for _, content in members(path, lambda name: bool(pattern.match(name))):
        yield content.read().rstrip(b"\n\r").translate(None, dropped).lower().split()


def numbered_words(path: str, pattern: Any, cutoff: int) -> dict[Any, int]:
    """Ids of the words (bytes) with more than `cutoff` occurrences; '<unk>' is last."""
    counts: Counter = Counter()
    for words in documents(path, pattern):
        counts.update(words)
    return numbered(counts, cutoff)


def labelled(path: str, pos_pattern: Any, neg_pattern: Any, word_idx: dict[Any, int]) -> list[tuple[list[int], int]]:
    """(word ids, label) of each review, positive ones first."""
    unknown = word_idx["<unk>"]
    found = []
    for label, pattern in enumerate((pos_pattern, neg_pattern)):
        found += [([word_idx.get(w, unknown) for w in words], label) for words in documents(path, pattern)]
    return found


def patterns(mode: str) -> tuple[Any, Any]:
    """Name patterns of positive and negative reviews."""
    praise, blame = (re.compile(rf"aclImdb/{mode}/{kind}/.*\.txt$") for kind in ("pos", "neg"))
    return praise, blame


def tokenize(pattern: Any) -> Iterator[list[bytes]]:
    """The words of each review whose name in the archive matches a compiled pattern."""
    return documents(_file(), pattern)


def build_dict(pattern: Any, cutoff: int) -> dict[Any, int]:
    """Ids of the words (bytes) with more than `cutoff` occurrences in reviews whose names match."""
    return numbered_words(_file(), pattern, cutoff)


def reader_creator(pos_pattern: Any, neg_pattern: Any, word_idx: dict[Any, int]) -> Callable:
    """The reader of reviews whose names match; see :func:`train`."""
    samples = labelled(_file(), pos_pattern, neg_pattern, word_idx)
    return lambda: iter(samples)


def train(word_idx: dict[Any, int]) -> Callable:
    """The reader of the 25,000 training reviews.

    Args:
        word_idx (dict): the result of :func:`word_dict`.
    """
    return reader_creator(*patterns("train"), word_idx)


def test(word_idx: dict[Any, int]) -> Callable:
    """The reader of the 25,000 test reviews; see :func:`train`."""
    return reader_creator(*patterns("test"), word_idx)


def word_dict() -> dict[Any, int]:
    """Ids of the words (bytes) with more than 150 occurrences in all reviews; '<unk>' is last."""
    return build_dict(EVERY, 150)


def fetch() -> None:
    """Downloads the file."""
    _file()
