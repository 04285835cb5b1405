"""``python -m paddle.onnx``: the operators that paddle.onnx.export translates, one a line."""

from . import rules  # noqa: F401
from .registry import RULES

print("\n".join(sorted(RULES)))
