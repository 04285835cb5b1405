"""What the translation keeps of Python, what it refuses, and the errors of translated code."""

import ast
import copy
import functools
import gc
import inspect
import textwrap
import threading
import traceback
import weakref

import numpy as np
import paddle
import pytest
from paddle.jit import to_static
from paddle.static import InputSpec

X = np.float32([1, 2, 3])


def tensor(data=X, stop_gradient=True):
    return paddle.to_tensor(np.float32(data), stop_gradient=stop_gradient)


class Base(paddle.nn.Layer):
    def forward(self, x):
        return x + 1


class Derived(Base):
    """A Layer with what translation must keep."""

    __factor = 3

    def __init__(self):
        super().__init__()
        self.scale = self.create_parameter([1], default_initializer=paddle.nn.initializer.Constant(2.0))
        self.inner = paddle.nn.Linear(3, 3)
        self.plain = [paddle.nn.Linear(3, 3).weight]

    def forward(self, x, /, *args, flag=False, **kwargs):
        """The docstring."""
        x = super().forward(x) * self.__factor * self.scale
        if x.mean() > 0:
            x = self.inner(x)
        for extra in args:
            x = x + extra
        if flag:
            x = x + kwargs["more"]
        return paddle.matmul(x, self.plain[0])


def test_super_private_names_signature_and_docstring():
    paddle.seed(0)
    net = Derived()
    more = tensor([1, 1, 1])
    want = net(tensor([X]), tensor([X]), flag=True, more=more)
    static = to_static(net)
    assert static.forward.__doc__ == "The docstring."
    got = static(tensor([X]), tensor([X]), flag=True, more=more)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5)
    got.sum().backward()
    for param in (net.scale, net.inner.weight, net.plain[0]):
        assert np.abs(param.grad).sum() > 0


def test_hooks_of_sublayers_are_translated():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.a = paddle.nn.ReLU()

        def forward(self, x):
            return self.a(x)

    def hook(layer, inputs, outputs):
        if outputs.mean() > 1:
            return outputs * 10
        return outputs * 100

    net = Net()
    net.a.register_forward_post_hook(hook)
    net.a.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * (2 if inputs[0].mean() > 0 else 3),))
    net = to_static(net)
    assert net(tensor([1, 2])).numpy().tolist() == [20, 40]
    assert net(tensor([0.1, 0.2])).numpy() == pytest.approx([20, 40])


def test_attributes_of_layers_that_branches_set():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", paddle.zeros([1]))

        def forward(self, x):
            if x.mean() > 0:
                self.seen = self.seen + 1
            i = paddle.zeros([1], "int64")
            while i < 2:
                self.seen = self.seen + 10
                i += 1
            return x * self.seen

    for static in (False, True):
        net = to_static(Net()) if static else Net()
        out = [net(tensor(v)).numpy().tolist() for v in ([1.0], [-1.0])]
        assert out == [[21.0], [-41.0]] and net.seen.item() == 41


def test_training_flags_are_part_of_the_key():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.drop = paddle.nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x) if self.drop.training else x * 7

    net = to_static(Net())
    draws = [net(paddle.ones([64])).numpy() for _ in range(2)]
    assert (draws[0] != draws[1]).any()
    net.drop.training = False
    assert net(paddle.ones([2])).numpy().tolist() == [7, 7]


def test_a_parameter_that_is_replaced():
    net = to_static(paddle.nn.Linear(3, 1, bias_attr=False))
    net(tensor([X]))
    net.weight = paddle.create_parameter([3, 1], "float32", default_initializer=paddle.nn.initializer.Constant(2.0))
    assert net(tensor([X])).item() == 12


def test_tensors_of_closures_and_globals():
    weight = tensor(2.0, stop_gradient=False)

    @to_static
    def f(x):
        return -weight * x + weight[0] * (weight + 1)

    f(tensor(3.0)).sum().backward()
    assert f(tensor(3.0)).item() == 0 and weight.grad.item() == -3 + 5


def test_gradients_of_powers_add_up():
    """A Tensor passes through several Programs, and one Program several times."""

    @to_static
    def square(x):
        return x * x

    x = tensor([2.0], stop_gradient=False)
    (square(square(x)) + square(x)).backward()
    assert x.grad.tolist() == [4 * 8 + 4]


def test_no_grad_and_a_result_that_is_an_input():
    @to_static
    def f(x, y):
        return x, x + y, 3, None

    x = tensor(X, stop_gradient=False)
    same, total, three, none = f(x, tensor([1, 1, 1]))
    assert (three, none) == (3, None)
    (same * 2 + total).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    with paddle.no_grad():
        assert f(x, x)[1].stop_gradient


def test_results_that_are_none_or_of_other_lengths():
    @to_static
    def f(x):
        if x.mean() > 1:
            return x, x * 2
        if x.mean() > 0:
            return x

    assert len(f(tensor([2.0]))) == 2
    assert f(tensor([0.5])).item() == 0.5
    assert f(tensor([-1.0])) is None


