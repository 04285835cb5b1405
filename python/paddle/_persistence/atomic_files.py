"""Atomic replacement of one or several files: after a kill or a full disk, all are old or all are new.

The files of a save are written to a folder `.oar-<unique>.part` next to the files they replace. When all are complete,
one rename to `.oar-saved` commits them. They are then moved out one by one; a reader prefers files that are still in
the folder, and the next save completes an interrupted one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeVar

__all__: list[str] = []

_SAVED = ".oar-saved"
_PART_FOLDER = re.compile(r"\.oar-.*\.part")
#: temporary files of killed save operators: the name, numbers of process and thread
_PART_FILE = re.compile(r"(.+?)(\.\d+){1,2}\.part")
_TRIES = 20
#: seconds for which a reader waits for the folder's lock
_DEADLINE = 5.0

T = TypeVar("T")


def inside(folder: str, name: str) -> str:
    """The path of `name` in `folder`; ValueError for a name that leaves the folder."""
    plain = os.path.normpath(name)
    if not name or os.path.isabs(name) or plain.split(os.sep)[0] in (os.pardir, os.curdir, _SAVED) or "\0" in name:
        raise ValueError(f"a variable named {name!r} has no place in the folder {folder!r}")
    return os.path.join(folder, plain)


def _pending(folder: str) -> str | None:
    """The folder of a committed save with files that are not moved yet; None without one."""
    saved = os.path.join(folder, _SAVED)
    try:
        found = os.lstat(saved)
        # In a folder such as /tmp another user can create one.
        trusted = found.st_uid in (os.geteuid(), os.stat(folder).st_uid)
    except OSError:
        return None
    return saved if trusted and stat.S_ISDIR(found.st_mode) else None


def where(path: str, folder: str | None = None) -> str:
    """The path to read for `path`, a file of a save in `folder` (by default its own folder)."""
    folder = os.path.dirname(path) if folder is None else folder
    saved = _pending(folder or ".")
    if saved is not None:
        new = os.path.join(saved, os.path.relpath(path, folder or "."))
        if os.path.exists(new):
            return new
    return path


def file_names(folder: str) -> set[str]:
    """The names of the files in `folder` and below it, without incomplete saves."""
    found = set()
    for top in (folder, _pending(folder)):
        for root, folders, names in os.walk(top) if top else ():
            folders[:] = [f for f in folders if f != _SAVED and not _PART_FOLDER.fullmatch(f)]
            found |= {os.path.relpath(os.path.join(root, n), top).replace(os.sep, "/") for n in names}
    return {name for name in found if not _PART_FILE.fullmatch(name)}


def read_together(paths: list[str], read: Callable[[], T], folder: str | None = None) -> T:
    """The result of `read`, which reads `paths` (see :func:`where`); repeated if a save replaced one of them meanwhile.

    After some tries a lock keeps saves from moving files, because a process that saves in a loop could replace
    them each time.
    """
    folders = {os.path.realpath(folder or os.path.dirname(p) or ".") for p in paths}
    for attempt in range(_TRIES):
        with contextlib.ExitStack() as locks:
            if attempt >= _TRIES // 2:
                for name in sorted(folders):
                    locks.enter_context(_without_moves(name))
            before = [_identity(p, folder) for p in paths]
            places = [where(p, folder) for p in paths]
            try:
                result = read()
            except Exception:
                # A file moved to its final place is unchanged, but may have been missing at its old path.
                if before == [_identity(p, folder) for p in paths] and places == [where(p, folder) for p in paths]:
                    raise
                continue
            if before == [_identity(p, folder) for p in paths]:
                return result
    raise RuntimeError(f"load: {', '.join(paths)} are being written again and again: they cannot be read together")


def _identity(path: str, folder: str | None) -> tuple | None:
    try:
        found = os.stat(where(path, folder))
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


class Saving:
    """The files of one save, which are replaced together."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._names: list[str] = []

    def path(self, name: str) -> str:
        """The path to write the file `name` to; files are moved in the order of calls."""
        path, name = inside(self._folder, name), os.path.normpath(name)
        if name in self._names:
            raise ValueError(f"save: two parts of what is saved would be the file {name!r}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._names.append(name)
        return path

    def write(self, name: str, content: bytes) -> None:
        """Write `content` as the file `name`."""
        with open(self.path(name), "wb") as file:
            file.write(content)


@contextlib.contextmanager
def saving(folder: str) -> Iterator[Saving]:
    """A save of several files of `folder` (created when missing); the ``with`` block's end replaces them together."""
    folder = os.path.realpath(folder or ".")
    os.makedirs(folder, exist_ok=True)
    with _locked(folder):
        _finish(folder)
        _remove_stale(folder)
        made = tempfile.mkdtemp(prefix=".oar-", suffix=".part", dir=folder)
        lock = _lock(made)
    try:
        files = Saving(made)
        yield files
        _sync_with_modes(folder, made)
        with _locked(folder):
            _finish(folder)
            _remove_stale(folder, files._names)
            if len(files._names) == 1:
                _place(made, folder, files._names[0])
            elif files._names:
                _sync(made)
                os.rename(made, os.path.join(folder, _SAVED))
                _finish(folder, files._names)
            _sync(folder)
    finally:
        try:
            shutil.rmtree(made, ignore_errors=True)
        finally:
            os.close(lock)


@contextlib.contextmanager
def atomic_file(path) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` when it is complete; a link or device is written through."""
    path = os.path.realpath(os.fsdecode(path))
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            yield file
        return
    with saving(os.path.dirname(path)) as files, open(files.path(os.path.basename(path)), "wb") as file:
        yield file


# ---------------------------------------------------------------------- steps of a save


def _sync_with_modes(folder: str, made: str) -> None:
    """Sync all files to the disk, with the modes (and owners) of the files they replace."""
    for root, folders, names in os.walk(made):
        for name in names + folders:
            new = os.path.join(root, name)
            with contextlib.suppress(FileNotFoundError):
                old = os.stat(os.path.join(folder, os.path.relpath(new, made)))
                if stat.S_ISREG(old.st_mode):
                    with contextlib.suppress(PermissionError):
                        os.chown(new, old.st_uid, old.st_gid)
                    os.chmod(new, stat.S_IMODE(old.st_mode))
            _sync(new)
    # the same permissions as the folder, into which the files move
    os.chmod(made, stat.S_IMODE(os.stat(folder).st_mode))


def _finish(folder: str, names: list[str] | None = None) -> None:
    """Move the files of a committed save to their places, and remove its folder."""
    saved = _pending(folder)
    if saved is None:
        return
    for name in names if names is not None else sorted(file_names(saved)):
        _place(saved, folder, name)
    shutil.rmtree(saved)


def _place(source: str, folder: str, name: str) -> None:
    new, path = os.path.join(source, name), os.path.realpath(os.path.join(folder, name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(new, "rb") as from_, open(path, "wb") as to:
            shutil.copyfileobj(from_, to)
        return
    try:
        os.replace(new, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # a link to another filesystem
        with saving(os.path.dirname(path)) as files:
            shutil.copyfile(new, files.path(os.path.basename(path)))
        os.remove(new)


def _remove_stale(folder: str, names: list[str] | None = None) -> None:
    """Remove leftovers of killed processes, which hold no lock: folders of saves, or parts of files `names`."""

    def left(entry: os.DirEntry) -> bool:
        if names is None:
            return bool(_PART_FOLDER.fullmatch(entry.name)) and entry.is_dir(follow_symlinks=False)
        part = _PART_FILE.fullmatch(entry.name)
        return part is not None and part[1] in names and entry.is_file(follow_symlinks=False)

    with os.scandir(folder) as entries:
        found = [e for e in entries if left(e)]
    for entry in found:
        try:
            handle = os.open(entry.path, os.O_RDONLY)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if names is None:
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.remove(entry.path)
        except OSError:  # it is being written, or the filesystem has no locks
            continue
        finally:
            os.close(handle)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some filesystems cannot open folders
            raise
    finally:
        os.close(handle)


def _lock(path: str) -> int:
    """A descriptor with a lock on `path`, if the filesystem supports locks."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):
            os.close(handle)
            raise
    return handle


@contextlib.contextmanager
def _without_moves(folder: str) -> Iterator[None]:
    """Keeps saves from moving files into `folder`, once running moves finish (within `_DEADLINE` seconds)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # `read` reports the error
        yield
        return
    try:
        deadline = time.monotonic() + _DEADLINE
        while time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.0005)
            except OSError:  # the filesystem has no locks
                break
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    handle = _lock(folder)
    try:
        yield
    finally:
        os.close(handle)
