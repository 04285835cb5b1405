"""fluid.dygraph.nn: the Layers of Paddle 1.x, which take an activation as argument."""

from paddle.fluid.dygraph.rnn import GRUUnit
from paddle.nn.layer.common import Flatten
from paddle.nn.layer.norm import BatchNorm

from .common import Dropout, Embedding, GroupNorm, LayerNorm, Linear, Pool2D
from .conv import BilinearTensorProduct, Conv2D, Conv2DTranspose, Conv3D, Conv3DTranspose
from .loss import BCELoss, L1Loss, MSELoss, NLLLoss  # outside of `__all__`, as those of `sequence`
from .nce import NCE
from .norm import InstanceNorm, PRelu, SpectralNorm
from .sequence import RowConv, SequenceConv
from .tree_conv import TreeConv

__all__ = [
    "BatchNorm",
    "BilinearTensorProduct",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUUnit",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "Linear",
    "NCE",
    "PRelu",
    "Pool2D",
    "SpectralNorm",
    "TreeConv",
]
