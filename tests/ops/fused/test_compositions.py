"""Fused operators, compared with the operators they combine."""

import numpy as np
import paddle
import pytest
from case import case, covers, ints, real, table
from paddle import _core

ops = _core.ops


def composed(f):
    """Expected values computed by the combined operators, in float64."""

    def expected(*arrays, **attrs):
        def tensor(a):
            return [tensor(v) for v in a] if isinstance(a, list) else paddle.to_tensor(a)

        def array(t):
            return t if t is None else [array(v) for v in t] if isinstance(t, list) else t.numpy()

        with paddle.no_grad():
            out = f(*map(tensor, arrays), **attrs)
        return tuple(map(array, out)) if isinstance(out, tuple) else array(out)

    return expected


# Batch normalization


def normalized(x, scale, bias, mean, variance, z=None, act_type="relu", **attrs):
    y, mean, variance, *saved = ops.batch_norm(x, scale, bias, mean, variance, data_layout="NHWC", **attrs)[:5]
    y = y if z is None else y + z
    return (y if act_type == "identity" else getattr(ops, act_type)(y), mean, variance, *saved)


def norm_act(*inputs, **attrs):
    return normalized(*inputs, **attrs)


def sum_act(x, z, scale, bias, **attrs):
    return normalized(x, scale, bias, paddle.zeros_like(scale), paddle.ones_like(scale), z, **attrs)


X4, CHANNEL = real(2, 3, 2, 5), [real(5), real(5, seed=2)]
RUNNING = [real(5, seed=3), real(5, low=0.5, seed=4)]

test_batch_norm = table(
    *(
        case(
            "fused_batch_norm_act",
            [X4, *CHANNEL, *RUNNING],
            {"act_type": act},
            composed(norm_act),
            grad="X Scale Bias",
            grad_of="Y",
            grad_tol=1e-4,
            dtypes="float32",
        )
        for act in ("relu", "sigmoid", "tanh", "identity")
    ),
    case("fused_batch_norm_act", [real(6, 5), *CHANNEL, *RUNNING], {"momentum": 0.5}, composed(norm_act)),
    case("fused_batch_norm_act", [X4, *CHANNEL, *RUNNING], {"act_type": "gelu"}, raises=ValueError, match="act_type"),
    case("fused_batch_norm_act", [X4, real(4), real(4), *RUNNING], raises=RuntimeError, match="Scale must have shape"),
    *(
        case(
            "fused_bn_add_activation",
            [X4, real(2, 3, 2, 5, seed=5), *CHANNEL],
            {"act_type": act},
            composed(sum_act),
            grad="X Z Scale Bias",
            grad_of="Y",
            grad_tol=1e-4,
            dtypes="float32",
            static=act == "relu",
        )
        for act in ("relu", "tanh")
    ),
    case("fused_bn_add_activation", [X4, real(2, 3, 2, 4), *CHANNEL], raises=ValueError, match="Z must have the shape"),
)


def test_running_statistics_of_a_sum_are_outputs():
    x, z, scale, bias = (paddle.to_tensor(a.astype("float32")) for a in (X4, X4, *CHANNEL))
    mean, variance = paddle.full([5], 3.0), paddle.full([5], 2.0)
    ops.fused_bn_add_activation(x, z, scale, bias, momentum=0.25, MeanOut=mean, VarianceOut=variance)
    rows = X4.reshape(-1, 5)
    np.testing.assert_allclose(mean.numpy(), 0.25 * 3 + 0.75 * rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance.numpy(), 0.25 * 2 + 0.75 * rows.var(0), rtol=1e-5)


# A binary operator and an activation


def compound(x, y, functor_list, axis=-1, scale=0.0, save_intermediate_out=False):
    first, second = functor_list
    unary = {
        "scale": lambda v: v * scale,
        "relu": paddle.nn.functional.relu,
        "tanh": paddle.tanh,
        "sigmoid": paddle.nn.functional.sigmoid,
    }
    if first in unary:
        middle = getattr(ops, second)(x, y, axis=axis)
        out = unary[first](middle)
    else:
        middle = unary[second](y)
        out = getattr(ops, first)(x, middle, axis=axis)
    return (out, middle) if save_intermediate_out else (out,)


def pair(first, second, x=None, y=None, op="fused_elemwise_activation", **attrs):
    attrs = {"functor_list": [first, second]} | attrs
    x, y = real(2, 3, 4) if x is None else x, real(2, 3, 4, seed=2) if y is None else y
    return case(op, [x, y], attrs, composed(compound), grad="X Y", grad_of="Out", dtypes="float32")


ADD, MUL = "elementwise_add", "elementwise_mul"

