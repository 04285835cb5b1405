"""InMemoryDataset, QueueDataset and other data sets of files, for `Executor.train_from_dataset`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paddle._basics.dtypes import VarType
from paddle.static.datasets import BoxPS, Dataset
from paddle.static.datasets.messages import data_feed_desc

from . import columns
from .exchange import Trainers

__all__ = ["DatasetBase", "InMemoryDataset", "QueueDataset", "FileInstantDataset", "BoxPSDataset"]


class DatasetBase:
    """The base of data sets: files whose lines are instances.

    A line of a file is an instance: for each variable of `use_var` the number of its values and the values
    (``<n> v1 .. vn``), separated by spaces. int64 variables take integers, float32 ones numbers. A variable with
    ``lod_level`` 0 becomes a tensor of its shape, another one a LoDTensor of a column.

    Files ending in .parquet, .arrow, .feather or .ipc have a column for each variable, by its name: of numbers or of
    lists (with pyarrow, the extra "arrow").

    Examples:
        >>> import paddle
        >>> dataset = paddle.distributed.fleet.DatasetBase()
        >>> dataset.init(batch_size=2, thread_num=1, pipe_command="cat")
        >>> dataset.set_filelist(["a.txt", "b.txt"])
    """

    def __init__(self) -> None:
        self.proto_desc = data_feed_desc(pipe_command="cat")
        self.dataset = Dataset("MultiSlotDataset")
        self.thread_num = 1
        self.filelist: list[str] = []

    def init(
        self,
        batch_size: int = 1,
        thread_num: int = 1,
        use_var: Iterable[Any] = [],  # noqa: B006 (2.0.2's signature; it is only read)
        pipe_command: str = "cat",
        input_type: int = 0,
        fs_name: str = "",
        fs_ugi: str = "",
        download_cmd: str = "cat",
    ) -> None:
        """Sets the properties of the data set; called once.

        Args:
            batch_size (int): instances of a batch.
            thread_num (int): threads that read.
            use_var (list of Variable): the variables of a line, in order; float32 or int64.
            pipe_command (str): a shell command that filters each file to lines.
            input_type (int): 0: a line is an instance; 1: a line is a batch (the batch size is 1 then).
            fs_name (str): the file system of remote files. fs_ugi (str): its user.
            download_cmd (str): the command that downloads a remote file.

        Raises:
            ValueError: for variables of another type.
        """
        self._set_batch_size(batch_size)
        self._set_thread(thread_num)
        self._set_use_var(use_var)
        self._set_pipe_command(pipe_command)
        self._set_input_type(input_type)
        self._set_hdfs_config(fs_name, fs_ugi)
        self._set_download_cmd(download_cmd)

    def set_filelist(self, filelist: list[str]) -> None:
        """Sets the files, in order. Names ending in .gz are unpacked, those beginning with hdfs: or afs: downloaded.

        Args:
            filelist (list of str): the files' names.
        """
        self.dataset.set_filelist(filelist)
        self.filelist = filelist

    def _set_pipe_command(self, pipe_command: str) -> None:
        self.proto_desc.pipe_command = pipe_command

    def _set_batch_size(self, batch_size: int) -> None:
        self.proto_desc.batch_size = batch_size

    def _set_thread(self, thread_num: int) -> None:
        self.dataset.set_thread_num(thread_num)
        self.thread_num = thread_num

    def _set_input_type(self, input_type: int) -> None:
        self.proto_desc.input_type = input_type

    def _set_use_var(self, var_list: Iterable[Any]) -> None:
        for var in var_list:
            if var.dtype not in (VarType.FP32, VarType.INT64):
                raise ValueError(f"a data set has variables of float32 and int64; {var.name} is of {var.dtype}")
            slot = self.proto_desc.multi_slot_desc.slots.add()
            slot.is_used = True
            slot.name = var.name
            if var.lod_level == 0:
                slot.is_dense = True
                slot.shape.extend(var.shape)
            slot.type = "float" if var.dtype == VarType.FP32 else "uint64"

    def _set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        self.dataset.set_hdfs_config(fs_name, fs_ugi)

    def _set_download_cmd(self, download_cmd: str) -> None:
        self.dataset.set_download_cmd(download_cmd)

    def _desc(self) -> str:
        """The DataFeedDesc as protobuf's text."""
        return str(self.proto_desc)

    def _readers(self) -> None:
        """The number of reading threads: at most one for each file."""
        self.thread_num = min(self.thread_num, len(self.filelist))

    def _read_columns(self) -> None:
        """Reads files with columns by pyarrow, unless the user has a pipe command."""
        self.dataset.set_column_reader(None)
        found = [str(path).endswith(columns.SUFFIXES) for path in self.filelist]
        if not any(found) or self.proto_desc.pipe_command.strip() not in ("", "cat"):
            return
        if not all(found):
            raise ValueError("a data set has either text or files with columns (Parquet, Arrow), got both in filelist")
        columns.check_installed()
        self.dataset.set_column_reader(columns.read)

    def _prepare_to_run(self) -> None:
        self._readers()
        self._read_columns()
        self.dataset.set_thread_num(self.thread_num)
        self.dataset.set_data_feed_desc(self.proto_desc)

    def _finish_to_run(self) -> None:
        """Does nothing: no state is kept between runs."""

    def _dynamic_adjust_before_train(self, thread_num: int) -> None:
        """Does nothing: the engine distributes instances over any number of threads."""

    def _dynamic_adjust_after_train(self) -> None:
        """See :meth:`_dynamic_adjust_before_train`."""


