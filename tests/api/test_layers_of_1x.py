"""fluid.layers functions of 1.8 that 2.0 removed, and helpers of fluid.layers.utils."""

import numpy as np
import paddle
import pytest
from paddle import fluid

layers = fluid.layers


def tensor(*values, dtype="float32"):
    return paddle.to_tensor(np.array(values, dtype))


def test_arithmetic() -> None:
    x, y = tensor(1, 2), tensor(3, 4)
    assert layers.addcmul(x, y, y, value=2.0).numpy().tolist() == [19, 34]
    assert layers.clamp(y, max=3.5).numpy().tolist() == [3, 3.5]
    assert layers.elementwise_equal(x, tensor(1, 3)).numpy().tolist() == [True, False]
    np.testing.assert_allclose(layers.log1p(x).numpy(), np.log1p([1, 2]), rtol=1e-6)
    np.testing.assert_allclose(layers.logsumexp(x).numpy(), [np.log(np.exp([1, 2]).sum())], rtol=1e-6)
    np.testing.assert_allclose(np.exp(layers.log_softmax(x).numpy()).sum(), 1, rtol=1e-6)
    m = tensor([1, 2], [3, 4])
    assert layers.addmm(m, m, m, alpha=0.0, beta=2.0).numpy().tolist() == [[2, 4], [6, 8]]
    assert layers.kron(x, y).numpy().tolist() == [3, 4, 6, 8]
    assert layers.trace(m).numpy().tolist() == [5]
    assert layers.cross(tensor(1, 0, 0), tensor(0, 1, 0)).numpy().tolist() == [0, 0, 1]
    assert layers.allclose(x, x).numpy().tolist() == [True]
    with pytest.raises(AssertionError):
        layers.clamp(x)


def test_shapes_and_conditions() -> None:
    m = tensor([1, 2], [3, 0])
    assert layers.flip(m, [0]).numpy().tolist() == [[3, 0], [1, 2]]
    assert layers.roll(m, 1).numpy().tolist() == [[0, 1], [2, 3]]
    assert layers.tril(m).numpy().tolist() == [[1, 0], [3, 0]]
    assert layers.index_select(m, tensor(1, dtype="int64"), dim=1).numpy().tolist() == [[2], [0]]
    assert layers.nonzero(m).numpy().tolist() == [[0, 0], [0, 1], [1, 0]]
    assert [g.shape for g in layers.meshgrid([tensor(1, 2), tensor(3, 4, 5)])] == [[2, 3]] * 2
    assert layers.arange(1, 4).numpy().tolist() == [1, 2, 3]
    assert layers.full([2], 3, dtype="int64").numpy().tolist() == [3, 3]
    assert layers.full_like(m, 7.0).numpy().tolist() == [[7, 7], [7, 7]]


def test_random() -> None:
    assert layers.randint(3, 4, [2]).numpy().tolist() == [3, 3]
    assert layers.randn([2, 3]).shape == [2, 3]
    assert sorted(layers.randperm(5).numpy().tolist()) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError):
        layers.randint(3, 3)
    with pytest.raises(ValueError):
        layers.randperm(5, device="tpu")


def test_results_are_written_to_variables_of_a_program() -> None:
    paddle.enable_static()
    try:
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            x = fluid.data("x", [2], "float32")
            out = layers.fill_constant([4], "float32", 0.0)
            layers.kron(x, x, out=out)
            rows = layers.shape(x)
            grown = fluid.data("grown", [-1], "float32")
            assert layers.utils.try_get_constant_shape_from_tensor(rows) == (2,)
            layers.utils.try_set_static_shape_tensor(grown, rows)
            assert tuple(grown.shape) == (2,)
            inputs, attrs = {}, {}
            layers.utils.get_shape_tensor_inputs(inputs, attrs, [2, rows], "test")
            assert attrs["shape"] == [2, -1] and len(inputs["ShapeTensorList"]) == 2
        exe = fluid.Executor(fluid.CPUPlace())
        [got] = exe.run(main, feed={"x": np.float32([1, 2])}, fetch_list=[out])
        assert got.tolist() == [1, 2, 2, 4]
    finally:
        paddle.disable_static()
    assert layers.utils.convert_shape_to_list([2, tensor(3, dtype="int64")]) == [2, 3]


def test_patches_are_idempotent() -> None:
    paddle.monkey_patch_variable()
    paddle.monkey_patch_math_varbase()
    assert (tensor(1) + tensor(2)).numpy().tolist() == [3]
    assert paddle.tensor.set_printoptions is paddle.set_printoptions
    with pytest.raises(Exception, match="XPU"):
        paddle.XPUPlace(0)


@pytest.mark.operators("flatten2", "flatten2_grad")
def test_flatten_with_unknown_sizes() -> None:
    paddle.enable_static()
    try:
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            x = fluid.data("x", [None, 4, None], "float32")
            x.stop_gradient = False
            y = layers.flatten(x, 1)
            [slope] = fluid.gradients(layers.reduce_sum(y * y), x)
        assert y.shape == (-1, -1) and main.global_block().ops[0].type == "flatten2"
        value = np.arange(24, dtype="float32").reshape(2, 4, 3)
        got, slope = fluid.Executor().run(main, feed={"x": value}, fetch_list=[y, slope])
        np.testing.assert_array_equal(got, value.reshape(2, 12))
        np.testing.assert_array_equal(slope, 2 * value)
    finally:
        paddle.disable_static()
    assert layers.flatten(paddle.ones([2, 3, 4]), 2).shape == [6, 4]
