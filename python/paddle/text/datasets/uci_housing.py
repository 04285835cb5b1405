"""UCIHousing: house prices."""

from __future__ import annotations

import numpy as np

from paddle._basics.default_dtype import get_default_dtype
from paddle.dataset import uci_housing
from paddle.dataset.local_files import check_mode, local_file
from paddle.io import Dataset

__all__ = ["UCIHousing"]


class UCIHousing(Dataset):
    """House prices: (13 features, normalized by mean and range; [the price]).

    Args:
        data_file (str, optional): housing.data; it is downloaded when None.
        mode (str): "train" for the first four fifths, "test" for the rest.
        download (bool): whether the file may be downloaded.

    Raises:
        AssertionError: for another mode. RuntimeError: if the download fails.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> np.savetxt("housing.data", np.arange(140.0).reshape(10, 14))
        >>> houses = paddle.text.datasets.UCIHousing("housing.data", mode="test")
        >>> len(houses), houses[0][0].shape, houses[0][1].tolist()
        (2, (13,), [125.0])
    """

    def __init__(self, data_file: str | None = None, mode: str = "train", download: bool = True) -> None:
        super().__init__()
        self.mode = check_mode(mode, ("train", "test"))
        self.data_file = local_file("data_file", data_file, uci_housing.URL, uci_housing.MD5, "uci_housing", download)
        self.data = uci_housing.parts(self.data_file)[self.mode == "test"]
        self.dtype = get_default_dtype()

    def __getitem__(self, idx: int) -> tuple[np.ndarray, np.ndarray]:
        row = self.data[idx].astype(self.dtype)
        return row[:-1], row[-1:]

    def __len__(self) -> int:
        return len(self.data)
