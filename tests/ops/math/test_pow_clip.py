"""pow and clip."""

import numpy as np
from case import Rows, apart, case, ints, real, table

X = apart(3, 5, step=0.37)
POSITIVE = real(3, 4, low=0.3, high=2.0)


def power(x, *tensor, factor=1.0):
    factor = tensor[0][0] if tensor else factor
    return np.power(x, x.dtype.type(factor))


def clip(x, *tensors, min=None, max=None):
    low = tensors[0][0] if tensors else min
    high = tensors[1][0] if len(tensors) > 1 else max
    return np.clip(x, x.dtype.type(low), x.dtype.type(high))


ONE = np.array([1.5])
MERGED = {"Out": np.array([[0.0], [1.0], [0.0], [-1.0]])}

test_pow = table(
    case("pow", [POSITIVE], {"factor": 2.5}, power, grad="X", dtypes="float16 float32"),
    case("pow", [X], {"factor": 2.0}, power, grad="X", dtypes="float16 float32"),
    case("pow", [X], {"factor": 3.0}, power, grad="X"),
    case("pow", [X], {"factor": -1.0}, power, grad="X"),
    case("pow", [X], expected=power),
    case("pow", [POSITIVE, ONE], {"factor": 9.0}, power, grad="X"),
    case("pow", [ints(5)], {"factor": 2.0}, power, dtypes="int32"),
    case("pow", [real(0, 2)], {"factor": 2.0}, power, grad="X"),
    case("pow", [X, real(2)], raises=ValueError, match="FactorTensor"),
)

test_clip = table(
    case("clip", [X], {"min": -1.0, "max": 0.875}, clip, grad="X", second=True, dtypes="float16 float32"),
    case("clip", [X, np.array([-0.5])], {"min": 0.0, "max": 0.875}, clip, grad="X", second=True),
    case("clip", [X, np.array([-0.5]), np.array([1.1])], {"min": 0.0, "max": 0.0}, clip, grad="X", second=True),
    case("clip", [ints(9)], {"min": -3.0, "max": 4.0}, clip, dtypes="int32"),
    case("clip", [real(0)], {"min": -3.0, "max": 4.0}, clip, grad="X"),
    case("clip", [real(5, 2)], {"min": 0.0, "max": 1.0}, clip, lod={"X": [[0, 5]]}, out_lod={"Out": [[0, 5]]}),
    case("clip", [Rows([3, 1, 3], 4, np.array([[-2.0], [5.0], [-1.0]]))], {"min": -1.0, "max": 1.0}, MERGED),
    case("clip", [X], {"min": 1.0, "max": 0.0}, raises=ValueError, match="min must not be above max"),
    case("clip", [X], raises=TypeError, match="required"),
)
