"""Models of Paddle 2.1 to 2.6: further operators and attributes."""

from __future__ import annotations

import numpy as np
import paddle
import paddle._core as core
import pytest
from paddle import nn
from paddle.inference import Config, create_predictor
from served import operators_of, outputs_of


def edited(export, change, shape=(None, 4, 2, 2), build=nn.functional.relu):
    """A predictor of a model whose operators `change` has edited, as if a later version had written it."""
    prefix = export(build, (list(shape), "float32"))
    with open(prefix + ".pdmodel", "rb") as file:
        desc = core.ProgramDesc(file.read())
    for i in range(desc.block(0).op_size()):
        op = desc.block(0).op(i)
        if op.type() not in ("feed", "fetch", "scale"):
            change(op)
    content = desc.serialize_to_string()
    config = Config()
    config.set_model_buffer(content, len(content), b"", 0)
    return create_predictor(config)


X = np.random.RandomState(0).randn(3, 4, 2, 2).astype("float32")


@pytest.mark.parametrize(
    "kind, attrs, want",
    [
        ("silu", {}, lambda x: x / (1 + np.exp(-x))),
        ("share_data", {}, lambda x: x),
        ("memcpy_h2d", {"dst_place_type": 0}, lambda x: x),
        ("channel_shuffle", {"groups": 2}, lambda x: x.reshape(3, 2, 2, 2, 2).swapaxes(1, 2).reshape(x.shape)),
        ("expm1", {}, np.expm1),
        ("celu", {"alpha": 0.5}, lambda x: np.maximum(x, 0) + np.minimum(0, 0.5 * np.expm1(x / 0.5))),
        ("tan", {}, np.tan),
        ("reduce_amax", {"dim": [1], "keep_dim": False, "reduce_all": False}, lambda x: x.max(1)),
    ],
)
def test_operators_of_later_versions(export, kind, attrs, want):
    def change(op):
        op.set_type(kind)
        for name, value in attrs.items():
            op._set_attr(name, value)

    np.testing.assert_allclose(outputs_of(edited(export, change), X)[0], want(X), rtol=2e-5, atol=1e-6)


def test_an_operator_that_is_not_there_is_named(export):
    with pytest.raises(NotImplementedError, match="the model in memory has operators that are not implemented: einsum"):
        edited(export, lambda op: op.set_type("einsum"))


def test_unknown_attributes(export):
    predictor = edited(export, lambda op: (op._set_attr("new_list", []), op._set_attr("mkldnn_data_type", "float32")))
    assert operators_of(predictor) == ["relu"]
    np.testing.assert_array_equal(outputs_of(predictor, X)[0], np.maximum(X, 0))
    with pytest.raises(ValueError, match="operator relu: attribute 'negative_slope' = 0.5 is not known"):
        edited(export, lambda op: op._set_attr("negative_slope", 0.5))


def test_bitwise_operators_of_booleans(export):
    def build(x):
        return paddle.cast(paddle.logical_and(x > 0, x < 1), "float32")

    predictor = edited(
        export, lambda op: op.set_type("bitwise_and") if op.type() == "logical_and" else None, (None, 3), build
    )
    x = np.array([[-1, 0.5, 2]], "float32")
    assert outputs_of(predictor, x)[0].tolist() == [[0, 1, 0]]
