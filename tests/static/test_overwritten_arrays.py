"""Gradients of LoDTensorArrays whose elements are overwritten, or passed from step to step of a loop."""

import paddle
import paddle.fluid as fluid
import pytest
from differences import wrong_gradient
from paddle.static.conditional import ConditionalBlock

L = fluid.layers


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    yield
    paddle.disable_static()


def at(i):
    return L.fill_constant([1], "int64", i)


def total(v):
    return L.reduce_sum(L.square(v))


def element(array, i):
    return L.array_read(array, at(i))


def twice(x):
    array = L.array_write(x * 1.0, at(0))
    before = element(array, 0)
    L.array_write(L.tanh(x), at(0), array)
    return total(before) + L.reduce_sum(L.sin(element(array, 0)))


def unread(x):
    array = L.array_write(x * 1.0, at(0))
    L.array_write(L.tanh(x), at(0), array)
    return total(element(array, 0))


def of_itself(x):
    array = L.array_write(x * 1.0, at(0))
    for f in (L.tanh, L.sin):
        L.array_write(f(element(array, 0)), at(0), array)
    return total(element(array, 0))


def two_elements(x):
    array = L.array_write(x * 1.0, at(0))
    L.array_write(x * 2.0, at(1), array)
    product = element(array, 0) * element(array, 1)
    L.array_write(L.tanh(product), at(0), array)
    z, w = element(array, 0), element(array, 1)
    L.array_write(L.exp(z * w), at(1), array)
    return total(product) + L.reduce_sum(L.sin(z)) + total(element(array, 1)) + total(element(array, 0))


def loop(body, last, first=lambda x, array, i: L.array_write(x * 1.0, i, array), turns=3):
    def make(x):
        array, i, n = L.create_array("float64"), at(0), at(turns)
        first(x, array, i)
        going = L.less_than(i, n)
        with L.While(going).block():
            body(x, array, i)
            L.less_than(i, n, cond=going)
        return last(array, i) + total(x)

    return make


def chain(x, array, i):
    v = L.array_read(array, i)
    L.increment(i)
    L.array_write(L.tanh(v) * x, i, array)


def accumulated(x, array, i):
    v = element(array, 0)
    L.array_write(L.tanh(v) * x, at(0), array)
    L.increment(i)


def accumulated_twice(x, array, i):
    v = element(array, 0)
    L.array_write(L.tanh(v) * x, at(0), array)
    L.array_write(element(array, 0) * v, at(0), array)
    L.increment(i)


def chain_twice(x, array, i):
    v = L.array_read(array, i)
    L.increment(i)
    L.array_write(L.tanh(v) * x, i, array)
    L.array_write(L.array_read(array, i) * x, i, array)


def replaced(x, array, i):
    L.array_write(x * 3.0, i, array)
    L.array_write(L.tanh(x) * L.cast(i, "float64"), i, array)
    L.increment(i)


def the_last(array, i):
    return total(L.array_read(array, i))


def all_of_them(array, i):
    out = the_last(array, i)
    for k in range(3):
        out = out + total(element(array, k)) * (k + 1.0)
    return out


def rewritten(array, i):
    L.array_write(L.sin(element(array, 1)), at(1), array)
    return total(element(array, 1)) + total(element(array, 0))


def first_of_them(array, i):
    return total(element(array, 0))


def nothing(x, array, i):
    pass


def branch(holds):
    def make(x):
        array = L.array_write(x * 1.0, at(0))
        before = element(array, 0)
        limit = L.fill_constant([1], "float64", -100.0 if holds else 100.0)
        with ConditionalBlock([L.greater_than(L.reduce_sum(x), limit)], is_scalar_condition=True).block():
            L.array_write(L.tanh(before) * x, at(0), array)
        return total(element(array, 0)) + L.reduce_sum(L.sin(before))

    return make


PROGRAMS = {
    "twice": twice,
    "unread": unread,
    "of itself": of_itself,
    "two elements": two_elements,
    "chain": loop(chain, the_last),
    "chain, all read": loop(chain, all_of_them),
    "chain without a turn": loop(chain, the_last, turns=0),
    "chain, rewritten after": loop(chain, rewritten),
    "accumulated": loop(accumulated, first_of_them),
    "accumulated without a turn": loop(accumulated, first_of_them, turns=0),
    "accumulated twice": loop(accumulated_twice, first_of_them),
    "chain, written twice": loop(chain_twice, the_last),
    "chain, written twice, all read": loop(chain_twice, all_of_them),
    "replaced": loop(replaced, lambda array, i: total(element(array, 2)) + total(element(array, 1)), nothing),
    "branch": branch(True),
    "branch not run": branch(False),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_of_overwritten_elements(program):
    assert wrong_gradient(PROGRAMS[program]) is None


def test_arrays_written_once_keep_the_operators_of_paddle():
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = fluid.data("x", [None, 3], "float32", lod_level=1)
        x.stop_gradient = False
        rnn = L.DynamicRNN()
        with rnn.block():
            now, state = rnn.step_input(x), rnn.memory(shape=[3], value=0.0)
            new = L.tanh(now + state)
            rnn.update_memory(state, new)
            rnn.output(new)
        fluid.gradients(L.reduce_sum(rnn()), x)
    ops = [op for block in main.blocks for op in block.ops]
    assert not any(op.has_attr("versioned_arrays") and op.attr("versioned_arrays") for op in ops)
    assert not any(op.type == "write_to_array" and "Array" in op.input_names and op.input("Array") for op in ops)
