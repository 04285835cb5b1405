"""Operators on LoD sequences; values of empty sequences are recorded from Paddle."""

import numpy as np
from case import apart, case, ints, real, table

LOD = [0, 2, 2, 5, 6]
POOLS = {
    "AVERAGE": lambda x: x.mean(0),
    "SUM": lambda x: x.sum(0),
    "SQRT": lambda x: x.sum(0) / np.sqrt(len(x)),
    "LAST": lambda x: x[-1],
    "FIRST": lambda x: x[0],
    "MAX": lambda x: x.max(0),
}


def pooled(starts):
    def f(x, pooltype="AVERAGE", pad_value=0.0, is_test=False):
        parts = [x[a:b] for a, b in zip(starts, starts[1:], strict=False)]
        out = np.stack([POOLS[pooltype](p) if len(p) else np.full(x.shape[1:], pad_value) for p in parts])
        index = [p.argmax(0) + a if len(p) else np.full(x.shape[1:], -1) for a, p in zip(starts, parts, strict=False)]
        with_index = pooltype == "MAX" and not is_test
        return {"Out": out} | ({"MaxIndex": np.stack(index).astype("int32")} if with_index else {})

    return f


def pools(x, lod, out_lod, **attrs):
    return [
        case(
            "sequence_pool",
            [x],
            {"pooltype": k, **attrs},
            pooled(lod[-1]),
            grad="X",
            grad_of="Out",
            dtypes="float16 float32",
            lod={"X": lod},
            out_lod={"Out": out_lod},
            static=False,
        )
        for k in POOLS
    ]


test_sequence_pool = table(
    *pools(apart(6, 3), [LOD], []),
    *pools(apart(6, 2, 2), [LOD], [], pad_value=0.5),
    *pools(apart(6, 3), [[0, 1, 4], LOD], [[0, 1, 4]]),
    case(
        "sequence_pool", [real(6, 2)], {"pooltype": "MAX", "is_test": True}, pooled(LOD), lod={"X": [LOD]}, static=False
    ),
    case("sequence_pool", [real(6, 2)], raises=ValueError, match="LoD"),
    case("sequence_pool", [real(6, 2)], {"pooltype": "MEAN"}, raises=ValueError, match="pooltype", lod={"X": [LOD]}),
)


def expanded(starts, level):
    def f(x, y, ref_level=-1):
        cut = starts or list(range(len(x) + 1))
        parts = [x[a:b] for a, b in zip(cut, cut[1:], strict=False)]
        times = [b - a for a, b in zip(level, level[1:], strict=False)]
        return np.concatenate([p for p, n in zip(parts, times, strict=True) for _ in range(n)])

    return f


def expands(x, y, lod, level, out_lod, grad="X", **attrs):
    starts = lod["X"][0] if "X" in lod else None
    return case(
        "sequence_expand",
        [x, y],
        attrs,
        expanded(starts, level),
        grad=grad,
        lod=lod,
        out_lod={"Out": out_lod},
        static=False,
    )


Y2 = [[0, 2, 4], [0, 3, 6, 7, 8]]
test_sequence_expand = table(
    expands(real(4, 2), real(8, 1), {"X": [[0, 2, 4]], "Y": Y2}, Y2[0], [[0, 2, 4, 6, 8]], ref_level=0),
    expands(real(3, 2), real(5, 1), {"Y": [[0, 2, 2, 5]]}, [0, 2, 2, 5], []),
    expands(real(3, 2, 2), real(5, 1), {"X": [[0, 1, 1, 3]], "Y": [[0, 2, 2, 5]]}, [0, 2, 2, 5], [[0, 1, 2, 4, 6, 8]]),
    expands(real(4, 2), real(8, 1), {"Y": Y2}, Y2[1], []),
    expands(ints(3, 2), real(5, 1), {"Y": [[0, 2, 2, 5]]}, [0, 2, 2, 5], [], grad=""),
    case("sequence_expand", [real(3, 2), real(5, 1)], raises=ValueError, match="LoD"),
    case("sequence_expand", [real(4, 2), real(5, 1)], raises=ValueError, match="sequences", lod={"Y": [[0, 2, 2, 5]]}),
    case(
        "sequence_expand",
        [real(3, 2), real(5, 1)],
        {"ref_level": 1},
        raises=ValueError,
        match="ref_level",
        lod={"Y": [[0, 2, 2, 5]]},
    ),
)


def reversed_steps(starts):
    return lambda x: np.concatenate([x[a:b][::-1] for a, b in zip(starts, starts[1:], strict=False)])


test_reverse = table(
    case(
        "sequence_reverse",
        [real(6, 2)],
        expected=reversed_steps(LOD),
        lod={"X": [LOD]},
        out_lod={"Y": [LOD]},
        grad="X",
        second=True,
        dtypes="float32",
    ),
    case(
        "sequence_reverse",
        [ints(6, 3)],
        expected=reversed_steps(LOD),
        lod={"X": [[0, 1, 4], LOD]},
        out_lod={"Y": [[0, 1, 4], LOD]},
    ),
    case("sequence_reverse", [np.ones((6, 1, 2), bool)], expected=reversed_steps(LOD), lod={"X": [LOD]}),
    case("sequence_reverse", [real(0, 2)], expected=np.zeros((0, 2)), lod={"X": [[0, 0]]}),
    case("sequence_reverse", [real(6, 2)], raises=ValueError, match="LoD"),
)
