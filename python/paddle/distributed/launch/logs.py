"""Log files of processes, and the output of rank 0 on the terminal."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

from .args import LaunchError

# How much of the end of a log is printed for a process that failed.
END_LINES, END_BYTES = 40, 16 << 10


class Log:
    """A log file of one process: the process writes it, the launcher reads it."""

    def __init__(self, folder: str, name: str, append: bool):
        self.path = os.path.join(folder, name)
        try:
            self.file: BinaryIO = open(self.path, "ab" if append else "wb", buffering=0)  # noqa: SIM115
            self._reader: BinaryIO = open(self.path, "rb", buffering=0)  # noqa: SIM115
        except OSError as e:
            raise LaunchError(f"cannot write the log {self.path}: {e.strerror}") from None
        self.start = self._at = self.file.seek(0, os.SEEK_END)

    def mark(self) -> int:
        """The current end of the log."""
        return os.fstat(self._reader.fileno()).st_size

    def read(self, since: int, most: int) -> bytes:
        return os.pread(self._reader.fileno(), most, since)

    def follow(self) -> bytes:
        """New output since the last call, at most 1 MiB."""
        found = self.read(self._at, 1 << 20)
        self._at += len(found)
        return found

    def end(self, since: int | None = None) -> list[str]:
        """The last lines of this run, or all since a mark."""
        size = self.mark()
        begin = max(self.start if since is None else since, size - END_BYTES)
        lines = self.read(begin, size - begin).decode(errors="replace").splitlines()
        return lines[-END_LINES:]

    def close(self) -> None:
        self.file.close()
        self._reader.close()


def folder(path: str) -> str:
    """Creates the folder of the logs.

    Raises:
        LaunchError: when it cannot be created.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise LaunchError(f"cannot create the folder --log_dir={path}: {e.strerror}") from None
    return path


class Terminal:
    """Standard output and error of the launcher. The job continues when their reader is closed."""

    def __init__(self) -> None:
        self._gone = False

    def copy(self, data: bytes) -> None:
        """Writes output of rank 0 to the standard output."""
        if self._gone or not data:
            return
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except (OSError, ValueError):
            self._gone = True
            # the interpreter flushes again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def say(self, text: str) -> None:
        """Writes a message of the launcher to the standard error."""
        try:
            print(text, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            self._gone = True
