"""paddle.callbacks: what `paddle.Model` calls while it works."""

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

# reachable, though not in 2.0.2's __all__
_ALSO = (CallbackList, config_callbacks)
