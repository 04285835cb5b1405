"""The operator table compared with the recorded definitions of 2.0.2's operators."""

import json
import math

import pytest
from paddle import _core
from specification import find

TYPES = "INT FLOAT STRING INTS FLOATS STRINGS BOOLEAN BOOLEANS BLOCK LONG BLOCKS LONGS FLOAT64S".split()
OPS = {op["type"]: op for op in _core.op_table()}
PATH = find("ops.json")
RECORDED = {op["type"]: op for op in json.loads(PATH.read_text()) if op["source"] == "2.0.2"}
FORWARD = sorted(set(OPS) & set(RECORDED))


#: recorded without X and Y, which 2.0.2 (fused_elemwise_activation_op.cc, line 259) passes to the gradient
INCOMPLETE = {"fused_elemwise_activation", "fused_elemwise_add_activation"}


#: attributes of passes at load: the bfloat16 pass marks attention as it marks fc
OWN_ATTRIBUTES = {"multihead_matmul": {"mkldnn_data_type"}}


def visible(slots: list[dict]) -> list[dict]:
    return [s for s in slots if not s["extra"]]


@pytest.mark.parametrize("name", FORWARD)
def test_definition(name: str) -> None:
    ours, theirs = OPS[name], RECORDED[name]
    assert [s["name"] for s in visible(ours["inputs"])] == theirs["inputs"]
    assert [s["name"] for s in visible(ours["outputs"])] == theirs["outputs"]
    recorded = {k: set(v) for k, v in theirs.get("flags", {}).items()}
    for kind, slots in (("in", ours["inputs"]), ("out", ours["outputs"])):
        for s in visible(slots):
            flags = {f for f in ("duplicable", "dispensable", "intermediate") if s[f]}
            want = recorded.get(f"{kind}:{s['name']}", set()) - {"extra"}
            assert flags == want, f"flags of {kind}:{s['name']}"
    own = OWN_ATTRIBUTES.get(name, set())
    attrs = {a["name"]: a for a in ours["attrs"] if a["name"] not in own}
    extra = {a for a in attrs if a not in theirs["attrs"]}
    assert not extra, f"attributes that Paddle does not declare: {extra}"
    # Names with an at sign are hints for Paddle's executor.
    declared = {attr: default for attr, default in theirs["attrs"].items() if not attr.startswith("@")}
    assert list(attrs) == list(declared), "attributes and their order"
    for attr, default in declared.items():
        mine = attrs[attr]
        assert TYPES[mine["type"]] == theirs["attr_types"][attr], f"type of {attr}"
        assert mine["required"] == (attr in theirs.get("required_attrs", [])), f"{attr} is required or not"
        if not mine["required"]:
            assert same(mine["default"], default), f"default of {attr}: {mine['default']}, expected {default}"


def same(a: object, b: object) -> bool:
    if isinstance(b, list) and not isinstance(a, list):
        b = b[0] if len(b) == 1 else b  # a single number, whose default is in braces in the source
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(b, int | float) and math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-30)
    return a == b and isinstance(a, bool) == isinstance(b, bool)


@pytest.mark.parametrize("name", FORWARD)
def test_gradient(name: str) -> None:
    ours, theirs = OPS[name], RECORDED[name]
    if not theirs["grad"]:
        assert ours["grad"] is None and ours["grad_form"] in ("none", "function"), "Paddle has no gradient here"
        return
    assert ours["grad_form"] != "none", "Paddle has a gradient here"
    if ours["grad"] is None:
        return  # computed by a function: the cases of the operator cover it
    want = theirs["grad_op"]
    assert ours["grad"] == want["type"]
    grad = OPS[ours["grad"]]
    if name in ("lstm", "lstmp"):  # 2.0.2 has no gradient of Cell
        want = {**want, "inputs": [*want["inputs"], "Cell@GRAD"]}
    if name in INCOMPLETE:
        want = {**want, "inputs": [*want["inputs"], "X", "Y"], "outputs": [*want["outputs"], "X@GRAD", "Y@GRAD"]}
    assert {s["name"] for s in visible(grad["inputs"])} <= set(want["inputs"])
    assert {s["name"] for s in visible(grad["outputs"])} == set(want["outputs"])


def test_every_gradient_is_in_the_table() -> None:
    missing = [op["grad"] for op in OPS.values() if op["grad"] is not None and op["grad"] not in OPS]
    assert not missing


def test_no_operator_is_listed_twice() -> None:
    assert len(OPS) == len(_core.op_table())


@pytest.mark.filterwarnings("ignore:The data type of")
def test_its_data_types_are_those_checked_in_static_mode() -> None:
    """A static function raises 2.0.2's TypeError for types that its operator's row does not list."""
    import paddle
    from paddle._basics.element_types import takes

    assert all(list(takes(name)) == op["dtypes"] for name, op in OPS.items())
    with pytest.raises(KeyError, match="no_such"):
        takes("no_such")
    functions = {"cholesky": paddle.cholesky, "bernoulli": paddle.bernoulli, "histogram": paddle.histogram}
    paddle.enable_static()
    try:
        for name, function in functions.items():
            for dtype in ("bool", "int16", "int32", "int64", "float16", "float32", "float64", "uint8", "int8"):
                with paddle.static.program_guard(paddle.static.Program()):
                    x = paddle.static.data(f"{name}_{dtype}", [3, 3], dtype)
                    if dtype in OPS[name]["dtypes"]:
                        function(x)
                    else:
                        with pytest.raises(TypeError, match=dtype):
                            function(x)
    finally:
        paddle.disable_static()


@pytest.mark.parametrize("name", "relu hardshrink hardsigmoid hardswish hardtanh log_sigmoid tanhshrink".split())
def test_activations_check_types_under_their_own_names(name: str) -> None:
    import paddle

    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            function = getattr(paddle.nn.functional, name)
            function(paddle.static.data("x", [2], "float32"))
            with pytest.raises(TypeError, match="int32"):
                function(paddle.static.data("i", [2], "int32"))
    finally:
        paddle.disable_static()


def test_which_operators_are_gradients():
    """A gradient writes `X@GRAD`, or is named by an operator and has no gradient; concat, split's gradient, is none."""
    for name in (
        "relu_grad",
        "relu_grad_grad",
        "push_sparse",
        "cross_entropy_grad2",
        "reorder_lod_tensor_by_rank_grad",
    ):
        assert OPS[name]["is_gradient"], name
    for name in ("concat", "transpose2", "c_allreduce_sum", "lookup_sparse_table_grad_split"):
        assert not OPS[name]["is_gradient"], name


def test_outputs_are_named_after_the_layer():
    other = {name: op["layer"] for name, op in OPS.items() if op["layer"] != name}
    assert other == {
        "transpose2": "transpose",
        "squeeze2": "squeeze",
        "fill_zeros_like": "zeros_like",
        "flatten2": "flatten",
        "lod_array_length": "array_length",
        "ctc_align": "ctc_greedy_decoder",
    }
