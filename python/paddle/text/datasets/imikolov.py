"""Imikolov: sentences of the Penn treebank."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset import imikolov
from paddle.dataset.local_files import check_mode, local_file
from paddle.io import Dataset

__all__ = ["Imikolov"]


class Imikolov(Dataset):
    """Sentences of the Penn treebank as numbers of words.

    `word_idx` has the number of each word, as bytes; '<s>', '<e>' and '<unk>' are texts.

    Args:
        data_file (str, optional): simple-examples.tgz; it is fetched when None.
        data_type (str): "NGRAM" for `window_size` words that follow each other, "SEQ" for a sentence behind its begin
            mark and before its end mark.
        window_size (int): with "SEQ" the most words of a sentence, 0 or less for any number.
        mode (str): "train" or "test".
        min_word_freq (int): words that occur so often, or less, have no number.
        download (bool): whether the file may be fetched.

    Raises:
        AssertionError: for other arguments. RuntimeError: when the file could not be fetched.
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
        # the archive's own test sentences, and not those of paddle.dataset.imikolov.test
        name = imikolov.NAME.format(self.mode)
        kind = getattr(imikolov.DataType, self.data_type)
        self.data = list(imikolov.samples(self.data_file, name, self.word_idx, window_size, kind))

    def word_count(self, f: Any, word_freq: Any = None) -> Any:
        """How often each word occurs in lines; see paddle.dataset.imikolov.word_count."""
        return imikolov.word_count(f, word_freq)

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        return tuple(np.array(field) for field in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)
