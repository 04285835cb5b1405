"""Streams, events and facts of CUDA devices: `paddle.device.cuda` of Paddle 2.2 to 2.6.

Operators of a device run on one stream, `current_stream()`. Other streams order work of CuPy and of other libraries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .device import cuda_machine, cuda_number

__all__: list[str] = []


class Event:
    """A point in the work of a stream.

    Args:
        enable_timing (bool): whether `elapsed_time` can be used.
        blocking (bool): whether `synchronize` sleeps instead of spinning.
        interprocess (bool): whether other processes can use it.

    Raises:
        RuntimeError: without a GPU.
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        events = cuda_machine("Event", RuntimeError).xp.cuda
        self._event = events.Event(block=blocking, disable_timing=not enable_timing, interprocess=interprocess)
        self._elapsed = events.get_elapsed_time

    def record(self, stream=None):
        """Places the event after the work that the stream has now: by default that of operators."""
        (current_stream() if stream is None else stream).record_event(self)

    def query(self):
        """Whether the work before it is done."""
        return bool(self._event.done)

    def synchronize(self):
        """Waits for the work before it."""
        self._event.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds from this event to another one."""
        return self._elapsed(self._event, end_event._event)


class Stream:
    """Work of a device in order.

    Args:
        device (CUDAPlace|int|str, optional): the current device by default.
        priority (int): 1 (high) or 2 (normal).

    Raises:
        RuntimeError: without a GPU.
        ValueError: for another device or priority.
    """

    def __init__(self, device=None, priority=2):
        machine = cuda_machine("Stream", RuntimeError)
        if priority not in (1, 2):
            raise ValueError(f"Stream: priority must be 1 or 2, got {priority!r}")
        with machine.on(cuda_number("Stream", device)):
            self._stream = machine.xp.cuda.Stream(non_blocking=True, priority=priority - 2)

    @classmethod
    def _of(cls, stream: Any) -> Stream:
        found = cls.__new__(cls)
        found._stream = stream
        return found

    @property
    def cuda_stream(self):
        """The address of the cudaStream_t."""
        return self._stream.ptr

    def synchronize(self):
        """Waits for the work of the stream."""
        self._stream.synchronize()

    def query(self):
        """Whether the work of the stream is done."""
        return bool(self._stream.done)

    def record_event(self, event=None):
        """Places an event, by default a new one, after the work that the stream has now. Returns the event."""
        event = Event() if event is None else event
        event._event.record(self._stream)
        return event

    def wait_event(self, event):
        """Later work of the stream starts after an event."""
        self._stream.wait_event(event._event)

    def wait_stream(self, stream):
        """Later work of the stream starts after the work that another one has now."""
        self.wait_event(stream.record_event())

    def __eq__(self, other):
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self):
        return hash(self.cuda_stream)

    def __repr__(self):
        return f"<paddle.device.cuda.Stream cuda_stream={self.cuda_stream:#x}>"


def current_stream(device=None):
    """The stream that operators of a device run on.

    Args:
        device (CUDAPlace|int|str, optional): the current device by default.

    Returns:
        Stream: the stream.

    Raises:
        RuntimeError: without a GPU.
    """
    machine = cuda_machine("current_stream", RuntimeError)
    with machine.on(cuda_number("current_stream", device)):
        return Stream._of(machine.ordered())


@contextmanager
def stream_guard(stream: Stream | None) -> Iterator[None]:
    """Runs operators on a stream: the current one only.

    Args:
        stream (Stream, optional): `current_stream()` or None.

    Raises:
        NotImplementedError: for another stream.
        TypeError: for something else.
    """
    if stream is not None and not isinstance(stream, Stream):
        raise TypeError(f"stream_guard: stream must be a paddle.device.cuda.Stream, got {type(stream).__name__}")
    if stream is not None and stream != current_stream():
        raise NotImplementedError("stream_guard: operators of a device run on one stream, current_stream()")
    yield


class DeviceProperties(NamedTuple):
    """Facts about a device; `total_memory` in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device=None):
    """The name, the capability, the memory and the number of multiprocessors of a GPU.

    Args:
        device (CUDAPlace|int|str, optional): the current device by default.

    Raises:
        ValueError: without a GPU, or for a device that is none.
    """
    machine = cuda_machine("get_device_properties")
    number = cuda_number("get_device_properties", device)
    if not 0 <= number < machine.device_count():
        raise ValueError(f"get_device_properties: there are {machine.device_count()} devices, got number {number}")
    found = machine.properties(number)
    name = found["name"].decode() if isinstance(found["name"], bytes) else found["name"]
    numbers = (found[key] for key in ("major", "minor", "totalGlobalMem", "multiProcessorCount"))
    return DeviceProperties(name, *map(int, numbers))


def get_device_name(device=None):
    """The name of a GPU. Arguments and errors of `get_device_properties`."""
    return get_device_properties(device).name


def get_device_capability(device=None):
    """The compute capability of a GPU, two ints. Arguments and errors of `get_device_properties`."""
    found = get_device_properties(device)
    return found.major, found.minor
