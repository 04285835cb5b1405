"""Penn Treebank sentences: readers of word ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import common
from .archives import lines, numbered

__all__ = ["train", "test", "build_dict"]

URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"
NAME = "./simple-examples/data/ptb.{}.txt"


class DataType:
    """Types of samples."""

    #: n consecutive words
    NGRAM = 1
    #: (sentence after the start mark, sentence before the end mark)
    SEQ = 2


def _file() -> str:
    return common.download(URL, "imikolov", MD5)


def word_count(f: Iterable[Any], word_freq: Any = None) -> Any:
    """Counts the words in lines, with '<s>' and '<e>' once per line.

    Args:
        f (iterable): lines, bytes or str.
        word_freq (dict, optional): counts to add to.
    """
    counts = Counter() if word_freq is None else word_freq
    for line in f:
        for word in (*line.strip().split(), "<s>", "<e>"):
            counts[word] = counts.get(word, 0) + 1
    return counts


def numbered_words(path: str, min_word_freq: int) -> dict[Any, int]:
    """Ids of the words (bytes) with more occurrences than that; marks are str, '<unk>' is last."""
    counts = word_count(lines(path, NAME.format("valid")), word_count(lines(path, NAME.format("train"))))
    counts.pop("<unk>", None)
    return numbered(counts, min_word_freq)


def samples(path: str, name: str, word_idx: dict[Any, int], n: int, data_type: int) -> Iterator[tuple]:
    """The samples of a file of the archive; see :func:`train`."""
    unknown = word_idx["<unk>"]

    def ids(words: list[Any]) -> list[int]:
        return [word_idx.get(w, unknown) for w in words]

    for line in lines(path, name):
        words: list[Any] = line.strip().split()
        if data_type == DataType.NGRAM:
            assert n > -1, f"Invalid gram length: {n}"
            whole = ids(["<s>", *words, "<e>"])
            for end in range(n, len(whole) + 1):
                yield tuple(whole[end - n : end])
        elif data_type == DataType.SEQ:
            source, target = ids(["<s>", *words]), ids([*words, "<e>"])
            if n <= 0 or len(source) <= n:
                yield source, target
        else:
            raise AssertionError(f"Unknow data type: {data_type!r:.200}")


def build_dict(min_word_freq: int = 50) -> dict[Any, int]:
    """Ids of the words with more than `min_word_freq` occurrences, by descending frequency; '<unk>' is last."""
    return numbered_words(_file(), min_word_freq)


def reader_creator(filename: str, word_idx: dict[Any, int], n: int, data_type: int) -> Callable:
    """The reader of the file `filename` of the archive; see :func:`train`."""
    path = _file()
    return lambda: samples(path, filename, word_idx, n, data_type)


def train(word_idx: dict[Any, int], n: int, data_type: int = DataType.NGRAM) -> Callable:
    """The reader of the training sentences.

    Args:
        word_idx (dict): the result of :func:`build_dict`.
        n (int): words per sample; with SEQ the maximum number of words in a sentence (0: no limit).
        data_type (int): a DataType.
    """
    return reader_creator(NAME.format("train"), word_idx, n, data_type)


def test(word_idx: dict[Any, int], n: int, data_type: int = DataType.NGRAM) -> Callable:
    """The reader of the test sentences; see :func:`train`."""
    return reader_creator(NAME.format("valid"), word_idx, n, data_type)


def fetch() -> None:
    """Downloads the file."""
    _file()
