"""paddle.utils.cpp_extension.cpp_extension: upstream's module of the names of `paddle.utils.cpp_extension`."""

from __future__ import annotations

from . import BuildExtension, CppExtension, CUDAExtension, load, setup
from .extension_utils import CUDA_HOME

__all__ = ["BuildExtension", "CUDAExtension", "CUDA_HOME", "CppExtension", "load", "setup"]
