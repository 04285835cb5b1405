"""fluid.contrib.HDFSClient: a Hadoop file system whose methods return success as a bool, and parallel transfers of
files at once."""

from __future__ import annotations

import logging
import os
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from paddle.distributed.fleet.utils.fs import HDFSClient as _Client

__all__ = ["HDFSClient", "multi_download", "multi_upload"]

_logger = logging.getLogger("hdfs_utils")
#: permissions, replicas, owner, group, size, date, time, and a path that may contain blanks
_FIELDS = 8


class HDFSClient:
    """A Hadoop file system over the command ``hadoop fs``, with the interface of 1.x: a method returns whether it
    succeeded, and logs failures.

    Source: paddle.fluid.contrib.HDFSClient of Paddle 2.0.2. `paddle.distributed.fleet.utils.HDFSClient` raises instead.

    Args:
        hadoop_home (str): the folder of Hadoop, which contains ``bin/hadoop``.
        configs (dict): settings, passed as ``-D<name>=<value>``: fs.default.name, hadoop.job.ugi.

    Raises:
        FileNotFoundError: if the command does not exist. ValueError: for a path that begins with a dash.

    Examples:
        >>> import paddle.fluid as fluid
        >>> configs = {"fs.default.name": "hdfs://10.0.0.1:54310", "hadoop.job.ugi": "me,secret"}
        >>> client = fluid.contrib.HDFSClient("/usr/local/hadoop", configs)
        >>> client.pre_commands[:2]
        ['/usr/local/hadoop/bin/hadoop', 'fs']
    """

    def __init__(self, hadoop_home: str, configs: dict[str, Any]) -> None:
        self._client = _Client(hadoop_home, configs)
        self.pre_commands = self._client.pre_commands

    def _run(self, *words: str, retry_times: int = 1) -> tuple[bool, list[str]]:
        """Whether a command succeeded within the given number of attempts, and the lines that it printed."""
        for attempt in range(retry_times + 1):
            code, lines = self._client._run_cmd(*words)
            if code == 0:
                return True, lines
            said = lines[-1] if lines else "nothing"
            _logger.warning("hadoop fs -%s ended with %d at attempt %d: %s", " ".join(words), code, attempt, said)
        return False, lines

    def is_exist(self, hdfs_path: str | None = None) -> bool:
        """Whether the path exists."""
        return self._run("test", "-e", _path(hdfs_path, "is_exist"))[0]

    def is_dir(self, hdfs_path: str | None = None) -> bool:
        """Whether the path is a folder."""
        path = _path(hdfs_path, "is_dir")
        return self.is_exist(path) and self._run("test", "-d", path)[0]

    def upload(self, hdfs_path: str, local_path: str, overwrite: bool = False, retry_times: int = 5) -> bool:
        """Copies a local file into a folder, which is created if it does not exist.

        Args:
            overwrite (bool): replace an existing file; otherwise return False.
            retry_times (int): number of further attempts after a failure.

        Raises:
            FileNotFoundError: if the local file does not exist.
        """
        if not os.path.exists(_path(local_path, "upload")):
            raise FileNotFoundError(f"upload: {local_path} does not exist")
        if os.path.isdir(local_path):
            _logger.warning("upload: %s is a folder: use multi_upload for its files", local_path)
            return False
        file = os.path.join(_path(hdfs_path, "upload"), os.path.basename(local_path))
        if not self.is_exist(hdfs_path):
            self.makedirs(hdfs_path)
        elif self.is_exist(file):
            if not overwrite:
                _logger.error("upload: %s exists, and overwrite is False", file)
                return False
            self.delete(file)
        return self._run("put", local_path, hdfs_path, retry_times=retry_times)[0]

    def download(self, hdfs_path: str, local_path: str, overwrite: bool = False, unzip: bool = False) -> bool:
        """Copies a file into a local folder, which is created if it does not exist.

        Args:
            overwrite (bool): replace an existing local file; otherwise return False.
            unzip (bool): extract a zip archive into the same folder.
        """
        if not self.is_exist(hdfs_path):
            _logger.error("download: %s does not exist", hdfs_path)
            return False
        file = os.path.join(local_path, os.path.basename(hdfs_path))
        if os.path.exists(file):
            if not overwrite:
                _logger.error("download: %s exists, and overwrite is False", file)
                return False
            os.remove(file)
        self.make_local_dirs(local_path)
        done = self._run("get", hdfs_path, local_path, retry_times=5)[0]
        if done and unzip and zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                archive.extractall(local_path)
        return done

    def delete(self, hdfs_path: str) -> bool:
        """Removes a file or folder; True if it does not exist."""
        if not self.is_exist(hdfs_path):
            return True
        return self._run("rm", *(["-r"] if self.is_dir(hdfs_path) else []), hdfs_path, retry_times=0)[0]

    def rename(self, hdfs_src_path: str, hdfs_dst_path: str, overwrite: bool = False) -> bool:
        """Renames a file or folder.

        Args:
            overwrite (bool): replace an existing target; otherwise return False.
        """
        if not self.is_exist(hdfs_src_path):
            _logger.error("rename: %s does not exist", hdfs_src_path)
            return False
        if self.is_exist(hdfs_dst_path):
            if not overwrite:
                _logger.error("rename: %s exists, and overwrite is False", hdfs_dst_path)
                return False
            self.delete(hdfs_dst_path)
        return self._run("mv", hdfs_src_path, hdfs_dst_path)[0]

    @staticmethod
    def make_local_dirs(local_path: str) -> None:
        """Creates a local folder and its parents."""
        os.makedirs(local_path, exist_ok=True)

    def makedirs(self, hdfs_path: str) -> bool | None:
        """Creates a folder and its parents; None if it exists."""
        if self.is_exist(hdfs_path):
            return None
        return self._run("mkdir", "-p", hdfs_path)[0]

    def ls(self, hdfs_path: str) -> list[str]:
        """The paths of a folder's entries; none if the folder does not exist."""
        return [fields[7] for fields in self._entries("ls", hdfs_path)]

    def lsr(self, hdfs_path: str, only_file: bool = True, sort: bool = True) -> list[str]:
        """The paths of a folder's entries, recursively.

        Args:
            only_file (bool): omit folders. sort (bool): oldest first.
        """
        found = [f for f in self._entries("ls", "-R", hdfs_path) if not (only_file and f[0].startswith("d"))]
        if sort:
            found.sort(key=lambda f: datetime.strptime(f"{f[5]} {f[6]}", "%Y-%m-%d %H:%M"))
        return [fields[7] for fields in found]

    def _entries(self, *words: str) -> list[list[str]]:
        """The fields of each line of a listing."""
        if not self.is_exist(words[-1]):
            return []
        done, lines = self._run(*words)
        rows = [line.split(None, _FIELDS - 1) for line in lines] if done else []
        return [row for row in rows if len(row) == _FIELDS]


