"""paddle.utils.cpp_extension.extension_utils: the toolchain that packages look for before they build operators.

The functions that would build or load an operator raise NotImplementedError, as those of the package do.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from typing import Any, NoReturn

from . import _refuse, get_build_directory, load_op_meta_info_and_register_op, parse_op_info

__all__ = ["find_cuda_home", "get_build_directory", "load_op_meta_info_and_register_op", "parse_op_info"]

logger = logging.getLogger("utils.cpp_extension")
OS_NAME = sys.platform
IS_WINDOWS = OS_NAME.startswith("win")


def find_cuda_home() -> str | None:
    """The folder of the CUDA toolkit: of the variables CUDA_HOME and CUDA_PATH, of `nvcc`, or the usual one; or None.

    Examples:
        >>> from paddle.utils.cpp_extension.extension_utils import find_cuda_home
        >>> home = find_cuda_home()
    """
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home is None:
        nvcc = shutil.which("nvcc")
        home = os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else "/usr/local/cuda"
    return home if os.path.exists(home) else None


CUDA_HOME = find_cuda_home()


def _jit_compile(file_path: str, interpreter: str | None = None, verbose: bool = False) -> NoReturn:
    """Raises NotImplementedError: there is no C++ core to build against."""
    _refuse("extension_utils._jit_compile")


def _import_module_from_library(module_name: str, build_directory: str, verbose: bool = False) -> NoReturn:
    """Raises NotImplementedError: there is no C++ core that could load the library."""
    _refuse("extension_utils._import_module_from_library")


def _write_setup_file(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: nothing is built."""
    _refuse("extension_utils._write_setup_file")
