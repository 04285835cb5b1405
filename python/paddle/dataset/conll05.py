"""CoNLL 2005 semantic role labelling: readers of nine integer lists for each verb of a sentence.

They are the words, five words around the verb (each repeated to the length of the sentence), the verb likewise, marks
of those five, and the roles.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

from . import common

__all__ = ["test", "get_dict", "get_embedding"]

_ADDRESS = "http://paddlemodels.bj.bcebos.com/conll05st"
DATA_URL = _ADDRESS + "/conll05st-tests.tar.gz"
DATA_MD5 = "387719152ae52d60422c016e92a742fc"
WORDDICT_URL = _ADDRESS + "%2FwordDict.txt"
WORDDICT_MD5 = "ea7fb7d4c75cc6254716f0177a506baa"
VERBDICT_URL = _ADDRESS + "%2FverbDict.txt"
VERBDICT_MD5 = "0d2977293bbb6cbefab5b0f97db1e77c"
TRGDICT_URL = _ADDRESS + "%2FtargetDict.txt"
TRGDICT_MD5 = "d8c7f03ceb5fc2e5a0fa7503a4353751"
EMB_URL = _ADDRESS + "%2Femb"
EMB_MD5 = "bf436eb0faa1f6f9103017f8be57cdb7"

WORDS = "conll05st-release/test.wsj/words/test.wsj.words.gz"
PROPS = "conll05st-release/test.wsj/props/test.wsj.props.gz"
UNK_IDX = 0


def load_label_dict(filename: str) -> dict[str, int]:
    """Ids of labels from a file: B-x and I-x of each role in order, then O."""
    with open(filename) as file:
        roles = dict.fromkeys(line.strip()[2:] for line in file if line.strip().startswith(("B-", "I-")))
    labels = [f"{part}-{role}" for role in roles for part in "BI"]
    return {label: i for i, label in enumerate([*labels, "O"])}


def load_dict(filename: str) -> dict[str, int]:
    """The index of each line of a file."""
    with open(filename) as file:
        return {line.strip(): i for i, line in enumerate(file)}


def _labels(column: list[str]) -> list[str]:
    """B-x, I-x and O labels for a column of brackets such as (A0*, *, *)."""
    found, role, inside = [], "O", False
    for mark in column:
        if "(" in mark:
            role = mark[1 : mark.find("*")]
            inside = ")" not in mark
            found.append("B-" + role)
        elif mark == "*":
            found.append("I-" + role if inside else "O")
        elif mark == "*)":
            inside = False
            found.append("I-" + role)
        else:
            raise RuntimeError(f"Unexpected label: {mark}")
    return found


def sentences(path: str, words_name: str, props_name: str) -> Iterator[tuple[list[str], str, list[str]]]:
    """(words, verb, labels) for each verb of each sentence in two gzipped files of an archive."""
    with tarfile.open(path) as archive:
        files: list[Any] = [archive.extractfile(name) for name in (words_name, props_name)]
        with gzip.open(files[0]) as words_file, gzip.open(files[1]) as props_file:
            words: list[str] = []
            rows: list[list[str]] = []
            for word, marks in zip(words_file, props_file, strict=True):
                row = marks.decode().split()
                if row:
                    words.append(word.decode().strip())
                    rows.append(row)
                    continue
                if rows:
                    verbs, *columns = (list(column) for column in zip(*rows, strict=True))
                    for verb, column in zip((v for v in verbs if v != "-"), columns, strict=True):
                        yield words, verb, _labels(column)
                words, rows = [], []


def corpus_reader(data_path: str, words_name: str, props_name: str) -> Callable:
    """The reader of (words, verb, labels) for each verb of each sentence in two gzipped files of an archive."""
    return lambda: sentences(data_path, words_name, props_name)


def numbers(
    words: list[str], verb: str, labels: list[str], word_dict: Any, predicate_dict: Any, label_dict: Any
) -> tuple[list[int], ...]:
    """The nine lists of a sample."""
    count, place = len(words), labels.index("B-V")
    around = range(place - 2, place + 3)
    marks = [int(i in around) for i in range(count)]
    # 'bos' precedes the first word, 'eos' follows the last
    context = [words[i] if 0 <= i < count else "bos" if i < 0 else "eos" for i in around]
    return (
        [word_dict.get(w, UNK_IDX) for w in words],
        *([word_dict.get(w, UNK_IDX)] * count for w in context),
        [predicate_dict.get(verb)] * count,
        marks,
        [label_dict.get(label) for label in labels],
    )


def reader_creator(
    corpus_reader: Callable, word_dict: Any = None, predicate_dict: Any = None, label_dict: Any = None
) -> Callable:
    """The reader of nine integer lists, from a reader of (words, verb, labels)."""
    dictionaries = word_dict, predicate_dict, label_dict
    return lambda: (numbers(words, verb, labels, *dictionaries) for words, verb, labels in corpus_reader())


def get_dict() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """The ids of words, verbs and labels."""
    return (
        load_dict(common.download(WORDDICT_URL, "conll05st", WORDDICT_MD5)),
        load_dict(common.download(VERBDICT_URL, "conll05st", VERBDICT_MD5)),
        load_label_dict(common.download(TRGDICT_URL, "conll05st", TRGDICT_MD5)),
    )


def get_embedding() -> str:
    """The path of a file of word vectors."""
    return common.download(EMB_URL, "conll05st", EMB_MD5)


def test() -> Callable:
    """The reader of the test sentences; the training set is not free."""
    reader = corpus_reader(common.download(DATA_URL, "conll05st", DATA_MD5), WORDS, PROPS)
    return reader_creator(reader, *get_dict())


def fetch() -> None:
    """Downloads the files."""
    get_dict()
    get_embedding()
    common.download(DATA_URL, "conll05st", DATA_MD5)
