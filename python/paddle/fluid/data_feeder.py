"""paddle.fluid.data_feeder."""

from paddle.framework.checks import (  # noqa: F401 (tests and user code import them from here)
    check_dtype,
    check_shape,
    check_type,
    check_variable_and_dtype,
)
from paddle.framework.dtypes import convert_dtype  # noqa: F401
from paddle.static.feeder import BatchedTensorProvider, DataFeeder, DataToLoDTensorConverter  # noqa: F401

__all__ = ["DataFeeder"]
