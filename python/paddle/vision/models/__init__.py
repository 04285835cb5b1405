"""paddle.vision.models: image classification networks."""

from . import lenet, mobilenetv1, mobilenetv2, resnet, vgg
from .lenet import *  # noqa: F403
from .mobilenetv1 import *  # noqa: F403
from .mobilenetv2 import *  # noqa: F403
from .resnet import *  # noqa: F403
from .vgg import *  # noqa: F403

__all__ = [*resnet.__all__, *vgg.__all__, *mobilenetv1.__all__, *mobilenetv2.__all__, *lenet.__all__]
