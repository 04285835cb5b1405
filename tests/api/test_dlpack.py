"""Memory shared with other libraries: DLPack in both directions, and the buffer protocol of LoDTensors."""

from __future__ import annotations

import ctypes
import gc
import importlib
import weakref

import numpy as np
import paddle
import pytest
from paddle import _core, fluid
from paddle.utils.dlpack import from_dlpack, to_dlpack

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def sample(dtype: str) -> np.ndarray:
    return (np.arange(6).reshape(2, 3) % (2 if dtype == "bool" else 7)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_ways_share_the_memory(dtype):
    x = paddle.to_tensor(sample(dtype))
    a = np.from_dlpack(x)
    assert a.dtype == np.dtype(dtype) and a.ctypes.data == x.data_ptr()
    np.testing.assert_array_equal(a, sample(dtype))
    b = sample(dtype)
    y = paddle.from_dlpack(b)
    assert y.data_ptr() == b.ctypes.data and y._dtype_name == dtype and y.stop_gradient
    b[1, 1] = 0
    np.testing.assert_array_equal(y.numpy(), b)


def fill(a: np.ndarray, value: float) -> None:
    """Writes a float32 array, even one that numpy 1.26 marked read-only."""
    np.ctypeslib.as_array((ctypes.c_float * a.size).from_address(a.ctypes.data))[:] = value


def test_writes_are_visible_on_the_other_side():
    a = np.zeros((2, 3), "float32")
    x = from_dlpack(a)
    x[0] = 2.0
    x.set_value(x.numpy() + 1)
    x[1, 2] = 7.0
    assert x.data_ptr() == a.ctypes.data
    assert a.tolist() == [[3, 3, 3], [1, 1, 7]]
    y = paddle.zeros([4])
    b = np.from_dlpack(y)
    at = y.data_ptr()
    y[1:3] = 5.0
    y.set_value(y + 1)
    paddle.tanh(y * 0)
    assert y.data_ptr() == at and b.tolist() == [1, 6, 6, 1]


def test_an_optimizer_updates_exported_memory_in_place():
    layer = paddle.nn.Linear(2, 2)
    seen = np.from_dlpack(layer.weight.detach())
    before = seen.copy()
    for opt in (paddle.optimizer.SGD, paddle.optimizer.Adam):
        step = opt(0.1, parameters=layer.parameters())
        layer(paddle.ones([3, 2])).sum().backward()
        step.step()
        step.clear_grad()
        np.testing.assert_array_equal(seen, layer.weight.numpy())
        assert (seen != before).all()


def test_tensors_that_shared_memory_are_independent_after_a_write():
    x = paddle.arange(20000, dtype="float32")
    other = x.reshape([100, 200])  # shares the memory
    a = np.from_dlpack(x)
    copies = [paddle.assign(x), x.astype("float32"), x[0:19999], x.clone(), paddle.add_n([x])]
    view = x.reshape([200, 100])
    fill(a, -1)
    for v in (x, other, view):
        assert v.numpy().max() == -1, v
    for v in copies:
        assert v.numpy().min() == 0, v
    view[0] = 7.0
    assert (a.ravel()[:100] == 7).all() and (other.numpy().ravel()[:100] == 7).all()
    del a
    x[0:50] = 8.0
    assert (view.numpy().ravel()[:50] == 8).all() and (view.numpy().ravel()[50:100] == 7).all()
    y = x.reshape([200, 100])
    assert y.data_ptr() == x.data_ptr()  # no export exists any more: shared again


def test_feeds_and_grads_do_not_keep_foreign_memory():
    a = np.ones((2,), "float32")
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    y = x + 0.0
    _core.run_backward([y], [from_dlpack(a)], False)
    a[:] = 9
    assert x.grad.tolist() == [1, 1]
    t = fluid.core.LoDTensor()
    t.set(from_dlpack(a), fluid.CPUPlace())
    a[:] = 4
    assert np.array(t).tolist() == [9, 9]


@pytest.mark.parametrize(
    "index",
    [
        np.s_[:, ::2],
        np.s_[::-1],
        np.s_[::-1, ::-2],
        np.s_[1:, 1:],
        np.s_[:, 1],
        np.s_[None, 1, :, None],
    ],
)
def test_non_contiguous_arrays_are_copied(index):
    for dtype in ("bool", "float32", "complex128", "int16"):
        a = np.arange(30).reshape(5, 6).astype(dtype)[index]
        x = paddle.from_dlpack(a)
        np.testing.assert_array_equal(x.numpy(), a)
        if not a.flags.c_contiguous:
            with pytest.raises(BufferError, match="contiguous"):
                paddle.from_dlpack(a, copy=False)


def test_broadcast_transposed_and_unaligned():
    a = np.lib.stride_tricks.as_strided(np.arange(3.0), (4, 3), (0, 8))
    np.testing.assert_array_equal(paddle.from_dlpack(a).numpy(), a)
    b = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
    np.testing.assert_array_equal(paddle.from_dlpack(b).numpy(), b)
    c = np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float64)
    c[:] = np.arange(5)
    x = paddle.from_dlpack(c)
    assert x.numpy().tolist() == [0, 1, 2, 3, 4] and x.data_ptr() % 8 == 0
    np.testing.assert_array_equal(paddle.from_dlpack(c[::2]).numpy(), c[::2])


