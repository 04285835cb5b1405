"""Operators that change the shape but not the elements."""

import numpy as np
import pytest
from case import case, ints, real, table
from paddle import _core

X = real(2, 3, 4)


def to(*shape):
    return lambda x, *_, **__: x.reshape(shape)


def both(name, inputs, attrs, want, **more):
    """The operator with XShape and the former one without."""
    return [
        case(name, inputs, attrs, want, grad="X", second=True, dtypes="float32 float16", **more),
        case(name.rstrip("2"), inputs, attrs, want, grad="X", second=name not in ("reshape2", "flatten2"), **more),
    ]


test_reshape = table(
    *both("reshape2", [X], {"shape": [6, 4]}, to(6, 4)),
    *both("reshape2", [X], {"shape": [0, -1]}, to(2, 12)),
    *both("reshape2", [X], {"shape": [-1, 0, 2, 2]}, to(2, 3, 2, 2)),
    *both("reshape2", [X, np.int32([4, -1])], {"shape": [4, -1]}, to(4, 6)),
    *both("reshape2", [X, None, [np.int32([4]), np.int32([6])]], {"shape": [-1, -1]}, to(4, 6)),
    case("reshape2", [ints(2, 0, 3)], {"shape": [-1, 6]}, to(0, 6)),
    case("reshape2", [np.ones((2, 3), bool)], {"shape": [6]}, to(6)),
    case("reshape2", [X], {"shape": [2, 12]}, to(2, 12), lod={"X": [[0, 1, 2]]}, out_lod={"Out": [[0, 1, 2]]}),
    case("reshape2", [X], {"shape": [4, 6]}, to(4, 6), lod={"X": [[0, 1, 2]]}, out_lod={"Out": []}),
    case("reshape2", [X], {"shape": []}, raises=ValueError),
    case("reshape2", [X], {"shape": [-1, -1]}, raises=ValueError),
    case("reshape2", [X], {"shape": [5, -1]}, raises=ValueError),
    case("reshape2", [X], {"shape": [2, 3]}, raises=ValueError),
    case("reshape2", [X], {"shape": [2, 3, 4, 0]}, raises=ValueError),
    case("reshape2", [X], {"shape": [-2, -12]}, raises=ValueError),
    case("reshape2", [X, np.int64([2**40, 2**40])], {}, raises=ValueError),
    case("reshape2", [X, np.float32([4, 6])], {}, raises=ValueError),
)

test_squeeze = table(
    *both("squeeze2", [real(1, 3, 1, 2)], {"axes": [0, 2]}, to(3, 2)),
    *both("squeeze2", [real(1, 3, 1, 2)], {"axes": []}, to(3, 2)),
    *both("squeeze2", [real(1, 3, 1, 2)], {"axes": [-2, 1]}, to(1, 3, 2)),
    case("squeeze2", [X], {"axes": [3]}, raises=ValueError),
    case("squeeze2", [X], {"axes": [-4]}, raises=ValueError),
    *both("unsqueeze2", [X], {"axes": [0, 2]}, to(1, 2, 1, 3, 4)),
    *both("unsqueeze2", [X], {"axes": [-1]}, to(2, 3, 4, 1)),
    *both("unsqueeze2", [X], {"axes": [3, 1, 1]}, to(2, 1, 1, 3, 4, 1)),
    case("unsqueeze2", [X, np.int32([1])], {}, to(2, 1, 3, 4), grad="X"),
    case("unsqueeze2", [X, None, [np.int32([0]), np.int64([2])]], {}, to(1, 2, 1, 3, 4), grad="X"),
    case("unsqueeze2", [X], {"axes": [4]}, raises=ValueError),
    case("unsqueeze2", [X], {"axes": [-5]}, raises=ValueError),
    case("unsqueeze2", [X], {"axes": [0, 0, 0, 0]}, raises=ValueError),
)

test_flatten = table(
    case("flatten_contiguous_range", [X], {"start_axis": 1, "stop_axis": 2}, to(2, 12), grad="X", dtypes="float32"),
    case("flatten_contiguous_range", [X], {"start_axis": 0, "stop_axis": -1}, to(24), grad="X"),
    case("flatten_contiguous_range", [X], {"start_axis": 0, "stop_axis": 1}, to(6, 4), grad="X"),
    case("flatten_contiguous_range", [X], {}, to(2, 3, 4), grad="X"),
    case("flatten_contiguous_range", [X], {"start_axis": 2, "stop_axis": 1}, raises=ValueError),
    case("flatten_contiguous_range", [X], {"start_axis": 3, "stop_axis": 3}, raises=ValueError),
    *(
        case(name, [X], {"axis": axis}, to(rows, 24 // rows), grad="X")
        for name in ("flatten", "flatten2")
        for axis, rows in ((0, 1), (1, 2), (2, 6), (3, 24))
    ),
    case("flatten2", [X], {"axis": 4}, raises=ValueError),
)


@pytest.mark.parametrize("op, attrs", [("reshape2", {"shape": [6, 4]}), ("unsqueeze2", {"axes": [0]})])
def test_memory_is_shared(op: str, attrs: dict) -> None:
    x = _core.Tensor(X)
    y = getattr(_core.ops, op)(x, **attrs)
    assert y.data_ptr() == x.data_ptr()
    y[0] = 7.0
    assert (x.numpy().ravel() == y.numpy().ravel()).all() and y.data_ptr() == x.data_ptr()
