"""paddle.nn.functional: neural network operations as functions."""

from . import (  # noqa: A004
    activation,
    class_loss,
    common,
    conv,
    decode,
    extension,
    input,
    loss,
    norm,
    padding,
    pooling,
    resize,
    vision,
)
from .activation import *  # noqa: F403
from .class_loss import *  # noqa: F403
from .common import *  # noqa: F403
from .conv import *  # noqa: F403
from .decode import *  # noqa: F403
from .extension import *  # noqa: F403
from .input import *  # noqa: F403
from .loss import *  # noqa: F403
from .norm import *  # noqa: F403
from .padding import *  # noqa: F403
from .pooling import *  # noqa: F403
from .resize import *  # noqa: F403
from .vision import *  # noqa: F403

__all__ = [
    *activation.__all__,
    *class_loss.__all__,
    *common.__all__,
    *conv.__all__,
    *decode.__all__,
    *extension.__all__,
    *input.__all__,
    *loss.__all__,
    *norm.__all__,
    *padding.__all__,
    *pooling.__all__,
    *resize.__all__,
    *vision.__all__,
]
