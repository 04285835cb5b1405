"""fluid.contrib.utils: HDFS files, and models with distributed lookup tables."""

from . import hdfs_utils, lookup_table_utils
from .hdfs_utils import *  # noqa: F403
from .lookup_table_utils import *  # noqa: F403

__all__ = [*lookup_table_utils.__all__, *hdfs_utils.__all__]
