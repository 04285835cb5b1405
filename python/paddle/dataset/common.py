"""Download of data set files, and splitting of readers into files."""

from __future__ import annotations

import glob
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from paddle._basics.fetch import cache_home, fetch
from paddle._basics.fetch import md5 as md5file

__all__ = ["DATA_HOME", "download", "md5file", "split", "cluster_files_reader"]

DATA_HOME = cache_home("dataset")


def download(url: str, module_name: str, md5sum: str | None, save_name: str | None = None) -> str:
    """The path of the file at `url`, downloaded unless it is in DATA_HOME.

    Args:
        url (str): the address.
        module_name (str): the subfolder of DATA_HOME.
        md5sum (str): the expected MD5 sum.
        save_name (str, optional): the file name; the last part of the address when None.

    Raises:
        RuntimeError: if three attempts fail; the message gives the expected path.
    """
    return fetch(url, os.path.join(DATA_HOME, module_name, save_name or url.split("/")[-1]), md5sum)


_fetched = download  # a parameter of the next function has the same name


def _check_exists_and_download(
    path: str | None, url: str, md5: str | None, module_name: str, download: bool = True
) -> str:
    """`path` if the file exists, else the downloaded file at `url`.

    Raises:
        ValueError: for a file that does not exist and must not be downloaded.
    """
    if path and os.path.exists(path):
        return path
    if path:
        raise ValueError(f"there is no file {path}")
    if not download:
        raise ValueError(f"path must be given if auto download is off; the file is available at {url}")
    return _fetched(url, module_name, md5)


def split(
    reader: Callable[[], Iterator],
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[list, Any], Any] = pickle.dump,
) -> None:
    """Writes the samples of a reader to files of `line_count` samples.

    Args:
        reader (callable): returns an iterator.
        line_count (int): samples per file.
        suffix (str): file name pattern with a placeholder for the index.
        dumper (callable): writes a list to an open file.

    Raises:
        TypeError: if dumper is not callable.

    Examples:
        >>> import glob, paddle
        >>> paddle.dataset.common.split(lambda: iter(range(5)), 2, suffix="part-%d")
        >>> sorted(glob.glob("part-*"))
        ['part-0', 'part-1', 'part-2']
    """
    if not callable(dumper):
        raise TypeError("dumper should be callable.")

    number = 0

    def write(samples: list) -> None:
        nonlocal number
        with open(suffix % number, "wb") as file:
            dumper(samples, file)
        number += 1

    samples: list = []
    for sample in reader():
        samples.append(sample)
        if len(samples) == line_count:
            write(samples)
            samples = []
    if samples:
        write(samples)


def cluster_files_reader(
    files_pattern: str, trainer_count: int, trainer_id: int, loader: Callable[[Any], list] = pickle.load
) -> Callable[[], Iterator]:
    """A reader of every `trainer_count`-th file written by :func:`split`, starting with file `trainer_id`.

    Args:
        files_pattern (str): glob pattern, such as "part-*".
        trainer_count (int): number of readers that share the files.
        trainer_id (int): index of this reader.
        loader (callable): reads the samples of an open file. The default unpickles, which executes code from the file:
            use it for trusted files only.

    Raises:
        TypeError: while reading, if loader is not callable.
    """

    def reader() -> Iterator:
        if not callable(loader):
            raise TypeError("loader should be callable.")
        for path in sorted(glob.glob(files_pattern))[trainer_id::trainer_count]:
            with open(path, "rb") as file:
                yield from loader(file)

    return reader
