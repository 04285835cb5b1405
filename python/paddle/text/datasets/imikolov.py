"""Imikolov: language modelling on the Penn Treebank."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset import imikolov
from paddle.dataset.local_files import check_mode, local_file
from paddle.io import Dataset

__all__ = ["Imikolov"]


class Imikolov(Dataset):
    """Sentences of the Penn Treebank as word ids.

    `word_idx` maps words (bytes) to ids; the keys '<s>', '<e>' and '<unk>' are str.

    Args:
        data_file (str, optional): simple-examples.tgz; it is downloaded when None.
        data_type (str): "NGRAM" for `window_size` consecutive words, "SEQ" for (sentence after the start mark, sentence
            before the end mark).
        window_size (int): with "SEQ" the maximum number of words in a sentence, 0 or less for no limit.
        mode (str): "train" or "test".
        min_word_freq (int): words with at most this number of occurrences have no id.
        download (bool): whether the file may be downloaded.

    Raises:
        AssertionError: for other arguments. RuntimeError: if the download fails.
    """

    def __init__(
        self,
        data_file: str | None = None,
        data_type: str = "NGRAM",
        window_size: int = -1,
        mode: str = "train",
        min_word_freq: int = 50,
        download: bool = True,
    ) -> None:
        super().__init__()
        assert data_type.upper() in ("NGRAM", "SEQ"), f"data type should be 'NGRAM', 'SEQ', but got {data_type}"
        self.data_type = data_type.upper()
        self.mode = check_mode(mode, ("train", "test"))
        self.window_size = window_size
        self.min_word_freq = min_word_freq
        self.data_file = local_file("data_file", data_file, imikolov.URL, imikolov.MD5, "imikolov", download)
        self.word_idx: dict[Any, int] = imikolov.numbered_words(self.data_file, min_word_freq)
        # the test sentences of the archive, unlike paddle.dataset.imikolov.test
        name = imikolov.NAME.format(self.mode)
        kind = getattr(imikolov.DataType, self.data_type)
        self.data = list(imikolov.samples(self.data_file, name, self.word_idx, window_size, kind))

    def word_count(self, f: Any, word_freq: Any = None) -> Any:
        """The number of occurrences of each word; see paddle.dataset.imikolov.word_count."""
        return imikolov.word_count(f, word_freq)

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        return tuple(np.array(field) for field in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)
