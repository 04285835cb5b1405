"""Random static Programs on the fake driver: runs by pieces give what plain runs give, whatever is fetched, held and
set between them."""

import random

import numpy as np
import paddle
import pytest
from paddle import _cuda
from shim import DriverMachine

L = paddle.fluid.layers
RUNS = 14


@pytest.fixture(scope="module")
def machine(built):
    return DriverMachine(built.folder)


class Maker:
    """Builds a Program by steps that a random generator chooses; `pool` are temporaries, `outer` variables of the
    scope."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(self.main, self.startup), paddle.fluid.unique_name.guard():
            x = paddle.static.data("x", [None, 4], "float32")
            self.pool = [x, x * 0.5]
            glob = paddle.static.create_global_var
            self.outer = [glob([3, 4], 0.1 * k, "float32", persistable=True, name=f"g{k}") for k in range(3)]
            self.count = glob([1], 0, "int64", persistable=True, force_cpu=True, name="count")
            self.rate = glob([1], 0.5, "float32", persistable=True, name="rate")
            for _ in range(self.random.randint(6, 22)):
                made = self.random.choice(STEPS)(self, self.random.choice(self.pool), self.random.choice(self.pool))
                if made is not None:
                    self.pool.append(made)
            self.fetches = self.random.sample(self.pool, 2) + self.random.sample(self.outer, self.random.randint(0, 2))

    def any_outer(self):
        return self.random.choice(self.outer)


def hashed(maker, a, b):
    """An operator of the host."""
    codes = L.hash(paddle.cast(paddle.floor(paddle.tanh(a) * 10), "int64"), hash_size=7, num_hash=1)
    return paddle.cast(paddle.reshape(codes, [-1, 1]), "float32") * 0.1 + b


def selected(maker, a, b):
    """A result whose size depends on the values."""
    some = paddle.tanh(paddle.masked_select(a, a > 0.0))
    return b * 0.5 + paddle.mean(paddle.concat([some, paddle.ones([1])], 0))


def through_an_array(maker, a, b):
    at = L.fill_constant([1], "int64", 0)
    return L.array_read(L.array_write(a, at, L.create_array("float32")), at) * 0.7


def incremented(maker, a, b):
    """A temporary that is updated in place."""
    total = paddle.reshape(paddle.mean(paddle.tanh(a)), [1])
    L.increment(total, 0.5, True)
    return paddle.tanh(b) * total


def updated(maker, a, b):
    """A variable of the scope that is updated in place."""
    param, grad = maker.outer[0], paddle.tanh(a) * 0.1
    slots = {"Param": [param], "Grad": [grad], "LearningRate": [maker.rate]}
    maker.main.current_block().append_op("sgd", slots, {"ParamOut": [param]})


def counted(maker, a, b):
    L.increment(maker.count)
    return paddle.cast(maker.count, "float32") * 0.01 + a


def overwritten(maker, a, b):
    if b is not maker.pool[0]:
        paddle.assign(paddle.tanh(a + b) * 0.9, b)


def looped(maker, a, b):
    """A loop that reads a temporary and a variable of the scope."""
    n, outer = L.fill_constant([1], "int64", 2), maker.any_outer()
    i = L.fill_constant([1], "int64", 0)
    return paddle.static.nn.while_loop(lambda i, y: i < n, lambda i, y: [i + 1, paddle.tanh(y + outer) * b], [i, a])[1]


def branched(maker, a, b):
    """A branch that the values choose; one writes a variable of the scope."""
    to, is_update = maker.any_outer(), maker.random.random() < 0.5

    def positive():
        if is_update:
            updated(maker, a, b)
        else:
            paddle.assign(paddle.tanh(a), to)
        return b * 0.5

    return paddle.static.nn.cond(paddle.mean(a) > 0.0, positive, lambda: a + to)


def called(maker, a, b):
    """A function of the user."""
    block = maker.main.current_block()
    out = block.create_var(name=paddle.fluid.unique_name.generate("out"), dtype="float32", shape=[3, 4])
    paddle.static.py_func(lambda v: np.array(v) * 0.5, paddle.tanh(a), out)
    return out + b


STEPS = [
    lambda maker, a, b: paddle.nn.functional.relu(a) + b,
    lambda maker, a, b: paddle.tanh(a) * b,
    lambda maker, a, b: paddle.nn.functional.softmax(a) + paddle.mean(b),
    lambda maker, a, b: paddle.transpose(paddle.transpose(a, [1, 0]) * 0.9, [1, 0]),
    lambda maker, a, b: paddle.reshape(paddle.reshape(a, [-1, 2, 2]), [-1, 4]),
    lambda maker, a, b: paddle.assign(a),
    lambda maker, a, b: paddle.tanh(b) + paddle.full(paddle.shape(a), 0.25, "float32"),
    lambda maker, a, b: paddle.tanh(a + maker.any_outer()),
    lambda maker, a, b: paddle.assign(maker.any_outer()) + a,
    lambda maker, a, b: paddle.assign(paddle.tanh(a), maker.any_outer()) and None,
    lambda maker, a, b: paddle.assign(maker.any_outer(), maker.any_outer()) and None,
    lambda maker, a, b: a * maker.rate,
    hashed,
    selected,
    through_an_array,
    incremented,
    updated,
    counted,
    overwritten,
    looped,
    branched,
    called,
]


class Session:
    """Runs of a random Program in a scope of its own."""

    def __init__(self, seed, machine, graphs):
        self.seed, self.scope = seed, paddle.static.Scope()
        machine.graphs = graphs
        _cuda.use(machine)
        self.place = paddle.CUDAPlace(0)
        self.executor, self.maker = paddle.static.Executor(self.place), Maker(seed)
        with paddle.static.scope_guard(self.scope):
            self.executor.run(self.maker.startup)

    def set(self, name, value, place):
        self.scope.var(name).get_tensor().set(value, place)

    def run(self, i, x):
        chance = random.Random(self.seed * 100 + i).random()
        if self.seed % 3 == 1:
            self.set("rate", np.array([0.5 / (i + 1)], "float32"), self.place if self.seed % 2 else paddle.CPUPlace())
        if self.seed % 3 == 2 and chance < 0.15:
            self.set("g1", np.full((3, 4), 0.3, "float32"), self.place)
        with paddle.static.scope_guard(self.scope):
            return self.executor.run(self.maker.main, {"x": x}, self.maker.fetches, return_numpy=chance > 0.9)

    def values(self):
        """The fetched values of all runs, read after the last one, and the variables of the scope."""
        rng = np.random.default_rng(self.seed)
        found = [self.run(i, rng.normal(size=(3, 4)).astype("float32")) for i in range(RUNS)]
        names = ("g0", "g1", "g2", "count", "rate")
        return [np.array(v) for run in found for v in run] + [np.array(self.scope.var(n).get_tensor()) for n in names]


@pytest.mark.filterwarnings("ignore:operator .* has no CUDA kernel")
@pytest.mark.parametrize("seed", [*range(16), *(pytest.param(s, marks=pytest.mark.slow) for s in range(16, 200))])
def test_pieces_give_what_plain_runs_give(seed, machine):
    machine.forget()
    paddle.enable_static()
    try:
        got = Session(seed, machine, graphs=2).values()
        want = Session(seed, machine, graphs=0).values()
    finally:
        machine.graphs = 2
        paddle.disable_static()
        _cuda.use(None)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
