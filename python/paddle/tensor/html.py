"""Tensors in notebooks: shape, type, values, small images as pictures."""

from __future__ import annotations

import base64
import html
from typing import Any

from paddle._basics import numpy as np
from paddle._basics import png
from paddle._basics.to_string import to_string

__all__: list[str] = []

_LEAST, _MOST = 8, 1024


def image_of(array: np.ndarray) -> np.ndarray | None:
    """The array as an image [height, width, channels]; None for one that is none.

    Images are [height, width] of bytes, and [height, width, channels] or [channels, height, width] with 1, 3 or 4
    channels, of bytes or floats, from 8 x 8 to 1024 x 1024.
    """
    fits = array.dtype == np.uint8 or array.ndim == 3 and array.dtype.kind == "f"
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    channels = array.shape[2] if array.ndim == 3 else 1
    if not fits or array.ndim not in (2, 3) or channels not in (1, 3, 4):
        return None
    return array if all(_LEAST <= n <= _MOST for n in array.shape[:2]) else None


def tensor_html(tensor: Any) -> str:
    """The text for a notebook (`_repr_html_`)."""
    if not tensor._is_initialized():
        return "<code>Tensor(Not initialized)</code>"
    head = f"Tensor {list(tensor.shape)} {tensor._dtype_name}, {tensor.place}, stop_gradient={tensor.stop_gradient}"
    picture = image_of(tensor.numpy()) if tensor._dtype_name != "bfloat16" else None
    if picture is not None:
        data = base64.b64encode(png.encode(np.ascontiguousarray(png.as_bytes(picture)))).decode()
        shown = f'<img src="data:image/png;base64,{data}" style="image-rendering:pixelated;min-width:64px">'
    else:
        _, _, values = to_string(tensor).partition(",\n")
        lines = values.removesuffix(")").split("\n")
        shown = f"<pre>{html.escape(chr(10).join(line.removeprefix(' ' * 7) for line in lines))}</pre>"
    return f"<div><code>{html.escape(head)}</code><br>{shown}</div>"
