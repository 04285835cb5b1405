"""WMT14: French to English translation."""

from __future__ import annotations

import numpy as np

from paddle.dataset import wmt14
from paddle.dataset.local_files import check_mode, local_file
from paddle.io import Dataset

__all__ = ["WMT14"]


class WMT14(Dataset):
    """French sentences and their English translations as word ids: the source with start and end marks, the target
    after the start mark, the target before the end mark.

    Args:
        data_file (str, optional): wmt14.tgz; it is downloaded when None.
        mode (str): "train", "test" or "gen".
        dict_size (int): number of words of each language with an id; positive.
        download (bool): whether the file may be downloaded.

    Raises:
        AssertionError: for other arguments. RuntimeError: if the download fails.
    """

    def __init__(
        self, data_file: str | None = None, mode: str = "train", dict_size: int = -1, download: bool = True
    ) -> None:
        super().__init__()
        self.mode = check_mode(mode, ("train", "test", "gen"))
        self.data_file = local_file("data_file", data_file, wmt14.URL_TRAIN, wmt14.MD5_TRAIN, "wmt14", download)
        assert dict_size > 0, f"dict_size should be set as positive number, got {dict_size}"
        self.dict_size = dict_size
        self.src_dict, self.trg_dict = wmt14.dictionaries(self.data_file, dict_size)
        self.data = list(wmt14.sentences(self.data_file, f"{self.mode}/{self.mode}", dict_size))

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        return tuple(np.array(field) for field in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)

    def get_dict(self, reverse: bool = False) -> tuple[dict, dict]:
        """Words to ids for both languages, or with `reverse` ids to words."""
        both: tuple[dict, dict] = self.src_dict, self.trg_dict
        if reverse:
            return {i: w for w, i in both[0].items()}, {i: w for w, i in both[1].items()}
        return both
