"""The file systems of a job, where 1.x has them."""

from paddle.distributed.fleet.utils.fs import FS as FS
from paddle.distributed.fleet.utils.fs import ExecuteError as ExecuteError
from paddle.distributed.fleet.utils.fs import FSFileExistsError as FSFileExistsError
from paddle.distributed.fleet.utils.fs import FSFileNotExistsError as FSFileNotExistsError
from paddle.distributed.fleet.utils.fs import FSShellCmdAborted as FSShellCmdAborted
from paddle.distributed.fleet.utils.fs import FSTimeOut as FSTimeOut
from paddle.distributed.fleet.utils.fs import LocalFS

__all__ = ["LocalFS"]
