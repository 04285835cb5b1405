"""paddle.utils: helpers beside the operators."""

from . import dlpack

__all__ = ["dlpack"]
