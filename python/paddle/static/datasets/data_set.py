"""fluid.core.Dataset: files, the format of their lines, and instances in memory."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import paddle._core as _core
from paddle._basics.message import Message

from .messages import data_feed_desc

__all__ = ["BoxPS", "Dataset"]

_log = logging.getLogger("paddle.dataset")

#: data feeds by name: whether they read from memory
_FEEDS = {"MultiSlotInMemoryDataFeed": True, "MultiSlotDataFeed": False, "MultiSlotFileInstantDataFeed": False}


class Dataset:
    """The implementation of `InMemoryDataset`, `QueueDataset` and others: `fluid.core.Dataset`.

    Args:
        name (str): "MultiSlotDataset".
    """

    def __init__(self, name: str = "MultiSlotDataset") -> None:
        if name != "MultiSlotDataset":
            raise ValueError(f"Dataset: the only kind is MultiSlotDataset, got {name!r}")
        self._files: list[str] = []
        self._threads, self._trainers, self._merge_size = 1, 1, 0
        self._hdfs, self._download = ("", ""), ""
        self._columns: Callable[..., Iterable[Any]] | None = None
        self._desc = data_feed_desc()
        self._ids = self._contents = self._merging = self._shuffled = False
        self._candidates = 0
        self._memory = _core.feed.Memory()
        #: the instances before `slots_shuffle`
        self._original: Any = None
        self._loading: threading.Thread | None = None
        self._load_error: BaseException | None = None
        self._unique = False
        self._local_tables: list[list[int]] = []

    # ------------------------------------------------------------------------------------------------ settings

    def set_filelist(self, filelist: Iterable[str]) -> None:
        """The files to read, in order; TypeError for one name in place of a list."""
        if isinstance(filelist, (str, bytes)):
            raise TypeError(f"set_filelist: filelist must be a list of names, got {filelist!r}")
        self._files = [str(f) for f in filelist]

    def get_filelist(self) -> list[str]:
        """The files to read."""
        return list(self._files)

    def set_thread_num(self, thread_num: int) -> None:
        """The number of reading threads."""
        self._threads = int(thread_num)

    def get_thread_num(self) -> int:
        """The number of reading threads."""
        return self._threads

    def set_trainer_num(self, trainer_num: int) -> None:
        """The number of trainers of a global shuffle."""
        self._trainers = int(trainer_num)

    def get_trainer_num(self) -> int:
        """The number of trainers of a global shuffle."""
        return self._trainers

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """The file system, and the user, of files whose names begin with hdfs: or afs:."""
        self._hdfs = (fs_name, fs_ugi)

    def get_hdfs_config(self) -> tuple[str, str]:
        """The file system and the user."""
        return self._hdfs

    def set_download_cmd(self, download_cmd: str) -> None:
        """Sets the command that writes a remote file, its last argument, to its output."""
        self._download = download_cmd

    def get_download_cmd(self) -> str:
        """The command that downloads remote files."""
        return self._download

    def set_column_reader(self, read: Callable[..., Iterable[Any]] | None) -> None:
        """Sets the function that reads files with columns (`fleet.dataset.columns.read`); None: files have lines."""
        self._columns = read

    def set_data_feed_desc(self, text: str | Message) -> None:
        """Sets the format of lines: a DataFeedDesc in protobuf's text format."""
        desc = data_feed_desc()
        desc.merge_text(str(text))
        self._desc = desc

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Sets whether lines begin with an id."""
        self._ids = bool(parse_ins_id)

    def set_parse_content(self, parse_content: bool) -> None:
        """Sets whether lines have a content after the id."""
        self._contents = bool(parse_content)

    def set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        """Only False: merging page views needs PaddleBox."""
        if enable_pv_merge:
            raise NotImplementedError("merging the instances of a page view needs PaddleBox, which is closed source")

    def set_merge_by_lineid(self, merge_size: int) -> None:
        """Sets the number of instances of one id that `merge_by_lineid` merges (0: any number)."""
        self._merge_size, self._merging, self._ids = int(merge_size), True, True

    def set_fea_eval(self, fea_eval: bool, record_candidate_size: int) -> None:
        """Allows `slots_shuffle`, and sets its number of candidate instances."""
        self._candidates = int(record_candidate_size) if fea_eval else 0

    def set_generate_unique_feasigns(self, unique: bool) -> None:
        """Whether `generate_local_tables_unlock` collects."""
        self._unique = bool(unique)

    # ------------------------------------------------------------------------------------------------ reading

    def _feed(self) -> Any:
        desc = self._desc
        if desc.name not in _FEEDS:
            raise NotImplementedError(f"a data set reads by {', '.join(_FEEDS)}; {desc.name!r} is not supported")
        slots = []
        for slot in desc.multi_slot_desc.slots:
            if slot.type[:1] not in ("f", "u"):
                raise ValueError(f"slot {slot.name!r} is of type {slot.type!r}, expected float or uint64")
            shape = list(slot.shape)
            slots.append((slot.name, slot.type[0] == "f", slot.is_dense, slot.is_used, shape))
        download = self._download or (
            f"$HADOOP_HOME/bin/hadoop fs -D fs.default.name={self._hdfs[0]} -D hadoop.job.ugi={self._hdfs[1]}"
            " -Ddfs.client.block.write.retries=15 -Ddfs.rpc.timeout=500000 -cat"
        )
        in_memory, whole = _FEEDS[desc.name], desc.input_type == 1
        how = (desc.batch_size, whole, in_memory, in_memory and self._ids, in_memory and self._contents)
        reader = None if self._columns is None else self._column_reader(slots, download)
        return _core.feed.Feed(slots, *how, self._files, desc.pipe_command, download, reader)

    def _column_reader(self, slots: list[tuple], download: str) -> Callable[[str], Iterable[Any]]:
        if self._ids or self._contents:
            raise NotImplementedError("instances of files with columns (Parquet, Arrow) have no ids and no contents")
        read, used = self._columns, [(name, real) for name, real, _, is_used, _ in slots if is_used]
        assert read is not None

        def reader(path: str) -> Iterable[Any]:
            if not path.startswith(("hdfs:", "afs:")):
                return read(path, used)
            command = ["bash", "-c", f'{download} "$1"', "bash", path]
            run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            if run.returncode:
                raise OSError(f"the command `{download}` for the data file {path!r} ended with status {run.returncode}")
            return read(path, used, run.stdout)

        return reader

    def _is_in_memory(self) -> bool:
        return _FEEDS.get(self._desc.name, False)

    def batches(self, threads: int) -> tuple[list[str], list[Any]]:
        """The names of the slots, and the batches for each of the threads."""
        feed = self._feed()
        made = self._memory.batches(feed, threads) if self._is_in_memory() else feed.stream(threads)
        return feed.names(), made

    def load_into_memory(self) -> None:
        """Reads all files, replacing the instances in memory."""
        self._replace(lambda: self._memory.load(self._feed(), max(self._threads, 1)))

    def _replace(self, load: Callable[[], None]) -> None:
        self._original, self._shuffled = None, False
        load()

    def preload_into_memory(self, threads: int) -> None:
        """Starts reading all files."""
        if self._loading is not None:
            raise RuntimeError("preload_into_memory: the data set is being loaded; call wait_preload_done first")
        feed = self._feed()
        self._load_error = None

        def load() -> None:
            try:
                self._replace(lambda: self._memory.load(feed, max(threads, 1)))
            except BaseException as error:  # raised by wait_preload_done
                self._load_error = error

        self._loading = threading.Thread(target=load, name="paddle-preload", daemon=True)
        self._loading.start()

    def wait_preload_done(self) -> None:
        """Waits until all files are read; raises the reader's error."""
        loading = self._loading
        if loading is None:
            return
        try:
            loading.join()
        except BaseException:
            self._memory.call_off()
            loading.join()
            raise
        finally:
            self._loading = None
        if self._load_error is not None:
            error, self._load_error = self._load_error, None
            raise error

    def release_memory(self) -> None:
        """Releases the instances."""
        self._memory.clear()
        self._original, self._shuffled = None, False

    # ------------------------------------------------------------------------------------------------ in memory

    def local_shuffle(self) -> None:
        """Shuffles the instances of this process."""
        self._memory.shuffle()
        self._shuffled = True

    def global_shuffle(self, exchange: Callable[[list[bytes]], list[bytes]] | None = None) -> None:
        """Distributes the instances randomly over the trainers, and shuffles the received ones."""
        if exchange is not None and self._trainers > 1:
            feed = self._feed()
            messages = self._memory.deal(feed, self._trainers, self._merging)
            self._memory.take(feed, exchange(messages))
            self._original = None
        self.local_shuffle()

    def merge_by_lineid(self) -> None:
        """Merges the instances of each id; logs dropped ones."""
        dropped = self._memory.merge(self._feed(), max(self._merge_size, 0))
        for name, count, why in dropped[:10]:
            _log.warning("merge_by_lineid: the %d instances of id %r are left out: %s", count, name, why)
        if dropped:
            _log.warning("merge_by_lineid: %d instances are left out in all", sum(count for _, count, _ in dropped))
        self._original = None

    def slots_shuffle(self, slots: Iterable[str]) -> None:
        """Replaces the values of these slots by those of random other instances, and restores other slots."""
        if self._candidates <= 0:
            raise RuntimeError("slots_shuffle: call set_fea_eval first, with a positive number of candidates")
        if self._original is None:
            self._original = self._memory.copy()
        self._memory = self._original.slots_shuffled(self._feed(), sorted(slots), self._candidates)

    def generate_local_tables_unlock(
        self, table_id: int, fea_dim: int, read_thread_num: int, consume_thread_num: int, shard_num: int
    ) -> None:
        """Collects the distinct ids in memory, by id modulo `shard_num`."""
        if self._unique:
            self._local_tables = self._memory.distinct(shard_num)

    def preprocess_instance(self) -> None:
        """Shuffles before training."""
        self.local_shuffle()

    def postprocess_instance(self) -> None:
        """Shuffles after training."""
        self.local_shuffle()

    def set_current_phase(self, current_phase: int) -> None:
        """Sets the phase: 1 for join, 0 for update; only for page views."""
        if current_phase not in (0, 1):
            raise ValueError(f"set_current_phase: 1 (join) or 0 (update), got {current_phase!r}")
        self._phase = current_phase

    def get_memory_data_size(self) -> int:
        """The number of instances in memory."""
        return len(self._memory)

    def get_shuffle_data_size(self) -> int:
        """The number of instances in memory after a shuffle; 0 before one."""
        return len(self._memory) if self._shuffled else 0

    def get_pv_data_size(self) -> int:
        """The number of page views: 0, as they are not merged."""
        return 0


