"""Parts of the encoding of protobuf messages: varints, and fields that hold bytes, strings or messages."""

from __future__ import annotations

__all__ = ["bytes_field", "varint"]


def varint(value: int) -> bytes:
    """An integer as a varint; a negative one as its 64 bits.

    Examples:
        >>> varint(300).hex()
        'ac02'
    """
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def bytes_field(number: int, content: bytes) -> bytes:
    """A field that holds bytes, a string or a message: tag, length and content.

    Examples:
        >>> bytes_field(1, b"ab").hex()
        '0a026162'
    """
    return varint(number << 3 | 2) + varint(len(content)) + content