def test_unknown_sizes():
    @to_static(input_spec=[InputSpec([None, 2], name="x")])
    def f(x):
        total = paddle.zeros([1, 2])
        for row in x:
            total = total + row
        if x.shape[0] > 2:
            total = total * len(x)
        return paddle.reshape(x, [x.shape[0] * 2]), total

    for n in (2, 5):
        flat, total = f(paddle.ones([n, 2]))
        assert flat.shape == [2 * n] and total.numpy().tolist() == [[n * (n if n > 2 else 1)] * 2]
    assert f.get_traced_count() == 1


def test_threads_call_while_another_translates():
    @to_static
    def f(x):
        for _ in range(30):
            x = x + 1
        return x

    net = paddle.nn.Linear(3, 3)
    failed = []

    def call(n):
        try:
            for i in range(8):
                size = n * 10 + i + 1
                assert f(paddle.zeros([size])).numpy().tolist() == [30] * size
                assert isinstance(net(tensor([X])), paddle.Tensor)
        except BaseException:
            failed.append(traceback.format_exc())

    with pytest.warns(UserWarning, match="Programs, more than"):
        threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    assert not failed, failed[0]


# ------------------------------------------------------------------ what is refused


def generator(x):
    yield x * 2


def branch_inside_try(x):
    try:
        if x.mean() > 0:
            x = x * 2
    finally:
        x = x + 1
    return x


SPACE = {}
exec("def without_source(x):\n    return x * 2\n", SPACE)


@pytest.mark.parametrize(
    ("function", "construct"),
    [(generator, "a generator"), (branch_inside_try, "inside `try`"), (SPACE["without_source"], "source text")],
)
def test_what_is_refused_runs_in_dygraph_mode(function, construct, monkeypatch):
    static = to_static(function)
    with pytest.warns(UserWarning, match=construct) as warned:
        for _ in range(2):
            static(tensor())
    assert len([w for w in warned if construct in str(w.message)]) == 1
    assert function.__code__.co_filename in str(warned[0].message)
    monkeypatch.setenv("OAR_JIT_STRICT", "1")
    with pytest.raises(NotImplementedError, match=construct):
        to_static(function)(tensor())


def test_not_to_static_and_the_switch():
    @paddle.jit.not_to_static
    def kept(x):
        assert not x.stop_gradient or True
        return x + 1

    assert to_static(lambda x: kept(x) * 2)(tensor([1.0])).item() == 4
    assert functools.partial(to_static(lambda x, y: x * y), tensor([3.0]))(tensor([2.0])).item() == 6


# ------------------------------------------------------------------ errors


def one_branch(x):
    if x.mean() > 0:
        y = x
    return y


def two_types(x):
    if x.mean() > 0:
        y = x
    else:
        y = x.astype("int64")
    return y


def two_ranks(x):
    if x.mean() > 0:
        y = x
    else:
        y = paddle.reshape(x, [1, 3])
    return y


def loop_type(x):
    i = paddle.zeros([1], "int64")
    while i < 3:
        i = i + 1
        x = x.astype("float64")
    return x


def loop_rank(x):
    i = paddle.zeros([1], "int64")
    while i < 3:
        i = i + 1
        x = paddle.unsqueeze(x, 0)
    return x


def python_values(x):
    name = "none"
    if x.mean() > 0:
        name = "some"
    return x, name


def truth(x):
    return x if [x.mean() > 0][0].__bool__() else -x


def value(x):
    return x * float(x.numpy()[0])


def new_parameters(x):
    return paddle.nn.Linear(3, 3)(x)


def changed_list(x):
    held = [x]

    def double():
        held[0] = held[0] * 2

    i = paddle.zeros([1], "int64")
    while i < 3:
        double()
        i += 1
    return held[0]


def changed_name(x):
    def double():
        nonlocal x
        x = x * 2

    if x.mean() > 0:
        double()
    return x


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (one_branch, NameError, "'y' is bound in one branch only"),
        (two_types, TypeError, "'y' is a Tensor of float32.*int64"),
        (two_ranks, ValueError, "'y' is .*as many dimensions"),
        (loop_type, TypeError, "'x' is .*float32.*float64.*data types"),
        (loop_rank, ValueError, "'x' is .*number of dimensions"),
        (python_values, TypeError, "'name' is 'some' or 'none'"),
        (truth, TypeError, r"bool\(\)"),
        (value, TypeError, "numpy"),
        (new_parameters, ValueError, "creates the parameter"),
        (changed_list, ValueError, "a function that is called there changed a list"),
        (changed_name, ValueError, "a function that is called there changed a list, a dict, an attribute or a name"),
    ],
)
def test_errors_name_the_line(function, kind, text):
    with pytest.raises(kind) as raised:
        to_static(function)(tensor())
    message = str(raised.value)
    assert pytest.importorskip("re").search(text, message), message
    if function not in (new_parameters, changed_name):
        assert "In transformed code" in message and f'File "{__file__}", line' in message
        assert f"in {function.__name__}" in message


