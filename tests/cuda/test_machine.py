"""CupyMachine, with a stand-in for CuPy."""

import sys
from types import SimpleNamespace

import numpy as np
import paddle
import pytest
from fake_cupy import Cupy
from paddle import _cuda
from paddle.fluid import core


def test_uploads_are_staged_in_pinned_memory(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy(built))
    machine = _cuda.CupyMachine()
    memory, host = machine.xp.empty(12, "uint8"), np.arange(3, dtype="float32")
    for _ in range(4):
        machine.upload(memory, host)
        assert 1 <= len(machine._staged) <= 3  # until the device has read them
    assert machine.download(memory).view("float32").tolist() == [0.0, 1.0, 2.0]


def test_tf32_is_a_switch(built, monkeypatch):
    cupy = Cupy(built)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    try:
        _cuda.use(_cuda.CupyMachine())
        assert not core.get_cublas_switch() and cupy.linalg.kind == cupy.linalg.COMPUTE_TYPE_DEFAULT
        core.set_cublas_switch(True)
        assert core.get_cublas_switch() and cupy.linalg.kind == cupy.linalg.COMPUTE_TYPE_TF32
        _cuda.use(_cuda.CupyMachine())
        assert cupy.linalg.kind == cupy.linalg.COMPUTE_TYPE_TF32
        core.set_cublas_switch(False)
        assert cupy.linalg.kind == cupy.linalg.COMPUTE_TYPE_DEFAULT
    finally:
        core.set_cublas_switch(False)
        _cuda.use(None)


def test_recipes_are_turned_off_by_the_environment(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy(built))
    machine = _cuda.CupyMachine()
    assert machine.driver() == ("libcuda.so.1", 11, 7)
    monkeypatch.setenv("OAR_CUDA_RECIPES", "0")
    assert machine.driver() is None


def test_products_have_a_workspace(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy(built))
    machine = _cuda.CupyMachine()
    assert machine.blas() == machine.blas() == 5
    monkeypatch.setattr(sys.modules["cupy_backends.cuda.libs.cublas"], "create", lambda: 6)
    with pytest.raises(OSError, match="cublasSetWorkspace failed with the status 7"):
        _cuda.CupyMachine().blas()


def test_memory_of_the_pool(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy(built))
    _cuda.use(_cuda.CupyMachine())
    try:
        of = paddle.device.cuda
        assert (of.memory_allocated(), of.memory_reserved()) == (2048, 4096)
        of.empty_cache()
        assert (of.memory_allocated(0), of.memory_reserved("gpu:0")) == (2048, 2048)
        assert (of.max_memory_allocated(), of.max_memory_reserved(paddle.CUDAPlace(0))) == (40008, 40006)
        with pytest.raises(RuntimeError, match=r"CUDAPlace\(3\): there are 1 CUDA devices"):
            of.memory_allocated(3)
        with pytest.raises(ValueError, match="max_memory_reserved: device must be .* got 'cpu'"):
            of.max_memory_reserved("cpu")
        monkeypatch.setattr(_cuda.runtime().machine._entry(), "pool", None)
        with pytest.raises(RuntimeError, match="stream-ordered pools, which this device lacks"):
            of.max_memory_allocated()
    finally:
        _cuda.use(None)
    if _cuda.device_count() == 0:
        of.empty_cache()
        with pytest.raises(ValueError, match="memory_reserved needs a GPU"):
            of.memory_reserved()


def test_graphs_are_released_where_the_pool_has_no_memory(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy(built))
    entry = _cuda.CupyMachine().on(0)
    released, asked = iter([1, 0]), []

    def malloc(nbytes):
        asked.append(nbytes)
        if len(asked) != 2:
            raise MemoryError
        return "memory"

    monkeypatch.setattr(entry, "pool", SimpleNamespace(malloc=malloc))
    monkeypatch.setattr("paddle._core.release_device_graphs", lambda: next(released))
    assert entry._allocate(16) == "memory"
    with pytest.raises(MemoryError):
        entry._allocate(8)
    assert asked == [16, 16, 8]


def test_streams_and_events(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy(built))
    _cuda.use(_cuda.CupyMachine())
    of = paddle.device.cuda
    try:
        stream, other = of.current_stream(), of.Stream(0, priority=1)
        assert stream == of.current_stream("gpu:0") and stream.cuda_stream == 7 and stream.query()
        begin, end = of.Event(enable_timing=True), of.Event(enable_timing=True, blocking=True)
        begin.record()
        end.record(other)
        end.synchronize()
        assert end.query() and not begin.query() and begin.elapsed_time(end) == 1.5
        other.wait_stream(stream)
        stream.wait_event(other.record_event())
        stream.synchronize()
        with of.stream_guard(stream), of.stream_guard(None):
            pass
        monkeypatch.setattr(type(other._stream), "ptr", property(id))
        with pytest.raises(NotImplementedError, match="run on one stream"), of.stream_guard(other):
            pass
        with pytest.raises(TypeError, match="got int"), of.stream_guard(7):
            pass
        with pytest.raises(ValueError, match="priority must be 1 or 2, got 0"):
            of.Stream(priority=0)
        assert of.get_device_properties().total_memory == 1 << 36 and of.get_device_name(0) == "Stand-in"
        assert of.get_device_capability() == (9, 0)
        with pytest.raises(ValueError, match="there are 1 devices, got number 2"):
            of.get_device_properties(2)
    finally:
        _cuda.use(None)
    if _cuda.device_count() == 0:
        for name in ("Stream", "Event", "current_stream"):
            with pytest.raises(RuntimeError, match=f"{name} needs a GPU"):
                getattr(of, name)()
        with pytest.raises(ValueError, match="get_device_properties needs a GPU"):
            of.get_device_name()
