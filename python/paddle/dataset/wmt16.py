"""WMT16 English-German translation: readers of three lists of word ids.

They are the source with start and end marks, the target after the start mark, and the target before the end mark.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator

from . import common
from .archives import lines, pairs

__all__ = ["train", "test", "validation", "fetch", "get_dict"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz"
DATA_MD5 = "0c38be43600334966403524a40dcd81e"
TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220
START_MARK, END_MARK, UNK_MARK = "<s>", "<e>", "<unk>"


def _file() -> str:
    return common.download(DATA_URL, "wmt16", DATA_MD5, "wmt16.tar.gz")


def check_language(lang: str) -> str:
    """The other language; ValueError unless "en" or "de"."""
    if lang not in ("en", "de"):
        raise ValueError(f"An error language type. Only support: en (for English); de(for Germany), got {lang!r:.200}")
    return "de" if lang == "en" else "en"


def size_of(lang: str, dict_size: int) -> int:
    """The size of a dictionary: `dict_size`, limited to the available words."""
    return min(dict_size, TOTAL_EN_WORDS if lang == "en" else TOTAL_DE_WORDS)


def dictionary_path(lang: str, dict_size: int) -> str:
    """The cache path of a dictionary."""
    return os.path.join(common.DATA_HOME, "wmt16", f"{lang}_{dict_size}.dict")


def _count(path: str, dict_size: int, lang: str) -> list[str]:
    counts: Counter[str] = Counter()
    for pair in pairs(lines(path, "wmt16/train")):
        counts.update(pair[0 if lang == "en" else 1])
    common_ones = sorted(counts, key=lambda w: -counts[w])  # equally frequent words in order of occurrence
    return [START_MARK, END_MARK, UNK_MARK, *common_ones][:dict_size]


def dictionary(path: str, dict_size: int, lang: str) -> dict[str, int]:
    """Ids of the most frequent words of a language in the archive's training sentences."""
    kept = dictionary_path(lang, dict_size)
    words: list[str] = []
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            words = file.read().split("\n")[:-1]
    if len(words) != dict_size:
        words = _count(path, dict_size, lang)
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with open(kept, "w", encoding="utf-8") as file:
            file.write("".join(word + "\n" for word in words))
    return {word: i for i, word in enumerate(words)}


def sentences(
    path: str, name: str, source_words: dict[str, int], target_words: dict[str, int], src_lang: str
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """The samples of a file of the archive."""
    # the marks have the same ids in both languages
    start, end, unknown = (source_words[mark] for mark in (START_MARK, END_MARK, UNK_MARK))
    for pair in pairs(lines(path, name)):
        source, target = pair if src_lang == "en" else pair[::-1]
        ids = [source_words.get(w, unknown) for w in source]
        following = [target_words.get(w, unknown) for w in target]
        yield [start, *ids, end], [start, *following], [*following, end]


def reader_creator(tar_file: str, file_name: str, src_dict_size: int, trg_dict_size: int, src_lang: str) -> Callable:
    """The reader of the file `file_name` of the archive; see :func:`train`."""

    def reader() -> Iterator[tuple[list[int], list[int], list[int]]]:
        source_words = dictionary(tar_file, src_dict_size, src_lang)
        target_words = dictionary(tar_file, trg_dict_size, check_language(src_lang))
        return sentences(tar_file, file_name, source_words, target_words, src_lang)

    return reader


def _reader(part: str, src_dict_size: int, trg_dict_size: int, src_lang: str) -> Callable:
    sizes = size_of(src_lang, src_dict_size), size_of(check_language(src_lang), trg_dict_size)
    return reader_creator(_file(), f"wmt16/{part}", *sizes, src_lang)


def train(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Callable:
    """The reader of the training sentences.

    Args:
        src_dict_size, trg_dict_size (int): number of words of each language with an id, including three marks.
        src_lang (str): the source language, "en" or "de".

    Raises:
        ValueError: for another language.
    """
    return _reader("train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Callable:
    """The reader of the test sentences; see :func:`train`."""
    return _reader("test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Callable:
    """The reader of the validation sentences; see :func:`train`."""
    return _reader("val", src_dict_size, trg_dict_size, src_lang)


def get_dict(lang: str, dict_size: int, reverse: bool = False) -> dict:
    """Words to ids of a language, or with `reverse` ids to words; requires an earlier call of a reader.

    Raises:
        AssertionError: if no reader has built the dictionary.
    """
    dict_size = size_of(lang, dict_size)
    assert os.path.exists(dictionary_path(lang, dict_size)), (
        "Word dictionary does not exist: call paddle.dataset.wmt16.train, test or validation, and read, first"
    )
    words = dictionary(os.path.join(common.DATA_HOME, "wmt16", "wmt16.tar.gz"), dict_size, lang)
    return {i: w for w, i in words.items()} if reverse else words


def fetch() -> None:
    """Downloads the file."""
    _file()
