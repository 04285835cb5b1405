"""The interface of file systems, and the local one."""

from __future__ import annotations

import os
import shutil

__all__ = ["LocalFS"]


class ExecuteError(Exception):
    """A command of a file system failed."""


class FSFileExistsError(Exception):
    """The file to create exists."""


class FSFileNotExistsError(Exception):
    """The file to read or move does not exist."""


class FSTimeOut(Exception):
    """An operation of a file system timed out."""


class FSShellCmdAborted(ExecuteError):
    """A command of a file system was aborted."""


class FS:
    """The interface of file systems: methods that a subclass does not override raise NotImplementedError."""

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """Names of the folders, and of the files, in a folder."""
        raise NotImplementedError(f"{type(self).__name__} has no ls_dir")

    def is_file(self, fs_path: str) -> bool:
        """Whether the path is a file."""
        raise NotImplementedError(f"{type(self).__name__} has no is_file")

    def is_dir(self, fs_path: str) -> bool:
        """Whether the path is a folder."""
        raise NotImplementedError(f"{type(self).__name__} has no is_dir")

    def is_exist(self, fs_path: str) -> bool:
        """Whether the path exists."""
        raise NotImplementedError(f"{type(self).__name__} has no is_exist")

    def upload(self, local_path: str, fs_path: str) -> None:
        """Uploads a local file or folder."""
        raise NotImplementedError(f"{type(self).__name__} has no upload")

    def download(self, fs_path: str, local_path: str) -> None:
        """Downloads a file or folder."""
        raise NotImplementedError(f"{type(self).__name__} has no download")

    def mkdirs(self, fs_path: str) -> None:
        """Creates a folder and its parents."""
        raise NotImplementedError(f"{type(self).__name__} has no mkdirs")

    def delete(self, fs_path: str) -> None:
        """Removes a file or folder, if it exists."""
        raise NotImplementedError(f"{type(self).__name__} has no delete")

    def need_upload_download(self) -> bool:
        """Whether files must be uploaded and downloaded."""
        raise NotImplementedError(f"{type(self).__name__} has no need_upload_download")

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Renames a file or folder."""
        raise NotImplementedError(f"{type(self).__name__} has no rename")

    def mv(self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False, test_exists: bool = False) -> None:
        """Moves a file or folder; an existing destination is replaced or refused."""
        raise NotImplementedError(f"{type(self).__name__} has no mv")

    def upload_dir(self, local_dir: str, dest_dir: str) -> None:
        """Uploads a local folder."""
        raise NotImplementedError(f"{type(self).__name__} has no upload_dir")

    def list_dirs(self, fs_path: str) -> list[str]:
        """Names of the folders in a folder."""
        raise NotImplementedError(f"{type(self).__name__} has no list_dirs")

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Creates an empty file, if none exists."""
        raise NotImplementedError(f"{type(self).__name__} has no touch")


class LocalFS(FS):
    """The local file system.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/utils/LocalFS_en.html

    Examples:
        >>> import os, tempfile
        >>> from paddle.distributed.fleet.utils import LocalFS
        >>> client = LocalFS()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     client.mkdirs(os.path.join(folder, "a", "b"))
        ...     client.touch(os.path.join(folder, "a", "file"))
        ...     client.ls_dir(os.path.join(folder, "a"))
        (['b'], ['file'])
    """

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """Names of the folders, and of the files, in a folder; empty if it does not exist."""
        if not self.is_exist(fs_path):
            return [], []
        dirs = self.list_dirs(fs_path)
        return dirs, [name for name in os.listdir(fs_path) if name not in set(dirs)]

    def mkdirs(self, fs_path: str) -> None:
        """Creates a folder and its parents. AssertionError if the path is a file."""
        assert not os.path.isfile(fs_path), f"{fs_path} is already a file"
        os.makedirs(fs_path, exist_ok=True)

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Renames a file or folder."""
        os.rename(fs_src_path, fs_dst_path)

    def delete(self, fs_path: str) -> None:
        """Removes a file, or a folder with its contents, if it exists."""
        if os.path.isdir(fs_path) and not os.path.islink(fs_path):
            shutil.rmtree(fs_path)
        elif os.path.lexists(fs_path):
            os.remove(fs_path)

    def need_upload_download(self) -> bool:
        """False."""
        return False

    def is_file(self, fs_path: str) -> bool:
        """Whether the path is a file."""
        return os.path.isfile(fs_path)

    def is_dir(self, fs_path: str) -> bool:
        """Whether the path is a folder."""
        return os.path.isdir(fs_path)

    def is_exist(self, fs_path: str) -> bool:
        """Whether the path exists."""
        return os.path.exists(fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Creates an empty file. FSFileExistsError if one exists and `exist_ok` is False."""
        if self.is_exist(fs_path):
            if not exist_ok:
                raise FSFileExistsError(fs_path)
            return
        with open(fs_path, "a"):
            pass

    def mv(self, src_path: str, dst_path: str, overwrite: bool = False, test_exists: bool = False) -> None:
        """Moves a file or folder.

        Raises:
            FSFileNotExistsError: for a missing source. FSFileExistsError: for an existing destination without
                `overwrite`.
        """
        if not self.is_exist(src_path):
            raise FSFileNotExistsError(src_path)
        if self.is_exist(dst_path):
            if not overwrite:
                raise FSFileExistsError(dst_path)
            self.delete(dst_path)
        self.rename(src_path, dst_path)

    def list_dirs(self, fs_path: str) -> list[str]:
        """Names of the folders in a folder; empty if it does not exist."""
        if not self.is_exist(fs_path):
            return []
        return [name for name in os.listdir(fs_path) if os.path.isdir(os.path.join(fs_path, name))]

    def _copy(self, source: str, to: str) -> None:
        if os.path.isdir(source):
            shutil.copytree(source, to, dirs_exist_ok=True)
        else:
            shutil.copy2(source, to)

    def upload(self, local_path: str, fs_path: str) -> None:
        """Copies a file or folder."""
        self._copy(local_path, fs_path)

    def download(self, fs_path: str, local_path: str) -> None:
        """Copies a file or folder."""
        self._copy(fs_path, local_path)

    def upload_dir(self, local_dir: str, dest_dir: str) -> None:
        """Copies a folder."""
        self._copy(local_dir, dest_dir)
