"""Imdb: reviews of films."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset import imdb
from paddle.dataset.local_files import check_mode, local_file
from paddle.io import Dataset

__all__ = ["Imdb"]


class Imdb(Dataset):
    """Reviews of films, 25,000 to train with and as many to test: (numbers of words, [0 for praise or 1 for blame]).

    `word_idx` has the number of each word, as bytes; the last, '<unk>', stands for all others.

    Args:
        data_file (str, optional): aclImdb_v1.tar.gz; it is fetched when None.
        mode (str): "train" or "test".
        cutoff (int): words that occur so often, or less, in all reviews have no number.
        download (bool): whether the file may be fetched.

    Raises:
        AssertionError: for another mode. RuntimeError: when the file could not be fetched.
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
