"""File systems under their path of 2.0.2."""

from .file_systems import FS as FS
from .file_systems import ExecuteError as ExecuteError
from .file_systems import FSFileExistsError as FSFileExistsError
from .file_systems import FSFileNotExistsError as FSFileNotExistsError
from .file_systems import FSShellCmdAborted as FSShellCmdAborted
from .file_systems import FSTimeOut as FSTimeOut
from .file_systems import LocalFS
from .hdfs import HDFSClient

__all__ = ["LocalFS", "HDFSClient"]
