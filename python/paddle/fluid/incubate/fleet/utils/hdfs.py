"""paddle.fluid.incubate.fleet.utils.hdfs: the Hadoop file system of 2.0, with the methods and arguments of 1.8."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from paddle._basics.flags import is_18
from paddle._basics.old_arguments import takes_old_name
from paddle.distributed.fleet.utils.fs import HDFSClient as _Client

__all__ = ["HDFSClient"]


def _old(named: dict[str, Any]) -> bool:
    """Whether a call has the arguments of 1.8: by their names, or by FLAGS_compat."""
    return "hdfs_path" in named or is_18()


class HDFSClient(_Client):
    """A Hadoop file system, by the command ``hadoop fs``; see `paddle.distributed.fleet.utils.HDFSClient`.

    `cat`, `ls`, `lsr`, `makedirs`, `make_local_dirs` and `split_files` are of 1.8. `upload` and `download` with
    `hdfs_path` by name, or any call with ``FLAGS_compat=1.8``, take 1.8's arguments and return whether they succeeded.

    Args:
        hadoop_home (str): the folder of Hadoop; its ``bin/hadoop`` is run.
        configs (dict|None): settings, each given as ``-D<name>=<value>``.
        time_out (int): milliseconds for an operation with its retries. sleep_inter (int): milliseconds between retries.

    Examples:
        >>> from paddle.fluid.incubate.fleet.utils.hdfs import HDFSClient
        >>> HDFSClient.split_files(["a", "b", "c"], trainer_id=0, trainers=2)
        ['a', 'b']
    """

    is_exist = takes_old_name("fs_path", "hdfs_path")(_Client.is_exist)
    is_dir = takes_old_name("fs_path", "hdfs_path")(_Client.is_dir)
    is_file = takes_old_name("fs_path", "hdfs_path")(_Client.is_file)
    delete = takes_old_name("fs_path", "hdfs_path")(_Client.delete)

    @takes_old_name("fs_src_path", "hdfs_src_path")
    @takes_old_name("fs_dst_path", "hdfs_dst_path")
    def rename(self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False) -> None:
        """Renames a file or folder; `overwrite` removes an existing destination first."""
        self.mv(fs_src_path, fs_dst_path, overwrite=overwrite)

    def cat(self, hdfs_path: str) -> str:
        """The text of a file; "" if it does not exist."""
        code, lines = self._run_cmd("cat", hdfs_path)
        return "\n".join(lines) if code == 0 else ""

    def ls(self, hdfs_path: str) -> list[str]:
        """The paths of a folder's entries; none if the folder does not exist."""
        return [fields[7] for fields in self._entries("ls", hdfs_path)]

    def lsr(self, hdfs_path: str, excludes: list[str] | tuple[str, ...] = ()) -> list[str]:
        """The paths of the files of a folder, recursively, without `excludes`."""
        rows = [f for f in self._entries("ls", "-R", hdfs_path) if not f[0].startswith("d")]
        return [f[7] for f in rows if f[7] not in excludes]

    def _entries(self, *words: str) -> list[list[str]]:
        """The fields of each line of a listing: permissions, replicas, owner, group, size, date, time, path."""
        code, lines = self._run_cmd(*words)
        rows = [line.split(None, 7) for line in lines] if code == 0 else []
        return [row for row in rows if len(row) == 8]

    def makedirs(self, hdfs_path: str) -> bool:
        """Creates a folder and its parents, if it does not exist."""
        self.mkdirs(hdfs_path)
        return True

    @staticmethod
    def make_local_dirs(local_path: str) -> None:
        """Creates a local folder and its parents."""
        os.makedirs(local_path, exist_ok=True)

    @staticmethod
    def split_files(files: list[str], trainer_id: int, trainers: int) -> list[str]:
        """A trainer's files: consecutive ones; the first trainers have one more where the number does not divide."""
        share, more = divmod(len(files), trainers)
        first = trainer_id * share + min(trainer_id, more)
        return files[first : first + share + (trainer_id < more)]

    def upload(self, *args: Any, **named: Any) -> Any:
        """``upload(local_path, fs_path)``; or 1.8's ``upload(hdfs_path, local_path, multi_processes=5, overwrite=False,
        retry_times=5)``: the files of a local folder, or one file, into a folder, which returns True."""
        return self._upload(*args, **named) if _old(named) else super().upload(*args, **named)

    def download(self, *args: Any, **named: Any) -> Any:
        """``download(fs_path, local_path)``; or 1.8's ``download(hdfs_path, local_path, multi_processes=5,
        overwrite=False, retry_times=5)``: the files below a folder into a local folder, which returns True."""
        return self._download(*args, **named) if _old(named) else super().download(*args, **named)

    def _upload(
        self,
        hdfs_path: str,
        local_path: str,
        multi_processes: int = 5,
        overwrite: bool = False,
        retry_times: int = 5,
    ) -> bool:
        files = [local_path]
        if os.path.isdir(local_path):
            files = [os.path.join(local_path, name) for name in sorted(os.listdir(local_path))]
        self.mkdirs(hdfs_path)

        def put(file: str) -> None:
            there = os.path.join(hdfs_path, os.path.basename(file))
            if overwrite and self.is_exist(there):
                self.delete(there)
            _Client.upload(self, file, there)

        return _at_once(put, files, multi_processes)

    def _download(
        self,
        hdfs_path: str,
        local_path: str,
        multi_processes: int = 5,
        overwrite: bool = False,
        retry_times: int = 5,
    ) -> bool:
        self.make_local_dirs(local_path)

        def get(file: str) -> None:
            here = os.path.join(local_path, os.path.basename(file))
            if overwrite and os.path.exists(here):
                shutil.rmtree(here) if os.path.isdir(here) else os.remove(here)
            _Client.download(self, file, here)

        return _at_once(get, self.ls(hdfs_path), multi_processes)

    def upload_dir(self, local_dir: str, dest_dir: str, overwrite: bool = False) -> None:  # type: ignore[override]
        """Uploads a local folder; `overwrite` removes an existing one first.

        With ``FLAGS_compat=1.8`` `dest_dir` is the first argument, and the folder goes into it.
        """
        if is_18():
            local_dir, dest_dir = dest_dir.rstrip("/"), local_dir
            self.mkdirs(dest_dir)
            dest_dir = os.path.join(dest_dir, os.path.basename(local_dir))
        if overwrite and self.is_exist(dest_dir):
            self.delete(dest_dir)
        _Client.upload(self, local_dir, dest_dir)


def _at_once(function: Any, files: list[str], workers: int) -> bool:
    """Calls a function with each file, several at a time; raises the first exception after all have ended."""
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for outcome in [pool.submit(function, file) for file in files]:
            outcome.result()
    return True
