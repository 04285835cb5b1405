"""Files of weights, fetched once and kept under ~/.cache/paddle/hapi/weights."""

from __future__ import annotations

import os
import tarfile
import time
import zipfile

from paddle._basics.fetch import fetch, is_whole

__all__ = ["get_weights_path_from_url"]

WEIGHTS_HOME = os.path.join(os.path.expanduser("~"), ".cache", "paddle", "hapi", "weights")


def is_url(path: str) -> bool:
    """Whether it is an address of http or https.

    Examples:
        >>> from paddle.utils.download import is_url
        >>> is_url("https://example.org/a.pdparams"), is_url("a.pdparams")
        (True, False)
    """
    return path.startswith(("http://", "https://"))


def get_weights_path_from_url(url: str, md5sum: str | None = None) -> str:
    """The path of a file of weights, fetched unless it lies in the folder for them.

    Args:
        url (str): its address.
        md5sum (str, optional): what its MD5 sum must be.

    Raises:
        RuntimeError: when it is not there and could not be fetched.
    """
    return get_path_from_url(url, WEIGHTS_HOME, md5sum)


def _first_of_its_host() -> bool:
    """Of the processes of a host one fetches, and the others wait."""
    endpoints = sorted(os.getenv("PADDLE_TRAINER_ENDPOINTS", "").split(","))
    mine = os.getenv("PADDLE_CURRENT_ENDPOINT", "")
    host = mine.partition(":")[0]
    return next((e for e in endpoints if e.partition(":")[0] == host), mine) == mine


def get_path_from_url(url: str, root_dir: str, md5sum: str | None = None, check_exist: bool = True) -> str:
    """The path of a file, fetched to a folder unless it lies there; of what an archive holds, unpacked beside it.

    Args:
        url (str): its address.
        root_dir (str): the folder.
        md5sum (str, optional): what its MD5 sum must be.
        check_exist (bool): False fetches it even if it is there.

    Returns:
        str: the file; of an archive the one file or folder in it, else a folder of the archive's name.

    Raises:
        AssertionError: for what is no address.
        RuntimeError: when it is not there and could not be fetched.
    """
    assert is_url(url), f"downloading from {url} not a url"
    path = os.path.join(root_dir, os.path.basename(url))
    if not _first_of_its_host():
        while not is_whole(path, md5sum):
            time.sleep(1)
        return _unpacked(path, extract=False)
    if not check_exist and os.path.exists(path):
        os.remove(path)
    fetch(url, path, md5sum)
    return _unpacked(path, extract=True)


def _unpacked(path: str, extract: bool) -> str:
    """Where the content of an archive is, unpacked if asked for; anything else as it is."""
    opened: tarfile.TarFile | zipfile.ZipFile
    if tarfile.is_tarfile(path):
        opened = tarfile.open(path)
        names = opened.getnames()
    elif zipfile.is_zipfile(path):
        opened = zipfile.ZipFile(path)
        names = opened.namelist()
    else:
        return path
    with opened as archive:
        folder = os.path.dirname(path)
        tops = {os.path.normpath(name).split(os.sep)[0] for name in names}
        if len(tops) == 1:
            found = os.path.join(folder, next(iter(tops)))
        else:
            found = folder = os.path.join(folder, os.path.splitext(os.path.basename(path))[0])
        if extract and isinstance(archive, tarfile.TarFile):
            archive.extractall(folder, filter="data")  # nothing outside of the folder
        elif extract:
            archive.extractall(folder)
        return found
