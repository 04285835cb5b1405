"""Fetching files of data sets."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys

__all__ = ["DATA_HOME", "download", "md5file"]

DATA_HOME = os.path.join(os.path.expanduser("~"), ".cache", "paddle", "dataset")


def md5file(fname: str) -> str:
    """The MD5 sum of a file, in hexadecimal digits."""
    with open(fname, "rb") as f:
        return hashlib.file_digest(f, "md5").hexdigest()


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """The path of the file of that address, fetched unless it lies in DATA_HOME already.

    Args:
        url (str): where it comes from.
        module_name (str): the folder in DATA_HOME.
        md5sum (str): what its MD5 sum must be.
        save_name (str, optional): its name; the last part of the address when None.

    Raises:
        RuntimeError: when three attempts gave no such file.
    """
    folder = os.path.join(DATA_HOME, module_name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, save_name or url.split("/")[-1])
    if os.path.exists(path) and md5file(path) == md5sum:
        return path
    from urllib.request import urlopen

    why: object = None
    for _ in range(3):
        sys.stderr.write(f"fetching {url}\n")
        part = f"{path}.{os.getpid()}.part"
        try:
            with urlopen(url, timeout=60) as source, open(part, "wb") as target:
                shutil.copyfileobj(source, target)
            found = md5file(part)
            if found == md5sum:
                os.replace(part, path)
                return path
            why = f"its MD5 sum is {found}, expected {md5sum}"
        except OSError as e:
            why = e
        finally:
            if os.path.exists(part):
                os.remove(part)
    raise RuntimeError(f"{url} could not be fetched in 3 attempts: {why}")
