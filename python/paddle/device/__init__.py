"""paddle.device: selection of the device that operators run on."""

from __future__ import annotations

from typing import Any

from paddle._basics import mode
from paddle._basics.missing import getter as _getter
from paddle._basics.mode import is_compiled_with_xpu
from paddle._basics.place import CUDAPlace, XPUPlace, cudnn_version, is_compiled_with_cuda, why_no_cuda

__all__ = ["get_cudnn_version", "set_device", "get_device", "XPUPlace", "is_compiled_with_xpu"]


def set_device(device: str) -> Any:
    """Set the device that operators run on and new Tensors are created on.

    Args:
        device (str): ``"cpu"``, ``"gpu"`` (the first one) or ``"gpu:<number>"``.

    Returns:
        Place: the place of that device.

    Raises:
        ValueError: for another name, or a GPU if none can be used; the message says what is missing.

    Examples:
        >>> import paddle
        >>> paddle.set_device("cpu")
        CPUPlace
    """
    name = device.lower() if isinstance(device, str) else device
    kind, _, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    known = name == "cpu" or kind in ("gpu", "xpu") and (number.isdecimal() or name == kind)
    if not known:
        raise ValueError(f"set_device: device must be 'cpu', 'gpu', 'gpu:x', 'xpu' or 'xpu:x', got {device!r:.200}")
    if kind == "xpu":
        raise ValueError(f"The device should not be {device!r:.200}, since XPUs are not supported")
    if kind == "gpu" and not is_compiled_with_cuda():
        raise ValueError(f"The device should not be {device!r:.200}, since no CUDA device can be used: {why_no_cuda()}")
    place = mode._get_paddle_place("cpu") if name == "cpu" else CUDAPlace(int(number or 0))
    mode._set_expected_place(place)
    return place


def get_device() -> str:
    """The device that operators run on: ``"cpu"`` or ``"gpu:<number>"``.

    Examples:
        >>> import paddle
        >>> paddle.get_device()
        'cpu'
    """
    place = mode._current_expected_place()
    return f"gpu:{place.gpu_device_id()}" if place.is_gpu_place() else "cpu"


def get_cudnn_version() -> int | None:
    """The version of cuDNN, which computes convolutions on CUDA devices; None without CUDA or cuDNN.

    Returns:
        int|None: such as 91002 for cuDNN 9.10.2.

    Examples:
        >>> import paddle
        >>> version = paddle.device.get_cudnn_version()
    """
    return cudnn_version()


__getattr__ = _getter(__name__, later={"ParallelEnv": "paddle.distributed.parallel"})
