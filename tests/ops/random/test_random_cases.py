"""Random operators with a seed attribute: real numbers are those of Paddle 2.6.2 (which has no seed for integers),
integers those of libstdc++'s mt19937_64, uniform_int_distribution and shuffle, as in 2.0.2."""

import numpy as np
from case import case, real, table

I64, F32, F64 = 3, 5, 6
LIKE = {"shape": [-1, 3], "min": -2.0, "max": 3.0, "seed": 5, "dtype": F32, "input_dim_idx": 1}
UNIFORM = np.float32([[1.3653244972, -1.8075269461, -0.8735572100], [1.3796608448, -1.5481655598, -1.5182878971]])

test_seeded = table(
    case("uniform_random", {}, {"shape": [2, 3], "min": -2.0, "max": 3.0, "seed": 5}, UNIFORM),
    case(
        "uniform_random",
        {},
        {"shape": [3], "seed": 7, "dtype": F64},
        np.float64([0.508770608305716, 0.8986024057852884, -0.7651714379309638]),
    ),
    case(
        "uniform_random",
        {"ShapeTensor": np.int32([2, 3])},
        {"min": -2.0, "max": 3.0, "seed": 5},
        UNIFORM,
        out_dtype="float32",
    ),
    case(
        "uniform_random",
        {"ShapeTensorList": [np.int32([2]), np.int32([3])]},
        {"shape": [-1, -1], "min": -2.0, "max": 3.0, "seed": 5},
        UNIFORM,
        out_dtype="float32",
    ),
    case("uniform_random", {}, {"shape": [0, 3], "seed": 5}, np.zeros((0, 3), "float32")),
    case("uniform_random", {}, {"shape": [2], "min": 1.0, "max": -1.0}, raises=ValueError),
    case("uniform_random_batch_size_like", [real(7, 2, dtype="float32")], LIKE, UNIFORM),
    case("uniform_random_batch_size_like", [real(7, 0, dtype="float32")], LIKE, np.zeros((0, 3), "float32")),
    case("uniform_random_batch_size_like", [real(7)], LIKE, raises=ValueError),
    case(
        "gaussian_random",
        {},
        {"shape": [4], "mean": 1.0, "std": 2.0, "seed": 5},
        np.float32([0.5517191887, 1.1681057215, 2.4097151757, -1.2012166977]),
    ),
    case(
        "gaussian_random",
        {},
        {"shape": [3], "seed": 7, "dtype": F64},
        np.float64([0.8726951669354744, -0.9725628776518745, 0.5473099926485515]),
    ),
    case("gaussian_random", {}, {"shape": [0]}, np.zeros(0, "float32")),
    case(
        "truncated_gaussian_random",
        {},
        {"shape": [4], "mean": 1.0, "std": 2.0, "seed": 5},
        np.float32([1.8533414602, -2.1180841923, -0.4268719554, 1.8683935404]),
    ),
    case("truncated_gaussian_random", {}, {"shape": [2, 0]}, np.zeros((2, 0), "float32")),
    case("randint", {}, {"shape": [6], "low": -3, "high": 9, "seed": 5}, np.int64([5, -3, -1, 5, -2, -2])),
    case("randint", {}, {"shape": [0], "low": 0, "high": 1}, np.zeros(0, "int64")),
    case("randint", {}, {"shape": [2], "low": 3, "high": 3}, raises=ValueError),
    case("randperm", {}, {"n": 7, "seed": 5}, np.int64([4, 5, 6, 0, 3, 2, 1])),
    case("randperm", {}, {"n": 0}, raises=ValueError),
)
