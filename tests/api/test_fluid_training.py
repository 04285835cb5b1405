"""Operators appended by fluid's layers and optimizers, where they differ from the 2.0 functions."""

import numpy as np
import paddle


def test_hard_labels_of_fluid_run_cross_entropy2():
    probs, labels = np.full((3, 4), 0.25, "float32"), np.array([[0], [1], [3]])
    layers = paddle.fluid.layers
    out = layers.cross_entropy(paddle.to_tensor(probs), paddle.to_tensor(labels), ignore_index=1)
    np.testing.assert_allclose(out.numpy(), np.log(4.0) * np.array([[1], [0], [1]]), rtol=1e-6)
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            x, label = layers.data("x", [4]), layers.data("label", [1], dtype="int64")
            losses = [layers.cross_entropy(x, label), layers.cross_entropy(x, x, soft_label=True)]
        assert [op.type for op in main.global_block().ops] == ["cross_entropy2", "cross_entropy"]
        run = paddle.static.Executor().run
        found = run(main, feed={"x": probs, "label": labels}, fetch_list=losses)
        for value in found:
            np.testing.assert_allclose(value, np.full((3, 1), np.log(4.0)), rtol=1e-6)
    finally:
        paddle.disable_static()


def test_fluid_optimizers_append_decay():
    fluid = paddle.fluid
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            decay = fluid.ParamAttr(regularizer=fluid.regularizer.L1Decay(0.5))
            out = fluid.layers.fc(fluid.layers.data("x", [4]), 2, param_attr=decay, bias_attr=False)
            pairs = fluid.backward.append_backward(fluid.layers.mean(out))
            assert len(fluid.optimizer.append_regularization_ops(pairs)) == 1
        assert [op.type for op in main.global_block().ops[-3:]] == ["sign", "scale", "sum"]
    finally:
        paddle.disable_static()
