"""Complex numbers: operators with complex kernels, also with real operands."""

import numpy as np
import paddle
import pytest
from case import case, complexes, ints, real, table
from paddle import _core

BOTH = "float32"
ARITHMETIC = [("elementwise_mul", np.multiply), ("elementwise_div", np.divide), ("elementwise_sub", np.subtract)]


def at_axis(f, axis):
    def expected(x, y, **_):
        return f(x, y.reshape(y.shape + (1,) * (x.ndim - axis - y.ndim)))

    return expected


def product(x, y, trans_x=False, trans_y=False):
    x = x.swapaxes(-1, -2) if trans_x and x.ndim > 1 else x
    y = y.swapaxes(-1, -2) if trans_y and y.ndim > 1 else y
    return np.atleast_1d(x @ y)


test_binary = table(
    *(
        case(op, [x, y], expected=f, grad="X Y", second=True, dtypes=BOTH)
        for op, f in [
            ("elementwise_add", np.add),
            ("elementwise_sub", np.subtract),
            ("elementwise_mul", np.multiply),
            ("elementwise_div", np.divide),
        ]
        for x, y in [
            (complexes(2, 3), complexes(2, 3, seed=1)),
            (complexes(2, 3), complexes(3, seed=1)),
        ]
    ),
    # elementwise_div_grad_grad reads the gradient of X, which cannot be recovered if X was broadcast.
    *(
        case(
            op,
            [complexes(2, 1, 2), complexes(1, 3, 2, seed=1)],
            expected=f,
            grad="X Y",
            dtypes=BOTH,
            second=op != "elementwise_div",
        )
        for op, f in ARITHMETIC
    ),
    *(
        case(op, [x, y], expected=f, grad="X Y", dtypes=BOTH, second=x.dtype.kind == "c" or op != "elementwise_div")
        for op, f in ARITHMETIC
        for x, y in [(real(2, 3, low=0.5), complexes(3)), (complexes(2, 3), real(2, 3, low=0.5))]
    ),
    case(
        "elementwise_mul",
        [complexes(2, 3, 2), complexes(3)],
        {"axis": 1},
        expected=at_axis(np.multiply, 1),
        grad="X Y",
        second=True,
        dtypes=BOTH,
    ),
    case("elementwise_div", [complexes(0, 3), complexes(3)], expected=np.divide),
    case("elementwise_add", [complexes(2), ints(2)], raises=RuntimeError, match="meet"),
    case("elementwise_max", [complexes(2), complexes(2)], raises=NotImplementedError, match="complex128"),
    case("elementwise_pow", [complexes(2), complexes(2)], raises=NotImplementedError, match="complex128"),
)

test_matmul = table(
    *(
        case(
            "matmul_v2",
            [complexes(*x), complexes(*y, seed=1)],
            {"trans_x": tx, "trans_y": ty},
            expected=product,
            grad="X Y",
            second=True,
            dtypes=BOTH,
        )
        for x, y, tx, ty in [
            ((2, 3), (3, 4), False, False),
            ((3, 2), (3, 4), True, False),
            ((2, 3), (4, 3), False, True),
            ((3, 2), (4, 3), True, True),
            ((2, 2, 3), (3, 2), False, False),
            ((2, 3), (2, 3, 2), False, False),
            ((2, 1, 2, 3), (3, 3, 2), False, False),
            ((3,), (3,), False, False),
            ((3,), (3, 2), False, False),
            ((2, 3), (3,), False, False),
        ]
    ),
    case("matmul_v2", [real(2, 3), complexes(3, 2)], expected=product, grad="X Y", second=True, dtypes=BOTH),
    case("matmul_v2", [complexes(2, 3), real(3, 2)], expected=product, grad="X Y", second=True, dtypes=BOTH),
    case("mul", [complexes(2, 3), complexes(3, 2, seed=1)], expected=np.matmul, grad="X Y", second=True),
    case(
        "matmul",
        [complexes(2, 3), complexes(3, 2, seed=1)],
        {"alpha": 2.0},
        grad="X Y",
        second=True,
        expected=lambda x, y, alpha: alpha * (x @ y),
    ),
    case("matmul_v2", [complexes(2, 3), complexes(2, 3)], raises=ValueError),
)

