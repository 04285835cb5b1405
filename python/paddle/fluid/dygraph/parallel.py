"""Data parallelism by its 1.x names."""
from paddle.distributed.data_parallel import DataParallel
from paddle.distributed.parallel import Env, ParallelEnv, ParallelStrategy, prepare_context

__all__ = ["prepare_context", "ParallelEnv", "DataParallel"]
