"""fluid.contrib.HDFSClient: a Hadoop file system whose methods say by True or False how it went, and transfers of many
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
#: permissions, replicas, owner, group, size, date, time, and a path that may hold blanks
_FIELDS = 8


class HDFSClient:
    """A Hadoop file system by the command ``hadoop fs``, as scripts of 1.x know it: a method returns whether it went
    well, and logs why not.

    Source: paddle.fluid.contrib.HDFSClient of Paddle 2.0.2. `paddle.distributed.fleet.utils.HDFSClient` raises instead.

    Args:
        hadoop_home (str): the folder of Hadoop; its ``bin/hadoop`` is run.
        configs (dict): settings, each given as ``-D<name>=<value>``: fs.default.name, hadoop.job.ugi.

    Raises:
        FileNotFoundError: if there is no such command. ValueError: for a path that begins with a dash.

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
        """Whether a command went well within so many repetitions, and the lines that it printed."""
        for attempt in range(retry_times + 1):
            code, lines = self._client._run_cmd(*words)
            if code == 0:
                return True, lines
            said = lines[-1] if lines else "nothing"
            _logger.warning("hadoop fs -%s ended with %d at attempt %d: %s", " ".join(words), code, attempt, said)
        return False, lines

    def is_exist(self, hdfs_path: str | None = None) -> bool:
        """Whether anything is there."""
        return self._run("test", "-e", _path(hdfs_path, "is_exist"))[0]

    def is_dir(self, hdfs_path: str | None = None) -> bool:
        """Whether the path is a folder."""
        path = _path(hdfs_path, "is_dir")
        return self.is_exist(path) and self._run("test", "-d", path)[0]

    def upload(self, hdfs_path: str, local_path: str, overwrite: bool = False, retry_times: int = 5) -> bool:
        """Brings a local file into a folder there, which is made if it is not there.

        Args:
            overwrite (bool): a file of the same name there is removed before; else it is left, and the answer False.
            retry_times (int): how often a command that failed is tried again.

        Raises:
            FileNotFoundError: if there is no such local file.
        """
        if not os.path.exists(_path(local_path, "upload")):
            raise FileNotFoundError(f"upload: {local_path} does not exist")
        if os.path.isdir(local_path):
            _logger.warning("upload: %s is a folder: multi_upload brings its files", local_path)
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
        """Brings a file into a local folder, which is made if it is not there.

        Args:
            overwrite (bool): a local file of the same name is removed before; else it is left, and the answer False.
            unzip (bool): a zip archive is taken apart, in the same folder.
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
        """Removes a file or folder; True, too, if there is none."""
        if not self.is_exist(hdfs_path):
            return True
        return self._run("rm", *(["-r"] if self.is_dir(hdfs_path) else []), hdfs_path, retry_times=0)[0]

    def rename(self, hdfs_src_path: str, hdfs_dst_path: str, overwrite: bool = False) -> bool:
        """Gives a file or folder another name.

        Args:
            overwrite (bool): what has that name is removed before; else the answer is False.
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
        """Makes a local folder, with those above it; nothing if it is there."""
        os.makedirs(local_path, exist_ok=True)

    def makedirs(self, hdfs_path: str) -> bool | None:
        """Makes a folder there, with those above it; None if it is there already."""
        if self.is_exist(hdfs_path):
            return None
        return self._run("mkdir", "-p", hdfs_path)[0]

    def ls(self, hdfs_path: str) -> list[str]:
        """Paths of what is in a folder; none if there is no such folder."""
        return [fields[7] for fields in self._entries("ls", hdfs_path)]

    def lsr(self, hdfs_path: str, only_file: bool = True, sort: bool = True) -> list[str]:
        """Paths of what is in a folder and those below it.

        Args:
            only_file (bool): without the folders. sort (bool): the oldest first.
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
    """Calls a function with each file, so many at a time; an exception of one is raised when all are done."""
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for outcome in [pool.submit(function, file) for file in files]:
            outcome.result()


def _check(client: Any, function: str) -> None:
    if not isinstance(client, HDFSClient):
        raise TypeError(f"{function}: client must be a fluid.contrib.HDFSClient, got {type(client)}")


def multi_download(
    client: HDFSClient, hdfs_path: str, local_path: str, trainer_id: int, trainers: int, multi_processes: int = 5
) -> list[str]:
    """Brings this trainer's share of the files of a folder, and of those below it: every n-th by their age.

    Source: paddle.fluid.contrib.multi_download of Paddle 2.0.2.

    Args:
        client (HDFSClient): of fluid.contrib. hdfs_path (str): the folder. local_path (str): where its files go.
        trainer_id (int): this trainer's number. trainers (int): how many there are.
        multi_processes (int): transfers at the same time.

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
    """Brings the files of a local folder, and of those below it, into a folder there.

    Source: paddle.fluid.contrib.multi_upload of Paddle 2.0.2.

    Args:
        client (HDFSClient): of fluid.contrib. hdfs_path (str): the folder there. local_path (str): the local one.
        multi_processes (int): transfers at the same time.
        overwrite (bool): as in `HDFSClient.upload`. sync (bool): has no meaning, as in Paddle: it waits for all.

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