test_elementwise = table(
    pair(ADD, "scale", scale=0.3),
    pair("scale", ADD, scale=0.3, save_intermediate_out=True),
    pair(ADD, "relu", save_intermediate_out=True),
    pair("relu", ADD),
    pair(MUL, "scale", scale=-2.0),
    pair("tanh", ADD, y=real(3), axis=1),
    pair(MUL, "tanh", y=real(4), save_intermediate_out=True),
    pair(MUL, "sigmoid", y=real(2), axis=0),
    pair("relu", ADD, x=real(3, 4), y=real(2, 3, 4)),
    pair("relu", ADD, op="fused_elemwise_add_activation"),
    pair(ADD, "scale", op="fused_elemwise_add_activation", scale=1.5),
    case(
        "fused_elemwise_activation",
        [real(2), real(2)],
        {"functor_list": [MUL, "relu"]},
        raises=ValueError,
        match="functor_list must be one of",
    ),
    case("fused_elemwise_activation", [real(2, 3), real(4)], {"functor_list": ["relu", ADD]}, raises=ValueError),
    case(
        "fused_elemwise_add_activation",
        [real(2), real(2)],
        {"functor_list": [MUL, "tanh"]},
        raises=ValueError,
        match="must have elementwise_add",
    ),
)


# Transformers


def attention(x, w, b, bias_qk, head_number=1, alpha=1.0):
    batch, length, _ = x.shape
    width = w.shape[2]
    qkv = paddle.matmul(x, w.reshape([w.shape[0], 3 * width])) + b.reshape([3 * width])
    q, k, v = paddle.unstack(qkv.reshape([batch, length, 3, head_number, -1]).transpose([2, 0, 3, 1, 4]))
    scores = paddle.matmul(q, k, transpose_y=True) * alpha + bias_qk
    mixed = paddle.matmul(paddle.nn.functional.softmax(scores), v)
    return mixed.transpose([0, 2, 1, 3]).reshape([batch, length, width])


def layer_norm(x, scale, bias, epsilon=1e-5, begin_norm_axis=2):
    return ops.layer_norm(x, scale, bias, epsilon=epsilon, begin_norm_axis=begin_norm_axis)


def embedded(ids, tables, bias, scale, **attrs):
    rows = [paddle.nn.functional.embedding(i.squeeze(-1), t) for i, t in zip(ids, tables, strict=True)]
    return layer_norm(sum(rows[1:], rows[0]), scale, bias, **attrs)[0]


def fc_norm(x, w, b0, y, scale, b1, x_num_col_dims=1, activation_type="", begin_norm_axis=1):
    out = ops.fc(x, w, b0, in_num_col_dims=x_num_col_dims, activation_type=activation_type)
    return layer_norm(out + y, scale, b1, begin_norm_axis=begin_norm_axis)


W3, B3 = real(6, 3, 8), real(3, 8)
PAIR = [real(4, seed=2), real(4, seed=3)]
TABLES, IDS = [real(7, 4), real(5, 4)], [ints(2, 3, 1, low=0, high=7), ints(2, 3, 1, low=0, high=5)]

test_transformer = table(
    case(
        "multihead_matmul",
        [real(2, 5, 6), W3, B3, real(2, 2, 5, 5)],
        {"head_number": 2, "alpha": 0.5},
        composed(attention),
        dtypes="float32",
    ),
    case(
        "multihead_matmul",
        [real(2, 5, 6), W3, B3, real(2, 3, 5, 5)],
        {"head_number": 3},
        raises=ValueError,
        match="head_number",
    ),
    case("multihead_matmul", [real(2, 5, 7), W3, B3, real(2, 2, 5, 5)], raises=ValueError, match="W"),
    case(
        "skip_layernorm",
        [real(2, 3, 4), real(2, 3, 4, seed=2), real(4), real(4, seed=2)],
        {"epsilon": 1e-5, "begin_norm_axis": 2},
        composed(lambda x, y, s, b, **a: layer_norm(x + y, s, b, **a)[0]),
        dtypes="float32",
    ),
    case(
        "skip_layernorm",
        [real(2, 4), real(2, 4), real(4), real(4)],
        {"epsilon": 1e-5, "begin_norm_axis": 1},
        raises=ValueError,
        match="3 dimensions",
    ),
    case(
        "fused_embedding_eltwise_layernorm",
        [IDS, TABLES, real(4), real(4, seed=2)],
        {},
        composed(embedded),
        dtypes="float32",
    ),
    case(
        "fused_embedding_eltwise_layernorm",
        [IDS[:1], TABLES[:1], real(4), real(4)],
        raises=ValueError,
        match="at least two",
    ),
    case(
        "fused_embedding_eltwise_layernorm",
        [[IDS[0] + 7, IDS[1]], TABLES, real(4), real(4)],
        raises=ValueError,
        match="indices must be in",
    ),
    case(
        "fused_fc_elementwise_layernorm",
        [real(3, 6), real(6, 4), real(4), real(3, 4), *PAIR],
        {"activation_type": "relu"},
        composed(fc_norm),
        dtypes="float32",
    ),
    case(
        "fused_fc_elementwise_layernorm",
        [real(2, 3, 6), real(6, 4), real(1, 4), real(2, 3, 4), real(4), real(4)],
        {"x_num_col_dims": 2, "begin_norm_axis": 2},
        composed(fc_norm),
    ),
    case(
        "fused_fc_elementwise_layernorm", [real(3, 6), real(6, 4), None, real(3, 5)], raises=ValueError, match="Y must"
    ),
)


