"""Fetching files of data sets, and cutting readers into files."""

from __future__ import annotations

import glob
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from paddle._basics.fetch import fetch
from paddle._basics.fetch import md5 as md5file

__all__ = ["DATA_HOME", "download", "md5file", "split", "cluster_files_reader"]

DATA_HOME = os.path.join(os.path.expanduser("~"), ".cache", "paddle", "dataset")


def download(url: str, module_name: str, md5sum: str | None, save_name: str | None = None) -> str:
    """The path of the file of that address, fetched unless it lies in DATA_HOME already.

    Args:
        url (str): where it comes from.
        module_name (str): the folder in DATA_HOME.
        md5sum (str): what its MD5 sum must be.
        save_name (str, optional): its name; the last part of the address when None.

    Raises:
        RuntimeError: when three attempts gave no such file; the text says where it belongs.
    """
    return fetch(url, os.path.join(DATA_HOME, module_name, save_name or url.split("/")[-1]), md5sum)


_fetched = download  # a parameter of the next function has the same name


def _check_exists_and_download(
    path: str | None, url: str, md5: str | None, module_name: str, download: bool = True
) -> str:
    """`path` where there is such a file, else the file of that address.

    Raises:
        ValueError: for a file that is not there, and that may not be fetched.
    """
    if path and os.path.exists(path):
        return path
    if path:
        raise ValueError(f"there is no file {path}")
    if not download:
        raise ValueError(f"a path must be given where auto download is off; the file is to be had at {url}")
    return _fetched(url, module_name, md5)


def split(
    reader: Callable[[], Iterator],
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[list, Any], Any] = pickle.dump,
) -> None:
    """Writes the samples of a reader to files of `line_count` each.

    Args:
        reader (callable): gives an iterator.
        line_count (int): samples of a file.
        suffix (str): the files' names, with a place for their number.
        dumper (callable): writes a list to an open file.

    Raises:
        TypeError: when dumper cannot be called.

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
    """A reader of every `trainer_count`-th of some files that :func:`split` wrote, from file `trainer_id` on.

    Args:
        files_pattern (str): what the names match, such as "part-*".
        trainer_count (int): readers that share the files.
        trainer_id (int): which of them this is.
        loader (callable): the samples of an open file. The default runs what the file says: only for files of yours.

    Raises:
        TypeError: while reading, when loader cannot be called.
    """

    def reader() -> Iterator:
        if not callable(loader):
            raise TypeError("loader should be callable.")
        for path in sorted(glob.glob(files_pattern))[trainer_id::trainer_count]:
            with open(path, "rb") as file:
                yield from loader(file)

    return reader
