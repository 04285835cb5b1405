"""Builtins check input types in static mode by the rows of _dispatch/input_checks.py."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import _ops
from paddle._basics.element_types import takes
from paddle._basics.op_proto import OpProtoHolder
from paddle._dispatch.input_checks import ROWS


@pytest.fixture
def static():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield
    paddle.disable_static()


@pytest.mark.parametrize("op_type", ROWS)
def test_row_matches_the_operator(op_type):
    slots = OpProtoHolder.instance().get_op_proto(op_type).inputs
    row = ROWS[op_type]
    assert len(row.inputs) <= len(slots)
    types = row.inputs[0] and row.inputs[0][1]
    if types is not None:
        assert set(types) == set(takes(op_type)) - {"bfloat16"}


def test_types(static):
    integers = paddle.static.data("i", [2], "int64")
    with pytest.raises(TypeError, match=r"^tanh: x must have dtype \('float16', 'float32', 'float64'\), got int64"):
        _ops.tanh(integers)
    with pytest.raises(TypeError, match="^logical_and: y must have dtype"):
        _ops.logical_and(paddle.static.data("b", [2], "bool"), integers)
    assert not paddle.static.default_main_program().global_block().ops, "a refused operator is not appended"


@pytest.mark.parametrize("value", [None, 3, [1, 2], np.ones(2)], ids=["None", "int", "list", "array"])
def test_other_values(static, value):
    with pytest.raises(TypeError, match="^The type of 'x' in tanh must be"):
        _ops.tanh(value)


def test_tensors_of_dygraph_mode(static):
    with paddle.fluid.dygraph.guard():
        tensor = paddle.ones([2])
    with pytest.raises(TypeError, match="tanh was called in static mode, but 'x' is a Tensor of dygraph mode"):
        _ops.tanh(tensor)


def test_absent_inputs(static):
    assert _ops.layer_norm(paddle.static.data("x", [4, 3]))[0].shape == (4, 3)