def test_shapes():
    assert paddle.from_dlpack(np.array(3.0)).shape == [1]
    for shape in [(0,), (2, 0, 3), (1, 1), (2, 1, 3)]:
        a = np.ones(shape, "float32")
        assert paddle.from_dlpack(a).shape == list(shape)
        assert np.from_dlpack(paddle.zeros(shape)).shape == shape
    assert np.from_dlpack(paddle.ones([3, 2, 4])).strides == (32, 16, 4)


def test_copies_on_demand():
    a = np.ones(3)
    x = paddle.from_dlpack(a, copy=True)
    a[:] = 2
    assert x.numpy().tolist() == [1, 1, 1]
    y = paddle.ones([3])
    b = paddle.from_dlpack(y.__dlpack__(copy=True))
    c = paddle.from_dlpack(y.__dlpack__(copy=True, max_version=(1, 0)))
    y[0] = 5.0
    assert b.numpy().tolist() == c.numpy().tolist() == [1, 1, 1]
    assert paddle.from_dlpack(y, copy=False).data_ptr() == y.data_ptr()
    assert paddle.from_dlpack(y, device="cpu").data_ptr() == y.data_ptr()


def test_read_only_arrays_are_copied_before_a_write():
    a = np.arange(3.0)
    a.flags.writeable = False
    try:
        capsule = a.__dlpack__(max_version=(1, 0))
    except TypeError:
        pytest.skip("this numpy does not export the read-only flag")
    x = from_dlpack(capsule)
    assert x.data_ptr() == a.ctypes.data
    again = np.from_dlpack(x)
    assert not again.flags.writeable
    old = x.__dlpack__()  # an unversioned capsule cannot express it: a copy
    assert from_dlpack(old).data_ptr() != a.ctypes.data
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__(copy=False)
    x[0] = 9.0
    assert a[0] == 0 and x.numpy().tolist() == [9, 1, 2] and x.data_ptr() != a.ctypes.data


def test_bool_bytes_are_normalized():
    a = np.array([0, 1, 2, 255], np.uint8).view(bool)
    x = paddle.from_dlpack(a)
    assert x.numpy().tolist() == [False, True, True, True]
    assert x.astype("int32").numpy().tolist() == [0, 1, 1, 1]
    assert paddle.to_tensor(a).astype("int32").numpy().tolist() == [0, 1, 1, 1]