def test_a_call_that_does_not_fit():
    f = to_static(lambda x, y=1: x * y, input_spec=[InputSpec([None, 3])])
    with pytest.raises(ValueError, match=r"argument 'x' must have the shape \[-1, 3\].*got \[2, 4\]"):
        f(paddle.ones([2, 4]))
    with pytest.raises(ValueError, match="argument 'x' must have the data type float32.*got int64"):
        f(paddle.ones([2, 3], "int64"))
    with pytest.raises(ValueError, match="requires the argument 'x'"):
        f()
    with pytest.raises(ValueError, match="takes 2 arguments"):
        f(1, 2, 3)
    with pytest.raises(ValueError, match="unexpected keyword argument 'z'"):
        f(paddle.ones([1, 3]), z=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        to_static(lambda x: x)(paddle.ones([1, 3]), z=1)
    with pytest.raises(TypeError, match="input_spec must be a list"):
        to_static(lambda x: x, input_spec=3)
    with pytest.raises(ValueError, match="must be InputSpec"):
        to_static(lambda x: x, input_spec=[3])


def test_an_error_of_a_run_names_the_line():
    @to_static(input_spec=[InputSpec([None, None])])
    def f(x):
        return paddle.matmul(x, x)

    with pytest.raises(ValueError, match="In transformed code") as raised:
        f(paddle.ones([2, 3]))
    assert "return paddle.matmul(x, x)" in str(raised.value)


class Other(paddle.nn.Layer):
    """Methods whose first parameter has another name."""

    def __init__(this):
        super().__init__()
        this.inner = paddle.nn.Linear(3, 3)

    @to_static(input_spec=[InputSpec([None, 3], "float32", "x")])
    def forward(this, x, scale=2.0):
        return this.inner(x) * scale


def test_a_method_is_known_by_its_binding():
    net = Other()
    np.testing.assert_allclose(net(tensor([X]), scale=3.0).numpy(), (net.inner(tensor([X])) * 3).numpy(), rtol=1e-6)
    assert net.forward.function_spec.args_name == ["x", "scale"]
    with pytest.raises(ValueError, match=r"forward\(\) takes 2 arguments \(x, scale\), but received 3"):
        net(tensor([X]), 1.0, 2.0)

    @to_static
    def plain(this, x):
        return this.inner(x)

    assert plain(net, tensor([X])).shape == [1, 3]


def test_layers_with_static_methods_are_freed():
    net = Other()
    net(tensor([X]))
    copied = copy.deepcopy(net)
    assert copied.forward is not net.forward and net.forward is net.forward
    np.testing.assert_array_equal(copied(tensor([X])).numpy(), net(tensor([X])).numpy())
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None


def test_items_of_a_list_may_differ_between_branches():
    @to_static
    def first(x):
        items = []
        if x.sum() > 0:
            items.append(x)
        else:
            items.append(paddle.full([1, 2], 9, "int64"))
        if x.sum() > 0:
            items[0] = x + 1
        return items[0]

    np.testing.assert_array_equal(first(tensor()).numpy(), X + 1)
    np.testing.assert_array_equal(first(-tensor()).numpy(), [[9, 9]])


def test_dygraph_to_static_func_appends_constants():
    from paddle.fluid import dygraph

    @dygraph.dygraph_to_static_func
    def rate_and_sum(x):
        decay = dygraph.CosineDecay(0.1, 10, 120)
        return decay(), dygraph.to_variable(x) + paddle.to_tensor(X)

    main = paddle.static.Program()
    paddle.enable_static()
    try:
        with paddle.static.program_guard(main):
            results = rate_and_sum(X)
        rate, total = paddle.static.Executor().run(main, fetch_list=list(results))
    finally:
        paddle.disable_static()
    np.testing.assert_allclose(rate, [0.1], rtol=1e-6)
    np.testing.assert_array_equal(total, 2 * X)


def test_queries_about_trees():
    from paddle.fluid.dygraph.dygraph_to_static import ifelse_transformer, loop_transformer, utils

    def summed(n, data):
        a = 1
        for i in range(n):
            s = data + a + i
        while s < n:
            s = s + 1
        return s

    root = ast.parse(textwrap.dedent(inspect.getsource(summed)))
    names = loop_transformer.NameVisitor(root)
    found = [names.get_loop_var_names(n) for n in ast.walk(root) if isinstance(n, (ast.For, ast.While))]
    assert found == [({"i", "n", "data", "s"}, {"s"}), ({"s", "n"}, set())]
    contexts = ifelse_transformer.get_name_ids([root])
    assert [type(c).__name__ for c in contexts["s"]] == ["Store", "Load", "Load", "Store", "Load"]
    for condition, want in (("x.numpy() > 1", True), ("x is None or y", False), ("paddle.mean(x) > n", True)):
        assert utils.is_control_flow_to_transform(ast.parse(condition, mode="eval").body) is want
    with pytest.raises(TypeError, match="must be gast.AST"):
        utils.is_control_flow_to_transform("x")
