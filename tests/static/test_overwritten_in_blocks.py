"""Each way to overwrite a variable, in each kind of block."""

import re

import numpy as np
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


def total(v):
    return L.reduce_sum(L.square(v))


def in_place(kind, **attrs):
    def write(a, b):
        block = paddle.static.default_main_program().current_block()
        block.append_op(type=kind, inputs={"X": [a]}, outputs={"Out": [a]}, attrs=attrs)

    return write


def increment(a, b):
    mean = L.reduce_mean(a)
    before = L.tanh(mean)
    L.increment(mean, value=0.3)
    L.assign(L.elementwise_mul(b, before * mean), a)


def several(a, b):
    L.assign(L.exp(L.tanh(b)), a)
    L.assign(L.sqrt(a + 1.0), b)
    L.assign(a * b, a)


STATEMENTS = {
    "assign": lambda a, b: L.assign(L.tanh(b), a),
    "assign of itself": lambda a, b: L.assign(L.tanh(a) * b, a),
    "constant": lambda a, b: L.assign(L.scale(b, 0.0, bias=0.4), a),
    "several": several,
    "sums": lambda a, b: L.sums([a, b], out=a),
    "sums of another": lambda a, b: L.sums([b, b], out=a),
    "set_value": lambda a, b: a.__setitem__(slice(0, 1), L.slice(L.tanh(b), [0], [0], [1])),
    "set_value of itself": lambda a, b: a.__setitem__(slice(0, 1), L.slice(a * b, [0], [0], [1])),
    "tanh": in_place("tanh"),
    "scale": in_place("scale", scale=0.5),
    "softmax": in_place("softmax"),
    "increment": increment,
}


def two(x):
    return x * 1.0, L.tanh(x)


def result(a, b):
    return total(a) + L.reduce_sum(L.sin(b))


def condition(a, holds):
    return L.greater_than(L.reduce_sum(a), L.fill_constant([1], "float64", -100.0 if holds else 100.0))


def counted(turns, body):
    i, n = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", turns)
    going = L.less_than(i, n)
    with L.While(going).block():
        body()
        L.increment(i)
        L.less_than(i, n, cond=going)


def plain(write, x):
    a, b = two(x)
    write(a, b)
    return result(a, b)


def while_block(write, x, turns=3):
    a, b = two(x)
    counted(turns, lambda: write(a, b))
    return result(a, b)


def while_loop(write, x):
    def body(i, p, q):
        write(p, q)
        return [i + 1, q, p]

    _, a, b = L.while_loop(lambda i, p, q: i < 3, body, [L.fill_constant([1], "int64", 0), *two(x)])
    return result(a, b)


def cond(write, x, holds=True):
    a, b = two(x)

    def branch():
        write(a, b)
        return L.square(a)

    out = L.cond(condition(a, holds), branch, lambda: L.sin(a) * b)
    return total(out) + L.reduce_sum(L.sin(b)) + L.reduce_sum(L.cos(a))


def conditional_block(write, x, holds=True):
    a, b = two(x)
    with ConditionalBlock([condition(a, holds)], is_scalar_condition=True).block():
        write(a, b)
    return result(a, b)


def switch(write, x, which=0):
    a, b = two(x)
    at = L.fill_constant([1], "float32", float(which))
    with L.Switch() as cases:
        with cases.case(L.equal(at, L.fill_constant([1], "float32", 0.0))):
            write(a, b)
        with cases.case(L.equal(at, L.fill_constant([1], "float32", 1.0))):
            L.assign(L.sin(a), b)
        with cases.default():
            L.assign(b * a, a)
    return result(a, b)


def switch_case(write, x):
    a, b = two(x)

    def branch():
        write(a, b)
        return L.square(a)

    out = L.switch_case(L.fill_constant([1], "int32", 1), {0: lambda: a * b, 1: branch}, lambda: b * 3.0)
    return total(out) + result(a, b)


def static_rnn(write, x, own=True):
    a, b = two(x)
    rnn = L.StaticRNN()
    with rnn.step():
        now, state = rnn.step_input(L.stack([a, b, a * b])), rnn.memory(init=b)
        p, q = (L.sigmoid(now), state * 0.9 + a) if own else (now, state)
        write(p, q)
        new = p * 0.5 + q
        rnn.update_memory(state, new)
        rnn.step_output(new)
    return total(rnn()) + L.reduce_sum(L.sin(b))


def dynamic_rnn(write, x):
    rnn = L.DynamicRNN()
    with rnn.block():
        now, state = rnn.step_input(x), rnn.memory(shape=[3], value=0.2, dtype="float64")
        p, q = L.sigmoid(now), state * 0.9 + now
        write(p, q)
        new = p * 0.5 + q
        rnn.update_memory(state, new)
        rnn.output(new)
    return total(L.sequence_pool(rnn(), "sum"))


