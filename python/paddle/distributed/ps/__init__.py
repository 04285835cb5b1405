"""Parameter servers: the Programs of trainers and servers, lookup tables, and the trainers' communication with servers.

A Program of one process is rewritten by :class:`~.distribute_transpiler.DistributeTranspiler` or
:class:`~.geo_sgd_transpiler.GeoSgdTranspiler`. `paddle.distributed.fleet` and `paddle.fluid` stand above this package.
"""
