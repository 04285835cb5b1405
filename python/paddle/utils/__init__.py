"""paddle.utils: deprecation marks, downloads, DLPack, profiler and other helpers."""

from paddle._basics.missing import getter as _getter
from paddle._basics.version import require_version

from . import dlpack, profiler, unique_name
from .deprecated import deprecated
from .lazy_import import try_import
from .op_library import load_op_library
from .profiler import Profiler, ProfilerOptions, get_profiler

__all__ = [
    "deprecated",
    "dlpack",
    "download",  # noqa: F822 (imported on first access)
    "draw",  # noqa: F822 (imported on first access)
    "load_op_library",
    "profiler",
    "require_version",
    "run_check",  # noqa: F822 (imported on first access)
    "try_import",
    "unique_name",
    "Profiler",
    "ProfilerOptions",
    "get_profiler",
]

__getattr__ = _getter(
    __name__,
    later={
        "confusion_matrix": "paddle.hapi.history:confusion_matrix",
        "cpp_extension": "paddle.utils.cpp_extension",
        "download": "paddle.utils.download",
        "draw": "paddle.utils.drawing:draw",
        "OpLastCheckpointChecker": "paddle.utils.op_version",
        "run_check": "paddle.static.install_check",
    },
)
