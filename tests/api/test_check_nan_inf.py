"""FLAGS_check_nan_inf: the error names the first operator with a NaN or infinity in an output."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import paddle
import pytest
from paddle import fluid, static


@pytest.fixture
def checked():
    fluid.set_flags({"FLAGS_check_nan_inf": True})
    yield
    fluid.set_flags({"FLAGS_check_nan_inf": False})
    paddle.disable_static()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eager(checked, dtype):
    x = paddle.to_tensor(np.array([1, 0, -1], dtype))
    assert (x * x).numpy().tolist() == [1, 0, 1]
    for op, call in {
        "elementwise_div": lambda: x / x,
        "log": lambda: paddle.log(x),
        "sqrt": lambda: paddle.sqrt(x),
        "pow": lambda: paddle.pow(x, -1.0),
        "scale": lambda: x * float("inf"),
    }.items():
        with pytest.raises(RuntimeError, match=rf"`nan` or `inf` in tensor \(Out\) of operator \({op}\)") as caught:
            call()
        assert type(caught.value) is RuntimeError
    with pytest.raises(RuntimeError, match=r"1 nan and 1 inf among 3 elements of shape \[3\], the first at place 1"):
        paddle.log(x)


def test_kinds_of_numbers(checked):
    for dtype in ("float16", "complex64", "complex128"):
        x = paddle.to_tensor(np.array([1, 2], dtype))
        bad = np.array([1, np.inf], dtype)
        with pytest.raises(RuntimeError, match="0 nan and 1 inf"):
            paddle.concat([x, paddle.to_tensor(bad)])
    assert paddle.to_tensor([1, 2]).sum().numpy() == 3  # integers


def test_backward(checked):
    x = paddle.to_tensor(np.float32([0, 1]), stop_gradient=False)
    with pytest.raises(RuntimeError, match=r"operator \(sqrt_grad\)"):
        paddle.sqrt(x).sum().backward()


def test_disabling():
    for on in (True, False):
        fluid.set_flags({"FLAGS_check_nan_inf": on})
    assert fluid.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": False}
    assert np.isnan(paddle.log(paddle.to_tensor([-1.0])).numpy())


def chain(n: int):
    """A Program whose elementwise operators would be fused; the second one produces infinities from zeros."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, n])
        first = paddle.scale(x, 2.0)
        second = paddle.reciprocal(first)
        end = paddle.tanh(paddle.exp(paddle.scale(second, -1.0)))
    return main, second, end


@pytest.mark.parametrize("n", [4, 100_000])
def test_programs(checked, n):
    paddle.enable_static()
    main, second, end = chain(n)
    exe = static.Executor()
    for _ in range(3):
        assert np.isfinite(exe.run(main, {"x": np.ones((2, n), "float32")}, [end])[0]).all()
    with pytest.raises(RuntimeError, match=rf"tensor \({second.name}\) of operator \(reciprocal\)"):
        exe.run(main, {"x": np.zeros((2, n), "float32")}, [end])
    fluid.set_flags({"FLAGS_check_nan_inf": False})
    assert (exe.run(main, {"x": np.zeros((2, n), "float32")}, [end])[0] == 0).all()


SCRIPT = """
    import paddle
    from paddle import static
    paddle.enable_static()
    x = static.data("x", [2])
    y = paddle.log(x)
    z = paddle.sqrt(x)
    w = paddle.rsqrt(x)
    try:
        static.Executor().run(feed={"x": [-1.0, 0.0]}, fetch_list=[y, z, w])
    except Exception as e:
        print(type(e).__name__, e)
"""


@pytest.mark.parametrize(
    ("skips", "said"),
    [
        ({}, "operator (log)"),
        ({"OP": "log,other"}, "operator (sqrt)"),
        ({"OP": "log", "VAR": "sqrt:sqrt_0.tmp_0"}, "operator (rsqrt)"),
        ({"ROLE": "forward"}, ""),
        ({"ROLE": "backward,loss"}, "operator (log)"),
        ({"ROLE": "middle"}, "PADDLE_INF_NAN_SKIP_ROLE takes forward, backward"),
        ({"VAR": "log"}, "PADDLE_INF_NAN_SKIP_VAR takes operator:variable; got 'log'"),
    ],
    ids=str,
)
def test_environment_variables_skip_operators(skips, said):
    env = os.environ | {"FLAGS_check_nan_inf": "1"} | {f"PADDLE_INF_NAN_SKIP_{k}": v for k, v in skips.items()}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], env=env, capture_output=True, text=True, timeout=60
    )
    assert said in done.stdout if said else not done.stdout, done.stdout + done.stderr
