"""DataFeedDesc: the slots and the format of a data set, read from a protobuf text file."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

from paddle.static.datasets.messages import data_feed_desc

__all__ = ["DataFeedDesc"]


class DataFeedDesc:
    """The description of a data feed: its slots, its batch size and the reader of its lines.

    Args:
        proto_file (str): a protobuf text file.

    Raises:
        ValueError: with the line number, for invalid text. OSError: if the file cannot be read.

    Examples:
        >>> import paddle.fluid as fluid
        >>> with open("data.proto", "w") as file:
        ...     _ = file.write('name: "MultiSlotDataFeed"\\nbatch_size: 2\\n'
        ...                    'multi_slot_desc { slots { name: "words" type: "uint64" } }')
        >>> desc = fluid.DataFeedDesc("data.proto")
        >>> desc.set_batch_size(128)
        >>> desc.set_use_slots(["words"])
        >>> print(desc.desc())
        name: "MultiSlotDataFeed"
        batch_size: 128
        multi_slot_desc {
          slots {
            name: "words"
            type: "uint64"
            is_used: true
          }
        }
        pipe_command: "cat"
        <BLANKLINE>
    """

    def __init__(self, proto_file: str | PathLike[str]) -> None:
        self.proto_desc = data_feed_desc(pipe_command="cat")
        with open(proto_file) as file:
            self.proto_desc.merge_text(file.read())

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the number of instances per batch.

        Args:
            batch_size (int): the number.
        """
        self.proto_desc.batch_size = batch_size

    def set_dense_slots(self, dense_slots_name: Iterable[str]) -> None:
        """Marks slots as dense (tensors without LoD); the default is sparse.

        Args:
            dense_slots_name (list of str): the slots.

        Raises:
            ValueError: if the feed is not a MultiSlotDataFeed. KeyError: for an unknown slot.
        """
        self._set(dense_slots_name, "is_dense", "set_dense_slots")

    def set_use_slots(self, use_slots_name: Iterable[str]) -> None:
        """Marks slots as used; the default is unused.

        Args:
            use_slots_name (list of str): the slots.

        Raises:
            ValueError: if the feed is not a MultiSlotDataFeed. KeyError: for an unknown slot.
        """
        self._set(use_slots_name, "is_used", "set_use_slots")

    def _set(self, names: Iterable[str], field: str, what: str) -> None:
        if self.proto_desc.name != "MultiSlotDataFeed":
            raise ValueError(f"{what} is for a MultiSlotDataFeed, this is a {self.proto_desc.name!r}")
        slots = {slot.name: slot for slot in self.proto_desc.multi_slot_desc.slots}
        for name in names:
            setattr(slots[name], field, True)

    def desc(self) -> str:
        """The description as protobuf text.

        Returns:
            str: the text.
        """
        return str(self.proto_desc)
