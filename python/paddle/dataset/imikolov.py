"""Sentences of the Penn treebank as word numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from . import common

__all__ = ["train", "test", "build_dict"]

URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"
_TRAIN = "./simple-examples/data/ptb.train.txt"
_TEST = "./simple-examples/data/ptb.valid.txt"


class DataType:
    """What a sample is."""

    #: n words that follow each other
    NGRAM = 1
    #: a sentence behind its begin mark, and before its end mark
    SEQ = 2


def _sentences(name: str):
    import tarfile

    with tarfile.open(common.download(URL, "imikolov", MD5)) as archive:
        content = archive.extractfile(name)
        if content is None:
            raise ValueError(f"{name} is no file in {URL}")
        for line in content:
            yield line.decode().split()


def build_dict(min_word_freq: int = 50) -> dict[str, int]:
    """The number of each word that occurs more than `min_word_freq` times, common ones first; '<unk>' comes last."""
    counts: Counter[str] = Counter()
    for name in (_TRAIN, _TEST):
        for words in _sentences(name):
            counts.update([*words, "<s>", "<e>"])
    counts.pop("<unk>", None)
    kept = sorted((w for w, n in counts.items() if n > min_word_freq), key=lambda w: (-counts[w], w))
    return {word: i for i, word in enumerate([*kept, "<unk>"])}


def _reader(name: str, word_idx: dict[str, int], n: int, data_type: int) -> Callable:
    unknown = word_idx["<unk>"]

    def ids(words: list[str]) -> list[int]:
        return [word_idx.get(w, unknown) for w in words]

    def reader():
        for words in _sentences(name):
            if data_type == DataType.NGRAM:
                assert n > -1, "Invalid gram length"
                line = ids(["<s>", *words, "<e>"])
                for end in range(n, len(line) + 1):
                    yield tuple(line[end - n : end])
            elif data_type == DataType.SEQ:
                source, target = ids(["<s>", *words]), ids([*words, "<e>"])
                if n <= 0 or len(source) <= n:
                    yield source, target
            else:
                raise AssertionError("Unknow data type")

    return reader


def train(word_idx: dict[str, int], n: int, data_type: int = DataType.NGRAM) -> Callable:
    """The reader of the training sentences.

    Args:
        word_idx (dict): what :func:`build_dict` gave.
        n (int): the words of a sample; with SEQ the most words of a sentence (0 for any number).
        data_type (int): a DataType.
    """
    return _reader(_TRAIN, word_idx, n, data_type)


def test(word_idx: dict[str, int], n: int, data_type: int = DataType.NGRAM) -> Callable:
    """The reader of the test sentences; arguments as of :func:`train`."""
    return _reader(_TEST, word_idx, n, data_type)


def fetch() -> None:
    """Fetch the file."""
    common.download(URL, "imikolov", MD5)