def if_else(write, x):
    a, b = two(x)
    where = L.IfElse(L.greater_than(L.slice(a, [1], [0], [1]), L.fill_constant([2, 1], "float64", 0.5)))
    with where.true_block():
        p, q = where.input(a), where.input(b)
        write(p, q)
        where.output(p * q)
    with where.false_block():
        where.output(L.sin(where.input(a)))
    return total(where()[0]) + total(a)


def nested(write, x):
    a, b = two(x)

    def body():
        with ConditionalBlock([condition(a, True)], is_scalar_condition=True).block():
            write(a, b)
        counted(2, lambda: write(b, a))

    counted(2, body)
    return result(a, b)


def read_after_a_branch(write, x, inner=lambda a, body: branch_of(a, True, body)):
    """A block reads what a block inside it may have written; only the outer block's result is used."""
    a, b = two(x)
    out = a * 0.3

    def body():
        inner(a, lambda: write(a, b))
        L.assign((a + b) * 0.6, out)

    branch_of(a, True, body)
    return total(out)


def branch_of(a, holds, body):
    with ConditionalBlock([condition(a, holds)], is_scalar_condition=True).block():
        body()


BLOCKS = {
    "plain": plain,
    "While": while_block,
    "While without a turn": lambda write, x: while_block(write, x, 0),
    "while_loop": while_loop,
    "cond": cond,
    "cond, other branch": lambda write, x: cond(write, x, False),
    "ConditionalBlock": conditional_block,
    "ConditionalBlock not run": lambda write, x: conditional_block(write, x, False),
    "Switch": switch,
    "Switch, second": lambda write, x: switch(write, x, 1),
    "Switch, default": lambda write, x: switch(write, x, 2),
    "switch_case": switch_case,
    "StaticRNN": static_rnn,
    "StaticRNN, inputs and states": lambda write, x: static_rnn(write, x, False),
    "DynamicRNN": dynamic_rnn,
    "IfElse": if_else,
    "nested": nested,
    "read after a branch": read_after_a_branch,
    "read after a branch that does not run": lambda write, x: read_after_a_branch(
        write, x, lambda a, body: branch_of(a, False, body)
    ),
    "read after a loop": lambda write, x: read_after_a_branch(write, x, lambda a, body: counted(2, body)),
    "read after a loop without a turn": lambda write, x: read_after_a_branch(
        write, x, lambda a, body: counted(0, body)
    ),
}


@pytest.mark.parametrize("block", BLOCKS)
def test_each_way_to_overwrite(block):
    lengths = [3, 1, 2] if block == "DynamicRNN" else None
    found = {
        name: wrong
        for name, write in STATEMENTS.items()
        if (wrong := wrong_gradient(lambda x, write=write: BLOCKS[block](write, x), lengths))
    }
    assert found == {}


@pytest.mark.parametrize("nest", [False, True])
def test_a_step_that_replaces_an_outer_variable_is_refused_by_name(nest):
    def make(x):
        a, b = two(x)
        rnn = L.StaticRNN()
        with rnn.step():
            now, state = rnn.step_input(L.stack([a, b])), rnn.memory(init=b)
            new = now * 0.5 + state + a
            with ConditionalBlock([condition(now, True)], is_scalar_condition=True).block():
                L.assign(L.tanh(now), a) if nest else None
            L.assign(L.tanh(now), a)
            rnn.update_memory(state, new)
            rnn.step_output(new)
        return total(rnn()) + total(a)

    with pytest.raises(fluid.core.EnforceNotMet) as error:
        wrong_gradient(make)
    text = str(error.value)
    assert re.search(r"StaticRNN replaces variable 'tmp_\d+'.*operator assign; created at File .*L\.assign", text)
    assert re.search(r"operator stack reads it; created at File .*test_overwritten_in_blocks.py", text)


def test_steps_that_write_outer_variables_without_a_gradient():
    def make(x):
        a, b = two(x)
        count, unread = L.fill_constant([1], "float64", 0.0), a * 2.0
        rnn = L.StaticRNN()
        with rnn.step():
            now, state = rnn.step_input(L.stack([a, b])), rnn.memory(init=b)
            L.increment(count)
            L.assign(now, unread)
            rnn.update_memory(state, now + state)
            rnn.step_output(state * now)
        return total(rnn())

    assert wrong_gradient(make) is None


def test_a_value_that_a_branch_may_replace_is_kept_by_pruning(tmp_path):
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [2, 3], "float64")
        a, out = L.tanh(x), L.fill_constant([2, 3], "float64", 0.0)

        def body():
            branch_of(x, False, lambda: L.assign(L.sigmoid(x), a))
            L.assign(a * 3.0, out)

        branch_of(x, True, body)
        y = L.sin(out)
        exe, feed = fluid.Executor(), {"x": np.full((2, 3), 0.5, "float64")}
        wanted = np.sin(np.tanh(0.5) * 3)
        np.testing.assert_allclose(exe.run(main, feed, [y], use_prune=True)[0], wanted, rtol=1e-6)
        fluid.io.save_inference_model(str(tmp_path), ["x"], [y], exe, main)
        loaded, _, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        np.testing.assert_allclose(exe.run(loaded, feed, targets)[0], wanted, rtol=1e-6)
