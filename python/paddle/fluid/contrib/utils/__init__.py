"""fluid.contrib.utils: files on Hadoop."""

from . import hdfs_utils
from .hdfs_utils import *  # noqa: F403

__all__ = [*hdfs_utils.__all__]
