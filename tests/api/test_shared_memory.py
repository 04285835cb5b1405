"""In dygraph mode the results of reshape, squeeze, unsqueeze and flatten share memory with the input, as in 2.0.2."""

from __future__ import annotations

import copy
import pickle
import threading

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
def test_assignments_are_visible_through_both(name, dtype):
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


def test_large_tensors_and_external_references():
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


def test_an_operand_may_be_a_view_of_the_output():
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
    # The history of `flat` includes the change, that of `y` does not.
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


def test_values_of_another_size_are_separate():
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


def test_positions_that_overlap_with_their_value():
    for index in ([2, 1, 0], paddle.to_tensor([2, 1, 0]), slice(None, None, -1)):
        for dtype in ("float32", "int64"):
            x = paddle.to_tensor(np.array([1, 2, 3], dtype))
            view = x.reshape([3])
            x[index] = view
            assert x.numpy().tolist() == view.numpy().tolist() == [3, 2, 1]
    x = paddle.to_tensor(np.float32([1, 2, 3, 4]))
    x[1:] = x.reshape([2, 2]).reshape([4])[:-1]
    assert x.numpy().tolist() == [1, 1, 2, 3]
    x = paddle.to_tensor(np.float32([[1, 2], [3, 4]]))
    paddle.scatter_(x, paddle.to_tensor([1, 0]), x.reshape([2, 2]))
    assert x.numpy().tolist() == [[3, 4], [1, 2]]


def test_reshape_in_place_does_not_change_elements():
    x = paddle.to_tensor(np.float32([[1, 2], [3, 4]]), stop_gradient=False)
    y = x * 1
    view = y.flatten()
    y.reshape_([4])
    view.unsqueeze_(0)
    (view * 2).sum().backward(retain_graph=True)
    (y * 3).sum().backward()
    np.testing.assert_array_equal(x.grad, [[5, 5], [5, 5]])
    assert (y.shape, view.shape, y.inplace_version, view.inplace_version) == ([4], [1, 4], 2, 2)
    with paddle.no_grad():
        y[0], view[0, 3] = 9.0, 8.0
    assert y.numpy().tolist() == view.numpy()[0].tolist() == [9, 2, 3, 8]


@pytest.mark.parametrize("written", ["base", "view"])
def test_an_assignment_by_a_recorded_operator_marks_the_other_view_stale(written):
    x = paddle.to_tensor(np.float32([1, 2]), stop_gradient=False)
    w = paddle.to_tensor(np.float32([7, 8]), stop_gradient=False)
    y = x * 1
    view = y.reshape([2, 1])
    target, other = (y, view) if written == "base" else (view, y)
    paddle.assign((w * 2).reshape(target.shape), output=target)
    assert other.numpy().ravel().tolist() == [14, 16]
    with pytest.raises(RuntimeError, match="shares its memory"):
        other * 3
    (target * 3).sum().backward()
    np.testing.assert_array_equal(w.grad, [6, 6])


def test_no_backward_from_stale_views():
    x = paddle.to_tensor(np.float32([1]), stop_gradient=False)
    y = x * 1
    y.reshape([1, 1])[0] = 5.0
    with pytest.raises(RuntimeError, match="its history does not know"):
        y.backward()
    with pytest.raises(RuntimeError, match="its history does not know"):
        paddle.grad(y, x)
    assert x.grad is None


def test_gradients_of_gradients():
    x = paddle.to_tensor(np.float32([1, 2]), stop_gradient=False)
    cubes = x.reshape([2, 1])
    (grad,) = paddle.grad((cubes * cubes * cubes).sum(), x, create_graph=True)
    view = grad.reshape([2, 1])
    (view * view).sum().backward()
    np.testing.assert_array_equal(x.grad, [36, 288])
    x.clear_gradient()
    cubes = x.reshape([2, 1])
    (grad,) = paddle.grad((cubes * cubes * cubes).sum(), x, create_graph=True)
    view = grad.reshape([2, 1])
    view[0] = 0.0
    with pytest.raises(RuntimeError, match="shares its memory"):
        grad * 1
    view.sum().backward()
    np.testing.assert_array_equal(x.grad, [0, 12])


def test_a_view_of_a_gradient_keeps_its_values():
    w = paddle.to_tensor(np.float32([1, 2]), stop_gradient=False)
    kept = []
    for factor in (2.0, 5.0):
        (w * factor).sum().backward()
        kept.append(w._grad_ivar().reshape([2, 1]))
        w.clear_gradient()
    assert [v.numpy().ravel().tolist() for v in kept] == [[2, 2], [5, 5]]


