"""Binary elementwise operators: broadcasting by axis, dtypes, gradients twice."""

import numpy as np
import paddle
import pytest
from case import Rows, apart, case, ints, real, table

POSITIVE = {"low": 0.5, "high": 2.0}
ALL = "float16 float32 float64 int32 int64"


def placed(f):
    """The numpy function with Paddle's axis: the second shape is aligned at `axis` of the first."""

    def g(x, y, axis=-1):
        if axis != -1:
            y = y.reshape(y.shape + (1,) * (x.ndim - axis - y.ndim))
        return f(x, y)

    return g


test_broadcast = table(
    case("elementwise_add", [real(3, 4), real(3, 4, seed=1)], expected=np.add, grad="X Y", second=True, dtypes=ALL),
    case("elementwise_add", [real(2, 3, 4), real(4)], expected=np.add, grad="X Y", second=True),
    case("elementwise_add", [real(2, 3, 4), real(3)], {"axis": 1}, placed(np.add), grad="X Y", second=True),
    case("elementwise_add", [real(2, 3, 4), real(2, 3)], {"axis": 0}, placed(np.add), grad="X Y"),
    case("elementwise_add", [real(1), real(5)], expected=np.add, grad="X Y"),
    case("elementwise_add", [real(2, 1, 3), real(4, 1)], expected=np.add, grad="X Y", second=True),
    case("elementwise_add", [real(0, 3), real(3)], expected=np.add, grad="X Y"),
    case(
        "elementwise_add",
        [real(5, 2), real(5, 2)],
        expected=np.add,
        lod={"X": [[0, 2, 5]]},
        out_lod={"Out": [[0, 2, 5]]},
    ),
    case("elementwise_add", [real(2, 3), real(4)], raises=ValueError, match="elementwise_add"),
    case("elementwise_add", [real(2, 3), ints(2, 3)], raises=ValueError, match="data types"),
    case("elementwise_add", [real(2, 3), real(3)], {"axis": 2}, raises=ValueError),
    case("elementwise_sub", [real(3, 4), real(4)], expected=np.subtract, grad="X Y", second=True, dtypes=ALL),
    case("elementwise_sub", [real(3), real(2, 3)], expected=np.subtract, grad="X Y", second=True),
    case(
        "elementwise_mul", [real(3, 4), real(3, 4, seed=1)], expected=np.multiply, grad="X Y", second=True, dtypes=ALL
    ),
    case("elementwise_mul", [real(2, 3, 4), real(3)], {"axis": 1}, placed(np.multiply), grad="X Y", second=True),
    case(
        "elementwise_mul",
        [Rows([2, 0], 4, real(2, 3)), np.array([0.5])],
        expected={"Out": Rows([2, 0], 4, real(2, 3) / 2).dense()},
    ),
    case("elementwise_mul", [Rows([2, 0], 4, real(2, 3)), real(3)], raises=ValueError, match="one number"),
    case("elementwise_mul", [real(4), real(3, 4)], expected=np.multiply, grad="X Y", second=True),
    case(
        "elementwise_div",
        [real(3, 4), real(3, 4, **POSITIVE)],
        expected=np.divide,
        grad="X Y",
        second=True,
        dtypes="float16 float32",
    ),
    case(
        "elementwise_div", [real(2, 3, 4), real(3, **POSITIVE)], {"axis": 1}, placed(np.divide), grad="X Y", second=True
    ),
    case("elementwise_div", [ints(6), ints(6, low=1)], expected=lambda x, y: np.trunc(x / y).astype("int64")),
    case("elementwise_max", [apart(3, 4), apart(3, 4, seed=1) + 0.03], expected=np.maximum, grad="X Y", dtypes=ALL),
    case("elementwise_max", [apart(3, 4), apart(4) + 0.03], expected=np.maximum, grad="X Y"),
    case("elementwise_min", [apart(3, 4), apart(3, 4, seed=1) + 0.03], expected=np.minimum, grad="X Y", dtypes=ALL),
    case("elementwise_min", [apart(2, 3, 4), apart(3) + 0.03], {"axis": 1}, placed(np.minimum), grad="X Y"),
    case(
        "elementwise_pow",
        [real(3, 4, **POSITIVE), real(3, 4)],
        expected=np.power,
        grad="X Y",
        second=True,
        dtypes="float32",
    ),
    case("elementwise_pow", [real(3, 4, **POSITIVE), real(4)], expected=np.power, grad="X Y", second=True),
    case("elementwise_pow", [real(4, **POSITIVE), real(3, 4)], expected=np.power, grad="X Y", second=True),
    case("elementwise_mod", [ints(3, 4), ints(4, low=1)], expected=np.mod, dtypes="int32"),
    case("elementwise_mod", [real(3, 4), real(4, **POSITIVE)], expected=np.mod, dtypes="float32"),
    case("elementwise_floordiv", [ints(8, low=0), ints(8, low=1)], expected=np.floor_divide, dtypes="int32"),
    case("elementwise_floordiv", [ints(4), np.zeros(4, "int64")], raises=ValueError, match="zero"),
)


@pytest.mark.parametrize("constant", [True, False])
def test_the_second_gradient_with_respect_to_the_divisor_only(constant):
    """The gradient of the gradient reads that of X, which was not requested."""
    x, y = paddle.to_tensor([2.0], stop_gradient=constant), paddle.to_tensor([3.0], stop_gradient=False)
    (dy,) = paddle.grad([x / y], [y], create_graph=True)
    dy.backward()
    np.testing.assert_allclose(y.grad, [2 * 2 / 27], rtol=1e-6)


def test_the_second_gradient_of_a_broadcast_dividend_is_refused():
    """DX, which the operator reads, is a sum in that case, so that no second gradient can be computed from it."""
    x, y = paddle.to_tensor([[1.0, 2.0]], stop_gradient=False), paddle.to_tensor([[3.0], [4.0]], stop_gradient=False)
    dx, dy = paddle.grad([x / y], [x, y], create_graph=True)
    with pytest.raises(NotImplementedError, match="broadcast"):
        (dx.sum() + dy.sum()).backward()
