"""The parts of sharding: the partition of parameters, the inserted collectives, the pruned operators."""

from . import shard as shard
from . import utils as utils

__all__: list[str] = []