def test_backward_through_the_other_view_is_an_error():
    x = paddle.to_tensor(np.float32([[1, 2]]), stop_gradient=False)
    y = x * 1
    weight = paddle.to_tensor(np.float32([[1], [1]]), stop_gradient=False)
    out = paddle.matmul(y, weight)
    with paddle.no_grad():
        y.reshape([2])[0] = 100.0
    with pytest.raises(RuntimeError, match="received tensor_version:1"):
        out.sum().backward()
    out = (weight.reshape([2]) * weight.reshape([1, 2])).sum()
    with paddle.no_grad():
        weight[0] = 3.0
    with pytest.raises(RuntimeError, match="received tensor_version:1"):
        out.backward()


def test_every_optimizer_updates_the_shared_memory():
    w = paddle.create_parameter([4], "float32")
    view = w.reshape([2, 2])
    names = ("SGD", "Momentum", "Adam", "AdamW", "Adamax", "RMSProp", "Adagrad", "Adadelta", "Lamb")
    for name in names:
        optimizer = getattr(paddle.optimizer, name)(learning_rate=0.1, parameters=[w])
        for _ in range(2):
            before = w.numpy()
            (w.reshape([2, 2]) ** 2).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
            np.testing.assert_array_equal(view.numpy().ravel(), w.numpy(), err_msg=name)
            assert (before != w.numpy()).any(), name
    layer = paddle.nn.Linear(2, 2)
    views = layer.weight.flatten(), layer.weight.unsqueeze(0)
    layer.set_state_dict({"weight": np.full([2, 2], 3, "float32"), "bias": np.zeros(2, "float32")})
    assert [float(v.numpy().min()) for v in views] == [3, 3]


def test_copies_and_exports():
    x = paddle.to_tensor(np.float32([1, 2]))
    view = x.reshape([2, 1])
    copies = [view.clone(), copy.deepcopy(view), paddle.to_tensor(pickle.loads(pickle.dumps(view.numpy())))]
    array = view.numpy()
    seen = np.from_dlpack(view)
    x[0] = 9.0
    assert seen[0, 0] == view.numpy()[0, 0] == 9 and array[0, 0] == 1
    assert [c.numpy()[0, 0] for c in copies] == [1, 1, 1]
    array[1] = 50.0
    assert x.numpy()[1] == 2
    del seen
    view[1] = 4.0
    assert x.numpy().tolist() == [9, 4]
    detached = (x * 1).reshape([2, 1]).detach()
    alias = detached.flatten()
    detached[0] = 0.0
    assert alias.numpy().tolist() == [0, 4]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_threads_that_write_and_read_views(dtype):
    """No reader sees a value that was not written, and all agree in the end, also if old values are kept."""
    rows, rounds = 4, 300
    x = paddle.zeros([rows, 300], dtype)
    views = [x.reshape([-1]), x.unsqueeze(0), x.flatten(), x.reshape([rows, 300])]
    failures, kept = [], []

    def write(k):
        for n in range(1, rounds + 1):
            views[k][...] = np.full(views[k].shape, n, dtype)
            if n % 50 == 0:
                kept.append((views[k].clone(), x.reshape([-1])))

    def read():
        for _ in range(rounds):
            for v in views:
                got = v.numpy()
                if got.min() < 0 or got.max() > rounds:
                    failures.append(got)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(rows)] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads) and not failures
    for v in views + [late for _, late in kept]:
        np.testing.assert_array_equal(v.numpy().ravel(), x.numpy().ravel())
    views[0][0] = 77 if dtype == "int64" else 77.0
    assert {int(v.numpy().ravel()[0]) for v in [x, *views]} == {77}


def test_a_traced_layer_computes_the_same():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = paddle.nn.Linear(6, 4)

        def forward(self, x):
            flat = paddle.flatten(x, 1)
            return paddle.squeeze(paddle.unsqueeze(self.fc(flat), 1), 1).reshape([-1, 2, 2]) + 1

    net = Net()
    x = paddle.to_tensor(np.arange(12, dtype="float32").reshape(2, 2, 3))
    out, traced = paddle.jit.TracedLayer.trace(net, [x])
    np.testing.assert_allclose(traced([x])[0], out.numpy(), rtol=1e-6)