test_others = table(
    case("abs", [complexes(2, 3)], expected=np.abs, grad="X", second=True, dtypes=BOTH),
    case("abs", [np.zeros(3, "complex64")], expected=np.abs),
    case("real", [complexes(2, 3)], expected=np.real, grad="X", dtypes=BOTH),
    case("imag", [complexes(2, 3)], expected=np.imag, grad="X", dtypes=BOTH),
    case("conj", [complexes(2, 3)], expected=np.conj, grad="X", second=True, dtypes=BOTH),
    case("conj", [real(2, 3)], expected=np.conj, grad="X", dtypes=BOTH),
    case("real", [real(2)], raises=NotImplementedError, match="float64", static=False),
    case(
        "sum",
        {"X": [complexes(2, 3), complexes(2, 3, seed=1), complexes(2, 3, seed=2)]},
        grad="X",
        dtypes=BOTH,
        expected=sum,
    ),
    case(
        "scale",
        [complexes(2, 3)],
        {"scale": 0.5, "bias": 2.0},
        grad="X",
        dtypes=BOTH,
        expected=lambda x, scale, bias: x * scale + bias,
    ),
    case(
        "scale",
        [complexes(2, 3)],
        {"scale": 0.5, "bias": 2.0, "bias_after_scale": False},
        grad="X",
        expected=lambda x, scale, bias, bias_after_scale: (x + bias) * scale,
    ),
    case(
        "reduce_sum",
        [complexes(2, 3, 2)],
        {"dim": [1]},
        grad="X",
        second=True,
        dtypes=BOTH,
        expected=lambda x, dim: x.sum(1),
    ),
    case(
        "reduce_sum",
        [complexes(2, 3)],
        {"dim": [0], "reduce_all": True},
        grad="X",
        dtypes=BOTH,
        expected=lambda x, **_: x.sum(keepdims=True)[0],
    ),
    case("reduce_max", [complexes(2, 3)], {"dim": [1]}, raises=NotImplementedError),
    case(
        "reshape2",
        [complexes(2, 6)],
        {"shape": [3, -1]},
        grad="X",
        dtypes=BOTH,
        expected=lambda x, shape: x.reshape(shape),
    ),
    case(
        "transpose2",
        [complexes(2, 3, 4)],
        {"axis": [2, 0, 1]},
        grad="X",
        dtypes=BOTH,
        expected=lambda x, axis: x.transpose(axis),
    ),
    case("transpose2", [complexes(70, 90)], {"axis": [1, 0]}, dtypes=BOTH, expected=lambda x, axis: x.T),
    case(
        "concat",
        {"X": [complexes(2, 3), complexes(2, 1)]},
        {"axis": 1},
        grad="X",
        dtypes=BOTH,
        expected=lambda x, axis: np.concatenate(x, axis),
    ),
    case(
        "stack",
        {"X": [complexes(2, 3), complexes(2, 3, seed=1)]},
        {"axis": 1},
        grad="X",
        expected=lambda x, axis: np.stack(x, axis),
    ),
    case(
        "slice",
        [complexes(3, 4)],
        {"axes": [1], "starts": [1], "ends": [3]},
        dtypes=BOTH,
        grad="Input",
        expected=lambda x, **_: x[:, 1:3],
    ),
    case(
        "strided_slice",
        [complexes(3, 6)],
        {"axes": [1], "starts": [5], "ends": [0], "strides": [-2]},
        dtypes=BOTH,
        grad="Input",
        expected=lambda x, **_: x[:, 5:0:-2],
    ),
    case(
        "expand_v2",
        [complexes(1, 3)],
        {"shape": [2, 3]},
        grad="X",
        dtypes=BOTH,
        expected=lambda x, shape: np.broadcast_to(x, shape),
    ),
    case("gather", [complexes(4, 2), np.array([3, 0])], dtypes=BOTH, expected=lambda x, i: x[i]),
    case("assign", [complexes(2, 3)], expected=lambda x: x, grad="X", dtypes=BOTH),
    case(
        "fill_constant",
        {},
        {"shape": [2], "dtype": 23, "value": 1.5},
        expected=np.full(2, 1.5 + 0j, "complex64"),
        out_dtype="complex64",
    ),
    case(
        "fill_constant",
        {},
        {"shape": [2], "dtype": 24, "value": 1.5},
        expected=np.full(2, 1.5 + 0j),
        out_dtype="complex128",
    ),
    case("equal", [complexes(2), complexes(2)], raises=NotImplementedError),
    case("argsort", [complexes(2)], raises=NotImplementedError),
    case("exp", [complexes(2)], raises=NotImplementedError),
)


@pytest.mark.parametrize("source", ["float32", "int64", "bool", "complex64", "complex128"])
@pytest.mark.parametrize("to", ["float64", "int32", "bool", "complex64", "complex128", "float16"])
def test_cast(source, to):
    if "complex" not in source + to:
        return
    x = np.array([0, 1, 3]).astype(source)
    if "complex" in source:
        x = x * np.array([0.0, 1.0, 1.0], x.real.dtype) + np.array([0, 2j, 0]).astype(source)
        x[0] = 0.5j
    want = x.astype(to) if "complex" in to or to == "bool" or "complex" not in source else x.real.astype(to)
    got = paddle.to_tensor(x).astype(to).numpy()
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_the_gradient_of_a_cast_from_real_is_real():
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    y = x.astype("complex64") * paddle.to_tensor([1 + 2j, 3 - 1j])
    paddle.real(y).backward()
    np.testing.assert_allclose(x.grad, [1.0, 3.0])


