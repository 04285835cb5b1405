"""The element type that Python floats and parameters get."""

from paddle._basics.default_dtype import get_default_dtype, set_default_dtype

__all__ = ["set_default_dtype", "get_default_dtype"]
