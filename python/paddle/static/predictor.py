"""The predictor of 1.x: runs a saved model on PaddleTensors, which have names, shapes and LoD."""

from __future__ import annotations

import enum
import os
from typing import Any

import numpy as np

import paddle._core as _core
from paddle._basics.mode import _dygraph_guard
from paddle._basics.place import CPUPlace, CUDAPlace
from paddle._programs.scope import scope_guard

from .executor import Executor
from .inference_io import load_folder

__all__ = ["NativeConfig", "NativePredictor", "PaddleBuf", "PaddleDType", "PaddleTensor"]


class PaddleDType(enum.IntEnum):
    """The element type of a PaddleTensor."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7


#: the element types of arrays
ARRAY_TYPES = {
    PaddleDType.FLOAT32: np.float32,
    PaddleDType.INT64: np.int64,
    PaddleDType.INT32: np.int32,
    PaddleDType.UINT8: np.uint8,
    PaddleDType.INT8: np.int8,
    PaddleDType.FLOAT16: np.float16,
    PaddleDType.BOOL: np.bool_,
    PaddleDType.FLOAT64: np.float64,
}


class PaddleBuf:
    """A buffer of bytes, which is read as elements of any type.

    Args:
        data (numpy.ndarray|list|int): float32, int64 or int32; lists of float are float32, of int int64; an int is a
            number of bytes.
    """

    def __init__(self, data: Any) -> None:
        if isinstance(data, (int, np.integer)):
            if data < 0:
                raise ValueError(f"PaddleBuf: the number of bytes must not be negative, got {data}")
            self._data = np.zeros(int(data), np.uint8)
            return
        array = np.asarray(data)
        if not isinstance(data, np.ndarray):
            array = array.astype("int64" if array.dtype.kind in "iu" and array.size else "float32")
        if array.dtype.kind not in "fiub":
            raise TypeError(f"PaddleBuf: an array of numbers is expected, got dtype {array.dtype}")
        self._data = np.array(array).reshape(-1)

    def length(self) -> int:
        """The number of bytes."""
        return self._data.nbytes

    def empty(self) -> bool:
        """Whether there are no bytes."""
        return not self._data.size

    def resize(self, length: int) -> None:
        """Sets the number of bytes; the content is lost where it changes.

        Args:
            length (int): not negative.
        """
        if length != self.length():
            self._data = PaddleBuf(length)._data

    def _as(self, dtype: Any) -> np.ndarray:
        if self._data.dtype == dtype:
            return self._data
        size = np.dtype(dtype).itemsize
        return self._data.view(np.uint8)[: self.length() // size * size].view(dtype)

    def float_data(self) -> list[float]:
        """The bytes as float32."""
        return self._as(np.float32).tolist()

    def int64_data(self) -> list[int]:
        """The bytes as int64."""
        return self._as(np.int64).tolist()

    def int32_data(self) -> list[int]:
        """The bytes as int32."""
        return self._as(np.int32).tolist()

    def reset(self, data: Any) -> None:
        """Replaces the content.

        Args:
            data (numpy.ndarray|list): as of the constructor.
        """
        self._data = PaddleBuf(data)._data

    def tolist(self, dtype: str = "float32") -> list:
        """The bytes as numbers.

        Args:
            dtype (str): "float32", "int64" or "int32".

        Raises:
            ValueError: for another type.
        """
        if dtype not in ("float32", "int64", "int32"):
            raise ValueError(f"tolist takes float32, int64 or int32, got {dtype!r}")
        return self._as(np.dtype(dtype)).tolist()


class PaddleTensor:
    """A buffer with a shape and LoD (offsets).

    Args:
        data (numpy.ndarray, optional): elements and shape.
        name (str): the input that it feeds; by position when empty.
        lod (list of list of int, optional): offsets of the sequences.
        copy (bool): accepted; the elements are copied.
    """

    def __init__(
        self, data: np.ndarray | None = None, name: str = "", lod: list | None = None, copy: bool = True
    ) -> None:
        array = np.zeros(0, np.float32) if data is None else np.asarray(data)
        self.name = name
        self.shape = list(array.shape)
        self.data = PaddleBuf(array)
        self.dtype = next((k for k, v in ARRAY_TYPES.items() if v == array.dtype), PaddleDType.FLOAT32)
        self.lod = list(lod or [])

    def as_ndarray(self) -> np.ndarray:
        """The elements as an array of `dtype` and `shape`.

        Raises:
            ValueError: when there are fewer or more of them.
        """
        elements = self.data._as(np.dtype(ARRAY_TYPES[PaddleDType(self.dtype)]))
        if elements.size != int(np.prod(self.shape)):
            raise ValueError(
                f"PaddleTensor '{self.name}': shape {list(self.shape)} does not fit its {elements.size} elements"
            )
        return elements.reshape(self.shape)


class NativeConfig:
    """The configuration of a predictor: the model's folder `model_dir`, or its files `prog_file` and `param_file`."""

    def __init__(self) -> None:
        self.model_dir = ""
        self.prog_file = ""
        self.param_file = ""
        self.use_gpu = False
        self.use_xpu = False
        self.device = 0
        self.fraction_of_gpu_memory = 0.0
        self.specify_input_name = False
        self._threads = 1

    def set_cpu_math_library_num_threads(self, cpu_math_library_num_threads: int) -> None:
        """Accepted: a NativePredictor uses the threads of the process.

        Args:
            cpu_math_library_num_threads (int): a number of threads.
        """
        self._threads = int(cpu_math_library_num_threads)

    def cpu_math_library_num_threads(self) -> int:
        """What was set; 1 by default."""
        return self._threads

    def _predictor(self) -> NativePredictor:
        return NativePredictor(self)


class NativePredictor:
    """Runs the saved model of a NativeConfig.

    Raises:
        ValueError: when the model does not exist, or the device is not supported.
    """

    def __init__(self, config: NativeConfig) -> None:
        if config.use_xpu:
            raise ValueError("XPUs are not supported")
        self._executor = Executor(CUDAPlace(config.device) if config.use_gpu else CPUPlace())
        self._scope = _core._Scope()
        with scope_guard(self._scope), _dygraph_guard(None):
            path = config.prog_file or os.path.join(config.model_dir, "__model__")
            folder, params = config.model_dir or os.path.dirname(path), config.param_file or None
            found = load_folder(folder, path, self._executor, params and os.path.basename(params))
            self._program, self._feeds, self._fetches = found

    def run(self, inputs: list[PaddleTensor]) -> list[PaddleTensor]:
        """The model's outputs.

        Args:
            inputs (list of PaddleTensor): by name, or without a name in the order of the model's inputs.

        Raises:
            ValueError: for a wrong number of inputs.
        """
        if len(inputs) != len(self._feeds):
            raise ValueError(f"the model has {len(self._feeds)} inputs, but received {len(inputs)}")
        feed = {}
        for tensor, name in zip(inputs, self._feeds, strict=False):
            holder = _core.LoDTensor()
            holder.set(tensor.as_ndarray(), self._executor.place)
            if tensor.lod:
                holder.set_lod(tensor.lod)
            feed[tensor.name or name] = holder
        with scope_guard(self._scope), _dygraph_guard(None):
            outputs = self._executor.run(self._program, feed=feed, fetch_list=self._fetches, return_numpy=False)
        names = [f.name for f in self._fetches]
        return [PaddleTensor(np.array(t), name, t.lod()) for t, name in zip(outputs, names, strict=False)]