def test_division_does_not_overflow():
    x = paddle.to_tensor(np.array([1e30 + 1e30j], "complex64"))
    np.testing.assert_allclose((x / x).numpy(), [1.0])


def test_to_tensor_and_back():
    assert paddle.to_tensor(1 + 2j)._dtype_name == "complex64"
    assert paddle.to_tensor([1 + 2j, 1]).shape == [2]
    assert paddle.to_tensor(np.array([1 + 2j]))._dtype_name == "complex128"
    assert paddle.to_tensor([[1 + 1j, 2], [3 + 2j, 4]], dtype="complex64")._dtype_name == "complex64"
    x = paddle.to_tensor(1 + 2j)
    assert x.item() == 1 + 2j and complex(x) == 1 + 2j and isinstance(x.item(), complex)
    assert complex(paddle.to_tensor(2.0)) == 2
    assert bool(x) and not bool(paddle.to_tensor(0j))
    with pytest.raises(TypeError):
        float(x)
    with pytest.raises(TypeError):
        int(x)
    with pytest.raises(TypeError):
        [1, 2][x]
    assert str(paddle.to_tensor([1 + 1j, 2 - 0.5j])).endswith("[(1+1j)  , (2-0.5j)])")
    assert str(paddle.to_tensor([1 + 1j, -2 - 1j])).endswith("[ (1+1j), (-2-1j)])")
    x = paddle.zeros([2, 2], "complex64")
    x[0] = 1
    x[1, 1] = 2j
    x[1, 0] = paddle.to_tensor(3 + 1j)
    np.testing.assert_array_equal(x.numpy(), [[1, 1], [3 + 1j, 2j]])


def test_operators_of_python():
    x, y = np.array([[1 + 2j, 3 - 1j]], "complex64"), np.array([[2.0], [0.5]], "float32")
    a, b = paddle.to_tensor(x), paddle.to_tensor(y)
    for got, want in [
        (a + b, x + y),
        (b - a, y - x),
        (a * b, x * y),
        (b / a, y / x),
        (b @ a, y @ x),
        (a + 1, x + 1),
        (2 * a, 2 * x),
        (1 - a, 1 - x),
        (1 / a, 1 / x),
        (a / 2, x / 2),
        (-a, -x),
        (a * 1j, x * 1j),
        (1j - a, 1j - x),
        (1j / b, 1j / y),
        (b + np.complex64(2j), y + np.complex64(2j)),
    ]:
        assert got.numpy().dtype == np.complex64
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert (paddle.to_tensor(y.astype("float64")) * a)._dtype_name == "complex128"
    with pytest.raises(RuntimeError, match="meet"):
        paddle.to_tensor([1, 2]) * a
    np.testing.assert_array_equal(a.conj().numpy(), x.conj())
    np.testing.assert_array_equal(a.imag().numpy(), x.imag)


def test_backward_starts_at_a_complex_tensor():
    x = paddle.to_tensor([1 + 2j, 3 - 1j], stop_gradient=False)
    (x * x).backward()
    np.testing.assert_allclose(x.grad, 2 * np.conj([1 + 2j, 3 - 1j]))


def test_gradients_of_several_uses_add_up():
    a = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    j = paddle.to_tensor([1j])
    s = paddle.sum(a + a * j)
    (s * s.conj()).real().backward()
    np.testing.assert_allclose(a.grad, [12.0, 12.0])


def test_files_and_lod_tensors(tmp_path):
    x = complexes(2, 3).astype("complex64")
    t = _core.LoDTensor()
    t.set(x, paddle.CPUPlace())
    assert int(t._dtype()) == 23
    np.testing.assert_array_equal(np.array(t), x)
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            v = paddle.static.data("x", [2, 3], "complex64")
            program.global_block().append_op(type="save", inputs={"X": [v]}, attrs={"file_path": str(tmp_path / "x")})
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(program, feed={"x": x})
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            v = program.global_block().create_var(name="y", shape=[2, 3], dtype="complex64", persistable=True)
            program.global_block().append_op(
                type="load", outputs={"Out": [v]}, attrs={"file_path": str(tmp_path / "x")}
            )
        got = exe.run(program, fetch_list=[v])[0]
    finally:
        paddle.disable_static()
    np.testing.assert_array_equal(got, x)


def test_second_gradients_of_real_by_complex_are_refused():
    x, y = paddle.to_tensor([1.0], stop_gradient=False), paddle.to_tensor([1 + 1j], stop_gradient=False)
    (dy,) = paddle.grad([paddle.divide(x, y)], [y], create_graph=True)
    with pytest.raises(NotImplementedError, match="real X"):
        dy.backward()
