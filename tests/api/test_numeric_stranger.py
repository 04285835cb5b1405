"""Corner cases of numeric functions, found by differential runs against Paddle 2.6.2; numpy has the answers."""

import paddle
import paddle.nn.functional as F


def test_statistics_of_batch_norm_stay_outside_the_tape():
    layer = paddle.nn.BatchNorm2D(3)
    for _ in range(2):
        layer(paddle.randn([2, 3, 2, 2]))
        assert layer._mean.stop_gradient and layer._variance.stop_gradient and layer._mean.is_leaf
    mean, var = paddle.zeros([3]), paddle.ones([3])
    y = F.batch_norm(paddle.randn([2, 3, 2, 2]), mean, var, layer.weight, layer.bias, training=True)
    assert not y.stop_gradient and mean.stop_gradient and var.stop_gradient
    y.sum().backward()
    assert layer.weight.grad is not None
