"""What sharding is made of: whose the parameters are, where they travel, and what a rank leaves out."""

from . import shard as shard
from . import utils as utils

__all__: list[str] = []