# Products


def repeated(x, ws, bs):
    outs = []
    for w, b in zip(ws, bs, strict=True):
        x = paddle.nn.functional.relu(paddle.matmul(x, w) + b)
        outs.append(x)
    return outs[:-1], x


def squared(x, y, scalar=1.0):
    xy = paddle.matmul(x, y) ** 2
    return x * x, y * y, xy, (xy - paddle.matmul(x * x, y * y)) * scalar


def flattened(x, trans_axis, flatten_axis, concat_axis):
    def flat(t):
        t = paddle.transpose(t, trans_axis)
        return t.reshape([int(np.prod(t.shape[:flatten_axis])), -1])

    return paddle.concat([flat(t) for t in x], concat_axis)


CHAIN = [real(5, 4), real(4, 6), real(6, 3)], [real(4), real(1, 6), real(3)]

test_products = table(
    case("fusion_repeated_fc_relu", [real(2, 5), *CHAIN], {}, composed(repeated), dtypes="float32", static=False),
    case("fusion_repeated_fc_relu", [real(2, 6), *CHAIN], raises=ValueError, match="must have 6 rows"),
    case("fusion_squared_mat_sub", [real(2, 3), real(3, 4)], {"scalar": 0.5}, composed(squared), dtypes="float32"),
    case("fusion_squared_mat_sub", [real(2, 3), real(4, 3)], raises=ValueError, match="matching inner sizes"),
    case(
        "fusion_transpose_flatten_concat",
        [[real(2, 3, 4, 5), real(2, 1, 4, 5)]],
        {"trans_axis": [0, 2, 3, 1], "flatten_axis": 1, "concat_axis": 1},
        composed(flattened),
        dtypes="float32",
    ),
    case(
        "fusion_transpose_flatten_concat",
        [[real(2, 3, 4)]],
        {"trans_axis": [0, 0, 1], "flatten_axis": 1, "concat_axis": 1},
        raises=ValueError,
        match="trans_axis",
    ),
)


# fused_embedding_seq_pool


def pooled(w, ids, padding_idx=-1, is_sparse=False):
    width = ids[0].size
    sums = np.zeros((len(OFFSETS) - 1, width, w.shape[1]))
    for i, (start, end) in enumerate(zip(OFFSETS, OFFSETS[1:], strict=False)):
        for row in ids[start:end].reshape(-1, width):
            for k, j in enumerate(row):
                if j != padding_idx:
                    sums[i, k] += w[j]
    return sums.reshape(len(sums), -1)


OFFSETS = [0, 2, 2, 5]
SEQ, WIDE = ints(5, 1, low=0, high=6), ints(5, 2, 1, low=0, high=6)

test_seq_pool = table(
    case("fused_embedding_seq_pool", [real(6, 3), SEQ], {}, pooled, lod={"Ids": [OFFSETS]}, grad="W", dtypes="float32"),
    case(
        "fused_embedding_seq_pool",
        [real(6, 3), WIDE],
        {"padding_idx": int(WIDE[0, 0, 0])},
        pooled,
        lod={"Ids": [OFFSETS]},
        grad="W",
    ),
    case(
        "fused_embedding_seq_pool",
        [real(6, 3), WIDE],
        {"is_sparse": True},
        pooled,
        lod={"Ids": [OFFSETS]},
        grad="W",
        rows_grad="W",
    ),
    case(
        "fused_embedding_seq_pool",
        [real(5, 3), SEQ * 0 + 5],
        lod={"Ids": [OFFSETS]},
        raises=ValueError,
        match=r"ids must be in \[0, 5\)",
    ),
    case("fused_embedding_seq_pool", [real(6, 3), SEQ], raises=ValueError, match="LoD"),
    case(
        "fused_embedding_seq_pool",
        [real(6, 3), SEQ],
        {"combiner": "mean"},
        lod={"Ids": [OFFSETS]},
        raises=NotImplementedError,
        match="combiner",
    ),
)


@covers("fused_elemwise_add_activation")
def test_gradients_of_programs_that_name_intermediate_outputs():
    x, y = paddle.to_tensor(real(2, 3)), paddle.to_tensor(real(2, 3, seed=2))
    out = ops.relu(x + y)
    grads = ops.fused_elemwise_add_activation_grad(
        None, y, out, paddle.ones_like(out), functor_list=["relu_grad", "elementwise_add_grad"]
    )
    for g in grads[:2]:
        np.testing.assert_array_equal(g.numpy(), (out.numpy() > 0).astype("float64"))
    with pytest.raises(ValueError, match="'X' is required"):
        ops.fused_elemwise_activation_grad(None, y, out, out, functor_list=["elementwise_mul_grad", "tanh_grad"])
