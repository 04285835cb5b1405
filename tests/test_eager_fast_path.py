"""The fast path of small eager calls equals the general path (which is taken for a given output)."""

import gc
import weakref

import numpy as np
import paddle
import pytest
from paddle import _core

ops = _core.ops


def tensor(*shape, dtype="float32", seed=0):
    values = np.random.RandomState(seed).uniform(0.5, 2.0, shape)
    return paddle.to_tensor((values * 10 if "int" in dtype else values).astype(dtype), stop_gradient="int" in dtype)


CASES = {
    "elementwise_add": ([tensor(3, 5), tensor(3, 5, seed=1)], {}),
    "elementwise_sub": ([tensor(1), tensor(1, seed=1)], {}),
    "elementwise_mul": ([tensor(2, 3, 4, 5, 1), tensor(2, 3, 4, 5, 1, seed=1)], {}),
    "elementwise_div": ([tensor(7, dtype="float64"), tensor(7, dtype="float64", seed=1)], {}),
    "elementwise_max": ([tensor(4, dtype="int64"), tensor(4, dtype="int64", seed=1)], {}),
    "elementwise_pow": ([tensor(3, 5), tensor(5, seed=1)], {}),
    "softmax": ([tensor(4, 17)], {}),
    "reshape2": ([tensor(4, 6)], {"shape": [0, -1, 2]}),
    "reshape": ([tensor(4, 6)], {"shape": [24]}),
    "squeeze2": ([tensor(4, 1, 6)], {"axes": [1]}),
    "unsqueeze2": ([tensor(4, 6)], {"axes": [0, 3]}),
    "flatten_contiguous_range": ([tensor(2, 3, 4)], {"start_axis": 1, "stop_axis": 2}),
}


