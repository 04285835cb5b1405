"""paddle.fluid.incubate.fleet.parameter_server.pslib.ps_pb2."""

from paddle.distributed.ps.pslib.ps_pb2 import PS_DENSE_TABLE as PS_DENSE_TABLE
from paddle.distributed.ps.pslib.ps_pb2 import PS_SPARSE_TABLE as PS_SPARSE_TABLE
from paddle.distributed.ps.pslib.ps_pb2 import DownpourServerParameter as DownpourServerParameter
from paddle.distributed.ps.pslib.ps_pb2 import DownpourTrainerParameter as DownpourTrainerParameter
from paddle.distributed.ps.pslib.ps_pb2 import FsClientParameter as FsClientParameter
from paddle.distributed.ps.pslib.ps_pb2 import PSParameter as PSParameter
from paddle.distributed.ps.pslib.ps_pb2 import ServerParameter as ServerParameter
from paddle.distributed.ps.pslib.ps_pb2 import TableParameter as TableParameter
from paddle.distributed.ps.pslib.ps_pb2 import WorkerParameter as WorkerParameter

__all__: list[str] = []
