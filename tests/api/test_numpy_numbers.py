"""numpy integers as axes, sizes and counts, in both modes."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import paddle.nn.functional as F
import pytest
from paddle._basics import mode

L = fluid.layers
X = np.arange(24, dtype="float32").reshape(2, 3, 4)


def indices():
    return paddle.to_tensor(np.array([0, 1])) if paddle.in_dynamic_mode() else L.assign(np.array([0, 1]))


CASES = {
    **{
        n: lambda x, i, n=n: getattr(paddle, n)(x, axis=i(1))
        for n in (
            "sum",
            "mean",
            "max",
            "min",
            "std",
            "var",
            "prod",
            "argmax",
            "argmin",
            "cumsum",
            "median",
            "sort",
            "argsort",
            "squeeze",
            "unsqueeze",
        )
    },
    **{
        n + " over several": lambda x, i, n=n: getattr(paddle, n)(x, axis=[i(1), i(2)])
        for n in ("sum", "mean", "max", "min", "std", "var", "prod", "flip", "unsqueeze")
    },
    "all": lambda x, i: paddle.all(x > 3, i(1)),
    "any": lambda x, i: paddle.any(x > 3, (i(0), i(1))),
    "method": lambda x, i: x.sum(i(1)) + x.mean(i(-2)),
    "concat": lambda x, i: paddle.concat([x, x], axis=i(1)),
    "stack": lambda x, i: paddle.stack([x, x], axis=i(1)),
    "split": lambda x, i: paddle.split(x, i(2), axis=i(2))[0],
    "split in sections": lambda x, i: paddle.split(x, [i(1), i(3)], axis=i(2))[0],
    "chunk": lambda x, i: paddle.chunk(x, i(2), axis=i(2))[0],
    "unbind": lambda x, i: paddle.unbind(x, i(1))[0],
    "unstack": lambda x, i: paddle.unstack(x, i(1))[0],
    "flatten": lambda x, i: paddle.flatten(x, i(1), i(2)),
    "transpose": lambda x, i: paddle.transpose(x, [i(1), i(0), i(2)]),
    "gather": lambda x, i: paddle.gather(x, indices(), axis=i(1)),
    "topk": lambda x, i: paddle.topk(x, i(2), axis=i(1))[0],
    "pow": lambda x, i: paddle.pow(x, i(2)),
    "clip": lambda x, i: paddle.clip(x, i(2), i(5)),
    "softmax": lambda x, i: F.softmax(x, axis=i(1)),
    "normalize": lambda x, i: F.normalize(x, axis=i(1)),
    "dropout": lambda x, i: F.dropout(x, i(1), axis=i(1)),
    "layer_norm": lambda x, i: F.layer_norm(x, i(4)),
    "conv": lambda x, i: paddle.nn.Conv2D(i(1), i(2), i(3), stride=i(1), padding=i(1))(paddle.unsqueeze(x, 1)) * 0,
    "max_pool": lambda x, i: F.max_pool2d(paddle.unsqueeze(x, 1), i(2), stride=i(1), padding=i(1)),
    "adaptive_pool": lambda x, i: F.adaptive_avg_pool2d(paddle.unsqueeze(x, 1), i(2)),
    "fluid reduce_sum": lambda x, i: L.reduce_sum(x, i(1)),
    "fluid split": lambda x, i: L.split(x, i(2), i(2))[0],
    "fluid concat": lambda x, i: L.concat([x, x], i(1)),
    "fluid flatten": lambda x, i: L.flatten(x, i(1)),
    "fluid reverse": lambda x, i: L.reverse(x, i(1)),
    "fluid unsqueeze": lambda x, i: L.unsqueeze(x, i(1)),
    "glu": lambda x, i: fluid.nets.glu(x, i(2)),
}


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("name", CASES)
def test_dygraph(name, kind):
    if kind is np.uint8 and name == "method":
        kind = np.int8  # supports negative numbers
    want = CASES[name](paddle.to_tensor(X), int)
    got = CASES[name](paddle.to_tensor(X), kind)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("name", CASES)
def test_programs(name):
    got = []
    with mode._dygraph_guard(None):
        for kind in (int, np.int64):
            main, startup = paddle.static.Program(), paddle.static.Program()
            with paddle.static.program_guard(main, startup), fluid.unique_name.guard():
                out = CASES[name](paddle.static.data("x", [2, 3, 4]), kind)
            exe = paddle.static.Executor()
            if startup.global_block().ops:
                exe.run(startup)
            got.append(exe.run(main, feed={"x": X}, fetch_list=[out])[0])
    assert got[0].dtype == got[1].dtype
    np.testing.assert_array_equal(*got)


def test_other_types_are_refused():
    x = paddle.to_tensor(X)
    for axis in ("1", np.float32(1), 1.5):
        with pytest.raises((TypeError, ValueError)):
            paddle.argmax(x, axis=axis)
    with mode._dygraph_guard(None), paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        with pytest.raises(TypeError, match=r"must be \(<class 'int'>, .*but received <class 'numpy.float32'>"):
            paddle.sum(paddle.static.data("x", [2, 3, 4]), axis=np.float32(1))


@pytest.mark.parametrize("number", [np.int64(2), np.float32(2.5), np.float64(2.5), 2, 2.5], ids=repr)
@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "//", "%", "**"])
def test_python_and_numpy_numbers_with_integer_tensors(sign, number):
    numbers = np.array([3, 5, 7])

    def run(x):
        return eval(f"x {sign} number", {"x": x, "number": number})

    eager = run(paddle.to_tensor(numbers)).numpy()
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            out = run(paddle.static.data("x", [3], "int64"))
        (got,) = paddle.static.Executor().run(main, feed={"x": numbers}, fetch_list=[out])
    finally:
        paddle.disable_static()
    # Python floats determine the type; numpy numbers take the integers' type (dygraph and Programs of 2.0.2 alike).
    kept = isinstance(number, np.generic) and not isinstance(number, float)
    assert got.dtype == eager.dtype == ("int64" if kept or (number == 2 and sign != "/") else "float32")
    np.testing.assert_array_equal(got, eager)
