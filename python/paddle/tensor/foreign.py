"""Objects of torch, jax, pandas, polars, Arrow, Pillow and others as arrays, for `paddle.to_tensor`."""

from __future__ import annotations

import contextlib
from typing import Any

import paddle._core as _core
from paddle._basics import numpy as np

__all__: list[str] = []

#: Unsigned types that no tensor has (uint16 stands for bfloat16 bits), and the type that holds their values.
_WIDER = {"uint16": "int32", "uint32": "int64"}
_PROTOCOLS = ("__dlpack__", "__array__", "__array_interface__")


def foreign_array(data: Any) -> Any:
    """An array, or for elements that numpy does not have a Tensor, with a copy of what an object of another library
    holds; None for an object without `__dlpack__`, `__array__`, `__array_interface__` and buffer.

    Raises:
        TypeError: for elements that are no numbers, such as text or missing values.
    """
    if not any(hasattr(type(data), name) for name in _PROTOCOLS) and type(data).__module__ != "array":
        return None
    if hasattr(data, "requires_grad") and hasattr(data, "detach"):
        data = data.detach()
    if hasattr(data, "__dlpack__"):
        # Libraries refuse what DLPack cannot express (missing values, text); `__array__` may have it.
        with contextlib.suppress(Exception):
            return _from_dlpack(data)
    array = np.asarray(data)
    if array.dtype.name in _WIDER:
        array = array.astype(_WIDER[array.dtype.name])
    if array.dtype.kind not in "biufc":
        kind = type(data)
        raise TypeError(
            f"to_tensor: data must hold numbers, got {kind.__module__}.{kind.__qualname__} with elements of "
            f"{array.dtype}"
        )
    return array


def _from_dlpack(data: Any) -> Any:
    on_cpu = not hasattr(data, "__dlpack_device__") or int(data.__dlpack_device__()[0]) in (1, 3)
    if not on_cpu and hasattr(data, "cpu"):
        data = data.cpu()
    try:
        capsule = data.__dlpack__(max_version=(1, 0))
    except TypeError as error:
        if "keyword" not in str(error):
            raise
        capsule = data.__dlpack__()  # a library from before versioned capsules
    return _core.tensor_from_dlpack(capsule, True)
