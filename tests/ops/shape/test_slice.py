"""Slices, and assignment to slices."""

import numpy as np
from case import case, ints, real, table

X = real(5, 6, 4)
I64, F32, F64, BOOL = 3, 5, 6, 0


def sliced(x, *_, axes, starts=(), ends=(), strides=None, decrease_axis=(), infer_flags=()):
    index = [slice(None)] * x.ndim
    for i, a in enumerate(axes):
        step = strides[i] if strides else 1
        index[a] = slice(starts[i], None if step < 0 and ends[i] < -x.shape[a] else ends[i], step)
    x = x[tuple(index)]
    shape = [d for i, d in enumerate(x.shape) if i not in decrease_axis]
    return x.reshape(shape or [1])


def at(axes, starts, ends, **more):
    return {"axes": axes, "starts": starts, "ends": ends, **more}


I = np.int32

test_slice = table(
    case("slice", [X], at([0, 1], [1, -3], [3, 100]), sliced, grad="Input", second=True, dtypes="float32 float16"),
    case("slice", [X], at([2], [-100], [-1]), sliced, grad="Input"),
    case("slice", [X], at([0, 2], [3, 1], [4, 2], decrease_axis=[0, 2]), sliced, grad="Input", second=True),
    case("slice", [X], at([0, 1, 2], [0, 1, 2], [1, 2, 3], decrease_axis=[0, 1, 2]), sliced, grad="Input"),
    case("slice", [ints(9)], at([0], [2], [5]), sliced),
    case("slice", [np.ones((3, 3), bool)], at([1], [0], [2]), sliced),
    case("slice", [real(300, 200)], at([0], [3], [299]), sliced),
    case("slice", [X, I([1, 2]), I([3, 4])], at([0, 1], [], []), lambda x, *_, **__: x[1:3, 2:4], grad="Input"),
    case(
        "slice",
        [X, None, None, [I([1]), I([2])], [np.int64([3]), I([4])]],
        at([0, 1], [-1, -1], [-1, -1], infer_flags=[-1, -1]),
        lambda x, *_, **__: x[1:3, 2:4],
        grad="Input",
    ),
    # The index -1 as a tensor: its end is 0.
    case(
        "slice",
        [X, None, None, [I([-1])], [I([0])]],
        at([0], [-1], [-1], infer_flags=[-1], decrease_axis=[0]),
        lambda x, *_, **__: x[-1],
    ),
    case("slice", [X], at([1], [0], [2]), sliced, lod={"Input": [[0, 2, 5]]}, out_lod={"Out": [[0, 2, 5]]}),
    case("slice", [X], at([0], [0], [2]), sliced, lod={"Input": [[0, 2, 5]]}, out_lod={"Out": []}),
    case("slice", [X], at([0], [2], [2]), raises=ValueError),
    case("slice", [X], at([0], [5], [9]), raises=ValueError),
    case("slice", [X], at([3], [0], [1]), raises=ValueError),
    case("slice", [X], at([0, 1], [0], [1]), raises=ValueError),
    case("slice", [X], at([0], [0], [2], decrease_axis=[0]), raises=ValueError),
)


def steps(*s):
    return {"strides": list(s)}


test_strided_slice = table(
    case("strided_slice", [X], at([0, 1], [0, 1], [5, 6], **steps(2, 3)), sliced, grad="Input", second=True),
    case("strided_slice", [X], at([0], [4], [0], **steps(-2)), sliced, grad="Input", dtypes="float32"),
    case("strided_slice", [X], at([1, 2], [-1, -1], [-100, -100], **steps(-1, -3)), sliced, grad="Input"),
    case("strided_slice", [X], at([1], [-4], [-1], **steps(1)), sliced, grad="Input"),
    case("strided_slice", [ints(10)], at([0], [1], [9], **steps(3)), sliced),
    case(
        "strided_slice",
        [X, I([0]), I([5]), I([2])],
        at([0], [], [], **steps()),
        lambda x, *_, **__: x[::2],
        grad="Input",
    ),
    # for a repeated axis the last entry is used
    case("strided_slice", [X], at([0, 0], [0, 1], [5, 6], **steps(2, 3)), lambda x, **_: x[1::3], grad="Input"),
    case("strided_slice", [X], at([1, -2], [0, 3], [5, 6], **steps(2, 3)), lambda x, **_: x[:, 3::3], grad="Input"),
    case("strided_slice", [X], at([0], [0], [3], **steps(0)), raises=ValueError),
    case("strided_slice", [X], at([0], [3], [1], **steps(1)), raises=ValueError),
    case("strided_slice", [X], at([0], [1], [3], **steps(-1)), raises=ValueError),
    case("strided_slice", [X], at([0], [0], [3], **steps()), raises=ValueError),
)


def written(index, value):
    def f(x, *_, **__):
        x = x.copy()
        x[index] = value
        return x

    return f


f32 = X.astype("float32")
ROW = np.arange(4, dtype="float32")

test_set_value = table(
    case(
        "set_value",
        [f32],
        at([0], [1], [3], dtype=F32, fp32_values=[2.5], shape=[1]),
        written(slice(1, 3), 2.5),
    ),
    case(
        "set_value",
        [X],
        at([0, 1], [1, -2], [2, 100], dtype=F64, fp64_values=[1.0, 2.0, 3.0, 4.0], shape=[4]),
        written((1, slice(-2, None)), [1, 2, 3, 4]),
    ),
    case("set_value", [f32, ROW], at([1], [0], [1], dtype=F32), written((slice(None), 0), ROW)),
    case(
        "set_value",
        [X, real(2, 1, 4)],
        at([0, 1], [1, 0], [3, 3], dtype=F64),
        lambda x, v, **_: written((slice(1, 3), slice(0, 3)), v)(x),
        grad="Input ValueTensor",
        second=True,
    ),
    case("set_value", [ints(4)], at([], [], [], dtype=I64, int64_values=[7], shape=[1]), written(slice(None), 7)),
    case("set_value", [np.ones(3, bool)], at([0], [0], [1], dtype=BOOL, bool_values=[0], shape=[1]), written(0, False)),
    case("set_value", [f32, ROW[:3]], at([0], [0], [1], dtype=F32), raises=ValueError, match="Broadcast dimension"),
    case("set_value", [f32, ROW.astype("float64")], at([0], [0], [1], dtype=F32), raises=ValueError),
    case("set_value", [f32, ROW], at([0], [0], [1], dtype=F64), raises=ValueError),
    case("set_value", [f32, ROW], at([0], [3], [1], dtype=F32), raises=ValueError),
    case("set_value", [f32, ROW], at([3], [0], [1], dtype=F32), raises=ValueError),
    case("set_value", [f32], at([0], [0], [1], dtype=F32, fp32_values=[1.0], shape=[2]), raises=ValueError),
)
