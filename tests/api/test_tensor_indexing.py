"""``x[index]`` and ``x[index] = value`` of eager Tensors, compared with numpy."""

from typing import Any

import numpy as np
import pytest
from paddle import _core

A = np.arange(24, dtype="float32").reshape(2, 3, 4)
S = slice


def tensor(a: Any, stop: bool = True) -> Any:
    t = _core.Tensor(np.asarray(a))
    t.stop_gradient = stop
    return t


READ = [
    1,
    -1,
    S(1, 2),
    S(-5, -1),
    S(1, 100),
    (S(None), 1),
    (1, 1, 1),
    (S(None, None, -1),),
    (S(None), S(0, 3, 2), S(3, 0, -2)),
    (S(None), S(None), -1),
    (0, S(None), S(None, None, 3)),
    (Ellipsis, 0),
    (0, Ellipsis, S(1, 3)),
    (None, 1),
    (0, None),
    (S(None), None, S(1, 3)),
    (0, 0, 0, None),
    np.int64(1),
]


@pytest.mark.parametrize("index", READ, ids=repr)
def test_read(index: Any) -> None:
    want = np.asarray(A[index])
    want = want.reshape(want.shape or 1)
    got = tensor(A)[index]
    assert got.stop_gradient and got.shape == list(want.shape)
    np.testing.assert_array_equal(got.numpy(), want)
    x = tensor(A, stop=False)
    y = x[index]
    assert not y.stop_gradient
    np.testing.assert_array_equal(y.numpy(), want)
    weight = np.random.default_rng(0).random(want.shape, "float32")
    _core.run_backward([y], [tensor(weight)])
    grad = np.zeros_like(A)
    grad[index] = weight.reshape(np.shape(A[index]))
    np.testing.assert_array_equal(x._grad_ivar().numpy(), grad)


def test_full_index_returns_the_tensor_itself() -> None:
    x = tensor(A)
    assert x[:] is x and x[:, 0:3] is x and x[...] is x


def test_tensor_as_integer() -> None:
    np.testing.assert_array_equal(tensor(A)[tensor(np.int64([1])), 2].numpy(), A[1, 2])


def test_rows_one_by_one() -> None:
    assert [r.numpy().tolist() for r in tensor(A)] == A.tolist()


@pytest.mark.parametrize(
    "index, error",
    [
        (2, IndexError),
        (-3, IndexError),
        ((0, 3), IndexError),
        (2**70, (IndexError, OverflowError)),
        (S(1, 1), ValueError),
        (S(2, 5), ValueError),
        (S(0, 2, 0), ValueError),
        (S(0.5, 2), TypeError),
        (True, ValueError),
        ([0], ValueError),
        (np.array([0, 1]), ValueError),
        (1.5, ValueError),
        ("a", ValueError),
        ((0, 0, 0, 0), ValueError),
        ((Ellipsis, Ellipsis), IndexError),
    ],
    ids=repr,
)
def test_bad_reads(index: Any, error: Any) -> None:
    for stop in (True, False):
        with pytest.raises(error):
            tensor(A, stop)[index]


WRITE = [
    (1, 5),
    (S(None), 2.5),
    (S(None), True),
    ((0, 1, 2), 7),
    ((S(None), S(None, None, -1)), np.arange(4, dtype="float32")),
    ((S(None), S(0, 3, 2), 1), np.arange(2, dtype="float32")),
    ((Ellipsis, 0), np.arange(3, dtype="float64")),
    ((None, 0), 1),
    ((0, None), np.ones((1, 1, 3, 4), "float32")),
    (S(5, 9), 3),
    (np.array([1, 0]), 3.0),
    ((0, [1, 2]), np.ones((2, 4), "int64")),
    (A > 3, 9),
    (1, [1, 2, 3, 4]),
]


@pytest.mark.parametrize("index, value", WRITE, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "uint8", "bool"])
def test_write(index: Any, value: Any, dtype: str) -> None:
    x, want = tensor(A.astype(dtype)), A.astype(dtype)
    want[index] = value
    x[index] = value
    np.testing.assert_array_equal(x.numpy(), want)
    assert x.inplace_version == 1
    if isinstance(value, np.ndarray):
        y = tensor(A.astype(dtype))
        y[index] = tensor(value)
        np.testing.assert_array_equal(y.numpy(), want)


def test_write_is_in_place_and_copies_shared_memory() -> None:
    x = tensor(A)
    at = x.data_ptr()
    x[0] = 1.0
    assert x.data_ptr() == at
    alias = x.detach()
    x[1] = 2.0
    assert (alias.numpy() == x.numpy()).all()
    view = _core.ops.reshape2(x, shape=[24])
    copy = _core.ops.assign(x)
    before = copy.numpy()
    x[0] = 9.0
    assert (copy.numpy() == before).all() and (x.numpy()[0] == 9).all() and (view.numpy() == x.numpy().ravel()).all()
    x[0] = x[1]
    x[:] = x
    assert (x.numpy()[0] == 2).all()


def test_large_slices_are_independent_of_writes() -> None:
    x = tensor(np.zeros((1000, 300), "float32"))
    part = x[100:900]
    x[:] = 1.0
    assert (part.numpy() == 0).all()
    part[0] = 5.0
    assert (x.numpy() == 1).all()


def test_exact_integers() -> None:
    x = tensor(np.zeros(2, "int64"))
    x[0] = 2**62 + 1
    assert x.numpy()[0] == 2**62 + 1
    with pytest.raises(OverflowError):
        tensor(np.zeros(2, "int32"))[0] = 2**31
    with pytest.raises(ValueError):
        x[0] = float("nan")


@pytest.mark.parametrize(
    "index, value",
    [(5, 1), ((0, 0, 0, 0), 1), (0, np.zeros((5, 5), "float32")), (0, np.zeros((5, 5))), (0, "a"), ("a", 0)],
    ids=repr,
)
def test_invalid_writes_leave_the_tensor_unchanged(index: Any, value: Any) -> None:
    x = tensor(A)
    with pytest.raises((IndexError, ValueError, TypeError)):
        x[index] = value
    np.testing.assert_array_equal(x.numpy(), A)


def test_no_backward_from_a_tensor_with_stop_gradient() -> None:
    x = tensor([2.0, 3.0], stop=False)
    y = x * x
    y.stop_gradient = True
    y.backward()
    assert x._grad_ivar() is None


def test_write_after_save_is_an_error_in_backward() -> None:
    x = tensor(A, stop=False)
    y = _core.ops.exp(x)
    y.detach()[:] = 5.0
    with pytest.raises(RuntimeError):
        _core.run_backward([y], [tensor(A)])


def test_second_gradient() -> None:
    x = tensor(np.float64([1.0, 2.0, 3.0]), stop=False)
    y = _core.ops.square(x[::2])
    (g,) = _core.partial_grad([y], [x], [tensor(np.ones(2))], [], True, True, False)
    (gg,) = _core.partial_grad([g], [x], [tensor(np.ones(3))], [], False, False, False)
    np.testing.assert_array_equal(gg.numpy(), [2.0, 0.0, 2.0])


def test_iterates_both_ways() -> None:
    x = tensor(np.float32([[1, 2], [3, 4]]))
    assert [row.numpy().tolist() for row in x] == [[1, 2], [3, 4]]
    assert [row.numpy().tolist() for row in reversed(x)] == [[3, 4], [1, 2]]
