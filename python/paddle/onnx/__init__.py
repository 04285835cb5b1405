"""paddle.onnx: Programs and layers as ONNX models."""

from .export import export

__all__ = ["export"]
