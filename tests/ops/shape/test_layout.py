"""Transpose, concat, split, stack, expand."""

import numpy as np
from case import case, ints, real, table

X = real(2, 3, 4)
AXIS = np.int32([1])


def transposed(x, axis):
    return x.transpose(axis)


test_transpose = table(
    case("transpose2", [X], {"axis": [2, 0, 1]}, transposed, grad="X", second=True, dtypes="float32 float16"),
    case("transpose2", [X], {"axis": [0, 1, 2]}, transposed, grad="X", second=True),
    case("transpose2", [real(40, 70)], {"axis": [1, 0]}, transposed, dtypes="float32"),
    case("transpose2", [real(1, 3, 1, 4)], {"axis": [2, 1, 3, 0]}, transposed, grad="X"),
    case("transpose2", [np.ones((2, 3), bool)], {"axis": [1, 0]}, transposed),
    case("transpose2", [ints(2, 0, 3)], {"axis": [2, 1, 0]}, transposed),
    case("transpose", [X], {"axis": [1, 2, 0]}, transposed, grad="X"),
    case("transpose2", [X], {"axis": [0, 1]}, raises=ValueError),
    case("transpose2", [X], {"axis": [0, 0, 1]}, raises=ValueError),
    case("transpose2", [X], {"axis": [0, 1, 3]}, raises=ValueError),
    case("transpose2", [X], {"axis": [0, 1, -1]}, raises=ValueError),
)


def joined(x, axis_tensor=None, axis=0):
    return np.concatenate(x, axis if axis_tensor is None else axis_tensor[0])


PARTS = [real(2, 1, 4), real(2, 3, 4), real(2, 2, 4)]

test_concat = table(
    case("concat", [PARTS], {"axis": 1}, joined, grad="X", second=True, dtypes="float32 float16"),
    case("concat", [PARTS], {"axis": -2}, joined, grad="X"),
    case("concat", [[X, X + 1]], {}, joined, grad="X"),
    case("concat", [[X]], {"axis": 2}, joined, grad="X"),
    case("concat", [PARTS, AXIS], {"axis": 0}, joined, grad="X"),
    case("concat", [[ints(2, 2), ints(0, 2), ints(1, 2)]], {}, joined),
    case(
        "concat",
        [[real(3, 2), real(3, 2)]],
        {},
        joined,
        lod={"X": [[0, 1, 3]]},
        out_lod={"Out": [[0, 1, 3, 4, 6]]},
        static=False,
    ),
    case("concat", [PARTS], {"axis": 0}, raises=ValueError),
    case("concat", [PARTS], {"axis": 3}, raises=ValueError),
    case("concat", [[X, real(2, 3)]], {}, raises=ValueError),
    case("concat", [[X, X.astype("float32")]], {}, raises=ValueError),
    case("concat", [[]], {}, raises=Exception),
)


def cut(x, *_, axis=0, num=0, sections=()):
    n = x.shape[axis]
    sizes = [n - sum(s for s in sections if s >= 0) if s == -1 else s for s in sections]
    return (list(np.split(x, num or np.cumsum(sizes)[:-1], axis)),)


S = real(4, 6)

test_split = table(
    case("split", [S], {"num": 3, "axis": 1}, cut, grad="X", grad_of="Out", second=True, dtypes="float32"),
    case("split", [S], {"num": 2}, cut, grad="X", grad_of="Out"),
    case("split", [S], {"sections": [1, 3, 2], "axis": -1}, cut, grad="X", grad_of="Out"),
    case("split", [S], {"sections": [1, -1, 2], "axis": 1}, cut, grad="X", grad_of="Out"),
    case("split", [S, AXIS], {"num": 2}, lambda x, a, num: (np.split(x, 2, 1),), grad="X", grad_of="Out", static=False),
    case(
        "split",
        [S, None, [np.int32([1]), np.int32([5])]],
        {"axis": 1, "sections": [-1, -1]},
        lambda x, *_, **__: (np.split(x, [1], 1),),
        static=False,
    ),
    case("split", [S], {"num": 4, "axis": 1}, raises=ValueError),
    case("split", [S], {"sections": [1, 2], "axis": 1}, raises=ValueError),
    case("split", [S], {"sections": [-1, -1], "axis": 1}, raises=ValueError),
    case("split", [S], {"sections": [7, -1], "axis": 1}, raises=ValueError),
    case("split", [S], {"num": 2, "axis": 2}, raises=ValueError),
    case("split", [S], {}, raises=ValueError),
)

ALIKE = [real(2, 3), real(2, 3, seed=1), real(2, 3, seed=2)]

