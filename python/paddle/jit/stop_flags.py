"""stop_gradient of variables in the bytes of a Program: field 6 of VarDesc, which Paddle 2.3 and later define.

Paddle 2.0.2 skips the field. ProgramDesc keeps it as an unknown field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from paddle._basics.wire import bytes_field

__all__: list[str] = []

_BLOCKS, _VARS, _NAME, _STOP = 1, 3, 1, 6
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_STOPPED = bytes([_STOP << 3 | _VARINT, 1])


def with_flags(program: bytes, names: Set[str]) -> bytes:
    """The bytes of a Program in which the variables of these names stop gradients."""
    if not names:
        return program
    return _rewritten(program, _BLOCKS, lambda block: _rewritten(block, _VARS, lambda var: _flagged(var, names)))


def flags(program: bytes) -> list[set[str]]:
    """For each block of a Program the names of the variables that stop gradients."""
    found = []
    for number, block, _ in _fields(program):
        if number == _BLOCKS:
            found.append({_name(var) for n, var, _ in _fields(block) if n == _VARS and _stops(var)})
    return found


def _flagged(var: bytes, names: Set[str]) -> bytes:
    return var + _STOPPED if _name(var) in names and not _stops(var) else var


def _name(var: bytes) -> str:
    return next((bytes(content).decode() for number, content, _ in _fields(var) if number == _NAME), "")


def _stops(var: bytes) -> bool:
    found = [content for number, content, _ in _fields(var) if number == _STOP]
    return bool(found) and any(found[-1])


def _rewritten(message: bytes, wanted: int, function: Callable[[bytes], bytes]) -> bytes:
    """The message with `function(content)` in its fields of the number `wanted`."""
    out = bytearray()
    for number, content, whole in _fields(message):
        if number == wanted:
            out += bytes_field(number, function(content))
        else:
            out += whole
    return bytes(out)


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """For each field of a message: its number, its content, and its bytes with tag and length."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = _read(message, at)
        kind, start = tag & 7, at
        if kind == _VARINT:
            _, at = _read(message, at)
        elif kind == _BYTES:
            size, start = _read(message, at)
            at = start + size
        else:
            at += {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        yield tag >> 3, message[start:at], message[begin:at]


def _read(message: bytes, at: int) -> tuple[int, int]:
    """A varint and the position after it."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, at
