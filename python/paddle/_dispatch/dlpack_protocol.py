"""The DLPack protocol of Tensor and LoDTensor, by which numpy.from_dlpack and others share their memory."""

from __future__ import annotations

from typing import Any

import paddle._core as _core

__all__: list[str] = []

# Device types of DLPack.
CPU, CUDA = 1, 2


def __dlpack__(
    self: Any,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule that shares the memory of this Tensor (called by numpy.from_dlpack, torch.from_dlpack and
    others).

    Args:
        stream (None): CPU tensors have no stream.
        max_version (tuple[int, int], optional): the newest DLPack version that the consumer supports; from (1, 0) on
            the capsule is a "dltensor_versioned".
        dl_device (tuple[int, int], optional): the required device: (1, 0), the CPU.
        copy (bool, optional): True forces a copy, False refuses where a copy would be needed.

    Raises:
        BufferError: if the Tensor requires gradients (`detach` it), holds no memory, or is on another device.
    """
    if not getattr(self, "stop_gradient", True):
        raise BufferError(
            "a Tensor with stop_gradient=False cannot be exported, because gradients would not follow changes of its "
            "memory; export tensor.detach()"
        )
    if stream is not None:
        raise BufferError(f"__dlpack__: argument 'stream' must be None for memory of the CPU, got {stream!r}")
    if dl_device is not None and tuple(dl_device) != (CPU, 0):
        raise BufferError(f"__dlpack__: argument 'dl_device' must be (1, 0), the CPU, got {dl_device!r}")
    if dl_device is None and __dlpack_device__(self)[0] != CPU:
        raise BufferError("the Tensor is on a GPU: export tensor.cpu(), or pass dl_device=(1, 0)")
    return _core.to_dlpack(self, max_version is not None and max_version[0] >= 1, copy)


def __dlpack_device__(self: Any) -> tuple[int, int]:
    """The DLPack device: (1, 0) for the CPU, (2, number) for a GPU."""
    place = getattr(self, "place", None)
    if place is not None and place.is_gpu_place():
        return CUDA, place.gpu_device_id()
    return CPU, 0


def _to_dlpack(self: Any) -> Any:
    """A DLPack capsule ("dltensor") that shares the memory of this LoDTensor."""
    return _core.to_dlpack(self)


def patch_dlpack_methods() -> None:
    """Install the protocol methods on the native classes."""
    for cls in (_core.Tensor, _core.LoDTensor):
        kind: Any = cls
        kind.__dlpack__, kind.__dlpack_device__ = __dlpack__, __dlpack_device__
    native: Any = _core.LoDTensor
    native._to_dlpack = _to_dlpack
