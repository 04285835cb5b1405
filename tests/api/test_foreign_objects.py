"""`to_tensor` of other libraries' objects, formats, bfloat16 as text, the array API namespace, named errors."""

from __future__ import annotations

import array

import numpy as np
import paddle
import pytest

VALUES = np.arange(6, dtype="float32").reshape(2, 3)


class ByDlpack:
    """An array of a library that knows versioned capsules or not."""

    def __init__(self, values, old=False):
        self.values, self.old = values, old

    def __dlpack__(self, **keywords):
        if self.old and keywords:
            raise TypeError("unexpected keyword argument")
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class ByArray:
    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


class Both(ByArray):
    """As Arrow's arrays with missing values: DLPack refuses, the array protocol does not."""

    def __dlpack__(self, **keywords):
        raise RuntimeError("cannot be expressed")


class Interface:
    def __init__(self, values):
        self.__array_interface__ = values.__array_interface__
        self.kept = values

    __array_interface__ = None


@pytest.mark.parametrize(
    "make",
    [ByDlpack, lambda v: ByDlpack(v, True), ByArray, Both, Interface, memoryview],
    ids=["dlpack", "dlpack of later versions", "array", "both", "interface", "memoryview"],
)
def test_protocols(make):
    values = VALUES.copy()
    x = paddle.to_tensor(make(values), stop_gradient=False)
    assert x.dtype == "float32" and x.shape == [2, 3] and not x.stop_gradient
    values[0, 0] = 9
    np.testing.assert_array_equal(x.numpy(), VALUES)  # a copy
    assert paddle.to_tensor(make(values), dtype="int64").dtype == "int64"


def test_element_types():
    assert paddle.to_tensor(ByArray(np.ones(2, "uint16"))).dtype == "int32"
    assert paddle.to_tensor(ByArray(np.ones(2, "uint32"))).dtype == "int64"
    assert paddle.to_tensor(ByArray(np.ones(2, "float64"))).dtype == "float64"
    assert paddle.to_tensor(array.array("d", [1.0, 2.0])).tolist() == [1.0, 2.0]
    for values in (np.array(["a"]), np.array([None, 1], dtype=object)):
        with pytest.raises(TypeError, match="to_tensor: data must hold numbers, got .*ByArray with elements of"):
            paddle.to_tensor(ByArray(values))
    with pytest.raises(TypeError, match="data must be a scalar"):
        paddle.to_tensor(object())


def test_images():
    from PIL import Image

    assert paddle.to_tensor(Image.fromarray(np.zeros((2, 3, 3), "uint8"))).shape == [2, 3, 3]
    assert paddle.to_tensor(Image.new("I;16", (2, 2), 40000)).tolist() == [[40000, 40000], [40000, 40000]]


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.tensor([[1.5, 2.0]], requires_grad=True)
    assert paddle.to_tensor(x).tolist() == [[1.5, 2.0]]
    assert paddle.to_tensor(x.detach().to(torch.bfloat16)).dtype == "bfloat16"
    assert paddle.to_tensor(x.detach().t()).shape == [2, 1]
    assert torch.from_dlpack(paddle.ones([2])).tolist() == [1.0, 1.0]


def test_jax():
    jnp = pytest.importorskip("jax.numpy")
    assert paddle.to_tensor(jnp.ones((2, 3))).shape == [2, 3]
    assert paddle.to_tensor(jnp.ones(2, "bfloat16")).tolist() == [1.0, 1.0]


def test_pandas():
    pandas = pytest.importorskip("pandas")
    assert paddle.to_tensor(pandas.Series([1, 2])).tolist() == [1, 2]
    assert paddle.to_tensor(pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    with pytest.raises(TypeError, match="pandas.*with elements of object"):
        paddle.to_tensor(pandas.Series(["x", 2], dtype=object))


def test_polars():
    polars = pytest.importorskip("polars")
    assert paddle.to_tensor(polars.Series([1, 2])).tolist() == [1, 2]
    assert paddle.to_tensor(polars.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})).shape == [2, 2]


def test_arrow():
    arrow = pytest.importorskip("pyarrow")
    assert paddle.to_tensor(arrow.array([1, 2])).tolist() == [1, 2]
    missing = paddle.to_tensor(arrow.array([1.0, None])).numpy()
    assert missing[0] == 1 and np.isnan(missing[1])
    assert paddle.to_tensor(arrow.chunked_array([[1], [2]])).tolist() == [1, 2]
    assert paddle.to_tensor(arrow.table({"a": [1, 2, 3], "b": [3, 4, 5]})).shape == [3, 2]
    with pytest.raises(TypeError, match="pyarrow"):
        paddle.to_tensor(arrow.array(["a"]))


