"""Downloading files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from typing import Any

__all__: list[str] = []

ATTEMPTS = 3


def md5(fname: str) -> str:
    """The MD5 sum of a file, in hexadecimal digits."""
    with open(fname, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def is_whole(path: str, md5sum: str | None) -> bool:
    """Whether the file exists and has the MD5 sum, where one is given."""
    return os.path.isfile(path) and (md5sum is None or md5(path) == md5sum)


def _copy(source: Any, target: Any) -> None:
    """Copies a response to a file; shows the progress on a terminal."""
    whole = int(source.headers.get("Content-Length") or 0)
    if not (whole and sys.stderr.isatty()):
        shutil.copyfileobj(source, target)
        return
    done = 0
    while block := source.read(1 << 20):
        target.write(block)
        done += len(block)
        sys.stderr.write(f"\r{100 * done / whole:5.1f} % of {whole / 1e6:.1f} MB")
        sys.stderr.flush()
    sys.stderr.write("\n")


def fetch(url: str, path: str, md5sum: str | None = None) -> str:
    """The file `path`, downloaded from `url` unless it exists.

    Raises:
        RuntimeError: when the download fails; the message names the path at which to put the file by hand.
    """
    if is_whole(path, md5sum):
        return path
    from urllib.request import urlopen

    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    why: object = None
    for _ in range(ATTEMPTS):
        sys.stderr.write(f"fetching {url}\n")
        part = f"{path}.{os.getpid()}.part"
        try:
            with urlopen(url, timeout=60) as source, open(part, "wb") as target:
                _copy(source, target)
            if is_whole(part, md5sum):
                os.replace(part, path)
                return path
            why = f"its MD5 sum is {md5(part)}, expected {md5sum}"
        except OSError as e:
            why = e
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(part)
    known = f" (MD5 {md5sum})" if md5sum else ""
    raise RuntimeError(
        f"{url} could not be fetched in {ATTEMPTS} attempts: {why}. "
        f"If you download the file{known} yourself: it belongs at {path}"
    )
