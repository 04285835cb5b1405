"""fluid.dataset: the data sets of paddle.distributed with public setters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from paddle.distributed.fleet.dataset import dataset as _sets

__all__ = ["DatasetFactory", "InMemoryDataset", "QueueDataset"]


class DatasetFactory:
    """Creates data sets by class name.

    Examples:
        >>> import paddle.fluid as fluid
        >>> dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
        >>> dataset.set_batch_size(128)
    """

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> DatasetBase:
        """A new data set.

        Args:
            datafeed_class (str): "QueueDataset", "InMemoryDataset", "FileInstantDataset" or "BoxPSDataset".

        Raises:
            ValueError: for an unknown name.
        """
        made = globals().get(datafeed_class) if isinstance(datafeed_class, str) else None
        if not (isinstance(made, type) and issubclass(made, DatasetBase)):
            raise ValueError(f"datafeed class {datafeed_class} does not exist")
        return made()


class DatasetBase(_sets.DatasetBase):
    """Base of the data sets; see `paddle.distributed.fleet.DatasetBase`."""

    fea_eval = False

    def set_pipe_command(self, pipe_command: str) -> None:
        """Sets the shell command that preprocesses each file; it writes lines to its output."""
        self._set_pipe_command(pipe_command)

    def set_rank_offset(self, rank_offset: str) -> None:
        """Sets the variable of page views (PaddleBox)."""
        self.proto_desc.rank_offset = rank_offset

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Enables `slots_shuffle`, with the number of candidate instances."""
        if fea_eval:
            self.dataset.set_fea_eval(fea_eval, record_candidate_size)
        self.fea_eval = fea_eval

    def slots_shuffle(self, slots: Iterable[str]) -> None:
        """Exchanges the values of these slots between instances; without `set_fea_eval` it has no effect."""
        if self.fea_eval:
            self.dataset.slots_shuffle(set(slots))

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the number of instances per batch."""
        self._set_batch_size(batch_size)

    def set_pv_batch_size(self, pv_batch_size: int) -> None:
        """Sets the number of page views per batch (PaddleBox)."""
        self.proto_desc.pv_batch_size = pv_batch_size

    def set_thread(self, thread_num: int) -> None:
        """Sets the number of reader threads."""
        self._set_thread(thread_num)

    def set_input_type(self, input_type: int) -> None:
        """Sets whether a line is an instance (0) or a batch (1)."""
        self._set_input_type(input_type)

    def set_use_var(self, var_list: Iterable[Any]) -> None:
        """Sets the variables that a line has values for, in order: float32 or int64."""
        self._set_use_var(var_list)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Sets the file system of remote files, and the user."""
        self._set_hdfs_config(fs_name, fs_ugi)

    def set_download_cmd(self, download_cmd: str) -> None:
        """Sets the command that downloads a remote file; the file is its last argument."""
        self._set_download_cmd(download_cmd)

    def desc(self) -> str:
        """The DataFeedDesc as protobuf text."""
        return self._desc()


class InMemoryDataset(DatasetBase, _sets.InMemoryDataset):
    """A data set that is loaded into memory; see `paddle.distributed.InMemoryDataset`."""

    def __init__(self) -> None:
        super().__init__()
        self.trainer_num = -1

    def set_feed_type(self, data_feed_type: str) -> None:
        """Sets the feed: "MultiSlotInMemoryDataFeed"."""
        self._set_feed_type(data_feed_type)

    def set_queue_num(self, queue_num: int) -> None:
        """Stores a number of queues; each training thread has its own queue."""
        self._set_queue_num(queue_num)

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Sets whether lines begin with ``1 <id>``."""
        self._set_parse_ins_id(parse_ins_id)

    def set_parse_content(self, parse_content: bool) -> None:
        """Sets whether lines have ``1 <content>`` after the id."""
        self._set_parse_content(parse_content)

    def set_parse_logkey(self, parse_logkey: bool) -> None:
        """Sets whether lines have a log key (PaddleBox)."""
        self.parse_logkey = parse_logkey

    def _set_trainer_num(self, trainer_num: int) -> None:
        self.trainer_num = trainer_num

    def set_merge_by_sid(self, merge_by_sid: bool) -> None:
        """Sets whether page views are merged by their search id (PaddleBox)."""
        self.merge_by_sid = merge_by_sid

    def set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        """Sets whether page views are merged (PaddleBox: loading raises for True)."""
        self.enable_pv_merge = enable_pv_merge

    def preprocess_instance(self) -> None:
        """Shuffles before training."""
        self.dataset.preprocess_instance()

    def set_current_phase(self, current_phase: int) -> None:
        """Sets the phase: 1 for join, 0 for update (PaddleBox)."""
        self.dataset.set_current_phase(current_phase)

    def postprocess_instance(self) -> None:
        """Shuffles after training."""
        self.dataset.postprocess_instance()

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """Stores a number of instances, without effect: messages of a global shuffle have 4 MiB."""
        self._set_fleet_send_batch_size(fleet_send_batch_size)

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        """Stores a number of seconds, without effect: a global shuffle does not sleep."""
        self._set_fleet_send_sleep_seconds(fleet_send_sleep_seconds)

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Lets a global shuffle merge this number of instances of one id."""
        self._set_merge_by_lineid(merge_size)

    def set_generate_unique_feasigns(self, generate_uni_feasigns: bool, shard_num: int) -> None:
        """Sets whether `generate_local_tables_unlock` collects ids."""
        self._set_generate_unique_feasigns(generate_uni_feasigns, shard_num)

    def generate_local_tables_unlock(
        self, table_id: int, fea_dim: int, read_thread_num: int, consume_thread_num: int, shard_num: int
    ) -> None:
        """Collects the distinct ids in memory, by their remainder modulo `shard_num`."""
        self._generate_local_tables_unlock(table_id, fea_dim, read_thread_num, consume_thread_num, shard_num)

    def get_pv_data_size(self) -> int:
        """The number of page views: 0, as they are not merged."""
        return self.dataset.get_pv_data_size()


class _StreamedDataset(DatasetBase):
    """Base of data sets that are read during training."""

    def local_shuffle(self) -> NoReturn:
        """Raises NotImplementedError: only an InMemoryDataset can be shuffled."""
        raise NotImplementedError(f"{type(self).__name__} does not support local shuffle: use InMemoryDataset")

    def global_shuffle(self, fleet: Any = None) -> NoReturn:
        """Raises NotImplementedError: only an InMemoryDataset can be shuffled."""
        raise NotImplementedError(f"{type(self).__name__} does not support global shuffle: use InMemoryDataset")


class QueueDataset(_StreamedDataset, _sets.QueueDataset):
    """A data set that is read during training; see `paddle.distributed.QueueDataset`."""


class FileInstantDataset(_StreamedDataset, _sets.FileInstantDataset):
    """A data set that is read during training; see `paddle.distributed.fleet.FileInstantDataset`."""


class BoxPSDataset(InMemoryDataset, _sets.BoxPSDataset):
    """A data set for BoxPS; see `paddle.distributed.fleet.BoxPSDataset`."""

    def slots_shuffle(self, slots: Iterable[str]) -> None:
        """As `InMemoryDataset.slots_shuffle`; raises RuntimeError without `fea_eval`."""
        self.boxps.slots_shuffle(set(slots))
