"""Convolutions by cuDNN: a stand-in (fake_cudnn.cc) that checks its arguments, replayed calls, and the choice of
algorithms; the descriptors against the library itself, where it is installed."""

import ctypes

import numpy as np
import paddle
import pytest
from calls import real
from paddle import _core, _cuda
from paddle._cuda import cudnn
from shim import DriverMachine, through_python


@pytest.fixture
def machine(built):
    """CUDAPlace(0) has cuDNN's stand-in and a driver."""
    found = DriverMachine(built.folder)
    _cuda.use(found)
    yield found
    found.library("cudnn").fake_refuse(0)
    cudnn.tf32 = True
    _cuda.use(None)


@pytest.fixture
def runs(machine, monkeypatch):
    """The operators that ran through Python."""
    return through_python(monkeypatch)


def both(op, x, w, attrs, dtype="float32", bias=None):
    """The output and the gradients on the CPU and, twice, on the device."""

    def tensor(a, device):
        t = paddle.cast(paddle.to_tensor(a.astype("float32"), place=paddle.CPUPlace()), dtype).detach()
        t = _core.copy_to_device(t, 0) if device else t
        t.stop_gradient = False
        return t

    results = []
    for device in (False, True, True):
        ins = [tensor(v, device) for v in (x, w, bias) if v is not None]
        out = getattr(_core.ops, op)(*ins, **attrs)
        grads = _core.partial_grad([out], ins[:2], [tensor(real(*out.shape, high=0.7), device)], [], True, False, True)
        results.append([paddle.cast(v.cpu(), "float32").numpy() for v in (out, *grads)])
    return results


AROUND = [1, 0, 0, 1, 2, 0]
CASES = {
    "stride": ("conv2d", (2, 6, 9, 8), (4, 6, 3, 3), {"strides": [2, 1], "paddings": [1, 1]}),
    "dilation": ("conv2d", (2, 3, 9, 9), (4, 3, 3, 3), {"dilations": [2, 3], "paddings": [2, 1]}),
    "groups": ("conv2d", (2, 6, 7, 7), (8, 3, 3, 3), {"groups": 2, "paddings": [1, 1]}),
    "depthwise": ("depthwise_conv2d", (2, 6, 7, 7), (12, 1, 3, 3), {"groups": 6, "paddings": [1, 1]}),
    "point": ("conv2d", (2, 6, 7, 7), (5, 6, 1, 1), {"strides": [2, 2]}),
    "around": ("conv2d", (2, 3, 9, 8), (4, 3, 3, 2), {"paddings": [1, 0, 0, 2], "strides": [2, 2]}),
    "same": ("conv2d", (2, 3, 9, 8), (4, 3, 4, 4), {"padding_algorithm": "SAME", "strides": [2, 3]}),
    "last": ("conv2d", (2, 7, 8, 6), (4, 3, 3, 3), {"data_format": "NHWC", "groups": 2, "paddings": [1, 2]}),
    "last around": ("conv2d", (2, 7, 8, 6), (4, 6, 3, 3), {"data_format": "NHWC", "paddings": [1, 0, 0, 2]}),
    "volume": ("conv3d", (2, 3, 5, 6, 7), (4, 3, 3, 2, 3), {"strides": [1, 2, 1], "paddings": [1, 0, 2]}),
    "last volume": ("conv3d", (2, 4, 5, 6, 3), (4, 3, 2, 2, 3), {"data_format": "NDHWC", "paddings": AROUND}),
    "transposed": ("conv2d_transpose", (2, 4, 5, 6), (4, 3, 3, 3), {"strides": [2, 2], "paddings": [1, 1]}),
    "transposed size": ("conv2d_transpose", (2, 4, 5, 6), (4, 3, 3, 3), {"strides": [2, 2], "output_size": [12, 13]}),
    "transposed groups": ("conv2d_transpose", (2, 4, 5, 6), (4, 3, 2, 3), {"groups": 2, "paddings": [1, 0, 0, 1]}),
    "transposed last": ("conv2d_transpose", (2, 5, 6, 4), (4, 3, 3, 3), {"data_format": "NHWC", "strides": [2, 1]}),
    "transposed volume": ("conv3d_transpose", (1, 4, 3, 4, 3), (4, 2, 2, 3, 2), {"strides": [2, 1, 2]}),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name, dtype, runs):
    op, x, w, attrs = CASES[name]
    want, *found = both(op, real(*x), real(*w, high=1.0), attrs, dtype)
    tol = {"float64": 1e-6, "float32": 1e-4, "float16": 8e-3, "bfloat16": 4e-2}[dtype]
    for got in found:
        for g, v in zip(got, want, strict=True):
            np.testing.assert_allclose(g, v, rtol=tol, atol=tol * np.abs(v).max())
    # The second time nothing runs through Python.
    assert [op for op in runs if "conv" in op] == [op, f"{op}_grad"]


def test_a_bias_is_added(runs):
    want, *found = both("conv2d", real(2, 3, 5, 5), real(4, 3, 3, 3), {}, bias=real(4))
    for got in found:
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5)


