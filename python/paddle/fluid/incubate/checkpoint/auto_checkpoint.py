"""train_epoch_range: epochs with automatic checkpoints, from which a restarted job resumes.

It is enabled by PADDLE_RUNNING_ENV=PADDLE_EDL_AUTO_CHECKPOINT. 2.0.2 needs Hadoop; here checkpoints are in a local
folder unless PADDLE_EDL_HDFS_HOME is set.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paddle._basics import mode, unique_name
from paddle._basics.mode import in_static_mode
from paddle._programs import run_observer
from paddle._programs.program import Program
from paddle.distributed.fleet.utils import HDFSClient, LocalFS
from paddle.static import CompiledProgram

from .checkpoint_saver import CheckpointSaver, PaddleModel, SerializableBase

__all__ = ["train_epoch_range"]

logger = logging.getLogger("auto_checkpoint")

#: the sources of a restored state
CONST_CHECKPOINT, CONST_MEMORYINIT = "checkpoint", "memory_init"

g_train_epoch_range: TrainEpochRange | None = None
g_checker: AutoCheckpointChecker | None = None
generator = unique_name.UniqueNameGenerator()


def _thread_checker() -> None:
    assert threading.current_thread() is threading.main_thread(), "train_epoch_range works in the main thread only"


class AutoCheckpointChecker:
    """The checkpoint settings of the environment.

    Raises:
        ValueError: naming the missing or invalid variable, when checkpoints are enabled.
    """

    def __init__(self) -> None:
        self.run_env = os.getenv("PADDLE_RUNNING_ENV")
        self._asked = self.run_env == "PADDLE_EDL_AUTO_CHECKPOINT"
        if not self._asked:
            return
        self.platform = os.getenv("PADDLE_RUNNING_PLATFORM")
        self.job_id = self._needed("PADDLE_JOB_ID")
        self.hdfs_checkpoint_path = self._needed("PADDLE_EDL_HDFS_CHECKPOINT_PATH")
        self.hdfs_home = os.getenv("PADDLE_EDL_HDFS_HOME")
        self.ce_test = self._number("PADDLE_EDL_ONLY_FOR_CE_TEST", "0")
        hadoop = bool(self.hdfs_home) and not self.ce_test
        self.hdfs_name = self._needed("PADDLE_EDL_HDFS_NAME") if hadoop else None
        self.hdfs_ugi = self._needed("PADDLE_EDL_HDFS_UGI") if hadoop else None
        self.trainer_id = self._number("PADDLE_TRAINER_ID", "0")
        self.save_checkpoint_inter = self._number("PADDLE_EDL_SAVE_CHECKPOINT_INTER", "900")
        self.fs_cache = os.getenv("PADDLE_EDL_FS_CACHE", ".cache")

    @staticmethod
    def _needed(name: str) -> str:
        value = os.getenv(name)
        if not value:
            raise ValueError(f"auto checkpoint: environment variable {name} is needed")
        return value

    @staticmethod
    def _number(name: str, default: str) -> int:
        value = os.getenv(name, default)
        if not value.isdigit():
            raise ValueError(f"auto checkpoint: environment variable {name} must be a number, got {value!r}")
        return int(value)

    def valid(self) -> bool:
        """Whether checkpoints are written: enabled, and in static mode."""
        return self._asked and in_static_mode()

    def file_system(self) -> Any:
        """The file system of the checkpoints."""
        if not self.hdfs_home:
            return LocalFS()
        configs = {"fs.default.name": self.hdfs_name, "hadoop.job.ugi": self.hdfs_ugi}
        return HDFSClient(self.hdfs_home, None if self.ce_test else configs)

    def get_job_path(self) -> str:
        """The folder of the job."""
        return f"{self.hdfs_checkpoint_path}/{self.job_id}"

    def get_range_checkpoint_path(self, name: str) -> str:
        """The folder of a range of epochs."""
        return f"{self.get_job_path()}/range/{name}"

    def get_exe_checkpoint_path(self, name: str) -> str:
        """The folder of a Program's variables."""
        return f"{self.get_job_path()}/exe/{name}"

    @staticmethod
    def generate_range_name() -> str:
        """The name of the next range of this process, equal in a restarted process."""
        return generator("_range_")


