"""The default element type, of Python floats and parameters."""

from paddle._basics.default_dtype import get_default_dtype, set_default_dtype

__all__ = ["set_default_dtype", "get_default_dtype"]
