"""Movielens: movie ratings."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.dataset import movielens
from paddle.dataset.local_files import check_mode, local_file
from paddle.io import Dataset

__all__ = ["Movielens"]


class Movielens(Dataset):
    """Movie ratings (MovieLens 1M): the user's id, gender, age and job, the movie's id, categories and title words, and
    the rating, from -3 to 5.

    Args:
        data_file (str, optional): ml-1m.zip; it is downloaded when None.
        mode (str): "train" or "test".
        test_ratio (float): fraction of the ratings used for test.
        rand_seed (int): seed of numpy's global generator, which draws the split.
        download (bool): whether the file may be downloaded.

    Raises:
        AssertionError: for another mode. RuntimeError: if the download fails.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        test_ratio: float = 0.1,
        rand_seed: int = 0,
        download: bool = True,
    ) -> None:
        super().__init__()
        self.mode = check_mode(mode, ("train", "test"))
        self.test_ratio = test_ratio
        self.rand_seed = rand_seed
        self.data_file = local_file("data_file", data_file, movielens.URL, movielens.MD5, "sentiment", download)
        about = movielens.About(self.data_file)
        self.movie_info, self.user_info = about.movies, about.users
        self.movie_title_dict, self.categories_dict = about.title_words, about.categories
        self.data: list[list[Any]] = []
        for user, movie, rating in about.ratings(rand_seed, test_ratio, self.mode == "test"):
            index, *lists = movie.numbers(self.categories_dict, self.movie_title_dict)
            self.data.append([*([n] for n in user.value()), [index], *lists, [rating]])

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        return tuple(np.array(field) for field in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)