test_stack = table(
    *(
        case("stack", [ALIKE], {"axis": axis}, lambda x, axis: np.stack(x, axis), grad="X", dtypes="float32")
        for axis in (0, 1, 2, -1, -3)
    ),
    case("stack", [[ints(2)]], {}, lambda x: np.stack(x)),
    case("stack", [ALIKE], {"axis": 1}, lod={"X": [[0, 1, 2]]}, out_lod={"Y": [[0, 1, 2]]}),
    case("stack", [ALIKE], {"axis": 3}, raises=ValueError),
    case("stack", [[real(2), real(3)]], {}, raises=ValueError),
    *(
        case(
            "unstack",
            [X],
            {"axis": axis, "num": X.shape[axis]},
            lambda x, axis, num: ([np.take(x, i, axis) for i in range(num)],),
            grad="X",
            grad_of="Y",
        )
        for axis in (0, 1, 2, -1)
    ),
    case("unstack", [X], {"axis": 0, "num": 3}, raises=ValueError),
    case("unstack", [X], {"axis": 3, "num": 3}, raises=ValueError),
)


def expanded(x, *given, shape=()):
    shape = [int(v) for g in given if g is not None for v in np.ravel(g)] or shape
    lead = len(shape) - x.ndim
    return np.broadcast_to(x, [x.shape[i - lead] if s == -1 else s for i, s in enumerate(shape)])


test_expand = table(
    case("expand_v2", [real(1, 3)], {"shape": [2, 3]}, expanded, grad="X", second=True, dtypes="float32 float16"),
    case("expand_v2", [real(2, 1, 3)], {"shape": [4, 2, 5, -1]}, expanded, grad="X", second=True),
    case("expand_v2", [real(3)], {"shape": [-1]}, expanded, grad="X"),
    case("expand_v2", [ints(1)], {"shape": [2, 2]}, expanded),
    case("expand_v2", [np.array([True])], {"shape": [3]}, expanded),
    case("expand_v2", [real(1, 3), np.int32([2, 3])], {}, expanded, grad="X"),
    case("expand_v2", [real(1, 3), None, [np.int32([2]), np.int32([3])]], {"shape": [-1, -1]}, expanded, grad="X"),
    case("expand_v2", [real(2, 3)], {"shape": [4, 3]}, raises=ValueError),
    case("expand_v2", [real(2, 3)], {"shape": [3]}, raises=ValueError),
    case("expand_v2", [real(3)], {"shape": [-1, 3]}, raises=ValueError),
    case("expand_v2", [real(1)], {"shape": [0]}, raises=ValueError),
    case("expand_v2", [real(1)], {"shape": [2**30, 2**30, 2**30]}, raises=MemoryError),
)

test_flip = table(
    *(
        case(
            op,
            [real(2, 3, 4)],
            dict(axis=axis),
            lambda x, axis: np.flip(x, tuple(axis)),
            grad="X",
            second=True,
            dtypes="float32 float16",
        )
        for op in ("reverse", "flip")
        for axis in ([0], [1, -1])
    ),
    case("reverse", [real(0, 3)], dict(axis=[0]), expected=lambda x, axis: x),
    case("flip", [real(3, 0)], dict(axis=[0]), expected=lambda x, axis: x),
    case("reverse", [real(2, 3)], dict(axis=[1, 1, -1]), lambda x, axis: x[:, ::-1]),
    case("reverse", [np.array([np.nan, 1.0, -np.inf])], dict(axis=[0]), lambda x, axis: x[::-1]),
    case("flip", [np.array([True, False])], dict(axis=[0]), np.array([False, True])),
    case("flip", [real(2, 3)], dict(axis=[]), lambda x, axis: x),
    case("flip", [real(2, 3)], dict(axis=[1, -1]), raises=ValueError, match="axes must differ"),
    case("reverse", [real(2, 3)], dict(axis=[]), raises=ValueError, match="axis"),
    *(case(op, [real(2)], dict(axis=[axis]), raises=ValueError) for op in ("reverse", "flip") for axis in (1, -2)),
)


def repeated(x, *given, expand_times=()):
    return np.tile(x, given[0].tolist() if given else expand_times)


test_expand_times = table(
    case("expand", [real(1, 3)], {"expand_times": [2, 2]}, repeated, grad="X", second=True, dtypes="float32 float16"),
    case("expand", [real(2, 3, 2)], {"expand_times": [1, 3, 2]}, repeated, grad="X", second=True),
    case("expand", [real(2, 3), np.int32([3, 1])], {}, repeated, grad="X"),
    case(
        "expand",
        {"X": real(2, 3), "expand_times_tensor": [np.int32([3]), np.int32([2])]},
        {},
        lambda x, t: np.tile(x, (3, 2)),
        grad="X",
    ),
    case("expand", [ints(2)], {"expand_times": [3]}, repeated, dtypes="int32"),
    case("expand", [np.array([True, False])], {"expand_times": [2]}, repeated),
    case("expand", [real(0, 3)], {"expand_times": [4, 2]}, repeated),
    case("expand", [np.array([np.nan, np.inf])], {"expand_times": [2]}, repeated),
    case(
        "expand", [real(2, 1)], {"expand_times": [1, 3]}, repeated, lod={"X": [[0, 1, 2]]}, out_lod={"Out": [[0, 1, 2]]}
    ),
    case("expand", [real(2, 3)], {"expand_times": [2]}, raises=ValueError, match="expand_times"),
    case("expand", [real(2, 3)], {"expand_times": [2, 0]}, raises=ValueError, match="expand_times"),
    case("expand", [real(2, 3)], {"expand_times": [2**30, 2**30]}, raises=MemoryError),
)
