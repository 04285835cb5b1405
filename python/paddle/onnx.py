"""paddle.onnx: export raises NotImplementedError."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export"]


def export(layer: Any, path: str, input_spec: Any = None, opset_version: int = 9, **configs: Any) -> NoReturn:
    """ONNX export is not supported: raises NotImplementedError.

    `paddle.static.save_inference_model`, or ``paddle.Model(layer, input_spec).save(path, training=False)``, writes
    Paddle's own format, which the package paddle2onnx converts.
    """
    raise NotImplementedError(
        "paddle.onnx.export is not supported: paddle2onnx, which real Paddle calls for it, requires Paddle's C++ core. "
        "Write an inference model (paddle.static.save_inference_model, or paddle.Model.save with training=False) and "
        "convert its files with the program paddle2onnx"
    )
