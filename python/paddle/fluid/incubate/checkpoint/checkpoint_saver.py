"""Numbered checkpoints in a folder of any file system."""

from __future__ import annotations

from typing import Any

from paddle.distributed.fleet.utils.fs import FS, LocalFS
from paddle.static import CompiledProgram
from paddle.static.vars_io import load_persistables, save_persistables

__all__ = ["CheckpointSaver", "PaddleModel", "SerializableBase"]


class SerializableBase:
    """The interface of a part of a checkpoint: it writes itself into a folder, and reads itself from there."""

    def serialize(self, path: str) -> None:
        """Writes it into the folder `path`."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is written")

    def deserialize(self, path: str) -> None:
        """Reads it from the folder `path`."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is read")


class PaddleModel(SerializableBase):
    """The persistable variables of a Program.

    Args:
        exe (Executor): reads and writes them. program (Program|CompiledProgram): the Program.
    """

    def __init__(self, exe: Any, program: Any) -> None:
        self._exe = exe
        self._origin_program = program
        self._program = program._program if isinstance(program, CompiledProgram) else program
        self._file_name = "_paddle_fleet_param__"

    def serialize(self, path: str) -> None:
        """Writes them into one file of the folder `path`."""
        save_persistables(self._exe, path, self._program, self._file_name)

    def deserialize(self, path: str) -> None:
        """Reads them."""
        load_persistables(self._exe, path, self._program, self._file_name)


class CheckpointSaver:
    """Writes numbered checkpoints into a folder; each appears there atomically.

    Args:
        fs (FS): the file system, LocalFS or HDFSClient.

    Examples:
        >>> import tempfile
        >>> from paddle.distributed.fleet.utils import LocalFS
        >>> from paddle.fluid.incubate.checkpoint.checkpoint_saver import CheckpointSaver
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saver = CheckpointSaver(LocalFS())
        ...     numbers = [saver.save_checkpoint(folder, [])[1] for _ in range(2)]
        ...     saver.get_checkpoint_no(folder) == numbers
        True
    """

    def __init__(self, fs: FS) -> None:
        self._fs = fs
        self._checkpoint_prefix = "__paddle_checkpoint__"

    def _cache(self, folder: str, number: int, what: str, trainer_id: int | None) -> str:
        mine = "" if trainer_id is None else f".{trainer_id}"
        return f"{folder}/{self._checkpoint_prefix}.{number}.{what}_cache{mine}"

    def save_checkpoint(
        self, path: str, slists: list[SerializableBase], trainer_id: int | None = None, local_cache_path: str = ".cache"
    ) -> tuple[str, int]:
        """Writes the next checkpoint.

        Args:
            path (str): the folder; it is created. slists (list of SerializableBase): the parts.
            trainer_id (int, optional): the writing trainer. local_cache_path (str): a local folder for temporary files.

        Returns:
            (path of the checkpoint, its number).
        """
        if self._fs.is_exist(path):
            assert self._fs.is_dir(path), f"save_checkpoint: {path} is no folder"
        else:
            self._fs.mkdirs(path)
        number = self._get_last_checkpoint_no(path) + 1
        final = f"{path}/{self._checkpoint_prefix}.{number}"
        temporary, local = f"{final}.tmp", LocalFS()
        remote = self._fs.need_upload_download()
        target = self._cache(local_cache_path, number, "saved", trainer_id) if remote else temporary
        # the remains of an interrupted process
        local.delete(target) if remote else self._fs.delete(target)
        local.mkdirs(target) if remote else self._fs.mkdirs(target)
        for one in slists:
            one.serialize(target)
        if remote:
            self._fs.delete(temporary)
            self._fs.upload(target, temporary)
            local.delete(target)
        self._fs.mv(temporary, final)
        return final, number

    def load_checkpoint(
        self,
        path: str,
        slists: list[SerializableBase],
        trainer_id: int | None,
        local_cache_path: str = ".cache",
        checkpoint_no: int | None = None,
        ignore_empty: bool = True,
    ) -> str | None:
        """Reads a checkpoint, by default the last one, else `checkpoint_no`.

        Returns:
            The path of the checkpoint; None without one, if `ignore_empty`.

        Raises:
            AssertionError: without a checkpoint, unless `ignore_empty`, or for an unknown number.
        """
        if checkpoint_no is None:
            checkpoint_no = self._get_last_checkpoint_no(path)
            assert ignore_empty or checkpoint_no >= 0, f"load_checkpoint: {path} has no checkpoint"
            if checkpoint_no < 0:
                return None
        assert isinstance(checkpoint_no, int) and checkpoint_no >= 0, f"a checkpoint's number is {checkpoint_no!r}"
        final = f"{path}/{self._checkpoint_prefix}.{checkpoint_no}"
        source, local = final, LocalFS()
        if self._fs.need_upload_download():
            source = self._cache(local_cache_path, checkpoint_no, "load", trainer_id)
            local.mkdirs(local_cache_path)
            local.delete(source)
            self._fs.download(final, source)
        for one in slists:
            one.deserialize(source)
        if source != final:
            local.delete(source)
        return final

    def get_checkpoint_no(self, root_path: str) -> list[int]:
        """The numbers of the checkpoints of a folder, ascending."""
        names = [name.split(".") for name in self._fs.list_dirs(root_path)]
        return sorted(int(n[1]) for n in names if len(n) == 2 and n[0] == self._checkpoint_prefix and n[1].isdigit())

    def _get_last_checkpoint_no(self, root_path: str) -> int:
        return max(self.get_checkpoint_no(root_path), default=-1)

    def clean_redundant_checkpoints(self, root_path: str, reserved: list[int] = []) -> None:  # noqa: B006
        """Removes all checkpoints except the numbers `reserved` (default: the last one)."""
        numbers = self.get_checkpoint_no(root_path)
        kept = set(reserved) or set(numbers[-1:])
        for number in numbers:
            if number not in kept:
                self._fs.delete(f"{root_path}/{self._checkpoint_prefix}.{number}")
