"""Tensor (ZeroCopyTensor in 1.x): an input or output of a predictor."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as core

from .data_types import DataType, data_type_of

__all__ = ["Tensor"]


class Tensor:
    """An input or output of a predictor, by its name; made by `get_input_handle` and `get_output_handle`."""

    __slots__ = ("_name", "_holder", "_is_input", "_shape", "_copied", "_kind", "_checked")

    def __init__(self, name: str, is_input: bool) -> None:
        self._name = name
        self._is_input = is_input
        #: the value; None for an output before the first run
        self._holder: Any = core.LoDTensor() if is_input else None
        self._shape: list[int] | None = None
        self._copied = False
        #: shape and type of the array that was copied; None where the value has an LoD
        self._kind: tuple | None = None
        #: whether a run has accepted a value of this kind
        self._checked = False

    def _value(self) -> Any:
        if self._holder is None:
            raise RuntimeError(f"Tensor: output '{self._name}' has no value before the first run of its predictor")
        return self._holder

    def _need_input(self, method: str) -> None:
        if not self._is_input:
            raise RuntimeError(f"Tensor.{method}: '{self._name}' is an output, which is read only")

    def name(self) -> str:
        """The name of the variable."""
        return self._name

    def reshape(self, shape: list[int]) -> None:
        """Sets the shape of an input before `copy_from_cpu`, which sets that of its array.

        Args:
            shape (list of int): sizes.

        Raises:
            RuntimeError: for an output. TypeError, ValueError: for anything but sizes.
        """
        self._need_input("reshape")
        if not isinstance(shape, (list, tuple)) or not all(isinstance(d, (int, np.integer)) for d in shape):
            raise TypeError(f"Tensor.reshape: input '{self._name}': the shape must be a list of int, got {shape!r}")
        if any(d < 0 for d in shape):
            raise ValueError(f"Tensor.reshape: input '{self._name}': sizes must not be negative, got {list(shape)}")
        self._shape = [int(d) for d in shape]

    def copy_from_cpu(self, data: np.ndarray) -> None:
        """Sets the value of an input, by copy.

        Args:
            data (numpy.ndarray): of the type and rank that the model declares; the run checks them.

        Raises:
            RuntimeError: for an output. TypeError: for data that is no array of numbers.
        """
        self._need_input("copy_from_cpu")
        if not isinstance(data, np.ndarray):
            data = np.asarray(data)
        if data.dtype.kind not in "fiub":
            raise TypeError(
                f"Tensor.copy_from_cpu: input '{self._name}': an array of numbers is expected, got dtype {data.dtype}"
            )
        # a value with a kind has no LoD
        lod = self._holder.lod() if self._kind is None else None
        self._holder = core.LoDTensor()
        self._holder.set(data)
        kind: tuple | None = (data.shape, data.dtype)
        if lod and lod[-1][-1] == (data.shape[0] if data.ndim else 0):
            self._holder.set_lod(lod)
            kind = None
        if kind is None or kind != self._kind:
            self._kind, self._checked = kind, False
        self._shape, self._copied = None, True

    def share_external_data(self, data: Any) -> None:
        """As `copy_from_cpu`.

        Args:
            data (numpy.ndarray|Tensor): the value.
        """
        self.copy_from_cpu(data.numpy() if isinstance(data, core.Tensor) else np.asarray(data))

    def copy_to_cpu(self) -> np.ndarray:
        """The value: a copy.

        Raises:
            RuntimeError: for an output before the first run of its predictor.
        """
        holder = self._value()
        if not holder._is_initialized():
            raise RuntimeError(f"Tensor.copy_to_cpu: '{self._name}' has no value")
        return holder.__array__()

    def shape(self) -> list[int]:
        """The shape of the value."""
        if self._shape is not None:
            return list(self._shape)
        return [] if self._holder is None or not self._holder._is_initialized() else list(self._holder.shape())

    def set_lod(self, x: list[list[int]]) -> None:
        """Sets the LoD of an input.

        Args:
            x (list of list of int): offsets of the sequences, a list for each level.

        Raises:
            RuntimeError: for an output. ValueError: for offsets that do not fit the value.
        """
        self._need_input("set_lod")
        if not self._copied:
            raise RuntimeError(f"Tensor.set_lod: input '{self._name}' has no value yet: call copy_from_cpu before")
        self._kind, self._checked = None, False
        self._holder.set_lod([list(map(int, level)) for level in x])

    def lod(self) -> list[list[int]]:
        """The LoD: offsets of the sequences, a list for each level."""
        return [] if self._holder is None else [list(level) for level in self._holder.lod()]

    def type(self) -> DataType:
        """The element type; FLOAT32 where there is no value."""
        if self._holder is None or not self._holder._is_initialized():
            return DataType.FLOAT32
        return data_type_of(self._holder._dtype())
