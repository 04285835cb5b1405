"""DLPack: sharing of tensor memory with other libraries."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle._basics.mode import _get_paddle_place, in_static_mode
from paddle._dispatch.dlpack_protocol import CPU, CUDA

__all__ = ["to_dlpack", "from_dlpack"]

Tensor = _core.Tensor


def to_dlpack(x: Any) -> Any:
    """A DLPack capsule ("dltensor") that shares the memory of a Tensor.

    Args:
        x (Tensor|LoDTensor): any data type, on the CPU.

    Returns:
        PyCapsule: to be consumed once, by `from_dlpack` of any library.

    Raises:
        TypeError: if `x` is not a Tensor.
        BufferError: if `x` holds no memory.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([1.0, 2.0])
        >>> y = paddle.utils.dlpack.from_dlpack(paddle.utils.dlpack.to_dlpack(x))
        >>> y[0] = 5.0
        >>> x.numpy().tolist()
        [5.0, 2.0]
    """
    return _core.to_dlpack(x)


def from_dlpack(dlpack: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A Tensor over the memory of an array of another library.

    The memory is shared: writes by either side are visible to the other. A non-contiguous array is copied; a read-only
    one is shared until the Tensor is written.

    Args:
        dlpack (object|PyCapsule): an array with `__dlpack__`, or a capsule "dltensor" or "dltensor_versioned", which is
            consumed.
        device (CPUPlace|str, optional): the device of the result: the CPU.
        copy (bool, optional): True forces a copy, False refuses where a copy would be needed.

    Returns:
        Tensor: of the array's shape ([1] for a zero-dimensional one) and data type, with stop_gradient=True.
        In static mode a LoDTensor.

    Raises:
        TypeError: for an object without `__dlpack__` that is not such a capsule.
        BufferError: for a consumed capsule, an unsupported data type or device, or a copy that is needed but refused.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> a = np.zeros((2, 2), dtype="float32")
        >>> x = paddle.from_dlpack(a)
        >>> x[0, 0] = 3.0
        >>> a[0].tolist()
        [3.0, 0.0]
    """
    wanted = None
    if device is not None:
        if _get_paddle_place(device).is_gpu_place():
            raise BufferError(f"from_dlpack: argument 'device' must be the CPU, got {device}")
        wanted = (CPU, 0)
    return _take(_capsule(dlpack, wanted, copy), copy)


def _capsule(dlpack: Any, wanted: tuple[int, int] | None, copy: bool | None) -> Any:
    if not hasattr(dlpack, "__dlpack__"):
        return dlpack
    kwargs: dict[str, Any] = {"max_version": (1, 0)}
    if copy is not None:
        kwargs["copy"] = copy
    kind = dlpack.__dlpack_device__()[0] if hasattr(dlpack, "__dlpack_device__") else CPU
    if kind == CUDA and wanted is None:
        raise BufferError("from_dlpack: the array is on a GPU (device type 2): pass device='cpu', or copy it first")
    if wanted is not None and kind != CPU:
        kwargs["dl_device"] = wanted
    try:
        return dlpack.__dlpack__(**kwargs)
    except TypeError:
        if "dl_device" in kwargs:
            raise BufferError("from_dlpack: the array's library cannot copy it to the CPU: copy it first") from None
        return dlpack.__dlpack__()  # a library from before versioned capsules


def _take(capsule: Any, copy: bool | None) -> Any:
    if not in_static_mode():
        return _core.tensor_from_dlpack(capsule, copy)
    return _core.from_dlpack(capsule)
