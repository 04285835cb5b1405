"""Attributes that forward sets, other than parameters and buffers: values after each call as in dygraph mode."""

from __future__ import annotations

import warnings

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn
from paddle.jit import to_static
from paddle.static import InputSpec


class Kept(nn.Layer):
    """Tensors, nests of them and Python values; one is set by both branches, one is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.chosen = None

    def forward(self, x):
        self.attn = F.softmax(self.fc(x))
        self.size = list(x.shape)
        self.parts = [self.attn, {"twice": x * 2}]
        self.late = x
        del self.late
        if x.sum() > 0:
            self.chosen = x * 1
        else:
            self.chosen = x * 2
        return self.attn * 2


def test_tensors_are_eager_after_each_call():
    net = Kept()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        static = to_static(Kept())
        static.set_state_dict(net.state_dict())
        for rows, value in ((2, 1.0), (2, -3.0), (1, 2.0), (2, 0.5)):
            for each in (net, static):
                each(paddle.full([rows, 3], value))
            np.testing.assert_allclose(static.attn.numpy(), net.attn.numpy(), rtol=1e-6)
            np.testing.assert_allclose(static.chosen.numpy(), net.chosen.numpy())
            assert static.parts[0].numpy().tolist() == static.attn.numpy().tolist()
            assert static.parts[1]["twice"].numpy().tolist() == [[value * 2] * 3] * rows
            assert static.size == net.size == [rows, 3]
            assert not hasattr(static, "late")
    assert static.forward.get_traced_count() == 2
    assert static.state_dict().keys() == net.state_dict().keys()


def test_gradients_of_an_attribute():
    grads = []
    for net in (Kept(), to_static(Kept())):
        net.fc.weight.set_value(np.arange(9, dtype="float32").reshape(3, 3) / 9)
        net(paddle.ones([2, 3]))
        (net.attn * net.attn).sum().backward()
        grads.append(np.array(net.fc.weight.grad))
    np.testing.assert_allclose(*grads, rtol=1e-5)


class Adds(nn.Layer):
    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.k = 0

    def forward(self, x):
        self.k += 1
        return x * self.k


class AddsInBranch(Adds):
    def forward(self, x):
        if x.sum() > 0:
            self.k += 1
        return x * self.k


class SetsInOneBranch(Adds):
    def forward(self, x):
        if x.sum() > 0:
            self.k = 5
        return x * self.k


class AddsInTheOtherBranch(Adds):
    def forward(self, x):
        if x.sum() > 0:
            self.k = 7
        else:
            self.k += 1
        return x * self.k


class AddsInLoop(Adds):
    def forward(self, x):
        i = paddle.zeros([1], "int32")
        while i < 3:
            self.k += 1
            i += 1
        return x * self.k


class AddsByMethod(Adds):
    def step(self):
        before = self.k
        self.k = before + 1

    def forward(self, x):
        self.step()
        return x * self.k


class OfTheClass(Adds):
    def forward(self, x):
        self.calls = self.calls + 1
        return x * self.calls


class Once(Adds):
    """A scale that the first call sets."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = x.abs().max()
        return x * self.scale


@pytest.mark.parametrize(
    "kind",
    [Adds, AddsInBranch, AddsInTheOtherBranch, AddsInLoop, AddsByMethod, OfTheClass],
    ids=lambda kind: kind.__name__,
)
def test_a_number_that_depends_on_its_value_runs_in_dygraph_mode(kind):
    net, static = kind(), to_static(kind())
    with pytest.warns(UserWarning, match=r"test_attributes\.py:\d+: the attribute '(k|calls)' of \w+, which") as caught:
        for value in (1.0, -2.0, 3.0, -4.0):
            x = paddle.full([2], value)
            assert static(x).numpy().tolist() == net(x).numpy().tolist()
            assert (static.k, static.calls) == (net.k, net.calls)
    assert len([each for each in caught if "the attribute" in str(each.message)]) == 1


@pytest.mark.parametrize("kind", [Once, SetsInOneBranch], ids=lambda kind: kind.__name__)
def test_what_the_first_call_sets(kind):
    net, static = kind(), to_static(kind())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (2.0, 3.0, -4.0):
            x = paddle.full([2], value)
            assert static(x).numpy().tolist() == net(x).numpy().tolist()
            assert kind is not Once or static.scale.item() == 2.0
    assert static.forward.get_traced_count() == 1


def test_saving_warns_and_has_the_value_of_now(tmp_path):
    with pytest.warns(UserWarning, match="the attribute 'k' of Adds"):
        net = Adds()
        paddle.jit.save(net, str(tmp_path / "net"), [InputSpec([2], "float32", "x")])
    assert net.k == 0
    assert paddle.jit.load(str(tmp_path / "net"))(paddle.ones([2])).numpy().tolist() == [1, 1]


def test_strict_mode_raises(monkeypatch):
    monkeypatch.setenv("OAR_JIT_STRICT", "1")
    net = to_static(Adds())
    with pytest.raises(NotImplementedError, match="depends on its value before the call"):
        net(paddle.ones([2]))
    assert net.k == 0


class BuffersByMethods(nn.Layer):
    """Methods that branches call assign buffers, in one branch or both, and within each other."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", paddle.ones([1]))
        self.register_buffer("n", paddle.zeros([1]))

    def double(self):
        self.b = self.b * 2

    def count(self, by):
        self.n = self.n + by
        if self.n > 2:
            self.double()

    def forward(self, x):
        self.n = self.n + 0.5
        if x.sum() > 0:
            self.double()
            self.count(1)
        else:
            self.count(x.max())
        return x * self.b


def test_buffers_that_a_function_of_a_branch_assigns():
    net, static = BuffersByMethods(), to_static(BuffersByMethods())
    for value in (1.0, -2.0, 3.0, 4.0, 2.0, -1.0):
        x = paddle.full([2], value)
        assert static(x).numpy().tolist() == net(x).numpy().tolist()
        assert (static.b.item(), static.n.item()) == (net.b.item(), net.n.item())
    assert static.forward.get_traced_count() == 1


def test_a_buffer_of_another_rank_in_one_branch_is_refused():
    class Grows(BuffersByMethods):
        def grow(self):
            self.b = self.b * paddle.ones([2, 1])

        def forward(self, x):
            if x.sum() > 0:
                self.grow()
            return x

    with pytest.raises(ValueError, match=r"'Grows.b' is .* must\s+give as many dimensions"):
        to_static(Grows())(paddle.ones([2]))


def test_an_attribute_that_a_function_of_a_branch_sets():
    class Notes(BuffersByMethods):
        def note(self, x):
            self.noted = x * 2

        def forward(self, x):
            if x.sum() > 0:
                self.note(x)
            return x * 3

    static = to_static(Notes())
    for value in (1.0, 2.0, -1.0):  # a buffer after the first call
        assert static(paddle.full([1], value)).item() == value * 3
    assert static.noted.item() == 4.0
    static = to_static(Notes())
    with pytest.warns(UserWarning, match="the attribute 'noted' of Notes, which is set by a function"):
        for value in (-1.0, -2.0):
            assert static(paddle.full([1], value)).item() == value * 3
    assert not hasattr(static, "noted")
