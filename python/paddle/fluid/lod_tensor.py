"""paddle.fluid.lod_tensor."""

from paddle.static.feeder import create_lod_tensor, create_random_int_lodtensor

__all__ = ["create_lod_tensor", "create_random_int_lodtensor"]
