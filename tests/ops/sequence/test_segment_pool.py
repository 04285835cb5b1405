"""segment_pool: pooling of rows by ascending segment ids."""

import numpy as np
from case import apart, case, ints, real, table

X = apart(6, 2, 2)
IDS = np.int64([0, 0, 1, 3, 3, 3])


def pooled(x, ids, pooltype="SUM"):
    out = np.zeros((ids[-1] + 1, *x.shape[1:]))
    how = {"SUM": np.sum, "MEAN": np.mean, "MAX": np.max, "MIN": np.min}[pooltype]
    for i in set(ids.tolist()):
        out[i] = how(x[ids == i], axis=0)
    return {"Out": out}


OF = {"grad_of": "Out", "grad": "X"}

test_segment_pool = table(
    case("segment_pool", [X, IDS], {}, pooled, **OF),
    case("segment_pool", [X, IDS.astype("int32")], {"pooltype": "MEAN"}, pooled, dtypes="float32", **OF),
    case("segment_pool", [X, IDS], {"pooltype": "MAX"}, pooled, **OF),
    case("segment_pool", [X, IDS], {"pooltype": "MIN"}, pooled, **OF),
    case(
        "segment_pool",
        [X, IDS],
        {"pooltype": "MEAN"},
        lambda x, i, pooltype: {"SummedIds": np.float64([[2], [1], [0], [3]])},
    ),
    case("segment_pool", [real(0, 2), ints(0)], {}, {"Out": np.zeros((0, 2))}),
    case("segment_pool", [X, IDS[::-1].copy()], {}, raises=ValueError),
    case("segment_pool", [X, IDS - 1], {}, raises=ValueError),
    case("segment_pool", [X, IDS[:5]], {}, raises=ValueError),
    case("segment_pool", [X, np.float32(IDS)], {}, raises=ValueError),
    case("segment_pool", [X, IDS], {"pooltype": "AVG"}, raises=ValueError),
    case("segment_pool", [ints(6, 2), IDS], {}, raises=NotImplementedError),
)
