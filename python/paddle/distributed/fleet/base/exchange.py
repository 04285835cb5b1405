"""Collectives of small values between the processes of a job, through a shared folder or an HTTP server.

The operations of a group are numbered. A rank writes its value under (group, number, rank) and waits for the values of
the others. Its value of two operations ago is deleted: all ranks have begun the operation after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

__all__: list[str] = []

#: seconds after which a server that answered before and no longer does is given up
_GONE = 30.0


class Board(Protocol):
    """The interface of a key-value store; `get` returns None for a missing key."""

    def put(self, key: str, value: bytes) -> None: ...
    def get(self, key: str) -> bytes | None: ...
    def remove(self, key: str) -> None: ...


class Folder:
    """A shared folder: one file for each key."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    def _file(self, key: str) -> Path:
        return self.path / quote(key, safe="")

    def put(self, key: str, value: bytes) -> None:
        file = self._file(key)
        part = file.with_name(f"{file.name}.{os.getpid()}.part")
        part.write_bytes(value)
        part.replace(file)  # atomic: a reader sees the whole value or none

    def get(self, key: str) -> bytes | None:
        try:
            return self._file(key).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, key: str) -> None:
        self._file(key).unlink(missing_ok=True)


class Web:
    """An HTTP server with GET, PUT and DELETE of keys (`paddle.distributed.fleet.utils.http_server.KVServer`)."""

    def __init__(self, host: str, port: int, scope: str) -> None:
        self.base = f"http://{host}:{port}/{quote(scope, safe='')}/"
        # The time since which the server has not answered; 0 before its first answer.
        self._silent_since: float | None = 0.0

    def _ask(self, method: str, key: str, value: bytes | None = None) -> bytes | None:
        request = urllib.request.Request(self.base + quote(key, safe=""), data=value, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found = answer.read()
        except urllib.error.HTTPError as e:
            self._silent_since = None
            if e.code == 404:
                return None
            raise
        except (urllib.error.URLError, ConnectionError) as e:
            self._missed(e)
            if method == "GET":
                return None  # the server may still be starting
            raise
        self._silent_since = None
        return found

    def _missed(self, why: Exception) -> None:
        """Records a failed request; RuntimeError once a server that answered before has been gone for too long."""
        if self._silent_since is None:
            self._silent_since = time.monotonic()
        elif self._silent_since and time.monotonic() - self._silent_since > _GONE:
            raise RuntimeError(
                f"the rendezvous server at {self.base} answered before and has been gone for {_GONE:.0f} s: {why}"
            ) from why

    def put(self, key: str, value: bytes) -> None:
        self._ask("PUT", key, value)

    def get(self, key: str) -> bytes | None:
        return self._ask("GET", key)

    def remove(self, key: str) -> None:
        self._ask("DELETE", key)


class Exchange:
    """A group of processes over a store."""

    def __init__(self, board: Board, group: str, rank: int, size: int, seconds: float) -> None:
        self.board, self.group, self.rank, self.size, self.seconds = board, group, rank, size, seconds
        self._number = 0

    def _key(self, number: int, rank: int) -> str:
        return f"{self.group}.{number}.{rank}"

    def all_gather(self, value: Any) -> list[Any]:
        """The JSON value of every rank, by rank. TimeoutError names the missing ranks."""
        number, self._number = self._number, self._number + 1
        text = json.dumps(value).encode()
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                self.board.put(self._key(number, self.rank), text)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        found: dict[int, Any] = {self.rank: value}
        pause = 0.002
        while len(found) < self.size:
            for rank in set(range(self.size)) - set(found):
                answer = self.board.get(self._key(number, rank))
                if answer is not None:
                    found[rank] = json.loads(answer)
            if len(found) < self.size:
                if time.monotonic() > deadline:
                    missing = sorted(set(range(self.size)) - set(found))
                    raise TimeoutError(
                        f"rank {self.rank} of group {self.group!r} waited {self.seconds:.0f} s for ranks {missing}"
                    )
                time.sleep(pause)
                pause = min(pause * 2, 0.1)
        if number >= 2:
            with contextlib.suppress(OSError):  # the values are gone with the server
                self.board.remove(self._key(number - 2, self.rank))
        return [found[rank] for rank in range(self.size)]

    def barrier(self) -> None:
        self.all_gather(None)
