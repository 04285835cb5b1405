"""Builtins check input types in static mode by the rows of _dispatch/input_checks.py."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import _ops
from paddle._basics.element_types import takes
from paddle._basics.op_proto import OpProtoHolder
from paddle._dispatch.input_checks import FUNCTIONS, ROWS


@pytest.fixture
def static():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield
    paddle.disable_static()


@pytest.mark.parametrize("table, op_type", [("rows", o) for o in ROWS] + [("functions", o) for o in FUNCTIONS])
def test_row_matches_the_operator(table, op_type):
    slots = OpProtoHolder.instance().get_op_proto(op_type).inputs
    row = (ROWS if table == "rows" else FUNCTIONS)[op_type]
    assert len(row.inputs) <= len(slots)
    types = row.inputs[0] and row.inputs[0][1]
    every = set(takes(op_type)) - {"bfloat16"}
    assert types is None or (set(types) == every if table == "rows" else set(types) <= every)


def test_types(static):
    integers = paddle.static.data("i", [2], "int64")
    with pytest.raises(TypeError, match=r"^tanh: x must have dtype \('float16', 'float32', 'float64'\), got int64"):
        _ops.tanh(integers)
    with pytest.raises(TypeError, match="^logical_and: y must have dtype"):
        _ops.logical_and(paddle.static.data("b", [2], "bool"), integers)
    assert not paddle.static.default_main_program().global_block().ops, "a refused operator is not appended"


# Function to the types of its arguments, of which the function refuses the first (the operator may accept it).
REFUSED = {
    "exp": ["int64"],
    "log2": ["float16"],
    "floor": ["int32"],
    "abs": ["bool"],
    "equal": ["uint8", "uint8"],
    "max": ["bool"],
    "prod": ["bool"],
    "all": ["float32"],
    "logsumexp": ["float16"],
    "norm": ["float16"],
    "mv": ["float16", "float32"],
    "dot": ["bool", "float32"],
    "kron": ["bool", "float32"],
    "matmul": ["int64", "float32"],
    "meshgrid": ["bool", "float32"],
    "is_empty": ["bool"],
    "argmax": ["bool"],
    "index_select": ["bool", "int64"],
    "index_sample": ["bool", "int64"],
    "gather_nd": ["float16", "int64"],
    "masked_select": ["bool", "bool"],
    "nn.functional.log_loss": ["float64", "float32"],
    "nn.functional.one_hot": ["float32"],
    "static.nn.sequence_pool": ["float16"],
    "static.nn.sequence_reverse": ["bool"],
}
MORE = {"nn.functional.one_hot": [3], "static.nn.sequence_pool": ["sum"]}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_refuse_other_types(static, name):
    function = paddle
    for part in name.split("."):
        function = getattr(function, part)
    given = [paddle.static.data(f"x{i}", [2, 2], dtype) for i, dtype in enumerate(REFUSED[name])]
    with pytest.raises(TypeError, match=f"must have dtype .* got {REFUSED[name][0]}"):
        function(*given, *MORE.get(name, []))
    with pytest.raises(TypeError, match="must be|must have dtype"):
        function("x", *given[1:], *MORE.get(name, []))


@pytest.mark.parametrize("op_type", ["tanh", "transpose2", "elementwise_add", "reshape2", "concat", "layer_norm"])
def test_a_str_is_no_variable(static, op_type):
    with pytest.raises(TypeError, match=r"The type of '\w+(\[0\])?' in \w+ must be .*Variable.*, but received .*str"):
        getattr(_ops, op_type)(["x"] if op_type == "concat" else "x")


def test_a_str_in_dygraph_mode_names_the_slot():
    with pytest.raises(ValueError, match="operator reshape2: input 'Shape' must be a Tensor, got str"):
        _ops.reshape2(paddle.ones([2]), "no attribute")


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
