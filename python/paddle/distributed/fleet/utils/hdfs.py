"""HDFSClient: a Hadoop file system by the command `hadoop fs`."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

from .file_systems import (
    FS,
    ExecuteError,
    FSFileExistsError,
    FSFileNotExistsError,
    FSShellCmdAborted,
    FSTimeOut,
    LocalFS,
)

__all__ = ["HDFSClient"]

#: the exit code of an aborted command
_ABORTED = 134
#: a message of some servers that fails an `ls` without an answer
_UNSURE = re.compile(r"\s?responseErrorMsg\s?:.*, errorCode:\s?[0-9]+, path:")
_ABSENT = "No such file or directory"


def _again(function: Callable) -> Callable:
    """Retries a failed command until `time_out` (FSTimeOut)."""

    @functools.wraps(function)
    def tried(self: HDFSClient, *args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        while True:
            try:
                return function(self, *args, **kwargs)
            except ExecuteError as e:
                waited = time.monotonic() - start
                if waited + self._sleep_inter / 1000 >= self._time_out / 1000:
                    text = f"HDFSClient.{function.__name__}{args}: no success after {waited:.1f} s: {e}"
                    raise FSTimeOut(text) from e
                time.sleep(self._sleep_inter / 1000)

    return tried


class HDFSClient(FS):
    """A Hadoop file system, by the command ``hadoop fs``.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/utils/HDFSClient_en.html

    Commands are child processes with a list of arguments: names may contain any character. A failed command is retried
    every `sleep_inter` milliseconds, until `time_out`.

    Args:
        hadoop_home (str): the folder of Hadoop; its ``bin/hadoop`` is run.
        configs (dict|None): settings, each given as ``-D<name>=<value>``.
        time_out (int): milliseconds for an operation with its retries. sleep_inter (int): milliseconds between retries.

    Raises:
        FSTimeOut: for an operation that has not succeeded in time. FSFileExistsError, FSFileNotExistsError: for what is
        there, or is not. ValueError: for a path that begins with a dash, which the command would take for an option.

    Examples:
        >>> from paddle.distributed.fleet.utils import HDFSClient
        >>> client = HDFSClient("/usr/local/hadoop", {"fs.default.name": "hdfs://10.0.0.1:54310"})
        >>> client.need_upload_download()
        True
    """

    def __init__(
        self, hadoop_home: str, configs: dict[str, Any] | None, time_out: int = 5 * 60 * 1000, sleep_inter: int = 1000
    ) -> None:
        self.pre_commands = [os.path.join(hadoop_home, "bin", "hadoop"), "fs"]
        self.pre_commands += [f"-D{name}={value}" for name, value in (configs or {}).items()]
        self._time_out = time_out
        self._sleep_inter = sleep_inter

    def _run_cmd(self, *words: str) -> tuple[int, list[str]]:
        """Runs a command; returns its exit code and the printed lines, standard error last."""
        for path in words[1:]:
            if path.startswith("-") and path not in ("-d", "-e", "-p", "-r", "-R"):
                raise ValueError(f"HDFSClient: a path must not begin with '-', got {path!r}")
        command = [*self.pre_commands, f"-{words[0]}", *words[1:]]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._time_out / 1000,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired as e:
            raise FSTimeOut(f"HDFSClient: {' '.join(words)} took longer than {self._time_out} ms") from e
        except OSError as e:
            raise FileNotFoundError(f"HDFSClient: {command[0]} cannot be run: {e}") from e
        if done.returncode in (_ABORTED, -6):
            raise FSShellCmdAborted(f"HDFSClient: {' '.join(words)} was aborted")
        return done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()]

    def _must(self, *words: str) -> list[str]:
        """As `_run_cmd`; ExecuteError for a non-zero exit code."""
        code, lines = self._run_cmd(*words)
        if code != 0:
            said = lines[-1] if lines else "nothing"
            raise ExecuteError(f"HDFSClient: {' '.join(words)} ended with {code}, and said: {said}")
        return lines

    @_again
    def is_exist(self, fs_path: str) -> bool:
        """Whether the path exists."""
        code, lines = self._run_cmd("ls", fs_path)
        if code == 0:
            return True
        if any(_ABSENT in line for line in lines):
            return False
        raise ExecuteError(f"HDFSClient: ls {fs_path} ended with {code}, and said: {lines[-1] if lines else 'nothing'}")

    def _is_dir(self, fs_path: str) -> bool:
        code, lines = self._run_cmd("test", "-d", fs_path)
        if code != 0 and any(_UNSURE.match(line) for line in lines):
            raise ExecuteError(f"HDFSClient: test -d {fs_path} said: {lines[-1]}")
        return code == 0

    @_again
    def is_dir(self, fs_path: str) -> bool:
        """Whether the path is a folder."""
        return self.is_exist(fs_path) and self._is_dir(fs_path)

    @_again
    def is_file(self, fs_path: str) -> bool:
        """Whether the path is a file."""
        return self.is_exist(fs_path) and not self._is_dir(fs_path)

    @_again
    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """Names of the folders, and of the files, in a folder; empty for a missing folder."""
        found: tuple[list[str], list[str]] = [], []
        if self.is_exist(fs_path):
            for line in self._must("ls", fs_path):
                # permissions, replicas, owner, group, size, date, time, and a path that may contain spaces
                fields = line.split(None, 7)
                if len(fields) == 8:
                    found[not fields[0].startswith("d")].append(os.path.basename(fields[7]))
        return found

    def list_dirs(self, fs_path: str) -> list[str]:
        """Names of the folders in a folder."""
        return self.ls_dir(fs_path)[0]

    def upload(self, local_path: str, fs_path: str) -> None:
        """Uploads a local file or folder. A partial result is removed."""
        if self.is_exist(fs_path):
            raise FSFileExistsError(f"upload: {fs_path} exists")
        if not LocalFS().is_exist(local_path):
            raise FSFileNotExistsError(f"upload: {local_path} does not exist")
        self._put(local_path, fs_path)

    @_again
    def _put(self, local_path: str, fs_path: str) -> None:
        try:
            self._must("put", local_path, fs_path)
        except Exception:
            self.delete(fs_path)
            raise

    def download(self, fs_path: str, local_path: str) -> None:
        """Downloads a file or folder. A partial result is removed."""
        if not self.is_exist(fs_path):
            raise FSFileNotExistsError(f"download: {fs_path} does not exist")
        self._get(fs_path, local_path)

    @_again
    def _get(self, fs_path: str, local_path: str) -> None:
        try:
            self._must("get", fs_path, local_path)
        except Exception:
            LocalFS().delete(local_path)
            raise

    @_again
    def mkdirs(self, fs_path: str) -> None:
        """Creates a folder and its parents, if it does not exist."""
        if not self.is_exist(fs_path):
            self._must("mkdir", "-p", fs_path)

    def mv(self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False, test_exists: bool = True) -> None:
        """Moves a file or folder.

        Args:
            overwrite (bool): remove an existing destination first. test_exists (bool): check both paths first.
        """
        if overwrite and self.is_exist(fs_dst_path):
            self.delete(fs_dst_path)
        if test_exists:
            if not self.is_exist(fs_src_path):
                raise FSFileNotExistsError(f"mv: {fs_src_path} does not exist")
            if self.is_exist(fs_dst_path):
                raise FSFileExistsError(f"mv: {fs_dst_path} exists")
        self._move(fs_src_path, fs_dst_path)

    @_again
    def _move(self, fs_src_path: str, fs_dst_path: str) -> None:
        try:
            self._must("mv", fs_src_path, fs_dst_path)
        except Exception:
            # the move succeeded despite the exit code
            if not self.is_exist(fs_src_path) and self.is_exist(fs_dst_path):
                return
            raise

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Renames a file or folder."""
        self.mv(fs_src_path, fs_dst_path)

    @_again
    def delete(self, fs_path: str) -> None:
        """Removes a file or folder, if it exists."""
        if self.is_exist(fs_path):
            self._must("rm", *(["-r"] if self._is_dir(fs_path) else []), fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Creates an empty file; FSFileExistsError if one exists and `exist_ok` is False."""
        if not self.is_exist(fs_path):
            self._touchz(fs_path)
        elif not exist_ok:
            raise FSFileExistsError(f"touch: {fs_path} exists")

    @_again
    def _touchz(self, fs_path: str) -> None:
        self._must("touchz", fs_path)

    def upload_dir(self, local_dir: str, dest_dir: str) -> None:
        """Uploads a local folder."""
        self.upload(local_dir, dest_dir)

    def need_upload_download(self) -> bool:
        """True: files must be uploaded and downloaded."""
        return True
