"""memcpy, coalesce_tensor, assert."""

import numpy as np
import paddle
import pytest
from case import case, covers, ints, real, table
from paddle import _core, fluid

X, Y = real(2, 3), real(4, seed=1)
ops = _core.ops

test_memcpy = table(
    case("memcpy", [X], {"dst_place_type": 1}, lambda x, dst_place_type: x),
    case("memcpy", [ints(3)], {"dst_place_type": 2}, lambda x, dst_place_type: x),
    case("memcpy", [X], {"dst_place_type": 0}, raises=NotImplementedError),
    case(
        "coalesce_tensor",
        [[X, Y]],
        {"dtype": 6, "use_align": False, "copy_data": True},
        lambda xs, **a: ([*xs], np.concatenate([x.ravel() for x in xs])),
    ),
    case(
        "coalesce_tensor",
        [[X, Y]],
        {"dtype": 6, "use_align": False, "set_constant": True, "constant": 0.5},
        lambda xs, **a: ([np.full(x.shape, 0.5) for x in xs], np.full(10, 0.5)),
    ),
    case("coalesce_tensor", [[X, Y]], {"dtype": 5}, raises=ValueError),
    case("coalesce_tensor", [[real(0, 2)]], {"dtype": 6}, raises=ValueError),
    case("coalesce_tensor", [[]], {"dtype": 6}, raises=ValueError),
)


@covers("coalesce_tensor")
def test_aligned_tensors_start_at_page_boundaries() -> None:
    outs, fused = ops.coalesce_tensor([_core.Tensor(X), _core.Tensor(Y)], dtype=6, copy_data=True)
    assert fused.shape == [1024]
    np.testing.assert_array_equal(fused.numpy()[512:516], Y)
    np.testing.assert_array_equal(outs[0].numpy(), X)


@covers("assert")
def test_assert_stops_the_run(capfd) -> None:
    op = getattr(ops, "assert")
    op(_core.Tensor(np.array([True])), [])
    with pytest.raises(ValueError, match="must be true"):
        op(_core.Tensor(np.array([False])), [_core.Tensor(X)], summarize=2)
    assert "shape: [2, 3]" in capfd.readouterr().out
    with pytest.raises(ValueError, match="shape"):
        op(_core.Tensor(np.array([True, True])), [])


def test_assert_in_a_program() -> None:
    paddle.enable_static()
    try:
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            x = fluid.data("x", [2], "float32")
            small = fluid.layers.less_than(fluid.layers.reduce_sum(x), fluid.layers.ones([1], "float32"))
            fluid.layers.Assert(small, [x])
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(main, feed={"x": np.zeros(2, "float32")})
        with pytest.raises(ValueError, match="must be true"):
            exe.run(main, feed={"x": np.ones(2, "float32")})
    finally:
        paddle.disable_static()
