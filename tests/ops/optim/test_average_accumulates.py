"""average_accumulates: sums over a window of steps."""

import numpy as np
from case import case, real, table


def average(
    param, one, two, three, count, old, updates, *, max_average_window, average_window=0.0, min_average_window=10000
):
    count, updates = count + 1, updates + 1
    one = one + param
    if updates[0] % 16384 == 0:
        one, two = 0 * one, two + one
    if count[0] >= min_average_window and count[0] >= min(max_average_window, int(updates[0] * average_window)):
        one, two, three, count, old = 0 * one, 0 * two, one + two, 0 * count, count
    return one, two, three, count, old, updates


def averages(count, old, updates, **attrs):
    numbers = [np.array([v], "int64") for v in (count, old, updates)]
    sums = [real(3, 4, seed=i) for i in (1, 2, 3)]
    return case(
        "average_accumulates",
        [real(3, 4), *sums, *numbers],
        {"max_average_window": 20000, **attrs},
        average,
        dtypes="float32",
    )


NUMBER = np.array([1], "int64")
SUMS = [real(3)] * 4
test_average = table(
    averages(3, 0, 3),
    averages(3, 0, 16383),
    averages(3, 7, 3, min_average_window=4),
    averages(3, 7, 16383, min_average_window=4),
    averages(3, 7, 9, min_average_window=4, average_window=0.5),
    averages(3, 7, 7, min_average_window=4, average_window=0.5),
    averages(3, 7, 100, min_average_window=4, max_average_window=4, average_window=0.5),
    averages(3, 7, 100, min_average_window=4, max_average_window=5, average_window=0.5),
    case(
        "average_accumulates",
        [*SUMS, NUMBER, NUMBER, NUMBER],
        {"max_average_window": 3},
        raises=ValueError,
        match="min_average_window",
    ),
    case(
        "average_accumulates",
        [*SUMS[:3], real(4), NUMBER, NUMBER, NUMBER],
        {"max_average_window": 20000},
        raises=ValueError,
        match="in_sum_3",
    ),
    case(
        "average_accumulates",
        [*SUMS, real(1), NUMBER, NUMBER],
        {"max_average_window": 20000},
        raises=ValueError,
        match="out_num_accumulates",
    ),
)
