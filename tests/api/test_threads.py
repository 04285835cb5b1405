"""Thread-local state: settings of one thread do not affect others."""

from __future__ import annotations

import sys
import threading

import numpy as np
import paddle


def in_threads(count, work):
    errors = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors, errors


def records():
    x = paddle.ones([2])
    x.stop_gradient = False
    return not (x * 2).stop_gradient


def test_no_grad_is_thread_local():
    # The two overlap: with a global flag, the last one to end would leave recording off.
    both_in, one_out = threading.Barrier(2), threading.Barrier(2)

    def work(i):
        assert records()
        with paddle.no_grad():
            both_in.wait()
            assert not records()
            if i:
                one_out.wait()
                assert not records()
        if not i:
            assert records()
            one_out.wait()

    in_threads(2, work)
    assert records()
    with paddle.no_grad():
        in_threads(1, lambda i: [] if records() else 1 / 0)
        assert not records()


def test_no_grad_entered_again_and_thrown_into():
    switch = paddle.no_grad()
    with switch:
        with switch:
            assert not records()
        assert not records()
    assert records()

    @paddle.no_grad()
    def generator():
        try:
            yield records()
        except KeyError:
            yield records()

    items = generator()
    assert [next(items), items.throw(KeyError("a"))] == [False, False] and records()
    items.close()


def test_dygraph_guard_keeps_other_threads_mode():
    with paddle.no_grad():
        with paddle.fluid.dygraph.guard():
            assert records()
        assert not records()
    assert records()


def test_backward_in_threads():
    """No thread's gradient of a shared layer is lost."""
    shared = paddle.nn.Linear(8, 8)
    x = np.ones((4, 8), "float32")

    def work(i):
        own, batch = paddle.nn.Linear(8, 8), paddle.to_tensor(x)
        for layer, times in (own, 20), (shared, 400):
            for _ in range(times):
                layer(batch).sum().backward()
        np.testing.assert_array_equal(np.asarray(own.bias.grad), np.full(8, 80, "float32"))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        in_threads(4, work)
    finally:
        sys.setswitchinterval(before)
    np.testing.assert_array_equal(np.asarray(shared.bias.grad), np.full(8, 6400, "float32"))


def test_a_model_and_its_optimizer_in_threads():
    """Each thread's step updates the parameters in place while others read them; none is ever without a value."""
    paddle.seed(1)
    model = paddle.nn.Sequential(paddle.nn.Linear(64, 64), paddle.nn.BatchNorm1D(64), paddle.nn.Linear(64, 1))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    # Large enough for calls that release the GIL.
    x = np.random.RandomState(0).rand(2048, 64).astype("float32")
    batch, target = paddle.to_tensor(x), paddle.to_tensor(x.sum(1, keepdims=True))

    def loss():
        return paddle.nn.functional.mse_loss(model(batch), target)

    def work(i):
        for _ in range(30):
            loss().backward()
            optimizer.step()
            optimizer.clear_grad()

    first = float(loss())
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        in_threads(4, work)
    finally:
        sys.setswitchinterval(before)
    assert float(loss()) < first
    assert all(np.isfinite(p.numpy()).all() for p in model.parameters())