def test_lifetimes():
    class Held(np.ndarray):
        pass

    a = np.ones(1000).view(Held)
    gone = weakref.ref(a)
    x = paddle.from_dlpack(a)
    y = x.detach()
    del a, x
    gc.collect()
    assert gone() is not None and y.numpy().tolist() == [1.0] * 1000
    del y
    gc.collect()
    assert gone() is None

    t = paddle.full([1000], 3.0)
    b = np.from_dlpack(t)
    del t
    gc.collect()
    paddle.full([1000], 4.0)
    assert (b == 3).all()


def test_unconsumed_capsules_are_freed():
    def held():
        return _core.memory_stats()[0]

    before = held()
    for i in range(50):
        paddle.ones([1 << 18]).__dlpack__(max_version=(1, i % 2))
        to_dlpack(paddle.ones([1 << 18]))
        paddle.from_dlpack(to_dlpack(paddle.ones([1 << 18])))
        paddle.from_dlpack(np.ones(1 << 18))
        np.ones(4).__dlpack__()
    assert held() - before < 1 << 20


def name_of(capsule) -> bytes:
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule)


def test_a_capsule_is_consumed_once():
    x = paddle.ones([2])
    for version, name in ((None, b"dltensor"), ((0, 8), b"dltensor"), ((1, 1), b"dltensor_versioned")):
        capsule = x.__dlpack__(max_version=version)
        assert name_of(capsule) == name
        y = from_dlpack(capsule)
        assert y.data_ptr() == x.data_ptr()
        assert name_of(capsule) == b"used_" + name
        with pytest.raises(BufferError, match="once"):
            from_dlpack(capsule)


class Foreign:
    """An array of another library with a configurable capsule and device."""

    def __init__(self, capsule=None, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self):  # no keyword arguments: from before versioned capsules
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def test_objects_of_old_libraries():
    x = paddle.ones([2])
    assert from_dlpack(Foreign(to_dlpack(x))).data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match="GPU"):
        from_dlpack(Foreign(device=(2, 0)))
    with pytest.raises(BufferError, match="CPU"):
        from_dlpack(Foreign(device=(2, 0)), device="cpu")
    with pytest.raises(TypeError, match="PyCapsule"):
        from_dlpack(Foreign("no capsule"))


def test_wrong_arguments():
    with pytest.raises(TypeError, match="PyCapsule"):
        from_dlpack([1, 2])
    with pytest.raises(TypeError, match="Tensor"):
        to_dlpack(np.ones(2))
    with pytest.raises(BufferError):
        from_dlpack(np.ones(2, np.uint32))
    with pytest.raises(BufferError):
        to_dlpack(fluid.core.LoDTensor())
    x = paddle.ones([2])
    x.stop_gradient = False
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(x)
    x = x.detach()
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**wrong)
    assert x.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize(
    "field, value",
    [
        ("ndim", -1),
        ("ndim", 1000),
        ("device", 7),
        ("code", 99),
        ("bits", 3),
        ("lanes", 4),
        ("dim", -5),
        ("dim", 1 << 62),
        ("stride", 1 << 62),
        ("data", 0),
    ],
)
def test_hostile_structs_are_refused(field, value):
    """Fields of an unversioned struct, modified in memory before it is consumed."""
    capsule = to_dlpack(paddle.ones([2, 3]))
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = get(capsule, b"dltensor")
    offsets = {
        "data": (0, ctypes.c_int64),
        "device": (8, ctypes.c_int32),
        "ndim": (16, ctypes.c_int32),
        "code": (20, ctypes.c_uint8),
        "bits": (21, ctypes.c_uint8),
        "lanes": (22, ctypes.c_uint16),
    }
    if field in offsets:
        offset, kind = offsets[field]
        place = kind.from_address(at + offset)
    else:
        base = ctypes.c_int64.from_address(at + (24 if field == "dim" else 32)).value
        place = ctypes.c_int64.from_address(base)
    kept, place.value = place.value, value
    with pytest.raises(BufferError):
        from_dlpack(capsule)
    place.value = kept
    assert from_dlpack(capsule).shape == [2, 3]


