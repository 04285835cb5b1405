"""Files of data sets: where they are kept, how they are fetched."""
from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import urllib.request

__all__ = ["DATA_HOME", "download", "md5file"]

DATA_HOME = os.path.join(os.path.expanduser("~"), ".cache", "paddle", "dataset")


def md5file(fname: str) -> str:
    """The MD5 sum of a file, in hexadecimal digits."""
    with open(fname, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """The path of a file of `DATA_HOME`, fetched from `url` unless it is there with that sum.

    Raises:
        RuntimeError: when three attempts failed.
    """
    folder = os.path.join(DATA_HOME, module_name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, save_name or url.rsplit("/", 1)[-1])
    error: Exception | None = None
    for _ in range(3):
        if os.path.exists(path) and md5file(path) == md5sum:
            return path
        sys.stderr.write(f"Cache file {path} not found, downloading {url}\n")
        part = None
        try:
            with urllib.request.urlopen(url, timeout=60) as source:
                with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                    part = file.name
                    shutil.copyfileobj(source, file)
            os.replace(part, path)  # never half a file under its name
        except OSError as e:
            error = e
            if part is not None and os.path.exists(part):
                os.remove(part)
    if os.path.exists(path) and md5file(path) == md5sum:
        return path
    raise RuntimeError(f"Cannot download {url} within retry limit 3") from error