class InMemoryDataset(DatasetBase):
    """A data set whose instances are loaded into memory, where they can be shuffled.

    Zeros of a sparse variable are dropped; an instance without other values has a single zero.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/InMemoryDataset_en.html

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> with paddle.static.program_guard(paddle.static.Program()):
        ...     ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
        >>> with open("in_memory.txt", "w") as file:
        ...     _ = file.write("2 1 2\\n1 3\\n3 4 5 6\\n")
        >>> dataset = paddle.distributed.InMemoryDataset()
        >>> dataset.init(batch_size=2, thread_num=1, use_var=[ids])
        >>> dataset.set_filelist(["in_memory.txt"])
        >>> dataset.load_into_memory()
        >>> dataset.local_shuffle()
        >>> int(dataset.get_memory_data_size())
        3
    """

    def __init__(self) -> None:
        super().__init__()
        self.proto_desc.name = "MultiSlotInMemoryDataFeed"
        self.fleet_send_batch_size: int | None = None
        self.fleet_send_sleep_seconds: int | None = None
        self.is_user_set_queue_num = False
        self.queue_num: int | None = None
        self.parse_ins_id = False
        self.parse_content = False
        self.parse_logkey = False
        self.merge_by_sid = True
        self.enable_pv_merge = False
        self.merge_by_lineid = False
        self.fea_eval = False

    def _init_distributed_settings(self, **kwargs: Any) -> None:
        """Settings of distributed training: merge_size, parse_ins_id, parse_content, fleet_send_batch_size,
        fleet_send_sleep_seconds, fea_eval and candidate_size."""
        settings = {"parse_ins_id": False, "parse_content": False, **kwargs}
        for name in ("fleet_send_batch_size", "fleet_send_sleep_seconds"):
            if not settings.get(name):
                settings.pop(name, None)
        self._distributed_settings(settings)

    def _distributed_settings(self, given: dict[str, Any]) -> None:
        if given.get("merge_size", -1) > 0:
            self._set_merge_by_lineid(given["merge_size"])
        for name in ("parse_ins_id", "parse_content", "fleet_send_batch_size", "fleet_send_sleep_seconds"):
            if name in given:
                getattr(self, f"_set_{name}")(given[name])
        if given.get("fea_eval"):
            self._set_fea_eval(given.get("candidate_size", 10000), True)

    def update_settings(self, **kwargs: Any) -> None:
        """Changes settings of :meth:`init`, by their names there, and of distributed training.

        Args:
            batch_size, thread_num, use_var, input_type, pipe_command, download_cmd, fs_name with fs_ugi: as in
                :meth:`init`; variables are added.
            merge_size (int): when positive, the number of instances of one id (`parse_ins_id`) that are merged after a
                shuffle.
            parse_ins_id (bool): lines begin with ``1 <id>``. parse_content (bool): followed by ``1 <content>``.
            fea_eval (bool): allows :meth:`slots_shuffle`, which draws from `candidate_size` (int) instances.
            fleet_send_batch_size, fleet_send_sleep_seconds (int): not read; messages have 4 MiB.
        """
        setters = {"thread_num": self._set_thread}
        for name in ("pipe_command", "batch_size", "thread_num", "use_var", "input_type", "download_cmd"):
            if name in kwargs:
                setters.get(name, getattr(self, f"_set_{name}", None))(kwargs[name])  # type: ignore[misc]
        if "fs_name" in kwargs and "fs_ugi" in kwargs:
            self._set_hdfs_config(kwargs["fs_name"], kwargs["fs_ugi"])
        self._distributed_settings(kwargs)

    def init(self, **kwargs: Any) -> None:  # type: ignore[override]
        """Sets the properties of the data set; called once.

        Args:
            batch_size, thread_num, use_var, pipe_command, input_type, fs_name, fs_ugi, download_cmd: as in
                `DatasetBase.init`.
            data_feed_type (str): "MultiSlotInMemoryDataFeed".
            queue_num (int): not read; each training thread has a queue.
        """
        names = (
            "batch_size",
            "thread_num",
            "use_var",
            "input_type",
            "fs_name",
            "fs_ugi",
            "pipe_command",
            "download_cmd",
        )
        super().init(**{name: kwargs[name] for name in names if name in kwargs})
        self._set_feed_type(kwargs.get("data_feed_type", "MultiSlotInMemoryDataFeed"))
        if kwargs.get("queue_num", -1) > 0:
            self._set_queue_num(kwargs["queue_num"])

    def _set_feed_type(self, data_feed_type: str) -> None:
        self.proto_desc.name = data_feed_type

    def _prepare_to_run(self) -> None:
        super()._prepare_to_run()
        if self.queue_num is None:
            self.queue_num = self.thread_num
        self.dataset.set_parse_ins_id(self.parse_ins_id)
        self.dataset.set_parse_content(self.parse_content)
        self.dataset.set_enable_pv_merge(self.enable_pv_merge)

    def _readers(self) -> None:
        self.thread_num = max(self.thread_num, 1)

    def _set_queue_num(self, queue_num: int) -> None:
        self.is_user_set_queue_num = True
        self.queue_num = queue_num

    def _set_parse_ins_id(self, parse_ins_id: bool) -> None:
        self.parse_ins_id = parse_ins_id

    def _set_parse_content(self, parse_content: bool) -> None:
        self.parse_content = parse_content

    def _set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        self.fleet_send_batch_size = fleet_send_batch_size

    def _set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        self.fleet_send_sleep_seconds = fleet_send_sleep_seconds

    def _set_merge_by_lineid(self, merge_size: int = 2) -> None:
        self.dataset.set_merge_by_lineid(merge_size)
        self.merge_by_lineid = True
        self.parse_ins_id = True

    def _set_generate_unique_feasigns(self, generate_uni_feasigns: bool, shard_num: int) -> None:
        self.dataset.set_generate_unique_feasigns(generate_uni_feasigns)
        self.gen_uni_feasigns = generate_uni_feasigns
        self.local_shard_num = shard_num

    def _generate_local_tables_unlock(
        self, table_id: int, fea_dim: int, read_thread_num: int, consume_thread_num: int, shard_num: int
    ) -> None:
        self.dataset.generate_local_tables_unlock(table_id, fea_dim, read_thread_num, consume_thread_num, shard_num)

    def load_into_memory(self) -> None:
        """Reads all files into memory, by `thread_num` threads, replacing earlier instances.

        Instances are in the order of files and lines, whatever the number of threads.

        Raises:
            ValueError: for a damaged line, naming file and line.
            OSError: for a pipe command that fails. RuntimeError: for a missing file.
        """
        self._prepare_to_run()
        self.dataset.load_into_memory()

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Starts reading all files into memory, by `thread_num` threads (None: that of :meth:`init`)."""
        self._prepare_to_run()
        self.dataset.preload_into_memory(self.thread_num if thread_num is None else thread_num)

    def wait_preload_done(self) -> None:
        """Waits for :meth:`preload_into_memory`; raises its error."""
        self.dataset.wait_preload_done()

    def local_shuffle(self) -> None:
        """Shuffles the instances of this process."""
        self.dataset.local_shuffle()

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Shuffles the instances of all trainers: each is sent to a random trainer, those of one id to the same.

        Args:
            fleet (Fleet, optional): the trainers, connected by `init_parallel_env` or Gloo. Without it the shuffle is
                local.
            thread_num (int): not read.

        Raises:
            RuntimeError: when the trainers are not connected.
        """
        if fleet is None:
            self.dataset.global_shuffle()
        else:
            trainers = Trainers(fleet)
            trainers.barrier()
            self.dataset.set_trainer_num(trainers.count)
            self.dataset.global_shuffle(trainers.exchange)
            trainers.barrier()
        if self.merge_by_lineid:
            self.dataset.merge_by_lineid()

    def release_memory(self) -> None:
        """Releases the memory of the instances."""
        self.dataset.release_memory()

    def get_memory_data_size(self, fleet: Any = None) -> Any:
        """The number of instances in memory, of all trainers where `fleet` is given.

        Args:
            fleet (Fleet, optional): the trainers.

        Returns:
            int: the number.
        """
        return self._total(self.dataset.get_memory_data_size(), fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> Any:
        """The number of instances in memory after a shuffle (0 before one), of all trainers where `fleet` is given.

        Args:
            fleet (Fleet, optional): the trainers.

        Returns:
            int: the number.
        """
        return self._total(self.dataset.get_shuffle_data_size(), fleet)

    def _total(self, number: int, fleet: Any) -> int:
        return number if fleet is None else Trainers(fleet).sum([number])[0]

    def _set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        if fea_eval:
            self.dataset.set_fea_eval(fea_eval, record_candidate_size)
        self.fea_eval = fea_eval

    def slots_shuffle(self, slots: Iterable[str]) -> None:
        """Replaces the values of these slots by those of random other instances, to measure a feature's importance.

        Other slots get their own values back. Without ``update_settings(fea_eval=True, candidate_size=...)`` it does
        nothing.

        Args:
            slots (list of str): names of int64 variables.

        Raises:
            ValueError: for another name.
        """
        if self.fea_eval:
            self.dataset.slots_shuffle(set(slots))


class QueueDataset(DatasetBase):
    """A data set whose files are read while it is trained on.

    Each training thread takes the next unread file.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/QueueDataset_en.html

    Examples:
        >>> import paddle
        >>> dataset = paddle.distributed.QueueDataset()
        >>> dataset.init(batch_size=32, thread_num=2, pipe_command="cat")
    """

    def __init__(self) -> None:
        super().__init__()
        self.proto_desc.name = "MultiSlotDataFeed"

    def init(self, **kwargs: Any) -> None:  # type: ignore[override]
        """Sets the properties of the data set; called once, with the arguments of `DatasetBase.init`."""
        super().init(**kwargs)

    def _readers(self) -> None:
        super()._readers()
        self.thread_num = max(self.thread_num, 1)


class FileInstantDataset(DatasetBase):
    """A data set whose files are read while it is trained on, as those of a QueueDataset.

    Examples:
        >>> import paddle
        >>> dataset = paddle.distributed.fleet.FileInstantDataset()
        >>> dataset.init(batch_size=32)
    """

    def __init__(self) -> None:
        super().__init__()
        self.proto_desc.name = "MultiSlotFileInstantDataFeed"

    def init(self, **kwargs: Any) -> None:  # type: ignore[override]
        """Sets the properties of the data set; called once, with the arguments of `DatasetBase.init`."""
        super().init(**kwargs)


class BoxPSDataset(InMemoryDataset):
    """A data set in memory for training with BoxPS. The service is closed source, and needs GPUs: loading works here,
    passes raise NotImplementedError.

    Examples:
        >>> import paddle
        >>> dataset = paddle.distributed.fleet.BoxPSDataset()
        >>> dataset.init(batch_size=32, rank_offset="rank_offset")
    """

    def __init__(self) -> None:
        super().__init__()
        self.boxps = BoxPS(self.dataset)

    def init(self, **kwargs: Any) -> None:  # type: ignore[override]
        """Sets the properties of the data set; called once.

        Args:
            rank_offset (str), pv_batch_size (int), parse_logkey, merge_by_sid, enable_pv_merge (bool): of page views.
            Others are those of `InMemoryDataset.init`.
        """
        super().init(**kwargs)
        self._set_rank_offset(kwargs.get("rank_offset", ""))
        self._set_pv_batch_size(kwargs.get("pv_batch_size", 1))
        self._set_parse_logkey(kwargs.get("parse_logkey", False))
        self._set_merge_by_sid(kwargs.get("merge_by_sid", False))
        self._set_enable_pv_merge(kwargs.get("enable_pv_merge", False))

    def _set_rank_offset(self, rank_offset: str) -> None:
        self.proto_desc.rank_offset = rank_offset

    def _set_pv_batch_size(self, pv_batch_size: int) -> None:
        self.proto_desc.pv_batch_size = pv_batch_size

    def _set_parse_logkey(self, parse_logkey: bool) -> None:
        self.parse_logkey = parse_logkey

    def _set_merge_by_sid(self, merge_by_sid: bool) -> None:
        self.merge_by_sid = merge_by_sid

    def _set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        self.enable_pv_merge = enable_pv_merge

    def set_date(self, date: str) -> None:
        """Would set the day ("20210301") of BoxPS: raises NotImplementedError."""
        self.boxps.set_date(int(date[:4]), int(date[4:6]), int(date[6:]))

    def begin_pass(self) -> None:
        """Would make BoxPS load a pass's parameters to the GPUs: raises NotImplementedError."""
        self.boxps.begin_pass()

    def end_pass(self, need_save_delta: bool) -> None:
        """Would end the pass of BoxPS: raises NotImplementedError."""
        self.boxps.end_pass(need_save_delta)

    def wait_preload_done(self) -> None:
        """Waits for :meth:`preload_into_memory`."""
        self.boxps.wait_feed_pass_done()

    def load_into_memory(self) -> None:
        """Reads all files into memory."""
        self._prepare_to_run()
        self.boxps.load_into_memory()

    def preload_into_memory(self) -> None:  # type: ignore[override]
        """Starts reading all files into memory."""
        self._prepare_to_run()
        self.boxps.preload_into_memory()

    def slots_shuffle(self, slots: Iterable[str]) -> None:
        """As `InMemoryDataset.slots_shuffle`; raises RuntimeError without `fea_eval`."""
        self.boxps.slots_shuffle(set(slots))

    def set_current_phase(self, current_phase: int) -> None:
        """Sets the phase: 1 for join, 0 for update."""
        self.dataset.set_current_phase(current_phase)

    def get_pv_data_size(self) -> int:
        """The number of page views: 0, as they are not merged."""
        return self.dataset.get_pv_data_size()

    def preprocess_instance(self) -> None:
        """Shuffles before a pass."""
        self.dataset.preprocess_instance()

    def postprocess_instance(self) -> None:
        """Shuffles after a pass."""
        self.dataset.postprocess_instance()
