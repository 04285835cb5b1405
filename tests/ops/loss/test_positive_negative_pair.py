"""positive_negative_pair: counts of item pairs per query, compared with a direct count."""

import numpy as np
from case import case, ints, real, table

ONES = np.ones((4, 1))
QUERY = np.array([[1], [2], [1], [1]])


def pairs(score, label, query, right=0.0, wrong=0.0, equal=0.0, weight=None, column=0):
    sums = [float(np.sum(right)), float(np.sum(wrong)), float(np.sum(equal))]
    for i in range(len(score)):
        for j in range(i + 1, len(score)):
            if query[i, 0] != query[j, 0] or label[i, 0] == label[j, 0]:
                continue
            by = 1.0 if weight is None else (weight[i, 0] + weight[j, 0]) / 2
            d = score[i, column] - score[j, column]
            sums[2] += by * (d == 0)
            sums[0 if d * (label[i, 0] - label[j, 0]) > 0 else 1] += by
    return tuple(np.array([s]) for s in sums)


BIG = [np.round(real(20, 3)), ints(20, 1, low=0, high=3).astype("float64"), ints(20, 1, low=0, high=3)]

test_positive_negative_pair = table(
    case("positive_negative_pair", BIG, {}, pairs, dtypes="float32"),
    case("positive_negative_pair", BIG, {"column": -1}, pairs),
    case(
        "positive_negative_pair",
        [*BIG, np.array([2.0]), np.array([3.0]), np.array([4.0]), real(20, 1, low=0.0)],
        {"column": 1},
        pairs,
        dtypes="float32",
        tol=1e-6,
    ),
    case("positive_negative_pair", [v[:0] for v in BIG], {}, (np.zeros(1),) * 3),
    case("positive_negative_pair", [ONES, ONES, QUERY], {}, (np.zeros(1),) * 3),
    case("positive_negative_pair", [ONES, ONES, QUERY], {"column": 1}, raises=IndexError, match="column"),
    case("positive_negative_pair", [ONES, ONES, QUERY, np.ones(1)], raises=ValueError, match="together"),
    case("positive_negative_pair", [ONES, ONES, QUERY[:3]], raises=ValueError, match="QueryID"),
    case("positive_negative_pair", [ONES, ONES, QUERY.astype("int32")], raises=ValueError, match="int64"),
)
