"""paddle.nn.utils: weight_norm against its formula."""

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.nn.utils import remove_weight_norm, weight_norm


def formula(v, g, dim):
    if dim in (None, -1):
        return v / np.sqrt((v**2).sum()) * g
    dim %= v.ndim
    others = tuple(i for i in range(v.ndim) if i != dim)
    shape = [-1 if i == dim else 1 for i in range(v.ndim)]
    return v / np.sqrt((v**2).sum(others, keepdims=True)) * g.reshape(shape)


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), [5, 4]),
    "conv": (lambda: nn.Conv2D(2, 3, 3, padding=1), [2, 2, 5, 5]),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dim", [0, 1, None, -2])
def test_formula(kind, dim):
    paddle.seed(3)
    make, shape = LAYERS[kind]
    layer = make()
    x = paddle.to_tensor(np.random.RandomState(0).rand(*shape).astype("float32"))
    before = layer.weight.numpy()
    expected = layer(x).numpy()
    assert weight_norm(layer, dim=dim) is layer
    assert {n for n, _ in layer.named_parameters()} == {"bias", "weight_v", "weight_g"}
    assert layer.weight_g.shape == [1 if dim is None else before.shape[dim]]
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-5, atol=1e-6)

    adam = paddle.optimizer.Adam(0.1, parameters=layer.parameters())
    layer(x).sum().backward()
    assert layer.weight_v.grad is not None and layer.weight_g.grad is not None
    adam.step()
    layer(x)
    v, g = layer.weight_v.numpy(), layer.weight_g.numpy()
    np.testing.assert_allclose(layer.weight.numpy(), formula(v, g, dim), rtol=1e-5, atol=1e-6)

    out = layer(x).numpy()
    remove_weight_norm(layer)
    assert {n for n, _ in layer.named_parameters()} == {"bias", "weight"}
    np.testing.assert_allclose(layer.weight.numpy(), formula(v, g, dim), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer(x).numpy(), out, rtol=1e-5, atol=1e-6)


def test_wrong():
    layer = weight_norm(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="is weight-normalized already"):
        weight_norm(layer)
    with pytest.raises(AssertionError, match="from -2 to 1"):
        weight_norm(nn.Linear(2, 2), dim=2)
    with pytest.raises(ValueError, match="'bias' not found"):
        remove_weight_norm(layer, "bias")
