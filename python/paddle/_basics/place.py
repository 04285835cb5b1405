"""Places: the devices that hold tensors and run operators."""

from __future__ import annotations

from . import flags

__all__ = ["Place", "CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "XPUPlace"]


class _Place:
    """A device; two places are equal when they name the same device."""

    kind = ""

    def _type(self) -> str:
        return self.kind

    def _equals(self, other) -> bool:
        return isinstance(other, _Place) and self == other

    def __eq__(self, other) -> bool:
        return isinstance(other, _Place) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def is_cpu_place(self) -> bool:
        return self.kind == "cpu"

    def is_gpu_place(self) -> bool:
        return self.kind == "gpu"

    def is_cuda_pinned_place(self) -> bool:
        return self.kind == "gpu_pinned"

    def is_xpu_place(self) -> bool:
        return False


class CPUPlace(_Place):
    """The CPU.

    Examples:
        >>> import paddle
        >>> paddle.CPUPlace()
        CPUPlace
    """

    kind = "cpu"

    def __repr__(self) -> str:
        return "CPUPlace"


class CUDAPlace(_Place):
    """The CUDA device `dev_id`.

    Raises:
        ValueError: for a negative id.
        RuntimeError: without CUDA.
    """

    kind = "gpu"

    def __init__(self, dev_id: int) -> None:
        if not isinstance(dev_id, int):
            raise TypeError(f"CUDAPlace takes the number of a device, but received {dev_id!r:.200}")
        if dev_id < 0:
            raise ValueError(f"Invalid CUDAPlace({dev_id!s:.200}), device id must be 0 or greater")
        _cuda().require(dev_id)
        self._id = dev_id

    def get_device_id(self) -> int:
        """The number of the device."""
        return self._id

    def gpu_device_id(self) -> int:
        """The number of the device."""
        return self._id

    def __repr__(self) -> str:
        return f"CUDAPlace({self._id})"


class CUDAPinnedPlace(_Place):
    """CPU memory that a CUDA device reads directly; RuntimeError without CUDA."""

    kind = "gpu_pinned"

    def __init__(self) -> None:
        if not is_compiled_with_cuda():
            raise RuntimeError(f"Cannot use CUDAPinnedPlace: {why_no_cuda()}. Use CPUPlace.")

    def __repr__(self) -> str:
        return "CUDAPinnedPlace"


class XPUPlace(_Place):
    """A Kunlun XPU: not supported, always raises RuntimeError."""

    kind = "xpu"

    def __init__(self, dev_id: int) -> None:
        raise RuntimeError(f"Cannot use XPUPlace({dev_id!s:.200}): XPUs are not supported. Use CPUPlace.")


class Place(_Place):
    """Any place: holds one of the others."""

    def __init__(self) -> None:
        self._held: _Place = CPUPlace()

    def set_place(self, place: _Place) -> None:
        """Hold `place`."""
        self._held = place._held if isinstance(place, Place) else place

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self._held.kind

    def gpu_device_id(self) -> int:
        """The number of the CUDA device held."""
        return self._held.get_device_id()  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return repr(self._held)


def _cuda():
    # Imported at the first use, because it imports cupy.
    from paddle import _cuda

    _cuda.cudnn.settings = flags.values()
    return _cuda


def is_compiled_with_cuda() -> bool:
    """Whether a CUDA device can be used: there is an NVIDIA GPU, and the package cupy."""
    return _cuda().runtime() is not None


def why_no_cuda() -> str:
    """The reason why `is_compiled_with_cuda` is False."""
    return _cuda().reason()


def cuda_device_count() -> int:
    """The number of CUDA devices."""
    return _cuda().device_count()


def set_cublas_switch(allowed: bool) -> None:
    """Whether products of float32 matrices on CUDA devices may round their operands to TF32 (False by default)."""
    _cuda().allow_tf32(bool(allowed))


def get_cublas_switch() -> bool:
    """The value of `set_cublas_switch`."""
    return _cuda().allow_tf32()


def set_cudnn_switch(allowed: bool) -> None:
    """Whether convolutions and recurrent networks of float32 on CUDA devices may round their operands to TF32 (True by
    default)."""
    _cuda().allow_tf32_convolutions(bool(allowed))


def get_cudnn_switch() -> bool:
    """The value of `set_cudnn_switch`."""
    return _cuda().cudnn.tf32


def cudnn_version() -> int | None:
    """The version of cuDNN in use, such as 91002 for 9.10.2; None without CUDA or cuDNN."""
    return _cuda().cudnn_version()


def cuda_synchronize(place) -> None:
    """Waits until all work on the CUDA device of a place is done.

    Raises:
        TypeError: for a place of another kind.
        RuntimeError: when the device can not be used.
    """
    if not isinstance(place, CUDAPlace):
        raise TypeError(f"_cuda_synchronize: a CUDAPlace is expected, got {place!r}")
    cuda, device = _cuda(), place.get_device_id()
    cuda.require(device)
    cuda.runtime().wait(device)


def device_number(place) -> int:
    """The number of a place's CUDA device, -1 for the CPU."""
    return place.gpu_device_id() if place is not None and place.is_gpu_place() else -1
