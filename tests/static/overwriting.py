"""Random static Programs that overwrite variables, in nested control flow, and the check of their gradients against
central differences.
"""

from __future__ import annotations

import random

import numpy as np
import paddle
import paddle.fluid as fluid

L = fluid.layers

UNARY = {
    "tanh": L.tanh,
    "sigmoid": L.sigmoid,
    "square": lambda v: L.scale(L.square(v), 0.3),
    "exp": lambda v: L.scale(L.exp(L.tanh(v)), 0.4),
    "scale": lambda v: L.scale(v, 0.7, bias=0.1),
    "sin": L.sin,
    "softmax": L.softmax,
    "sqrt": lambda v: L.sqrt(L.square(v) + 0.5),
}
BINARY = {
    "add": lambda a, b: L.scale(a + b, 0.6),
    "mul": lambda a, b: L.tanh(a * b),
    "sub": lambda a, b: a - b * 0.5,
    "max": lambda a, b: L.log(L.exp(L.tanh(a)) + L.exp(L.tanh(b))),
}


class Builder:
    """Appends random statements to the current block of the default Program."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.said: list[str] = []

    def expression(self, values: list):
        a = self.draw.choice(values)
        if self.draw.random() < 0.5:
            return UNARY[self.draw.choice(list(UNARY))](a)
        return BINARY[self.draw.choice(list(BINARY))](a, self.draw.choice(values))

    def condition(self, values: list):
        total = L.reduce_sum(self.draw.choice(values))
        return L.greater_than(total, L.fill_constant([1], "float64", self.draw.uniform(-1, 2)))

    def statement(self, values: list, depth: int) -> None:
        kinds = ["new", "assign", "assign", "constant", "in place", "sums", "increment", "set_value", "reuse"]
        if depth < 2:
            kinds += ["while", "while_loop", "cond", "block", "rnn"]
        kind = self.draw.choice(kinds)
        self.said.append("  " * depth + kind)
        getattr(self, "_" + kind.replace(" ", "_"))(values, depth)

    def _new(self, values, depth):
        values.append(self.expression(values))

    def _assign(self, values, depth):
        L.assign(self.expression(values), self.draw.choice(values))

    def _reuse(self, values, depth):
        target = self.draw.choice(values)
        values.append(self.expression([target]))
        L.assign(self.expression(values), target)

    def _constant(self, values, depth):
        L.assign(L.fill_constant([2, 3], "float64", self.draw.uniform(0.2, 1)), self.draw.choice(values))

    def _in_place(self, values, depth):
        v = self.draw.choice(values)
        kind, attrs = self.draw.choice([("tanh", {}), ("scale", {"scale": 0.8}), ("sigmoid", {})])
        v.block.program.current_block().append_op(type=kind, inputs={"X": [v]}, outputs={"Out": [v]}, attrs=attrs)

    def _sums(self, values, depth):
        a, b = self.draw.choice(values), self.draw.choice(values)
        L.sums([a, b], out=self.draw.choice([a, b]))

    def _increment(self, values, depth):
        total = L.reduce_mean(self.draw.choice(values))
        squared = L.tanh(total)
        L.increment(total, value=0.3)
        values.append(L.expand(L.reshape(squared * total, [1, 1]), [2, 3]))

    def _set_value(self, values, depth):
        v, w = self.draw.choice(values), self.draw.choice(values)
        v[0:1] = L.slice(w, [0], [1], [2])

    def _body(self, values, depth, most=3):
        inside = list(values)
        for _ in range(self.draw.randint(1, most)):
            self.statement(inside, depth + 1)
        return inside

    def _while(self, values, depth):
        i, n = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", self.draw.randint(0, 3))
        going = L.less_than(i, n)
        with L.While(going).block():
            inside = self._body(values, depth)
            L.assign(self.expression(inside), self.draw.choice(values))
            L.increment(i)
            L.less_than(i, n, cond=going)

    def _while_loop(self, values, depth):
        picked = self.draw.sample(values, min(len(values), self.draw.randint(1, 3)))
        own = self.draw.random() < 0.5
        start = [L.assign(v) for v in picked] if own else picked
        turns = self.draw.randint(0, 3)

        def body(i, *given):
            inside = self._body(list(given) + ([] if own else values), depth, 2)
            outs = [self.draw.choice([self.expression(inside), self.draw.choice(list(given))]) for _ in given]
            return [i + 1, *outs]

        done = L.while_loop(lambda i, *_: i < turns, body, [L.fill_constant([1], "int64", 0), *start])
        values.extend(done[1:] if own else [])

    def _cond(self, values, depth):
        def branch():
            return self.expression(self._body(values, depth, 2))

        values.append(L.cond(self.condition(values), branch, branch))

    def _block(self, values, depth):
        from paddle.static.conditional import ConditionalBlock

        with ConditionalBlock([self.condition(values)], is_scalar_condition=True).block():
            self._body(values, depth)

    def _rnn(self, values, depth):
        steps = L.stack([self.draw.choice(values) for _ in range(3)])
        first = self.draw.choice(values)
        outer = list(values)
        rnn = L.StaticRNN()
        with rnn.step():
            now = rnn.step_input(steps)
            state = rnn.memory(init=first)
            own = [L.tanh(now), state * 0.9]
            for _ in range(self.draw.randint(1, 2)):
                if self.draw.random() < 0.5:
                    own.append(self.expression([*own, *outer]))
                else:
                    L.assign(self.expression([*own, *outer]), self.draw.choice(own))
            new = self.expression([*own, state])
            rnn.update_memory(state, new)
            rnn.step_output(new)
        values.append(L.reduce_mean(rnn(), dim=0))


def build(seed: int):
    """(the Program, its clone without gradients, the loss, the gradient of the feed `x`, the statements)."""
    main = paddle.static.Program()
    builder = Builder(seed)
    with paddle.static.program_guard(main, paddle.static.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [2, 3], "float64")
        x.stop_gradient = False
        values = [x * 1.0, L.tanh(x)] if builder.draw.random() < 0.8 else [x, x * 0.5]
        for _ in range(builder.draw.randint(3, 8)):
            builder.statement(values, 0)
        loss = L.reduce_sum(L.square(values[0]))
        for v in values[1:]:
            loss = loss + L.reduce_sum(L.sin(v))
        forward = main.clone()
        gradient = (fluid.gradients(loss, x) or [None])[0]
    return main, forward, loss, gradient, builder.said


def check(seed: int) -> str | None:
    """None where the gradient equals central differences, else what differs."""
    main, forward, loss, gradient, said = build(seed)
    exe = paddle.static.Executor(paddle.CPUPlace())
    x = np.random.RandomState(seed).rand(2, 3) * 0.8 + 0.1

    def value(at) -> float:
        return float(np.ravel(exe.run(forward, feed={"x": at}, fetch_list=[loss.name])[0])[0])

    middle = value(x)
    if gradient is None:
        got = np.zeros((2, 3))
    else:
        after, got = exe.run(main, feed={"x": x}, fetch_list=[loss.name, gradient])
        if abs(float(np.ravel(after)[0]) - middle) > 1e-9 * max(1.0, abs(middle)):
            return f"the loss is {np.ravel(after)[0]} with gradients, {middle} without\n" + "\n".join(said)
    wanted = np.zeros((2, 3))
    for at in np.ndindex(2, 3):
        step = np.zeros((2, 3))
        step[at] = 1e-6
        wanted[at] = (value(x + step) - value(x - step)) / 2e-6
    if np.allclose(got, wanted, rtol=1e-4, atol=1e-5 * max(1.0, abs(wanted).max())):
        return None
    return f"gradient {got.tolist()}, differences {wanted.tolist()}\n" + "\n".join(said)
