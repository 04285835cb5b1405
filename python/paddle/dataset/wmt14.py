"""WMT14 French to English translation: readers of three lists of word ids.

They are the source with start and end marks, the target after the start mark, and the target before the end mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from . import common
from .archives import members, pairs

__all__ = ["train", "test", "get_dict"]

URL_TRAIN = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz"
MD5_TRAIN = "0791583d57d5beb693b9414c5b36798c"
URL_MODEL = "http://paddlemodels.bj.bcebos.com/wmt%2Fwmt14.tgz"
MD5_MODEL = "0cb4a5366189b6acba876491c8724fa3"

START, END, UNK = "<s>", "<e>", "<unk>"
UNK_IDX = 2
#: maximum number of words in a sentence
LONGEST = 80


def _file() -> str:
    return common.download(URL_TRAIN, "wmt14", MD5_TRAIN)


def dictionaries(path: str, dict_size: int) -> tuple[dict[str, int], dict[str, int]]:
    """Ids of the first `dict_size` words of each language."""
    found = []
    for ending in ("src.dict", "trg.dict"):
        files = [
            {line.decode().strip(): i for i, line in enumerate(islice(content, dict_size))}
            for _, content in members(path, lambda name, ending=ending: name.endswith(ending))  # type: ignore[misc]
        ]
        assert len(files) == 1, f"{path} has {len(files)} files that end in {ending}, expected one"
        found += files
    return found[0], found[1]


def sentences(path: str, file_name: str, dict_size: int) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """The samples of the files of the archive whose names end in `file_name`."""
    source_words, target_words = dictionaries(path, dict_size)
    for _, content in members(path, lambda name: name.endswith(file_name)):
        for source, target in pairs(content):
            ids = [source_words.get(w, UNK_IDX) for w in [START, *source, END]]
            following = [target_words.get(w, UNK_IDX) for w in target]
            if len(ids) <= LONGEST and len(following) <= LONGEST:
                yield ids, [target_words[START], *following], [*following, target_words[END]]


def reader_creator(tar_file: str, file_name: str, dict_size: int) -> Callable:
    """The reader of the files of an archive whose names end in `file_name`."""
    return lambda: sentences(tar_file, file_name, dict_size)


def train(dict_size: int) -> Callable:
    """The reader of the training sentences.

    Args:
        dict_size (int): number of words with an id, in each language.
    """
    return reader_creator(_file(), "train/train", dict_size)


def test(dict_size: int) -> Callable:
    """The reader of the test sentences; see :func:`train`."""
    return reader_creator(_file(), "test/test", dict_size)


def gen(dict_size: int) -> Callable:
    """The reader of the sentences for generation; see :func:`train`."""
    return reader_creator(_file(), "gen/gen", dict_size)


def get_dict(dict_size: int, reverse: bool = True) -> tuple[dict, dict]:
    """Ids to words of both languages, or with reverse=False words to ids."""
    both: tuple[dict, dict] = dictionaries(_file(), dict_size)
    if reverse:
        return {i: w for w, i in both[0].items()}, {i: w for w, i in both[1].items()}
    return both


def fetch() -> None:
    """Downloads the files."""
    _file()
    common.download(URL_MODEL, "wmt14", MD5_MODEL)
