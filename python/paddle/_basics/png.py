"""Images as PNG files in memory."""

from __future__ import annotations

import struct
import zlib

from paddle._basics import numpy as np

__all__: list[str] = []

_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}


def encode(image: np.ndarray) -> bytes:
    """An array of bytes [height, width] or [height, width, channels] (1 to 4) as a PNG.

    Raises:
        ValueError: for another shape or type.

    Examples:
        >>> import numpy as np
        >>> from paddle._basics.png import encode
        >>> encode(np.zeros((2, 3), "uint8"))[1:4]
        b'PNG'
    """
    if image.ndim == 2:
        image = image[:, :, None]
    if image.ndim != 3 or image.shape[2] not in _COLOURS or image.dtype != np.uint8 or not image.size:
        raise ValueError(f"a PNG is made of uint8 [height, width, 1 to 4], got {image.dtype} {list(image.shape)}")
    height, width, channels = image.shape
    rows = np.zeros((height, 1 + width * channels), "uint8")  # each row begins with its filter: none
    rows[:, 1:] = image.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, parts))


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    kind, data = part
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def as_bytes(image: np.ndarray) -> np.ndarray:
    """Numbers as bytes: floats from [0, 1], or from the least to the greatest where some lie outside; bools 0, 255."""
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.bool_:
        return image.astype("uint8") * np.uint8(255)
    values = np.nan_to_num(np.asarray(image, "float64"))
    low, high = (values.min(), values.max()) if values.size else (0.0, 1.0)
    if np.issubdtype(image.dtype, np.integer) and low >= 0 and high <= 255:
        return values.astype("uint8")
    if low < 0 or high > 1:
        values = (values - low) / max(high - low, 1e-30)
    return (values * 255).round().astype("uint8")
