"""Each syntax form of the table: to_static gives eager's values and gradients."""

import linecache
import random

import numpy as np
import paddle
import pytest
from forms import FORMS
from paddle.jit import to_static

INPUTS = (np.float32([1, 2, 3]), np.float32([-1, -2, -3]), np.float32([0.5, -2, 4]))


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def outcome(function, data):
    x = paddle.to_tensor(data, stop_gradient=False)
    result = leaves(function(x))
    tensors = [r for r in result if isinstance(r, paddle.Tensor)]
    total = sum((t * t).sum() for t in tensors)
    total.backward()
    return [r.numpy() if isinstance(r, paddle.Tensor) else r for r in result], x.grad


def check(function):
    static = to_static(function)
    for data in INPUTS:
        want, want_grad = outcome(function, data)
        got, got_grad = outcome(static, data)
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
        np.testing.assert_allclose(got_grad, want_grad, rtol=1e-5)


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("OAR_JIT_STRICT", "1")


@pytest.mark.parametrize("name", FORMS)
def test_a_form(name):
    check(FORMS[name])
    assert to_static(FORMS[name]).__name__ == name


#: statements over `x`; {0} is the body
OUTER = (
    "if x.mean() > 0:\n{0}",
    "if x.mean() < 0:\n    x = x * 0.5\nelse:\n{0}",
    "i = paddle.zeros([1], 'int64')\nwhile i < 2:\n    i += 1\n{0}",
    "for k in range(2):\n{0}",
    "for k in range(paddle.to_tensor([2])):\n{0}",
    "for row in x:\n{0}",
    "while True:\n{0}\n    x = x * 0.5 + 1\n    if x.max() < 10:\n        break",
)
INNER = (
    "x = x * 0.9 + 0.5",
    "if x.max() > 2:\n    y = x * 0.5\nelse:\n    y = x + 1\nx = y",
    "if 0 < x.mean() and not x.max() > 5:\n    x = x + 1",
    "x = x * 2 if x.sum() > 1 else x - 1",
    "j = paddle.zeros([1], 'int64')\nwhile j < 2:\n    x = x * 0.5 + j\n    j += 1",
    "for n in range(3):\n    if x.mean() > n:\n        continue\n    x = x + 0.25",
    "for n in range(3):\n    x = x * 0.75\n    if x.max() < 1:\n        break",
    "if x.mean() > 3:\n    return x * 3",
    "z = [x, x * 2]\nif x.max() > 1:\n    z[0] = x * 0.5\nx = z[0] + z[1] * 0.1",
    "y = x\nx = x * 0.5\nx = x + y",
)


def indented(text):
    return "\n".join("    " + line for line in text.split("\n"))


def made(number):
    """Function `number` of those that two levels of statements make."""
    draw = random.Random(number)
    blocks = []
    for _ in range(draw.choice((1, 2))):
        inner = "\n".join(draw.choice(INNER) for _ in range(draw.choice((1, 2))))
        blocks.append(draw.choice(OUTER).format(indented(inner)))
    body = "\n".join([*blocks, "return x"])
    text = f"def made(x):\n{indented(body)}\n"
    filename = f"<made {number}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space = {"paddle": paddle}
    exec(compile(text, filename, "exec"), space)
    return space["made"], text


@pytest.mark.parametrize("number", range(40))
def test_made_functions(number):
    function, text = made(number)
    try:
        check(function)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error


@pytest.mark.slow
def test_many_made_functions():
    failed = []
    for number in range(40, 2000):
        function, text = made(number)
        try:
            check(function)
        except Exception as error:
            failed.append((number, str(error)[:300], text))
    assert not failed, failed[:3]