def test_format():
    x = paddle.to_tensor([1.25])
    assert f"{x:.1f} {paddle.to_tensor([7]):>3d} {paddle.to_tensor([True])}"[:7] == "1.2   7"
    assert f"{x}" == str(x)
    with pytest.raises(TypeError, match=r"the format '.1f' is for a Tensor of one element, got shape \[2\]"):
        f"{paddle.ones([2]):.1f}"


def test_bfloat16_is_printed_as_numbers():
    x = paddle.to_tensor([1.5, -2.25]).astype("bfloat16")
    assert "[ 1.50000000, -2.25000000]" in str(x) and x.tolist() == [1.5, -2.25]
    assert x.numpy().dtype == np.uint16  # as in Paddle


def test_the_namespace():
    x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    xp = x.__array_namespace__(api_version="2023.12")
    with pytest.raises(ValueError, match="api_version must be one of"):
        x.__array_namespace__(api_version="2020.01")
    for name in dir(xp):
        assert getattr(xp, name) is not NotImplemented
    for name, arguments, keywords in (
        ("sum", (x,), {"axis": (0, 1), "keepdims": True}),
        ("prod", (x,), {"axis": 0}),
        ("var", (x,), {"axis": 1, "correction": 1}),
        ("std", (x,), {}),
        ("concat", ([x, x],), {"axis": None}),
        ("permute_dims", (x, (1, 0)), {}),
        ("matrix_transpose", (x,), {}),
        ("broadcast_to", (x, (2, 2, 2)), {}),
        ("expand_dims", (x,), {"axis": 1}),
        ("flip", (x,), {"axis": 0}),
        ("arange", (2, 7, 2), {}),
        ("linspace", (0.0, 1.0, 4), {"endpoint": False}),
        ("eye", (2, 3), {"k": 1}),
        ("full", ((2,), 3), {}),
        ("clip", (x, 1.5, 3.5), {}),
        ("cumulative_sum", (x,), {"axis": 1, "include_initial": True}),
        ("vecdot", (x, x), {}),
        ("tensordot", (x, x), {"axes": 1}),
        ("unique_values", (x,), {}),
        ("take", (x, paddle.to_tensor([1])), {"axis": 1}),
        ("copysign", (x, -x), {}),
        ("repeat", (x, 2), {"axis": 1}),
    ):
        numbers = [a.numpy() if isinstance(a, paddle.Tensor) else a for a in arguments]
        numbers = [[v.numpy() for v in a] if isinstance(a, list) else a for a in numbers]
        if hasattr(np, name):
            want = getattr(np, name)(*numbers, **keywords)
        else:
            continue
        got = getattr(xp, name)(*arguments, **keywords)
        np.testing.assert_allclose(got.numpy().reshape(np.shape(want)), want, rtol=1e-6, err_msg=name)
    one, half = xp.asarray([3], dtype=xp.int32), xp.asarray([0.5])
    assert xp.add(one, half).tolist() == [3.5] and xp.multiply(2, one).dtype == xp.int32
    assert xp.bitwise_xor(one, xp.asarray([1], dtype=xp.int32)).tolist() == [2]
    assert xp.astype(half, xp.float32) is not half and xp.astype(half, xp.float32, copy=False) is half
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray([1.0], copy=False)


def test_errors_name_the_function():
    two, three = paddle.ones([2]), paddle.ones([3])
    for call, kind, text in (
        (lambda: paddle.lerp(two, three, 1.0), ValueError, "^lerp: .*Broadcast"),
        (lambda: paddle.atan2(two, three), ValueError, "^atan2: .*Broadcast"),
        (lambda: two.lerp(three, 1.0), ValueError, "^lerp: "),
        (
            lambda: paddle.lerp(two.astype("int64"), two, 1.0),
            TypeError,
            "^lerp: x must be float32 or float64, got int64",
        ),
        (lambda: paddle.atan2("a", two), TypeError, "^atan2: x must be a Tensor, got str"),
        (lambda: paddle.hypot(two, None), TypeError, "^hypot: y must be a Tensor, got NoneType"),
        (lambda: paddle.diff(x={}), TypeError, "^diff: x must be a Tensor, got dict"),
        (lambda: paddle.linalg.matrix_power(paddle.ones([2, 3]), 2), ValueError, "^matrix_power: "),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_atan2_of_integers():
    out = paddle.atan2(paddle.to_tensor([1, 2]), paddle.to_tensor([1, -2]))
    assert out.dtype == "float64"
    np.testing.assert_allclose(out.numpy(), np.arctan2([1, 2], [1, -2]))