class ExeTrainStatus(SerializableBase):
    """A Program that an Executor trains within a range, and its last checkpoint. Compared by both."""

    _file_name = "exe_train_status"
    __hash__ = object.__hash__

    def __init__(self, key: str = "", checkpoint_no: int | None = None, restored_from: str | None = None) -> None:
        self.key, self.checkpoint_no, self.restored_from = key, checkpoint_no, restored_from
        self.exe: Any = None
        self.program: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExeTrainStatus) and self._known() == other._known()

    def _known(self) -> dict[str, Any]:
        return {"key": self.key, "checkpoint_no": self.checkpoint_no}

    def serialize(self, path: str) -> None:
        """Writes both."""
        Path(path, self._file_name).write_text(json.dumps(self._known()), encoding="utf-8")

    def deserialize(self, path: str) -> None:
        """Reads them."""
        text = json.loads(Path(path, self._file_name).read_text(encoding="utf-8"))
        self.key, self.checkpoint_no = text["key"], text["checkpoint_no"]


class TrainEpochRange(SerializableBase):
    """The epochs of :func:`train_epoch_range`, with the Programs that are trained in them."""

    _file_name = "range_train_status"

    def __init__(self, max_epoch_num: int, name: str, checkpoint_inter: int | None = None) -> None:
        _thread_checker()
        checker = _get_checker()
        self._max_epoch_num, self.name, self._checker = max_epoch_num, name, checker
        self._epoch_no = -1
        self._save_checkpoint_inter = checker.save_checkpoint_inter if checkpoint_inter is None else checkpoint_inter
        assert self._save_checkpoint_inter >= 0, f"save_checkpoint_inter must not be negative, got {checkpoint_inter}"
        self._exe_status: dict[str, ExeTrainStatus] = {}
        self._fs = checker.file_system()
        self._saver = CheckpointSaver(self._fs)
        self._checkpoint_path = checker.get_range_checkpoint_path(name)
        found = self._saver.load_checkpoint(self._checkpoint_path, [self], checker.trainer_id, checker.fs_cache)
        self.restored_from = CONST_MEMORYINIT if found is None else CONST_CHECKPOINT
        self._last_checkpoint_time = time.monotonic()

    def serialize(self, path: str) -> None:
        """Writes the last epoch, and the checkpoints of its Programs."""
        known = {key: status.checkpoint_no for key, status in self._exe_status.items()}
        text = {"max_epoch_num": self._max_epoch_num, "epoch_no": self._epoch_no, "exe_status": known}
        Path(path, self._file_name).write_text(json.dumps(text), encoding="utf-8")

    def deserialize(self, path: str) -> None:
        """Reads them."""
        text = json.loads(Path(path, self._file_name).read_text(encoding="utf-8"))
        self._epoch_no = text["epoch_no"]
        self._exe_status = {key: ExeTrainStatus(key, number) for key, number in text["exe_status"].items()}

    def get(self) -> int:
        """The current epoch, -1 before the first."""
        return self._epoch_no

    def next(self) -> Iterator[int]:
        """The remaining epochs; a checkpoint is written after an epoch, when the interval has passed."""
        _thread_checker()
        for epoch in range(self._epoch_no + 1, self._max_epoch_num if self._max_epoch_num >= 0 else sys.maxsize):
            self._epoch_no = epoch
            yield epoch
            self.save_checkpoint()

    def save_checkpoint(self) -> None:
        """Writes a checkpoint if the interval has passed; none after the last epoch."""
        if self._checker.trainer_id != 0 or not self._checker.valid():
            return
        now = time.monotonic()
        if now - self._last_checkpoint_time < self._save_checkpoint_inter or self._epoch_no == self._max_epoch_num - 1:
            return
        cache = self._checker.fs_cache
        for status in self._exe_status.values():
            path = self._checker.get_exe_checkpoint_path(status.key)
            if status.program is not None:
                model = PaddleModel(status.exe, status.program)
                _, status.checkpoint_no = self._saver.save_checkpoint(path, [model], self._checker.trainer_id, cache)
        if self._exe_status:
            # The variables are written before the range names them: a job killed in between resumes from the previous
            # ones.
            self._saver.save_checkpoint(self._checkpoint_path, [self], self._checker.trainer_id, cache)
            self._saver.clean_redundant_checkpoints(self._checkpoint_path)
            for status in self._exe_status.values():
                if status.checkpoint_no is not None:
                    path = self._checker.get_exe_checkpoint_path(status.key)
                    self._saver.clean_redundant_checkpoints(path, [status.checkpoint_no])
        self._last_checkpoint_time = now

    def before_run(self, executor: Any, program: Any) -> None:
        """Called by an Executor before it runs a Program: one that trains is registered, and restored at first."""
        if isinstance(program, CompiledProgram):
            program = program._program
        if isinstance(program, Program) and not program._is_distributed and _trains(program):
            # Loading runs a Program, too: that run must not be observed.
            _set_current(None)
            try:
                self.trained(executor, program)
            finally:
                _set_current(self)

    def trained(self, exe: Any, program: Any) -> None:
        """Registers a Program that an Executor trains; before its first run it is restored from the checkpoint."""
        key = f"{exe._auto_checkpoint_name}_{program._auto_checkpoint_name}"
        status = self._exe_status.get(key)
        if status is None:
            assert self.restored_from == CONST_MEMORYINIT, (
                f"auto checkpoint: the checkpoint has no {key}: the script creates other Programs or Executors "
                "than the one that wrote it"
            )
            status = self._exe_status[key] = ExeTrainStatus(key, None, CONST_MEMORYINIT)
        if status.restored_from is None:
            path = self._checker.get_exe_checkpoint_path(key)
            status.restored_from = CONST_CHECKPOINT
            model, checker = PaddleModel(exe, program), self._checker
            self._saver.load_checkpoint(path, [model], checker.trainer_id, checker.fs_cache, status.checkpoint_no)
        status.exe, status.program = exe, program


