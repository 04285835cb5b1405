"""Random numbers compared with those of Paddle 2.6.2 on CPU after ``paddle.seed(42)``, and dropout."""

import numpy as np
import pytest
from case import case, real, table
from paddle import _core

ops = _core.ops
F64, I32 = 6, 2


@pytest.fixture(autouse=True)
def seeded():
    state = _core.get_rng_state()
    _core.set_seed(42)
    yield
    _core.set_rng_state(state)


def test_numbers_of_paddle() -> None:
    uniform, normal = ops.uniform_random(shape=[3]).numpy(), ops.gaussian_random(shape=[3]).numpy()
    np.testing.assert_array_equal(uniform, np.float32([0.69932854, 0.6550993, 0.36617076]))
    np.testing.assert_array_equal(normal, np.float32([0.25526246, -0.2555686, 1.7602481]))
    np.testing.assert_array_equal(ops.randint(shape=[5], low=0, high=10).numpy(), [5, 9, 2, 9, 7])
    np.testing.assert_array_equal(ops.randperm(n=7).numpy(), [0, 2, 6, 3, 1, 4, 5])
    out = ops.dropout(_core.Tensor(np.ones(6, "float32")), dropout_implementation="upscale_in_train")[0]
    np.testing.assert_array_equal(out.numpy(), [0, 0, 2, 0, 0, 0])


def test_numbers_with_the_rows_of_another_tensor() -> None:
    x = _core.Tensor(np.zeros((3, 7), "float32"))
    plain = ops.uniform_random(shape=[3, 2], min=1.0, max=2.0, seed=5, dtype=F64).numpy()
    got = ops.uniform_random_batch_size_like(x, shape=[-1, 2], min=1.0, max=2.0, seed=5, dtype=F64).numpy()
    np.testing.assert_array_equal(got, plain)
    assert ops.uniform_random_batch_size_like(x, shape=[2, 1], input_dim_idx=1, output_dim_idx=1).shape == [2, 7]
    for wrong in ({"shape": []}, {"shape": [2], "input_dim_idx": 2}, {"shape": [2], "min": 1.0}):
        with pytest.raises(ValueError):
            ops.uniform_random_batch_size_like(x, **wrong)


def test_truncated_numbers_of_paddle() -> None:
    got = ops.truncated_gaussian_random(shape=[3], mean=0.1, std=2.0).numpy()
    np.testing.assert_array_equal(got, np.float32([2.0382168, 1.8753785, 1.0061628]))


def test_float64_and_diagonal() -> None:
    got = ops.uniform_random(shape=[3, 3], dtype=F64, diag_num=3, diag_step=3, diag_val=9.0).numpy()
    assert got.dtype == np.float64 and (np.diag(got) == 9).all() and got[0, 1] == 0.6550993251177506
    with pytest.raises(ValueError):
        ops.uniform_random(shape=[3, 3], diag_num=4, diag_step=3)


def test_seed_of_an_operator_is_a_separate_generator() -> None:
    state = _core.get_rng_state()
    a, b = (ops.gaussian_random(shape=[4], seed=7).numpy() for _ in range(2))
    assert (a == b).all() and _core.get_rng_state() == state
    assert (ops.gaussian_random(shape=[4]).numpy() != ops.gaussian_random(shape=[4]).numpy()).all()


def test_state() -> None:
    assert _core.initial_seed() == 42
    state = _core.get_rng_state()
    a = ops.randperm(n=100).numpy()
    _core.set_rng_state(state)
    assert (ops.randperm(n=100).numpy() == a).all()
    assert sorted(a) == list(range(100))
    with pytest.raises(ValueError):
        _core.set_rng_state((1, [1, 2], 0))


def test_shapes_as_tensors() -> None:
    shape = _core.Tensor(np.int64([2, 3]))
    parts = [_core.Tensor(np.int32([2])), _core.Tensor(np.int64([3]))]
    for op, attrs in (("uniform_random", {}), ("gaussian_random", {}), ("randint", {"low": -3, "high": 4})):
        assert getattr(ops, op)(ShapeTensor=shape, **attrs).shape == [2, 3]
        assert getattr(ops, op)(ShapeTensorList=parts, **attrs).shape == [2, 3]
    values = ops.randint(shape=[1000], low=-3, high=4, dtype=I32).numpy()
    assert values.dtype == np.int32 and set(values) == set(range(-3, 4))


test_bad = table(
    case("uniform_random", [], {"shape": []}, raises=ValueError),
    case("uniform_random", [], {"shape": [2], "min": 1.0, "max": 1.0}, raises=ValueError),
    case("uniform_random", [], {"shape": [2], "dtype": I32}, raises=NotImplementedError),
    case("uniform_random", [], {"shape": [-2]}, raises=ValueError),
    case("randint", [], {"shape": [2], "low": 3, "high": 3}, raises=ValueError),
    case("randperm", [], {"n": 0}, raises=ValueError),
    case("truncated_gaussian_random", [], {"shape": []}, raises=ValueError),
    case("dropout", [real(3)], {"dropout_prob": 1.5}, raises=ValueError),
    case("dropout", [real(3)], {"dropout_implementation": "other"}, raises=ValueError),
)

UP = {"dropout_implementation": "upscale_in_train"}
DOWN = {"dropout_implementation": "downgrade_in_infer"}
X = real(4, 5)

test_dropout = table(
    # A fixed seed, so that the numeric gradient draws the same mask each time.
    case("dropout", [X], {"dropout_prob": 0.4, "fix_seed": True, "seed": 3, **UP}, grad="X", static=False),
    case("dropout", [X], {"dropout_prob": 0.4, "fix_seed": True, "seed": 3, **DOWN}, grad="X", static=False),
    case("dropout", [X], {"dropout_prob": 1.0, **UP}, {"Out": 0 * X, "Mask": np.uint8(0 * X)}, grad="X", static=False),
    case("dropout", [X], {"dropout_prob": 0.0, **UP}, {"Out": X, "Mask": np.uint8(0 * X + 1)}, grad="X", static=False),
    case("dropout", [X], {"is_test": True, "dropout_prob": 0.4, **UP}, {"Out": X}, grad="X", static=False),
    case(
        "dropout",
        [X],
        {"is_test": True, "dropout_prob": 0.4, **DOWN},
        {"Out": X * (1 - np.float32(0.4))},
        grad="X",
        static=False,
        tol=1e-6,
    ),
)


def test_dropout_seeds() -> None:
    x = _core.Tensor(np.ones(50, "float32"))
    by_attr = ops.dropout(x, fix_seed=True, seed=11)[1].numpy()
    by_input = ops.dropout(x, _core.Tensor(np.int32([11])), seed=5)[1].numpy()
    assert by_attr.dtype == np.uint8 and (by_attr == by_input).all()
    # Without fix_seed the attribute is ignored.
    assert (ops.dropout(x, seed=11)[1].numpy() != by_attr).any()
