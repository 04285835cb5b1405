"""`paddle.device` and `paddle.device.cuda` of Paddle 2.1 to 2.6, as far as packages use them."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle._basics import mode
from paddle._basics.place import (
    CPUPlace,
    CUDAPlace,
    cuda_device_count,
    cuda_synchronize,
    device_number,
    is_compiled_with_cuda,
    why_no_cuda,
)

__all__: list[str] = []


def is_compiled_with_rocm() -> bool:
    """Whether AMD GPUs are supported: False."""
    return False


def is_available() -> bool:
    """Whether `paddle.distributed` can be used: True.

    Examples:
        >>> import paddle
        >>> paddle.distributed.is_available()
        True
    """
    return True


def disable_signal_handler() -> None:
    """Removes Paddle's handlers of fatal signals. This package installs none, so nothing changes."""


def get_all_custom_device_type() -> list[str]:
    """The kinds of plugged-in devices: none.

    Examples:
        >>> import paddle
        >>> paddle.device.get_all_custom_device_type()
        []
    """
    return []


def synchronize(device: Any = None) -> None:
    """Waits until the operators on a device have finished; on the CPU every call has when it returns.

    Args:
        device (CUDAPlace, optional): the current device by default.

    Examples:
        >>> import paddle
        >>> paddle.device.synchronize()
    """
    place = mode._current_expected_place() if device is None else device
    if not isinstance(place, CPUPlace):
        cuda_synchronize(place)


def device_count() -> int:
    """The number of GPUs that can be used.

    Examples:
        >>> import paddle
        >>> paddle.device.cuda.device_count() >= 0
        True
    """
    return cuda_device_count()


def empty_cache() -> None:
    """Returns cached blocks of GPU memory to the driver; without a GPU nothing is cached.

    Examples:
        >>> import paddle
        >>> paddle.device.cuda.empty_cache()
    """
    if is_compiled_with_cuda():
        from paddle import _cuda

        _cuda.release_memory()


def cuda_machine(name: str, error: type[Exception] = ValueError) -> Any:
    """The machine of `paddle._cuda`; an error with the reason without a GPU."""
    if not is_compiled_with_cuda():
        raise error(f"paddle.device.cuda.{name} needs a GPU, and no CUDA device can be used: {why_no_cuda()}")
    from paddle import _cuda

    return _cuda.runtime().machine  # type: ignore[union-attr]


def cuda_number(name: str, device: Any) -> int:
    """The number of a device: a CUDAPlace, an int, "gpu:x", or None for the current one."""
    if device is None:
        return max(device_number(mode._current_expected_place()), 0)
    if isinstance(device, str) and device.startswith("gpu:") and device[4:].isdecimal():
        return int(device[4:])
    if isinstance(device, CUDAPlace):
        return device.get_device_id()
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    raise ValueError(f"paddle.device.cuda.{name}: device must be a CUDAPlace, an int or 'gpu:x', got {device!r}")


def _bytes(name: str, device: Any, peak: bool = False) -> tuple[int, int]:
    """Bytes in use and bytes from the driver."""
    cuda_machine(name)
    from paddle import _cuda

    return _cuda.memory(cuda_number(name, device), peak)


def memory_allocated(device: Any = None) -> int:
    """Bytes of GPU memory that tensors of this process have.

    Args:
        device (CUDAPlace|int|str, optional): the current device by default.

    Raises:
        ValueError: without a GPU, or for another kind of device.
    """
    return _bytes("memory_allocated", device)[0]


def memory_reserved(device: Any = None) -> int:
    """Bytes of GPU memory that this process has from the driver, used or cached.

    Args:
        device (CUDAPlace|int|str, optional): the current device by default.

    Raises:
        ValueError: without a GPU, or for another kind of device.
    """
    return _bytes("memory_reserved", device)[1]


def max_memory_allocated(device: Any = None) -> int:
    """The largest value of `memory_allocated` so far.

    Args:
        device (CUDAPlace|int|str, optional): the current device by default.

    Raises:
        ValueError: without a GPU, or for another kind of device.
        RuntimeError: on a device without stream-ordered memory pools, which count it.
    """
    return _bytes("max_memory_allocated", device, peak=True)[0]


def max_memory_reserved(device: Any = None) -> int:
    """The largest value of `memory_reserved` so far.

    Args:
        device (CUDAPlace|int|str, optional): the current device by default.

    Raises:
        ValueError: without a GPU, or for another kind of device.
        RuntimeError: on a device without stream-ordered memory pools, which count it.
    """
    return _bytes("max_memory_reserved", device, peak=True)[1]


def get_rng_state(device: str | None = None) -> list:
    """The states of the random generators, for `set_rng_state`.

    Args:
        device (str, optional): ignored: there is one generator, the CPU's.

    Returns:
        list: one state.

    Examples:
        >>> import paddle
        >>> states = paddle.get_rng_state()
        >>> first = paddle.rand([2]).tolist()
        >>> paddle.set_rng_state(states)
        >>> paddle.rand([2]).tolist() == first
        True
    """
    return [_core.get_rng_state()]


def set_rng_state(state_list: list, device: str | None = None) -> None:
    """Restores states of `get_rng_state`.

    Args:
        state_list (list): one state.
        device (str, optional): ignored.

    Raises:
        ValueError: for another number of states.
    """
    if len(state_list) != 1:
        raise ValueError(f"set_rng_state: state_list must have one state, got {len(state_list)}")
    _core.set_rng_state(state_list[0])
