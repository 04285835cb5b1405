"""WMT16: English-German translation."""

from __future__ import annotations

import numpy as np

from paddle.dataset import wmt16
from paddle.dataset.local_files import check_mode, local_file
from paddle.io import Dataset

__all__ = ["WMT16"]


class WMT16(Dataset):
    """English and German sentences as word ids: the source with start and end marks, the target after the start mark,
    the target before the end mark. Dictionaries are cached in the data set folder.

    Args:
        data_file (str, optional): wmt16.tar.gz; it is downloaded when None.
        mode (str): "train", "test" or "val".
        src_dict_size, trg_dict_size (int): number of words of each language with an id, including three marks;
            positive.
        lang (str): the source language, "en" or "de".
        download (bool): whether the file may be downloaded.

    Raises:
        AssertionError, ValueError: for other arguments. RuntimeError: if the download fails.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        src_dict_size: int = -1,
        trg_dict_size: int = -1,
        lang: str = "en",
        download: bool = True,
    ) -> None:
        super().__init__()
        self.mode = check_mode(mode, ("train", "test", "val"))
        other = wmt16.check_language(lang)
        self.data_file = local_file("data_file", data_file, wmt16.DATA_URL, wmt16.DATA_MD5, "wmt16", download)
        for size in (src_dict_size, trg_dict_size):
            assert size > 0, f"dict_size should be set as positive number, got {size}"
        self.lang = lang
        self.src_dict_size = wmt16.size_of(lang, src_dict_size)
        self.trg_dict_size = wmt16.size_of(other, trg_dict_size)
        self.src_dict = wmt16.dictionary(self.data_file, self.src_dict_size, lang)
        self.trg_dict = wmt16.dictionary(self.data_file, self.trg_dict_size, other)
        self.data = list(wmt16.sentences(self.data_file, f"wmt16/{self.mode}", self.src_dict, self.trg_dict, lang))

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        return tuple(np.array(field) for field in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)

    def get_dict(self, lang: str, reverse: bool = False) -> dict:
        """Words to ids for a language, or with `reverse` ids to words."""
        wmt16.check_language(lang)
        words = self.src_dict if lang == self.lang else self.trg_dict
        return {i: w for w, i in words.items()} if reverse else words
