"""Downloads: folder of the cache, mirror, progress, attempts that go on where the last one stopped, checksums."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

__all__: list[str] = []

ATTEMPTS = 3
#: seconds before the second attempt, and before the third
PAUSES = (1.0, 4.0)
_BLOCK = 1 << 20


class _Final(OSError):
    """An answer that another attempt would not change."""


def cache_home(*parts: str) -> str:
    """A folder below that of downloads: the environment variable OAR_CACHE or PADDLE_HOME, else ~/.cache/paddle.

    Examples:
        >>> from paddle._basics.fetch import cache_home
        >>> cache_home("dataset").endswith("dataset")
        True
    """
    home = os.environ.get("OAR_CACHE") or os.environ.get("PADDLE_HOME")
    return os.path.join(os.path.expanduser(home or os.path.join("~", ".cache", "paddle")), *parts)


def mirrored(url: str) -> str:
    """The address from which to read: with PADDLE_MIRROR the path of `url` below that address (or folder)."""
    mirror = os.environ.get("PADDLE_MIRROR", "").rstrip("/")
    if not mirror:
        return url
    base = mirror if "://" in mirror else "file://" + os.path.abspath(os.path.expanduser(mirror))
    return base + "/" + url.partition("://")[2].partition("/")[2]


def md5(fname: str) -> str:
    """The MD5 sum of a file, in hexadecimal digits."""
    with open(fname, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def is_whole(path: str, md5sum: str | None) -> bool:
    """Whether the file exists and has the MD5 sum, where one is given."""
    return os.path.isfile(path) and (md5sum is None or md5(path) == md5sum)


class _Progress:
    """The part that has arrived, on a terminal in one line."""

    def __init__(self, done: int, whole: int) -> None:
        self.done, self.whole = done, whole
        self.shown = sys.stderr.isatty()
        self.started, self.first = time.monotonic(), done

    def add(self, count: int) -> None:
        self.done += count
        if not self.shown:
            return
        rate = (self.done - self.first) / max(time.monotonic() - self.started, 1e-3) / 1e6
        part = f"{100 * self.done / self.whole:5.1f} % of {self.whole / 1e6:.1f} MB" if self.whole else ""
        sys.stderr.write(f"\r{part or f'{self.done / 1e6:.1f} MB'}, {rate:.1f} MB/s")
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\n")


def _read(address: str, part: str) -> None:
    """Appends to the file what is missing of it, or writes it anew where the server sends the whole."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    have = os.path.getsize(part)
    request = Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        source = urlopen(request, timeout=60)
    except HTTPError as error:
        if error.code == 416:  # nothing is missing, or the file has changed: begin anew
            os.truncate(part, 0)
        elif 400 <= error.code < 500 and error.code not in (408, 425, 429):
            raise _Final(f"HTTP {error.code} {error.reason}") from None
        raise
    except URLError as error:
        if address.startswith("file:"):  # a folder as mirror
            raise _Final(str(error.reason)) from None
        raise
    with source, open(part, "r+b") as target:
        resumed = have > 0 and getattr(source, "status", None) == 206
        if not resumed:
            have = 0
            target.truncate()
        target.seek(have)
        rest = int(source.headers.get("Content-Length") or 0)
        progress = _Progress(have, have + rest if rest else 0)
        try:
            while block := source.read(_BLOCK):
                target.write(block)
                progress.add(len(block))
        finally:
            progress.close()
        if progress.whole and progress.done < progress.whole:
            raise OSError(f"the connection ended after {progress.done} of {progress.whole} bytes")


@contextlib.contextmanager
def _locked(part: str) -> Iterator[Any]:
    """Context in which no other process writes the file, which is created."""
    with open(part, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(part):  # the process that had the lock has moved the file to its place
            with open(part, "ab"):
                pass
        yield


def fetch(url: str, path: str, md5sum: str | None = None) -> str:
    """The file `path`, downloaded from `url` (or the mirror) unless it exists.

    A part that has arrived stays as ``path.part``: the next attempt, also of a later process, goes on from there.

    Raises:
        RuntimeError: when the download fails; the message names the address, and the path at which to put the file by
            hand.
    """
    if is_whole(path, md5sum):
        return path
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    address, part = mirrored(url), f"{path}.part"
    why: object = None
    attempts = 0
    with _locked(part):
        while attempts < ATTEMPTS and not is_whole(path, md5sum):
            if attempts:
                time.sleep(PAUSES[attempts - 1])
            attempts += 1
            sys.stderr.write(f"fetching {address}\n")
            try:
                _read(address, part)
                if is_whole(part, md5sum):
                    os.replace(part, path)
                    return path
                why = f"its MD5 sum is {md5(part)}, expected {md5sum}"
                os.truncate(part, 0)
            except _Final as error:
                why = error
                break
            except OSError as error:
                why = error
        if os.path.exists(part) and (not os.path.getsize(part) or is_whole(path, md5sum)):
            os.remove(part)
    if why is None:
        return path  # by another process
    known = f" (MD5 {md5sum})" if md5sum else ""
    times = "one attempt" if attempts == 1 else f"{attempts} attempts"
    raise RuntimeError(
        f"{address} could not be fetched in {times}: {why}. "
        f"If you download the file{known} yourself: it belongs at {path}"
    )
