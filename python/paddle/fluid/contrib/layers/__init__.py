"""fluid.contrib.layers: layers outside of the stable API of 1.x."""

from . import metric_op, nn, rnn_impl
from .metric_op import *  # noqa: F403
from .nn.common import *  # noqa: F403
from .nn.ctr import *  # noqa: F403
from .nn.embedding import *  # noqa: F403
from .nn.fused import *  # noqa: F403
from .nn.tdm import *  # noqa: F403
from .rnn_impl import *  # noqa: F403

__all__ = [*metric_op.__all__, *nn.__all__, *rnn_impl.__all__]
