"""Predicates and histograms: isfinite, isinf, isnan, allclose, equal_all, histogram; and grad_add."""

import numpy as np
from case import Rows, bools, case, ints, real, table

ODD = np.float64([[1, np.nan, -np.inf], [np.inf, -0.0, 2]])
PLAIN = real(2, 3)


def one(answer):
    return np.array([answer])


test_finite = table(
    *[case(f"{op}_v2", [ODD], {}, getattr(np, op), dtypes="float32 float16") for op in ("isfinite", "isinf", "isnan")],
    *[case(f"{op}_v2", [ints(2, 3)], {}, getattr(np, op)) for op in ("isfinite", "isinf", "isnan")],
    case("isnan_v2", [bools(3)], {}, raises=NotImplementedError),
    case("isfinite", [ODD], {}, one(False), dtypes="float32"),
    case("isinf", [ODD], {}, one(True), dtypes="float32"),
    case("isnan", [ODD], {}, one(True), dtypes="float32"),
    case("isfinite", [PLAIN], {}, one(True)),
    case("isinf", [PLAIN], {}, one(False)),
    case("isnan", [ints(3)], {}, one(False)),
    case("isnan", [real(0, 2)], {}, one(False)),
    case("isnan", [Rows([1, 0], 4, ODD)], {}, one(True)),
    case("isinf", [Rows([1, 0], 4, PLAIN)], {}, one(False)),
)

F = np.float32

test_allclose = table(
    case("allclose", [PLAIN, PLAIN + 1e-9], {}, one(True), dtypes="float32"),
    case("allclose", [PLAIN, PLAIN + 1e-3], {}, one(False)),
    case("allclose", [PLAIN, PLAIN + 1e-3], {"atol": "1e-2"}, one(True)),
    case("allclose", [PLAIN, PLAIN * 1.1, np.float64([0.2])], {}, one(True)),
    case("allclose", [PLAIN, PLAIN + 0.1, None, np.float64([0.2])], {"rtol": "0"}, one(True)),
    case("allclose", [ODD, ODD], {}, one(False)),
    case("allclose", [ODD, ODD], {"equal_nan": True}, one(True)),
    # as in Paddle: an infinite difference is within an infinite tolerance
    case("allclose", [np.float64([np.inf]), np.float64([-np.inf])], {}, one(True)),
    case("allclose", [real(0), real(0)], {}, one(True)),
    case("allclose", [PLAIN, real(3, 2)], {}, raises=RuntimeError),
    case("allclose", [PLAIN, F(PLAIN)], {}, raises=ValueError),
    case("allclose", [PLAIN, PLAIN], {"rtol": "much"}, raises=ValueError),
    case("allclose", [PLAIN, PLAIN, F([0.1])], {}, raises=ValueError),
)

test_equal_all = table(
    case("equal_all", [ints(2, 3), ints(2, 3)], {}, one(True)),
    case("equal_all", [ints(2, 3), ints(2, 3, seed=1)], {}, one(False)),
    case("equal_all", [ints(2, 3), ints(3)], {}, one(False)),
    case("equal_all", [PLAIN, PLAIN + 1e-10], {}, one(True)),
    case("equal_all", [PLAIN, PLAIN + 1e-6], {}, one(False), dtypes="float32"),
    case("equal_all", [ODD, ODD], {}, one(False)),
    case("equal_all", [bools(3), bools(3)], {}, one(True)),
    case("equal_all", [ints(3), ints(2, 3)], {}, raises=ValueError),
    case("equal_all", [PLAIN, ints(2, 3)], {}, raises=ValueError),
)


def counted(x, bins=100, min=0, max=0):  # noqa: A002
    ends = (min, max) if min != max else (x.min(), x.max())
    return np.histogram(x, bins, ends)[0]


test_histogram = table(
    case("histogram", [real(40)], {"bins": 7}, counted, dtypes="float32"),
    case("histogram", [ints(3, 20)], {"bins": 4, "min": 2, "max": 7}, counted),
    case("histogram", [np.int32([1, 2, 1])], {"bins": 4, "max": 3}, np.int64([0, 2, 1, 0])),
    case("histogram", [np.float64([5, 5])], {"bins": 2}, np.int64([0, 2])),
    case("histogram", [np.float64([0.5, np.nan, 3])], {"bins": 2, "max": 4}, np.int64([1, 1])),
    case("histogram", [np.float64([0.5, np.inf])], {}, raises=IndexError),
    case("histogram", [real(3)], {"bins": 0}, raises=IndexError),
    case("histogram", [real(3)], {"min": 1}, raises=ValueError),
    case("histogram", [real(3)], {"bins": 1 << 60}, raises=MemoryError),
    case("histogram", [bools(3)], {}, raises=NotImplementedError),
)

test_grad_add = table(
    case("grad_add", [PLAIN, real(2, 3, seed=1)], {}, np.add, dtypes="float32"),
    case("grad_add", [PLAIN, real(3)], {}, np.add),
    case("grad_add", [PLAIN, real(4)], {}, raises=ValueError),
)
