"""Types in static mode: the rows of input_checks.py (operands) and argument_checks.py (arguments of functions)."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import _ops
from paddle._basics.element_types import takes
from paddle._basics.op_proto import OpProtoHolder
from paddle._dispatch import argument_checks
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


# A call with an argument of a wrong type, and the start of its message.
ARGUMENTS = {
    "eye": (lambda x, i: paddle.eye(2, dtype="bool"), "eye: dtype must have dtype"),
    "arange": (lambda x, i: paddle.arange(3, dtype="float16"), "range/arange: dtype must have dtype"),
    "rand": (lambda x, i: paddle.rand([2], "int32"), "uniform/rand: dtype must have dtype"),
    "sum": (lambda x, i: paddle.sum(x, "0"), "The type of 'axis' in sum must be"),
    "unsqueeze": (lambda x, i: paddle.unsqueeze(x, 0.5), "The type of 'axis/axes' in unsqueeze must be"),
    "concat": (lambda x, i: paddle.concat([x, "x"]), r"The type of 'x\[1\]' in concat must be"),
    "concat axis": (lambda x, i: paddle.concat([x, x], x), "concat: axis must have dtype"),
    "add_n": (lambda x, i: paddle.add_n([x, None]), r"The type of 'inputs\[1\]' in add_n must be"),
    "gather": (lambda x, i: paddle.gather(x, x), "gather: index must have dtype"),
    "gather axis": (lambda x, i: paddle.gather(x, i, 0.5), "The type of 'axis' in gather must be"),
    "linspace": (lambda x, i: paddle.linspace("0", 1, 2), "The type of 'start' in linspace must be"),
    "linspace num": (lambda x, i: paddle.linspace(0, 1, i), "linspace: num must have dtype"),
    "unique": (lambda x, i: paddle.unique(x, return_index=1), "The type of 'return_index' in unique must be"),
    "where": (lambda x, i: paddle.where(x, x, x), "where: condition must have dtype"),
    "max_pool2d": (
        lambda x, i: F.max_pool2d(paddle.static.data("m", [1, 1, 4, 4]), 2, return_mask=1),
        "The type of 'return_mask' in max_pool2d must be",
    ),
    "adaptive_avg_pool1d": (
        lambda x, i: F.adaptive_avg_pool1d(paddle.static.data("m", [1, 1, 4]), 2.5),
        "The type of 'pool_size' in adaptive_avg_pool1d must be",
    ),
    "softmax": (lambda x, i: F.softmax(x, dtype="int32"), "softmax: dtype must have dtype"),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i, i), "softmax_cross_entropy: weight must have dtype"),
    "mse_loss": (lambda x, i: F.mse_loss(x, i), "mse_loss: label must have dtype"),
    "PairwiseDistance": (lambda x, i: paddle.nn.PairwiseDistance(p="2"), "The type of 'porder' in PairwiseDistance"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_functions(static, name):
    call, message = ARGUMENTS[name]
    x, i = paddle.static.data("x", [2, 2], "float32"), paddle.static.data("i", [2], "int64")
    with pytest.raises(TypeError, match=f"^{message}"):
        call(x, i)


def test_every_row_of_a_function_is_used():
    folder = pathlib.Path(paddle.__file__).parent
    text = "".join(p.read_text() for name in ("tensor", "nn") for p in (folder / name).rglob("*.py"))
    used = set(re.findall(r'check_arguments\(\s*"([^"]+)"', text))
    assert used <= set(argument_checks.ROWS)
    # names that functions for several operators pass on
    patterns = re.compile(r"reduce_\w+|logical_\w+|arg_\w+|tril|triu|(adaptive_)?(max|avg)_pool\dd|(log_)?softmax")
    assert not {name for name in argument_checks.ROWS if name not in used and not patterns.fullmatch(name)}
