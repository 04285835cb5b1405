"""Python values accepted for attributes, by eager calls and OpDescs alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from paddle import _core

X = np.arange(6, dtype="float32").reshape(2, 3)
BIG = 2**40

# Values that 2.0.2 accepts for each declared type, and the resulting attribute. Values that 2.0.2 would round or
# truncate (numpy's 2.5 as an int) are refused here.
TAKEN: list[tuple[str, str, Any, Any]] = [
    (op, attr, given, kept)
    for op, attr, values in (
        # INT
        ("softmax", "axis", [(1, 1), (True, 1), (np.int64(1), 1), (np.bool_(True), 1), (np.array(1), 1)]),
        ("softmax", "axis", [(np.array([1]), 1), (np.float32(1), 1), (_core.VarDesc.VarType.INT16, 1)]),
        # FLOAT
        ("scale", "scale", [(2, 2.0), (2.5, 2.5), (True, 1.0), (np.float32(2.5), 2.5), (np.int64(2), 2.0), (BIG, BIG)]),
        # BOOLEAN
        ("scale", "bias_after_scale", [(0, False), (2, True), (0.5, True), (0.0, False), (np.bool_(False), False)]),
        # LONG
        ("lookup_table_v2", "padding_idx", [(1, 1), (1.0, 1), (np.int32(1), 1), (BIG, BIG)]),
        # STRING
        ("fill_constant", "str_value", [("3", "3"), (b"3", "3")]),
        # INTS
        ("reshape2", "shape", [([3, 2], [3, 2]), ((3, 2), [3, 2]), (range(3, 1, -1), [3, 2]), (6, [6])]),
        ("reshape2", "shape", [([np.int64(3), np.float32(2)], [3, 2]), (np.array([3, 2]), [3, 2])]),
        # LONGS
        ("fill_constant", "shape", [([3, 2], [3, 2]), ((3, 2.0), [3, 2]), ([], [])]),
        # FLOATS
        ("assign_value", "fp32_values", [([1, 2.5], [1.0, 2.5]), (np.array([1.0, 2.5]), [1.0, 2.5]), ([], [])]),
    )
    for given, kept in values
]
REFUSED: list[tuple[str, str, Any]] = [
    (op, attr, given)
    for op, attr, values in (
        ("softmax", "axis", [1.0, 1.5, np.float32(1.5), "1", b"1", [1], BIG, object()]),
        ("scale", "scale", ["2", b"2", [2.0], object()]),
        ("scale", "bias_after_scale", ["1", [True]]),
        ("lookup_table_v2", "padding_idx", [1.5, "1", [1]]),
        ("fill_constant", "str_value", [3, ["3"]]),
        ("reshape2", "shape", [[3.0, 2.0], ["3", "2"], "32", [BIG], {3, 2}, iter([3, 2])]),
        ("fill_constant", "shape", [[3.5], ["3"], "3"]),
        ("assign_value", "fp32_values", [["1"], "1"]),
    )
    for given in values
]


def eager(op: str, **attrs: Any) -> np.ndarray:
    """The result of the operator on suitable operands."""
    function = getattr(_core.ops, op)
    x = paddle.to_tensor(X)
    if op == "lookup_table_v2":
        return function(x, paddle.to_tensor([0, 1]), **attrs).numpy()
    if op == "fill_constant":
        return function(**{"dtype": 5, "shape": [1], "str_value": "7", **attrs}).numpy()
    if op == "assign_value":
        return function(dtype=5, shape=[len(attrs["fp32_values"])], **attrs).numpy()
    return function(x, **attrs, **({"bias": 1.0} if op == "scale" else {})).numpy()


def described(op: str, attr: str, value: Any) -> Any:
    """The attribute of an OpDesc, checked."""
    desc = _core.ProgramDesc().block(0).append_op()
    desc.set_type(op)
    desc._set_attr(attr, value)
    for name, needed in (("shape", [2]), ("dtype", 5)):
        if op == "assign_value" and name != attr:
            desc._set_attr(name, needed)
    desc.check_attrs()
    return desc.attr(attr)


@pytest.mark.parametrize(("op", "attr", "given", "kept"), TAKEN)
def test_accepted(op: str, attr: str, given: Any, kept: Any) -> None:
    got = described(op, attr, given)
    assert got == kept
    assert type(got) is type(kept) or kept == BIG
    if kept != BIG or op == "scale":
        np.testing.assert_array_equal(eager(op, **{attr: given}), eager(op, **{attr: kept}))


@pytest.mark.parametrize(("op", "attr", "given"), REFUSED)
def test_refused(op: str, attr: str, given: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        described(op, attr, given)
    with pytest.raises(ValueError, match=rf"operator {op}: attribute '{attr}' must be of type"):
        eager(op, **{attr: given})


def test_one_element_tensors_are_numbers() -> None:
    one = paddle.to_tensor([1])
    np.testing.assert_array_equal(eager("softmax", axis=one), eager("softmax", axis=1))
    np.testing.assert_array_equal(eager("scale", scale=paddle.to_tensor([2.5])), eager("scale", scale=2.5))
    np.testing.assert_array_equal(eager("reshape2", shape=[3, paddle.to_tensor([2])]), eager("reshape2", shape=[3, 2]))


def test_an_undeclared_attribute_has_the_first_matching_type() -> None:
    desc = _core.ProgramDesc().block(0).append_op()
    desc.set_type("no_such_operator")
    kinds = _core.AttrType
    for value, kind, kept in (
        (True, kinds.INT, 1),
        (BIG, kinds.LONG, BIG),
        (2.0, kinds.FLOAT, 2.0),
        (b"text", kinds.STRING, "text"),
        (b"\xff", kinds.STRING, b"\xff"),
        ([1, True], kinds.INTS, [1, 1]),
        ([1, BIG], kinds.LONGS, [1, BIG]),
        ([1, 2.5], kinds.FLOATS, [1.0, 2.5]),
        (["a", b"b"], kinds.STRINGS, ["a", "b"]),
    ):
        desc._set_attr("given", value)
        assert (desc.attr_type("given"), desc.attr("given")) == (kind, kept)
    for value in ([1, "a"], {1: 2}, {1, 2}, None, object()):
        with pytest.raises(TypeError, match="attribute `given` must be"):
            desc._set_attr("given", value)
