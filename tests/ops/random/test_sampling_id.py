"""sampling_id."""

import numpy as np
import paddle
from case import case, covers, real, table
from paddle import _core

CERTAIN = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
test_sampling_id = table(
    # A row whose sum is not reached gives the last index.
    case("sampling_id", [CERTAIN], {"seed": 3}, np.array([1, 0, 2, 2]), dtypes="float32", out_dtype="int64"),
    case("sampling_id", [real(3)], raises=ValueError, match="two dimensions"),
    case("sampling_id", [real(3, 0)], raises=ValueError, match="columns"),
    case("sampling_id", [real(3, 2)], {"min": 1.0, "max": 0.5}, raises=ValueError, match="less than max"),
)


@covers("sampling_id")
def test_frequencies() -> None:
    """Frequencies match the probabilities; `paddle.seed` repeats the draws."""
    p = np.array([0.5, 0.125, 0.375], "float32")
    rows = _core.Tensor(np.tile(p, (4000, 1)))
    paddle.seed(7)
    first = _core.ops.sampling_id(rows).numpy()
    np.testing.assert_allclose(np.bincount(first, minlength=3) / 4000, p, atol=0.03)
    assert (first != _core.ops.sampling_id(rows).numpy()).any()
    paddle.seed(7)
    np.testing.assert_array_equal(first, _core.ops.sampling_id(rows).numpy())
