"""The guard process: terminates the processes of a killed launcher. `Guard` runs this file by its path, without paddle.

It reads commands from its standard input: ``g PGID`` registers a process group, ``t PID`` a process with its
descendants, ``- PID`` unregisters, ``d PATH`` registers a folder to remove, ``bye`` ends. An end of file without
``bye`` means that the launcher was killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import weakref

# Seconds between SIGTERM and SIGKILL.
PATIENCE = 1.0


def status(pid: int) -> tuple[int, int, str, int] | None:
    """Parent, process group, state and start time of a process; None if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            text = f.read()
    except OSError:
        return None
    # the name, in parentheses, may contain any character
    fields = text[text.rindex(b")") + 2 :].split()
    return int(fields[1]), int(fields[2]), fields[0].decode(), int(fields[19])


def snapshot() -> dict[int, tuple[int, int, str, int]]:
    """`status` of every process that is not a zombie."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            s = status(int(name))
            if s is not None and s[2] not in "ZX":
                found[int(name)] = s
    return found


def members(groups: set[int], trees: set[int]) -> set[int]:
    """The live processes of these groups and trees."""
    every = snapshot()
    found = {pid for pid, s in every.items() if s[1] in groups or pid in trees}
    grown = True
    while grown:
        grown = False
        for pid, s in every.items():
            if pid not in found and s[0] in found:
                found.add(pid)
                grown = True
    return found


def send(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def end(groups: set[int], trees: set[int], patience: float = PATIENCE) -> None:
    """Sends SIGTERM to all members, and SIGKILL to those still alive after `patience` seconds."""
    left = members(groups, trees)
    # A process that handles SIGTERM may start others: trees keep all their former members.
    known = set(left)
    send(left, signal.SIGTERM)
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        left = members(groups, trees) | (known & snapshot().keys())
        if not left:
            return
        known |= left
        time.sleep(0.02)
    for _ in range(50):
        left = members(groups, trees) | (known & snapshot().keys())
        if not left:
            return
        known |= left
        send(left, signal.SIGKILL)
        time.sleep(0.02)


def watch() -> None:
    """Reads commands until ``bye`` or the end of file."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: dict[int, int] = {}
    trees: dict[int, int] = {}
    folders = []
    for line in sys.stdin.buffer:
        what, _, rest = line.rstrip(b"\n").partition(b" ")
        if what == b"bye":
            return
        if what == b"d":
            folders.append(os.fsdecode(rest))
        elif what in (b"g", b"t"):
            pid = int(rest)
            found = status(pid)
            if found is not None:
                (groups if what == b"g" else trees)[pid] = found[3]
        elif what == b"-":
            groups.pop(int(rest), None)
            trees.pop(int(rest), None)

    # A reused process id does not count; a group outlives its leader.
    def ours(pid: int, started: int) -> bool:
        now = status(pid)
        return now is None or now[3] == started

    end({p for p, t in groups.items() if ours(p, t)}, {p for p, t in trees.items() if ours(p, t)})
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _forked() -> None:
    for g in list(_guards):
        g.abandon()


os.register_at_fork(after_in_child=_forked)


class Guard:
    """The launcher's side. The guard has its own session, so that signals to the launcher's do not end it."""

    def __init__(self) -> None:
        _guards.add(self)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
            cwd="/",
        )

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(os.fsencode(text) + b"\n")
        except (BrokenPipeError, ValueError):
            return  # the guard was killed

    def group(self, pgid: int) -> None:
        self._say(f"g {pgid}")

    def tree(self, pid: int) -> None:
        self._say(f"t {pid}")

    def forget(self, pid: int) -> None:
        self._say(f"- {pid}")

    def folder(self, path: str) -> None:
        self._say(f"d {path}")

    def abandon(self) -> None:
        """In a fork of the launcher: closes the pipe, whose end of file must not wait for the fork."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def close(self) -> None:
        """Ends the guard: all processes have ended."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        self._say("bye")
        self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    watch()
