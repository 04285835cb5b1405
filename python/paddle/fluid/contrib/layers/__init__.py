"""fluid.contrib.layers: so far bilateral_slice."""

from .images import bilateral_slice

__all__ = ["bilateral_slice"]
