"""fluid.contrib.layers: layers outside the stable API of 1.x."""

from . import click, fused, hashed, metric_op, nn, rnn_impl, trees
from .click import *  # noqa: F403
from .fused import *  # noqa: F403
from .hashed import *  # noqa: F403
from .images import bilateral_slice
from .metric_op import *  # noqa: F403
from .nn import *  # noqa: F403
from .rnn_impl import *  # noqa: F403
from .trees import *  # noqa: F403

__all__ = [
    "bilateral_slice",
    *click.__all__,
    *fused.__all__,
    *hashed.__all__,
    *metric_op.__all__,
    *nn.__all__,
    *rnn_impl.__all__,
    *trees.__all__,
]