def convolve(machine, **attrs):
    x, w = (
        paddle.to_tensor(real(*s).astype("float32"), place=paddle.CUDAPlace(0)) for s in ((1, 2, 5, 5), (3, 2, 3, 3))
    )
    y = _core.ops.conv2d(x, w, **attrs)
    return machine.library("cudnn").fake_chosen(), y.numpy()


def test_algorithms_with_a_fixed_order_are_first(machine):
    """Of the stand-in's list one is not supported, one needs too much memory, one is not deterministic."""
    assert convolve(machine)[0] == 5


def test_an_algorithm_that_fails_is_not_called_again(machine):
    machine.library("cudnn").fake_refuse(1)
    first, y = convolve(machine)
    assert first == 1
    machine.library("cudnn").fake_refuse(0)
    again, z = convolve(machine, dilations=[1, 1], is_test=True)
    assert again == 1
    np.testing.assert_array_equal(y, z)


def test_flags_choose_how_algorithms_are_found(machine):
    searches = machine.library("cudnn").fake_searches
    before = searches()
    convolve(machine, exhaustive_search=True)
    assert searches() == before + 1
    paddle.set_flags({"FLAGS_cudnn_exhaustive_search": True, "FLAGS_cudnn_deterministic": True})
    try:
        _cuda.use(machine)
        paddle.set_device("gpu")
        chosen, _ = convolve(machine)
        assert searches() == before + 2 and chosen == 5
    finally:
        paddle.set_flags({"FLAGS_cudnn_exhaustive_search": False, "FLAGS_cudnn_deterministic": False})
        paddle.set_device("cpu")


def test_flags_apply_to_recorded_convolutions(machine, runs):
    """A flag that changes between two calls of one geometry chooses the algorithm of the second."""
    paddle.set_device("gpu")
    searches = machine.library("cudnn").fake_searches
    try:
        for _ in range(3):
            convolve(machine)
        before = searches()
        assert runs == ["conv2d"]
        paddle.set_flags({"FLAGS_cudnn_exhaustive_search": True})
        convolve(machine)
        assert searches() == before + 1
        paddle.set_flags({"FLAGS_cudnn_exhaustive_search": True})  # not changed
        paddle.set_flags({"FLAGS_cudnn_deterministic": False})
        convolve(machine)
        assert searches() == before + 1
    finally:
        paddle.set_flags({"FLAGS_cudnn_exhaustive_search": False})
        paddle.set_device("cpu")


def test_the_switch_of_tf32(machine):
    core = paddle.fluid.core
    assert core.get_cudnn_switch() is True
    convolve(machine)
    core.set_cudnn_switch(False)
    assert core.get_cudnn_switch() is False
    before = len(machine.dnn()._choices)
    convolve(machine)
    assert len(machine.dnn()._choices) == before + 1


def test_the_version(machine):
    assert paddle.device.get_cudnn_version() == 90000


def test_without_cudnn(shim):
    assert shim.dnn() is None and paddle.device.get_cudnn_version() is None


def test_the_library_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("OAR_CUDA_CUDNN", "0")
    assert cudnn.find() is None


def test_a_library_without_a_device_is_not_used():
    class Refuses:
        def __getattr__(self, name):
            return lambda *args: 1001

    with pytest.warns(RuntimeWarning, match="cudnnCreate failed with the status 1001"):
        assert cudnn.on(Refuses(), 0) is None


def test_descriptors_of_the_installed_library():
    library = cudnn.find()
    if library is None:
        pytest.skip("cuDNN is not installed")
    dnn = object.__new__(cudnn.Dnn)
    dnn.library = library
    size = cudnn.Geometry("float16", (2, 6, 5, 7), (4, 3, 3, 3), (2, 4, 5, 7), (1, 1), (1, 1), (1, 1), 2, True)
    x, w, v = dnn._tensor("float16", size.x, True), dnn._filter("float16", size.w, True), dnn._convolution(size, 1)
    kind, rank, dims, strides, n = (
        ctypes.c_int(),
        ctypes.c_int(),
        (ctypes.c_int * 8)(),
        (ctypes.c_int * 8)(),
        ctypes.byref,
    )
    call = library.cudnnGetTensorNdDescriptor
    assert call(ctypes.c_void_p(x), 8, n(kind), n(rank), dims, strides) == 0
    assert (kind.value, rank.value, [*dims][:4], [*strides][:4]) == (2, 4, [2, 6, 5, 7], [210, 1, 42, 6])
    call = library.cudnnGetFilterNdDescriptor
    assert call(ctypes.c_void_p(w), 8, n(kind), n(order := ctypes.c_int()), n(rank), dims) == 0
    assert (rank.value, order.value, [*dims][:4]) == (4, 1, [4, 3, 3, 3])
    call = library.cudnnGetConvolutionNdForwardOutputDim
    assert call(*map(ctypes.c_void_p, (v, x, w)), 4, dims) == 0 and [*dims][:4] == [2, 4, 5, 7]
    assert cudnn.Performance.memory.offset == 16 and ctypes.sizeof(cudnn.Performance) == 48
