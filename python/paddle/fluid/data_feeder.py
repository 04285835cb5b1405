"""paddle.fluid.data_feeder."""

from paddle._basics.checks import check_dtype, check_type
from paddle._basics.dtypes import convert_dtype  # noqa: F401
from paddle._programs.variable_checks import check_shape, check_variable_and_dtype
from paddle.static.feeder import BatchedTensorProvider, DataFeeder, DataToLoDTensorConverter  # noqa: F401

__all__ = ["DataFeeder"]
