"""fluid.dygraph.amp: the older names of paddle.amp."""

from paddle.amp import AmpScaler, amp_guard

__all__ = ["amp_guard", "AmpScaler"]