class BoxPS:
    """The BoxPS service of `BoxPSDataset`, with parameters on GPUs and SSDs. It is closed source: only loading works.

    Args:
        dataset (Dataset): the data set.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def load_into_memory(self) -> None:
        """Loads the data set."""
        self._dataset.load_into_memory()

    def preload_into_memory(self) -> None:
        """Starts loading the data set."""
        self._dataset.preload_into_memory(self._dataset.get_thread_num())

    def wait_feed_pass_done(self) -> None:
        """Waits until the data set is loaded."""
        self._dataset.wait_preload_done()

    def slots_shuffle(self, slots: Iterable[str]) -> None:
        """`Dataset.slots_shuffle`."""
        self._dataset.slots_shuffle(slots)

    def set_date(self, year: int, month: int, day: int) -> NoReturn:
        """Raises NotImplementedError."""
        self._needs_service("set_date")

    def begin_pass(self) -> NoReturn:
        """Raises NotImplementedError."""
        self._needs_service("begin_pass")

    def end_pass(self, need_save_delta: bool) -> NoReturn:
        """Raises NotImplementedError."""
        self._needs_service("end_pass")

    def _needs_service(self, what: str) -> NoReturn:
        raise NotImplementedError(
            f"BoxPSDataset.{what} needs the BoxPS service (closed source) and its GPUs: use InMemoryDataset"
        )
