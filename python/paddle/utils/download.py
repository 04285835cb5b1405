"""Download of files, cached in ~/.cache/paddle/hapi/weights (or below OAR_CACHE, PADDLE_HOME)."""

from __future__ import annotations

import os
import tarfile
import time
import zipfile

from paddle._basics.fetch import cache_home, fetch, is_whole

__all__ = ["get_weights_path_from_url"]

WEIGHTS_HOME = cache_home("hapi", "weights")


def is_url(path: str) -> bool:
    """Whether `path` is an http or https address.

    Examples:
        >>> from paddle.utils.download import is_url
        >>> is_url("https://example.org/a.pdparams"), is_url("a.pdparams")
        (True, False)
    """
    return path.startswith(("http://", "https://"))


def get_weights_path_from_url(url: str, md5sum: str | None = None) -> str:
    """The path of a weights file, downloaded unless it is cached.

    Args:
        url (str): the address.
        md5sum (str, optional): the expected MD5 sum.

    Raises:
        RuntimeError: if the file is not cached and the download fails.
    """
    return get_path_from_url(url, WEIGHTS_HOME, md5sum)


def _get_unique_endpoints(trainer_endpoints: list[str]) -> set[str]:
    """The first endpoint of each host, in the order of names: its process downloads for the host."""
    first: dict[str, str] = {}
    for endpoint in sorted(trainer_endpoints):
        first.setdefault(endpoint.partition(":")[0], endpoint)
    return set(first.values())


def _first_of_its_host() -> bool:
    """Whether this process downloads for its host; the others wait."""
    mine = os.getenv("PADDLE_CURRENT_ENDPOINT", "")
    endpoints = [e for e in os.getenv("PADDLE_TRAINER_ENDPOINTS", "").split(",") if e]
    hosts = {e.partition(":")[0] for e in endpoints}
    return mine.partition(":")[0] not in hosts or mine in _get_unique_endpoints(endpoints)


def get_path_from_url(url: str, root_dir: str, md5sum: str | None = None, check_exist: bool = True) -> str:
    """The path of a file, downloaded to a folder unless it is there; archives are unpacked next to it.

    Args:
        url (str): the address.
        root_dir (str): the folder.
        md5sum (str, optional): the expected MD5 sum.
        check_exist (bool): False downloads again even if the file exists.

    Returns:
        str: the file; for an archive the single file or folder in it, else a folder with the archive's name.

    Raises:
        AssertionError: for an invalid address.
        RuntimeError: if the file is not there and the download fails.
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
    """The path of an archive's content, unpacked if `extract`; other files are returned as they are."""
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
            archive.extractall(folder, filter="data")  # rejects paths outside of the folder
        elif extract:
            archive.extractall(folder)
        return found
