"""bernoulli, multinomial, seed: numbers of Paddle 2.6.2 on CPU after ``paddle.seed(7)``."""

import numpy as np
import pytest
from case import case, covers, ints, real, table
from paddle import _core

ops = _core.ops
P = np.random.RandomState(0).uniform(0, 1, (2, 5)).astype("float32")


@pytest.fixture(autouse=True)
def seeded():
    state = _core.get_rng_state()
    _core.set_seed(7)
    yield
    _core.set_rng_state(state)


@covers("multinomial", "bernoulli")
def test_numbers_of_paddle() -> None:
    x, wide = _core.Tensor(P), _core.Tensor(P.astype("float64"))
    assert ops.multinomial(x, num_samples=3).numpy().tolist() == [[0, 3, 4], [2, 3, 4]]
    drawn = ops.multinomial(x, num_samples=4, replacement=True).numpy().tolist()
    assert drawn == [[2, 3, 4, 2], [3, 3, 3, 1]]
    row = _core.Tensor(P[0].astype("float64"))
    assert ops.multinomial(row, num_samples=5).numpy().tolist() == [2, 4, 1, 3, 0]
    assert ops.bernoulli(x).numpy().tolist() == [[0, 1, 1, 0, 1], [0, 1, 1, 1, 0]]
    assert ops.bernoulli(wide).numpy().tolist() == [[1, 1, 1, 1, 1], [0, 0, 0, 1, 0]]


def test_frequencies_are_the_probabilities() -> None:
    p = np.float64([0.1, 0.0, 0.6, 0.3])
    drawn = ops.multinomial(_core.Tensor(p), num_samples=20000, replacement=True).numpy()
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 20000, p, atol=0.02)
    ones = ops.bernoulli(_core.Tensor(np.full(20000, 0.3))).numpy()
    assert abs(ones.mean() - 0.3) < 0.02
    several = [ops.multinomial(_core.Tensor(p), num_samples=3).numpy().tolist() for _ in range(20)]
    assert all(sorted(s) == [0, 2, 3] for s in several)


test_wrong = table(
    case("bernoulli", [np.float64([0, 1, 1, 0])], {}, lambda x: x, dtypes="float32"),
    case("bernoulli", [np.float64([1.5])], {}, raises=IndexError),
    case("bernoulli", [np.float64([np.nan])], {}, raises=IndexError),
    case("bernoulli", [ints(2, low=0, high=2)], {}, raises=NotImplementedError),
    case("multinomial", [np.float64([[0, 2], [1, 0]])], {}, np.int64([[1], [0]]), dtypes="float32"),
    case("multinomial", [np.float64([0, 0])], {}, raises=ValueError),
    case("multinomial", [np.float64([1, -1])], {}, raises=ValueError),
    case("multinomial", [np.float64([1, np.nan])], {}, raises=ValueError),
    case("multinomial", [np.float64([1, 0])], {"num_samples": 2}, raises=ValueError),
    case("multinomial", [np.float64([1, 0])], {"num_samples": 0}, raises=ValueError),
    case("multinomial", [np.zeros((2, 0))], {}, raises=ValueError),
    case("multinomial", [real(1, 2, 3)], {}, raises=ValueError),
    case("seed", [], {"seed": 9}, np.int32([9])),
)


def test_a_random_seed_differs() -> None:
    assert len({int(ops.seed().numpy()[0]) for _ in range(5)}) > 1
