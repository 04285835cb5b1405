"""Constants, ranges, shapes."""

import numpy as np
import pytest
from case import case, ints, real, table
from paddle import _core

I32, I64, F32, F64, BOOL, F16, UINT8, INT8 = 2, 3, 5, 6, 0, 4, 20, 21
f32 = np.float32


def full(shape, value, dtype="float32"):
    return np.full(shape, value, dtype)


test_fill_constant = table(
    case("fill_constant", [], {"shape": [2, 3], "dtype": F32, "value": 1.5}, full((2, 3), 1.5)),
    case("fill_constant", [], {"shape": [2], "dtype": F64, "str_value": "0.1"}, full(2, 0.1, "float64")),
    case("fill_constant", [], {"shape": [1], "dtype": I64, "str_value": str(2**62 + 1)}, full(1, 2**62 + 1, "int64")),
    case("fill_constant", [], {"shape": [1], "dtype": F32, "str_value": "-inf"}, full(1, -np.inf)),
    case("fill_constant", [], {"shape": [3], "dtype": BOOL, "value": 1.0}, full(3, True, "bool")),
    case("fill_constant", [], {"shape": [3], "dtype": F16, "value": 2.5}, full(3, 2.5, "float16")),
    case("fill_constant", [], {"shape": [0, 3], "dtype": I32}, full((0, 3), 0, "int32")),
    # values out of range are converted as on x86, like cast
    case("fill_constant", [], {"shape": [2], "dtype": UINT8, "value": -1.0}, full(2, 255, "uint8")),
    case("fill_constant", [], {"shape": [2], "dtype": INT8, "value": 300.0}, full(2, 44, "int8")),
    case("fill_constant", [], {"shape": [2], "dtype": I32, "value": 3e9}, full(2, -(2**31), "int32")),
    case("fill_constant", [f32([7])], {"shape": [2], "dtype": F32}, full(2, 7)),
    case("fill_constant", [None, np.int32([2, 3])], {"dtype": I32, "value": 4.0}, full((2, 3), 4, "int32")),
    case(
        "fill_constant",
        [None, None, [np.int64([2]), np.int32([1])]],
        {"shape": [-1, -1], "value": 4.0},
        full((2, 1), 4),
        out_dtype="float32",
    ),
    case("fill_constant", [], {"shape": [-1]}, raises=ValueError),
    case("fill_constant", [], {"shape": [2**40, 2**40]}, raises=MemoryError),
    case("fill_constant", [], {"shape": [2], "str_value": "abc"}, raises=ValueError),
    case("fill_constant", [], {"shape": [2], "dtype": 99}, raises=ValueError),
    case("fill_constant", [f32([1, 2])], {"shape": [2]}, raises=ValueError),
    case("fill_constant", [None, f32([2.0])], {}, raises=ValueError),
)

test_likes = table(
    case(
        "fill_constant_batch_size_like",
        [real(5, 2)],
        {"shape": [-1, 7], "value": 3.0},
        full((5, 7), 3),
        out_dtype="float32",
    ),
    case(
        "fill_constant_batch_size_like",
        [real(5, 2)],
        {"shape": [4, -1], "input_dim_idx": 1, "output_dim_idx": 1, "dtype": I64, "str_value": "9"},
        full((4, 2), 9, "int64"),
    ),
    case(
        "fill_constant_batch_size_like",
        [real(5, 2)],
        {"shape": [-1, 1], "dtype": F32},
        full((2, 1), 0),
        lod={"Input": [[0, 2, 5]]},
        out_dtype="float32",
        static=False,
    ),
    case("fill_constant_batch_size_like", [real(5, 2)], {"shape": [1], "input_dim_idx": 2}, raises=ValueError),
    case("fill_any_like", [real(2, 3)], {"value": 2.0}, full((2, 3), 2, "float64"), dtypes="float32 float16"),
    case("fill_any_like", [real(2, 3)], {"value": 2.0, "dtype": I32}, full((2, 3), 2, "int32")),
    case("fill_any_like", [ints(2, 3)], {"value": 1e30}, raises=ValueError),
    case("fill_any_like", [real(2)], {"value": float("nan")}, raises=ValueError),
    case("fill_zeros_like", [real(2, 3)], {}, np.zeros_like, dtypes="float32"),
    case("fill_zeros_like", [ints(4)], {}, np.zeros_like),
)

test_assign_value = table(
    case("assign_value", [], {"shape": [2, 2], "dtype": F32, "fp32_values": [1, 2, 3, 4]}, f32([[1, 2], [3, 4]])),
    case("assign_value", [], {"shape": [2], "dtype": BOOL, "bool_values": [1, 0]}, np.array([True, False])),
    case("assign_value", [], {"shape": [2], "dtype": I64, "int64_values": [2**40, -1]}, np.int64([2**40, -1])),
    case("assign_value", [], {"shape": [3], "dtype": I32, "int32_values": [1, 2]}, raises=ValueError),
)

test_shape = table(
    case("shape", [real(2, 3, 4)], {}, np.int32([2, 3, 4])),
    case("shape", [ints(0, 3)], {}, np.int32([0, 3])),
)

test_increment = table(
    case("increment", [real(1)], {"step": 2.5}, lambda x, step: x + step, dtypes="float32"),
    case("increment", [np.int64([2**53])], {}, lambda x: x + 1),
    case("increment", [real(2)], {}, raises=ValueError),
)

test_range = table(
    case("range", [np.int64([1]), np.int64([10]), np.int64([3])], {}, np.int64([1, 4, 7])),
    case("range", [np.int32([5]), np.int32([-5]), np.int32([-4])], {}, np.int32([5, 1, -3])),
    case("range", [f32([0]), f32([1]), f32([0.3])], {}, np.arange(4, dtype="float32") * f32(0.3), tol=1e-6),
    case("range", [np.float64([0]), np.float64([0]), np.float64([1])], {}, np.zeros(0)),
    case("range", [np.int64([0]), np.int64([9]), np.int64([0])], {}, raises=ValueError),
    case("range", [np.int64([0]), np.int64([9]), np.int64([-1])], {}, raises=ValueError),
    case("range", [f32([0]), f32([np.inf]), f32([1])], {}, raises=ValueError),
    case("range", [np.int64([-(2**63)]), np.int64([2**63 - 1]), np.int64([1])], {}, raises=ValueError),
    case("range", [np.int64([0]), np.int32([9]), np.int64([1])], {}, raises=ValueError),
)


def test_increment_in_place() -> None:
    x = _core.Tensor(np.int64([3]))
    assert _core.ops.increment(x, step=2.0, Out=x) is x
    assert x.numpy() == 5


@pytest.mark.parametrize("bits", [32, 64])
def test_range_accumulates_as_in_paddle(bits: int) -> None:
    # Recorded: accumulated addition in that precision, not step times index.
    t = np.dtype(f"float{bits}").type
    got = _core.ops.range(*(_core.Tensor(np.array([v], t)) for v in (0, 10, 0.1))).numpy()
    value, want = t(0), []
    for _ in range(len(got)):
        want.append(value)
        value = t(value + t(0.1))
    assert (got == np.array(want)).all()
