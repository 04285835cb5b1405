"""What reshape, squeeze, unsqueeze and flatten make in dygraph mode shares memory with its input, as in 2.0.2."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

VIEWS = {
    "reshape": lambda x: paddle.reshape(x, [4, 3]),
    "squeeze": lambda x: paddle.squeeze(x, -1),
    "unsqueeze": lambda x: paddle.unsqueeze(x, 0),
    "flatten": lambda x: paddle.flatten(x),
    "method": lambda x: x.reshape([-1, 2]),
}


def numbers(dtype: str = "float32") -> paddle.Tensor:
    return paddle.to_tensor(np.arange(12).reshape(3, 4, 1).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "float16"])
@pytest.mark.parametrize("name", VIEWS)
def test_both_see_what_is_assigned(name, dtype):
    x = numbers(dtype)
    y = VIEWS[name](x)
    z = y.reshape([6, 2])  # of a view
    for changed, value in ((x, 1), (y, 0), (z, 1), (x, 0)):
        changed[...] = np.full(changed.shape, value, dtype)
        for seen in (x, y, z):
            np.testing.assert_array_equal(seen.numpy(), np.full(seen.shape, value, dtype))
    y[0] = np.ones(y.shape[1:], dtype)
    np.testing.assert_array_equal(x.numpy().ravel(), y.numpy().ravel())
    assert x.inplace_version == y.inplace_version == z.inplace_version == 5


def test_large_ones_and_what_others_hold():
    x = paddle.ones([300, 1000])
    y = x.reshape([-1])
    before, array = x.clone(), y.numpy()
    late = paddle.flatten(y)
    y[5] = 7.0
    assert x[0, 5].numpy() == late[5].numpy() == 7
    assert before.numpy().max() == array.max() == 1
    paddle.tanh_(late)
    np.testing.assert_allclose(x.numpy()[0, 4:7], np.tanh([1.0, 7.0, 1.0]), rtol=1e-6)
    x.set_value(np.zeros([300, 1000], "float32"))
    assert y.numpy().max() == late.numpy().max() == 0


def test_other_operators_copy():
    x = numbers()
    for y in (paddle.transpose(x, [1, 0, 2]), x[0:2], paddle.assign(x), x + 0, x.clone(), paddle.concat([x])):
        y[...] = 50.0
    assert x.numpy().max() == 11


def test_a_view_lives_on():
    x = numbers()
    y = x.reshape([12])
    del x
    y[0] = 9.0
    z = y.reshape([3, 4])
    del y
    z[0, 1] = 8.0
    assert z.numpy()[0, :3].tolist() == [9, 8, 2]


def test_an_operand_may_be_a_view_of_what_is_written():
    x = paddle.to_tensor(np.float32([[1, 2], [3, 4]]))
    x[:, :] = x.reshape([4]).reshape([2, 2]).transpose([1, 0])
    assert x.numpy().tolist() == [[1, 3], [2, 4]]
    w = paddle.to_tensor(np.float32([1, 2]), stop_gradient=False)
    rate = paddle.to_tensor(np.float32([0.5]))
    with paddle.no_grad():
        paddle._ops.sgd(w, rate, w.reshape([2]), ParamOut=w)
    assert w.numpy().tolist() == [0.5, 1]


def test_training_with_views_of_a_parameter():
    w = paddle.create_parameter([2, 3], "float32")
    flat = w.reshape([6])
    sgd = paddle.optimizer.SGD(0.5, parameters=[w])
    for _ in range(3):
        before = w.numpy()
        (w.reshape([3, 2]) * 2).sum().backward()
        sgd.step()
        sgd.clear_grad()
        np.testing.assert_allclose(w.numpy(), before - 1, rtol=1e-5)
        np.testing.assert_array_equal(flat.numpy(), w.numpy().ravel())
    with paddle.no_grad():
        flat[0] = 100.0
    assert w.numpy()[0, 0] == 100
    (w * w).sum().backward()
    assert w.grad[0, 0] == 200


def test_backward_notices_changes_through_a_view():
    x = paddle.ones([2, 3])
    x.stop_gradient = False
    y = x * 1
    loss = (y**2).sum()
    y.reshape([6])[0] = 3.0
    with pytest.raises(RuntimeError, match="received tensor_version:1 != wrapper_version_snapshot:0"):
        loss.backward()


def test_no_wrong_derivative_through_a_view():
    x = paddle.to_tensor(np.float32([1, 2, 3, 4]), stop_gradient=False)
    y = x * 1
    flat = y.reshape([2, 2])
    flat[0] = 5.0
    # The history of `flat` knows of the change, that of `y` does not.
    (flat * 3).sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 0, 3, 3])
    for use in (lambda: y * 2, lambda: paddle.exp(y), lambda: y.sum(), lambda: paddle.concat([y, y]), lambda: y[0]):
        with pytest.raises(RuntimeError, match="shares its memory"):
            use()
    np.testing.assert_array_equal(y.numpy(), [5, 5, 3, 4])
    np.testing.assert_array_equal((y.detach() * 2).numpy(), [10, 10, 6, 8])
    with paddle.no_grad():
        np.testing.assert_array_equal((y * 2).numpy(), [10, 10, 6, 8])


def test_a_leaf_changed_through_a_view_stays_a_leaf():
    x = paddle.to_tensor(np.float32([1, 2]), stop_gradient=False)
    x.reshape([2, 1])[0] = 4.0
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad, [8, 4])


def test_values_of_another_size_go_their_own_way():
    x = paddle.to_tensor(np.float32([1, 2, 3, 4]))
    y = x.reshape([2, 2])
    paddle._ops.fill_constant(shape=[3], value=7.0, dtype=5, Out=x)
    assert (x.numpy().tolist(), y.numpy().tolist()) == ([7, 7, 7], [[1, 2], [3, 4]])


def test_nothing_is_kept_alive():
    x = paddle.ones([4])
    for _ in range(1000):
        y = x.reshape([2, 2])
    y[0] = 2.0
    assert x.numpy().tolist() == [2, 2, 1, 1]
