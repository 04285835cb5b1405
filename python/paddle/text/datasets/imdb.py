"""Imdb: sentiment of movie reviews."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset import imdb
from paddle.dataset.local_files import check_mode, local_file
from paddle.io import Dataset

__all__ = ["Imdb"]


class Imdb(Dataset):
    """Movie reviews, 25,000 for training and for test: (word ids, [0 for positive or 1 for negative]).

    `word_idx` maps words (bytes) to ids; the last, '<unk>', represents all others.

    Args:
        data_file (str, optional): aclImdb_v1.tar.gz; it is downloaded when None.
        mode (str): "train" or "test".
        cutoff (int): words with at most this number of occurrences in all reviews have no id.
        download (bool): whether the file may be downloaded.

    Raises:
        AssertionError: for another mode. RuntimeError: if the download fails.
    """

    def __init__(
        self, data_file: str | None = None, mode: str = "train", cutoff: int = 150, download: bool = True
    ) -> None:
        super().__init__()
        self.mode = check_mode(mode, ("train", "test"))
        self.data_file = local_file("data_file", data_file, imdb.URL, imdb.MD5, "imdb", download)
        self.word_idx: dict[Any, int] = imdb.numbered_words(self.data_file, imdb.EVERY, cutoff)
        samples = imdb.labelled(self.data_file, *imdb.patterns(self.mode), self.word_idx)
        self.docs = [words for words, _ in samples]
        self.labels = [label for _, label in samples]

    def __getitem__(self, idx: int) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.docs[idx]), np.array([self.labels[idx]])

    def __len__(self) -> int:
        return len(self.docs)