def _get_checker() -> AutoCheckpointChecker:
    global g_checker
    if g_checker is None:
        g_checker = AutoCheckpointChecker()
    return g_checker


def _get_train_epoch_range() -> TrainEpochRange | None:
    return g_train_epoch_range


def _trains(program: Any) -> bool:
    ops = program.global_block().ops
    return any(op._is_backward_op() for op in ops) and any(op._is_optimize_op() for op in ops)


def _set_current(current: TrainEpochRange | None) -> None:
    """Makes this the range whose epochs are running, and the observer of Executors; None: there is none."""
    global g_train_epoch_range
    g_train_epoch_range = current
    run_observer.set_observer(current)


def train_epoch_range(max_epoch_num: int, save_checkpoint_inter: int | None = None) -> Iterator[int]:
    """The epochs: in a restarted job the remaining ones.

    Programs with an update that run in an epoch are written to a checkpoint after it, when `save_checkpoint_inter`
    seconds have passed since the last one, and restored at their first run in a restarted job. Without checkpoints in
    the environment all epochs are yielded, and nothing is written.

    Args:
        max_epoch_num (int): the number of epochs; negative: unlimited.
        save_checkpoint_inter (int, optional): seconds; PADDLE_EDL_SAVE_CHECKPOINT_INTER (900) when None.

    Raises:
        ValueError: naming the missing variable.

    Examples:
        >>> import paddle.fluid.incubate.checkpoint.auto_checkpoint as acp
        >>> list(acp.train_epoch_range(3))
        [0, 1, 2]
    """
    if not _get_checker().valid():
        logger.warning("auto checkpoint: it is not enabled by PADDLE_RUNNING_ENV, so nothing is written")
        yield from range(max_epoch_num if max_epoch_num >= 0 else sys.maxsize)
        return
    _set_current(TrainEpochRange(max_epoch_num, AutoCheckpointChecker.generate_range_name(), save_checkpoint_inter))
    try:
        assert g_train_epoch_range is not None
        yield from g_train_epoch_range.next()
    finally:
        _set_current(None)
