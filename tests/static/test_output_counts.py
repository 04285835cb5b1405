"""Builtins in static mode create as many output variables, of the types, as the operators' shape rules determine."""

from __future__ import annotations

import paddle
import pytest
from paddle import _ops


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield
    paddle.disable_static()


def data(*shape, dtype="float64", name="x"):
    return paddle.static.data(name, list(shape), dtype)


@pytest.mark.parametrize(
    "call, shapes",
    [
        (lambda x: _ops.split(x, num=2, axis=1), [(4, 3), (4, 3)]),
        (lambda x: _ops.split(x, sections=[1, -1, 2], axis=1), [(4, 1), (4, 3), (4, 2)]),
        (lambda x: _ops.unbind(x), [(6,)] * 4),
        (lambda x: _ops.unbind(x, axis=1), [(4,)] * 6),
        (lambda x: _ops.unstack(x, num=4), [(6,)] * 4),
        (lambda x: _ops.meshgrid([x[0], x[0], x[0]]), [(6, 6, 6)] * 3),
        (lambda x: _ops.check_finite_and_unscale([x, x], data(1, name="s"))[0], [(4, 6)] * 2),
    ],
)
def test_number_and_types(call, shapes):
    made = call(data(4, 6))
    assert [v.shape for v in made] == shapes
    assert {v.dtype for v in made} == {paddle.float64}


def test_one_operator_is_appended():
    _ops.split(data(4, 6), num=2)
    block = paddle.static.default_main_program().global_block()
    assert [op.type for op in block.ops] == ["split"]
    assert len(block.ops[0].output("Out")) == 2


def test_the_count_depends_on_an_unknown_size():
    with pytest.raises(ValueError, match=r"unbind: the size of axis 0 of shape \[-1, 6\] is the number of outputs"):
        _ops.unbind(data(-1, 6))


def test_wrong_attributes():
    with pytest.raises(ValueError, match="either num or sections must be given"):
        _ops.split(data(4, 6))
    with pytest.raises(ValueError, match="num must be the size of axis 0"):
        _ops.unstack(data(4, 6), num=3)


def test_the_rule_gives_the_type():
    """Not that of the first operand."""
    values, indices = _ops.top_k_v2(data(4, 6), k=2)
    assert (values.dtype, indices.dtype) == (paddle.float64, paddle.int64)
    assert _ops.shape(data(4, 6, name="y")).dtype == paddle.int32