def run(name, inputs, attrs, general, lod):
    inputs = [paddle.to_tensor(x.numpy(), stop_gradient=x.stop_gradient) for x in inputs]
    if lod:
        inputs[0].value().get_tensor().set_lod([[0, inputs[0].shape[0]]])
    out = getattr(ops, name)(*inputs, **attrs, **({"Out": paddle.zeros([1])} if general else {}))
    result = [out.numpy(), out.value().get_tensor().lod(), out.stop_gradient]
    if not out.stop_gradient:
        (out * out).sum().backward()
        result += [x.gradient() for x in inputs]
    return result


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lod", [False, True])
def test_fast_path(name, lod):
    inputs, attrs = CASES[name]
    short, general = (run(name, inputs, attrs, way, lod) for way in (False, True))
    assert len(short) == len(general)
    for a, b in zip(short, general, strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradient_of_gradient():
    x = tensor(3, 4)
    first = paddle.grad(paddle.reshape(x * x * x, [12]).sum(), x, create_graph=True)[0]
    second = paddle.grad(first.sum(), x)[0]
    np.testing.assert_allclose(second.numpy(), 6 * x.numpy(), rtol=1e-6)


def test_changed_operand_is_noticed():
    x, y = tensor(3), tensor(3, seed=1)
    z = x * 1.0
    out = z * y
    z[0] = 5.0
    with pytest.raises(Exception, match="modified by an inplace operation"):
        out.sum().backward()


def test_errors_name_the_operator():
    with pytest.raises(Exception, match="elementwise_add"):
        ops.elementwise_add(tensor(2), tensor(3))
    with pytest.raises(Exception, match="reshape2.*cannot be reshaped"):
        ops.reshape2(tensor(4), shape=[3])
    with pytest.raises(Exception, match="softmax"):
        ops.softmax(tensor(4, dtype="int64"))


def test_slices_record_their_gradient():
    x = tensor(4, 5)
    (x[1:3, 2] * 3.0).sum().backward()
    want = np.zeros([4, 5], "float32")
    want[1:3, 2] = 3
    np.testing.assert_array_equal(x.gradient(), want)
    x.clear_gradient()
    (x[::2] + x[3]).sum().backward()
    want[:] = 0
    want[::2] += 1
    want[3] += 2
    np.testing.assert_array_equal(x.gradient(), want)


def test_results_are_whole_python_objects():
    out = tensor(3) + tensor(3)
    out.note = "kept"
    assert out.__dict__ == {"note": "kept"} and (out + out).__dict__ == {}
    seen = weakref.ref(out)
    del out
    gc.collect()
    assert seen() is None


def test_a_long_chain_is_freed():
    x = tensor(1)
    y = x
    for _ in range(200_000):
        y = y + y
    z = y
    del y
    del z
    gc.collect()
    assert x.numpy() > 0


def two_operators(x, weight, bias):
    return ops.elementwise_add(ops.matmul(x, weight), bias)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape, columns", [((3, 4), 5), ((2, 3, 4), 1), ((2, 2, 2, 7), 3), ((128, 400), 600), ((1, 1), 1)]
)
def test_a_product_with_its_bias_is_the_two_operators(dtype, shape, columns):
    """Bit for bit equal, including gradients and LoD."""
    values = [tensor(*s, dtype=dtype, seed=i) for i, s in enumerate([shape, (shape[-1], columns), (columns,)])]
    values[0].value().get_tensor().set_lod([[0, shape[0]]])
    results = []
    for way in (_core.linear, two_operators):
        out = way(*values)
        first = paddle.grad((out * out).sum(), values, create_graph=True)
        second = paddle.grad(sum((g * g).sum() for g in first), values[:2])
        lod = out.value().get_tensor().lod()
        results.append([lod, out.stop_gradient, *(t.numpy() for t in (out, *first, *second))])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_product_with_its_bias_among_constants():
    x, weight, bias = tensor(2, 3), tensor(3, 4, seed=1), tensor(4, seed=2)
    with paddle.no_grad():
        assert _core.linear(x, weight, bias).stop_gradient
    x.stop_gradient = weight.stop_gradient = True
    out = _core.linear(x, weight, bias)
    assert not out.stop_gradient
    out.sum().backward()
    np.testing.assert_array_equal(bias.gradient(), [2.0] * 4)
    assert weight.gradient() is None
    weight.stop_gradient = False
    out = _core.linear(x, weight, bias)
    x[0, 0] = 9.0
    with pytest.raises(RuntimeError, match="operator matmul has been modified by an inplace operation"):
        out.sum().backward()


def test_other_operands_use_the_two_operators():
    x, weight = tensor(2, 3), tensor(3, 4)
    for other in (
        [x, weight, tensor(1, 4)],
        [x, weight, tensor(1)],
        [x, weight, tensor(4, dtype="float64")],
        [x, weight, 1.0],
        [x, tensor(2, 4), tensor(4)],
        [tensor(3), weight, tensor(4)],
        [tensor(0, 3), weight, tensor(4)],
    ):
        assert _core.linear(*other) is None
    out = paddle.nn.functional.linear(x, weight, tensor(1, 4))
    np.testing.assert_array_equal(out.numpy(), two_operators(x, weight, tensor(1, 4)).numpy())
    with pytest.raises(ValueError, match="matmul"):
        paddle.nn.functional.linear(x, tensor(2, 4), tensor(4))


def test_dropout_in_evaluation_shares_memory():
    """The result shares the memory of its input until either is written."""

    def set_first(t):
        t[0] = 5.0

    for change in (set_first, paddle.nn.functional.relu_, lambda t: paddle.assign(paddle.full([3], 5.0), t)):
        for changed in (0, 1):
            x = paddle.full([3], -1.0)
            pair = x, paddle.nn.functional.dropout(x, 0.5, training=False)
            change(pair[changed])
            np.testing.assert_array_equal(pair[1 - changed].numpy(), [-1, -1, -1])
            assert pair[changed].numpy()[0] in (5, 0)
