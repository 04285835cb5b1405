"""MovieLens 1M ratings: readers of the features of user and movie, and the rating."""

from __future__ import annotations

import functools
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import common

__all__ = [
    "train",
    "test",
    "get_movie_title_dict",
    "max_movie_id",
    "max_user_id",
    "age_table",
    "movie_categories",
    "max_job_id",
    "user_info",
    "movie_info",
]

age_table = [1, 18, 25, 35, 45, 50, 56]

URL = "https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip"
MD5 = "c4d9eecfca2ab87c1945afe126590906"


class MovieInfo:
    """A movie.

    Args:
        index (int|str): its id.
        categories (list): names.
        title (str): the title without the year.
    """

    def __init__(self, index: Any, categories: list[str], title: str) -> None:
        self.index = int(index)
        self.categories = categories
        self.title = title

    def numbers(self, categories: dict[str, int], words: dict[str, int]) -> list[Any]:
        """Its id, category ids and title word ids."""
        return [self.index, [categories[c] for c in self.categories], [words[w.lower()] for w in self.title.split()]]

    def value(self) -> list[Any]:
        """Its id, category ids and title word ids."""
        about = _about()
        return self.numbers(about.categories, about.title_words)

    def __str__(self) -> str:
        return f"<MovieInfo id({self.index}), title({self.title}), categories({self.categories})>"

    __repr__ = __str__


class UserInfo:
    """A user.

    Args:
        index (int|str): the id.
        gender (str): "M" or "F".
        age (int|str): one of age_table.
        job_id (int|str): the job's id.
    """

    def __init__(self, index: Any, gender: str, age: Any, job_id: Any) -> None:
        self.index = int(index)
        self.is_male = gender == "M"
        self.age = age_table.index(int(age))
        self.job_id = int(job_id)

    def value(self) -> list[int]:
        """The id, 0 for male and 1 for female, the index of the age in age_table, the job's id."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __str__(self) -> str:
        gender = "M" if self.is_male else "F"
        return f"<UserInfo id({self.index}), gender({gender}), age({age_table[self.age]}), job({self.job_id})>"

    __repr__ = __str__


class About:
    """The movies and users of an archive."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.movies: dict[int, MovieInfo] = {}
        self.users: dict[int, UserInfo] = {}
        titled = re.compile(r"^(.*)\((\d+)\)$")
        # ids in file order; those of real Paddle are in set order, which varies between runs
        words: dict[str, None] = {}
        categories: dict[str, None] = {}
        for number, title, kinds in self._rows("movies"):
            match = titled.match(title)
            if match is None:
                raise ValueError(f"{path}: the movie {title!r} has no year")
            movie = self.movies[int(number)] = MovieInfo(number, kinds.split("|"), match.group(1))
            categories.update(dict.fromkeys(movie.categories))
            words.update(dict.fromkeys(w.lower() for w in movie.title.split()))
        self.title_words = {w: i for i, w in enumerate(words)}
        self.categories = {c: i for i, c in enumerate(categories)}
        for number, gender, age, job, _ in self._rows("users"):
            self.users[int(number)] = UserInfo(number, gender, age, job)

    def _rows(self, name: str) -> Iterator[list[str]]:
        with zipfile.ZipFile(self.path) as archive, archive.open(f"ml-1m/{name}.dat") as file:
            for line in file:
                yield line.decode("latin").strip().split("::")

    def ratings(self, seed: int, test_ratio: float, is_test: bool) -> Iterator[tuple[UserInfo, MovieInfo, float]]:
        """Users, movies and ratings from -3 to 5 of the training or test part, split by numpy's global generator."""
        np.random.seed(seed)
        for user, movie, rating, _ in self._rows("ratings"):
            if (np.random.random() < test_ratio) == is_test:
                yield self.users[int(user)], self.movies[int(movie)], float(rating) * 2 - 5.0


@functools.cache
def _read(path: str) -> About:
    return About(path)


def _about() -> About:
    return _read(common.download(URL, "movielens", MD5))


def _reader(rand_seed: int = 0, test_ratio: float = 0.1, is_test: bool = False) -> Callable:
    def read() -> Iterator[list[Any]]:
        for user, movie, rating in _about().ratings(rand_seed, test_ratio, is_test):
            yield user.value() + movie.value() + [[rating]]

    return read


#: the reader of the training part (nine tenths); arguments `rand_seed` and `test_ratio`
train = functools.partial(_reader, is_test=False)
#: the reader of the test part
test = functools.partial(_reader, is_test=True)


def get_movie_title_dict() -> dict[str, int]:
    """Ids of the words in titles."""
    return _about().title_words


def max_movie_id() -> int:
    """The largest movie id."""
    return max(_about().movies)


def max_user_id() -> int:
    """The largest user id."""
    return max(_about().users)


def max_job_id() -> int:
    """The largest job id."""
    return max(user.job_id for user in _about().users.values())


def movie_categories() -> dict[str, int]:
    """Ids of the categories."""
    return _about().categories


def user_info() -> dict[int, UserInfo]:
    """The users by id."""
    return _about().users


def movie_info() -> dict[int, MovieInfo]:
    """The movies by id."""
    return _about().movies


def unittest() -> None:
    """Prints the number of ratings of both readers."""
    print(*(sum(1 for _ in reader()()) for reader in (train, test)))


def fetch() -> None:
    """Downloads the file."""
    common.download(URL, "movielens", MD5)
