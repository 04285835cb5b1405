"""paddle.utils.cpp_extension: C++ operators for Paddle's core; every call raises NotImplementedError."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["CppExtension", "CUDAExtension", "load", "setup"]


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"paddle.utils.cpp_extension.{name}: operators in C++ are built against the headers and libraries of Paddle's "
        "own C++ core, which is not part of this package. Write the operator in Python, with paddle.static.py_func in "
        "static mode, or add it to the Rust core (docs/dev/add-an-op.md)"
    )


def setup(**attr: Any) -> NoReturn:
    """Raises NotImplementedError: there is no C++ core to build against."""
    _refuse("setup")


def CppExtension(sources: Any, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: N802 (Paddle's name)
    """Raises NotImplementedError: there is no C++ core to build against."""
    _refuse("CppExtension")


def CUDAExtension(sources: Any, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: N802 (Paddle's name)
    """Raises NotImplementedError: there is no C++ core to build against."""
    _refuse("CUDAExtension")


def load(
    name: str,
    sources: Any,
    extra_cxx_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: str | None = None,
    interpreter: str | None = None,
    verbose: bool = False,
) -> NoReturn:
    """Raises NotImplementedError: there is no C++ core to build against."""
    _refuse("load")


def get_build_directory(verbose: bool = False) -> NoReturn:
    """Raises NotImplementedError: nothing is built."""
    _refuse("get_build_directory")


def load_op_meta_info_and_register_op(lib_filename: str) -> NoReturn:
    """Raises NotImplementedError: there is no C++ core that could load the library."""
    _refuse("load_op_meta_info_and_register_op")


def parse_op_info(op_name: str) -> NoReturn:
    """Raises NotImplementedError: there are no such operators."""
    _refuse("parse_op_info")


class BuildExtension:
    """Raises NotImplementedError when instantiated: there is no C++ core to build against."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> NoReturn:
        """Raises NotImplementedError."""
        _refuse("BuildExtension.with_options")