def test_static_mode_gives_lod_tensors():
    t = fluid.create_lod_tensor(np.array([[1], [2], [3], [4]], "int32"), [[2, 2]], fluid.CPUPlace())
    back = fluid.core.from_dlpack(t._to_dlpack())
    assert isinstance(back, fluid.core.Tensor) and back._ptr() == t._ptr()
    assert np.array(back).tolist() == [[1], [2], [3], [4]]
    paddle.enable_static()
    try:
        assert isinstance(from_dlpack(np.ones(2)), fluid.core.LoDTensor)
    finally:
        paddle.disable_static()


def test_numpy_and_asarray_of_a_tensor_copy():
    x = paddle.ones([2])
    for copy in (x.numpy(), np.asarray(x), np.array(x)):
        copy[0] = 7
    assert x.numpy().tolist() == [1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_lod_tensors_have_the_buffer_protocol(dtype):
    t = fluid.core.LoDTensor()
    t.set(sample(dtype), fluid.CPUPlace())
    view = memoryview(t)
    assert view.shape == (2, 3) and view.itemsize == np.dtype(dtype).itemsize and view.c_contiguous
    assert not view.readonly
    a = np.asarray(t)
    assert a.dtype == np.dtype(dtype) and a.ctypes.data == t._ptr()
    np.testing.assert_array_equal(a, sample(dtype))
    t.set(np.zeros_like(sample(dtype)), fluid.CPUPlace())
    assert not a.any()  # written in place while it is exported
    assert bytes(t) == bytes(a.nbytes)


def test_views_of_lod_tensors():
    t = fluid.core.LoDTensor()
    with pytest.raises(BufferError):
        memoryview(t)
    t.set(np.ones((2, 2), "float32"), fluid.CPUPlace())
    view = memoryview(t)
    del t
    gc.collect()
    view[1, 0] = 4.0
    assert view.tolist() == [[1, 1], [4, 1]]
    view.release()
    with pytest.raises(ValueError):
        view.tolist()


def test_a_parameter_of_a_scope_is_visible_during_training():
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [4, 3])
            loss = paddle.mean(paddle.static.nn.fc(x, 2, bias_attr=False))
            paddle.optimizer.SGD(0.5).minimize(loss)
        exe, scope = paddle.static.Executor(), paddle.static.Scope()
        with paddle.static.scope_guard(scope):
            exe.run(startup)
            name = main.all_parameters()[0].name
            seen = np.asarray(scope.find_var(name).get_tensor())
            before = seen.copy()
            feed = np.ones((4, 3), "float32")
            exe.run(main, feed={"x": from_dlpack(feed)})
            np.testing.assert_allclose(seen, before - 0.25, rtol=1e-6)
            exe.run(main, feed={"x": feed})
            np.testing.assert_allclose(seen, before - 0.5, rtol=1e-6)
    finally:
        paddle.disable_static()


def peer(name: str):
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_torch(dtype):
    torch = peer("torch")
    want = torch.tensor([[1, 0, 1], [1, 1, 0]]).to(getattr(torch, dtype))
    x = paddle.from_dlpack(want)
    assert x._dtype_name == dtype and x.data_ptr() == want.data_ptr()
    back = torch.from_dlpack(x)
    assert back.dtype == want.dtype and back.data_ptr() == want.data_ptr() and torch.equal(back, want)
    old = torch.utils.dlpack.from_dlpack(to_dlpack(x))
    assert old.data_ptr() == want.data_ptr()
    back[0, 0] = 0
    assert not x.astype("float32").numpy()[0, 0]


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "bfloat16", "complex64"])
def test_jax(dtype):
    jnp = peer("jax.numpy")
    import jax

    want = jnp.arange(6).reshape(2, 3).astype(dtype)
    x = paddle.from_dlpack(want)
    assert x._dtype_name == dtype
    back = jax.dlpack.from_dlpack(x)
    assert back.dtype == want.dtype and (back == want).all()
