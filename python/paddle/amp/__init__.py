"""paddle.amp: automatic mixed precision in dygraph mode."""

from paddle._basics.missing import getter as _getter

from .auto_cast import amp_guard, auto_cast
from .grad_scaler import AmpScaler, GradScaler

__all__ = ["auto_cast", "GradScaler"]

__getattr__ = _getter(__name__)