def _path(path: str | None, method: str) -> str:
    if path is None:
        raise ValueError(f"HDFSClient.{method} needs a path, got None")
    return path


def _at_once(function: Callable[[str], Any], files: list[str], workers: int) -> None:
    """Calls a function with each file, several at a time; raises an exception of one call after all have ended."""
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for outcome in [pool.submit(function, file) for file in files]:
            outcome.result()


def _check(client: Any, function: str) -> None:
    if not isinstance(client, HDFSClient):
        raise TypeError(f"{function}: client must be a fluid.contrib.HDFSClient, got {type(client)}")


def multi_download(
    client: HDFSClient, hdfs_path: str, local_path: str, trainer_id: int, trainers: int, multi_processes: int = 5
) -> list[str]:
    """Downloads this trainer's files of a folder, recursively: every n-th of them, sorted by age.

    Source: paddle.fluid.contrib.multi_download of Paddle 2.0.2.

    Args:
        client (HDFSClient): of fluid.contrib. hdfs_path (str): the folder. local_path (str): the local folder.
        trainer_id (int): rank of this trainer. trainers (int): number of trainers.
        multi_processes (int): number of parallel transfers.

    Returns:
        list[str]: the local files.

    Examples:
        >>> import paddle.fluid as fluid
        >>> client = fluid.contrib.HDFSClient("/usr/local/hadoop", {"fs.default.name": "hdfs://10.0.0.1:54310"})
        >>> files = fluid.contrib.multi_download(client, "/train", "data", 0, 4)  # doctest: +SKIP
    """
    _check(client, "multi_download")
    client.make_local_dirs(local_path)
    files = client.lsr(hdfs_path, sort=True)[trainer_id::trainers]

    def folder(file: str) -> str:
        return os.path.normpath(os.path.join(local_path, os.path.relpath(os.path.dirname(file), hdfs_path)))

    _at_once(lambda file: client.download(file, folder(file)), files, multi_processes)
    return [os.path.join(folder(file), os.path.basename(file)) for file in files]


def multi_upload(
    client: HDFSClient,
    hdfs_path: str,
    local_path: str,
    multi_processes: int = 5,
    overwrite: bool = False,
    sync: bool = True,
) -> None:
    """Uploads the files of a local folder, recursively.

    Source: paddle.fluid.contrib.multi_upload of Paddle 2.0.2.

    Args:
        client (HDFSClient): of fluid.contrib. hdfs_path (str): the target folder. local_path (str): the local one.
        multi_processes (int): number of parallel transfers.
        overwrite (bool): as in `HDFSClient.upload`. sync (bool): ignored, as in Paddle: the call waits for all.

    Examples:
        >>> import paddle.fluid as fluid
        >>> client = fluid.contrib.HDFSClient("/usr/local/hadoop", {"fs.default.name": "hdfs://10.0.0.1:54310"})
        >>> fluid.contrib.multi_upload(client, "/train", "a_folder_without_files")
    """
    _check(client, "multi_upload")
    files = [os.path.join(folder, name) for folder, _, names in os.walk(local_path) for name in names]

    def bring(file: str) -> None:
        there = os.path.normpath(os.path.join(hdfs_path, os.path.relpath(os.path.dirname(file), local_path)))
        client.upload(there, file, overwrite, retry_times=5)

    _at_once(bring, files, multi_processes)
