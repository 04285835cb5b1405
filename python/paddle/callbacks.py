"""paddle.callbacks: callbacks of `paddle.Model`."""

from paddle.hapi.callbacks import (
    Callback,
    CallbackList,
    EarlyStopping,
    LRScheduler,
    ModelCheckpoint,
    ProgBarLogger,
    ReduceLROnPlateau,
    VisualDL,
    config_callbacks,
)

__all__ = [
    "Callback",
    "ProgBarLogger",
    "ModelCheckpoint",
    "VisualDL",
    "LRScheduler",
    "EarlyStopping",
    "ReduceLROnPlateau",
]

# accessible, though not in 2.0.2's __all__
_ALSO = (CallbackList, config_callbacks)
