"""paddle.fluid.transpiler.geo_sgd_transpiler."""

from paddle.distributed.ps.geo_sgd_transpiler import GeoSgdTranspiler

__all__ = ["GeoSgdTranspiler"]
