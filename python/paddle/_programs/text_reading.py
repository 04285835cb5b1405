"""A parser of Programs in protobuf's text format: output of `text.py`, and Paddle's .pbtxt files."""

from __future__ import annotations

import re
import struct
from typing import Any

from paddle._basics.wire import bytes_field, varint

__all__: list[str] = []

_ATTR_TYPES = dict(
    INT=0,
    FLOAT=1,
    STRING=2,
    INTS=3,
    FLOATS=4,
    STRINGS=5,
    BOOLEAN=6,
    BOOL=6,
    BOOLEANS=7,
    BOOLS=7,
    BLOCK=8,
    LONG=9,
    BLOCKS=10,
    LONGS=11,
    FLOAT64S=12,
)
_VAR_TYPES = dict(
    BOOL=0,
    INT16=1,
    INT32=2,
    INT64=3,
    FP16=4,
    FP32=5,
    FP64=6,
    LOD_TENSOR=7,
    SELECTED_ROWS=8,
    FEED_MINIBATCH=9,
    FETCH_LIST=10,
    STEP_SCOPES=11,
    LOD_RANK_TABLE=12,
    LOD_TENSOR_ARRAY=13,
    PLACE_LIST=14,
    READER=15,
    RAW=17,
    TUPLE=18,
    SIZE_T=19,
    UINT8=20,
    INT8=21,
    BF16=22,
    COMPLEX64=23,
    COMPLEX128=24,
)
_TENSOR = {"data_type": (1, _VAR_TYPES), "dims": (2, int)}
_LOD_TENSOR = {"tensor": (1, _TENSOR), "lod_level": (2, int)}
_VAR_TYPE = {
    "type": (1, _VAR_TYPES),
    "selected_rows": (2, _TENSOR),
    "lod_tensor": (3, _LOD_TENSOR),
    "tensor_array": (4, _LOD_TENSOR),
    "reader": (5, {"lod_tensor": (1, _LOD_TENSOR)}),
    "tuple": (7, {"element_type": (1, _VAR_TYPES)}),
}
_ATTR = {
    "name": (1, str),
    "type": (2, _ATTR_TYPES),
    "i": (3, int),
    "f": (4, "<f"),
    "s": (5, str),
    "ints": (6, int),
    "floats": (7, "<f"),
    "strings": (8, str),
    "b": (10, bool),
    "bools": (11, bool),
    "block_idx": (12, int),
    "l": (13, int),
    "blocks_idx": (14, int),
    "longs": (15, int),
    "float64s": (16, "<d"),
}
_SLOT = {"parameter": (1, str), "arguments": (2, str)}
_OP = {"inputs": (1, _SLOT), "outputs": (2, _SLOT), "type": (3, str), "attrs": (4, _ATTR), "is_target": (5, bool)}
_VAR = {"name": (1, str), "type": (2, _VAR_TYPE), "persistable": (3, bool), "need_check_feed": (4, bool)}
_BLOCK = {
    "idx": (1, int),
    "parent_idx": (2, int),
    "vars": (3, _VAR),
    "ops": (4, _OP),
    "forward_block_idx": (5, int),
}
_VERSION = {"version": (1, int)}
_PAIR = {"op_name": (1, str), "op_version": (2, _VERSION)}
#: field -> (field number, type: a message, the names of an enumeration, a kind of scalar)
_PROGRAM = {"blocks": (1, _BLOCK), "version": (4, _VERSION), "op_version_map": (5, {"pair": (1, _PAIR)})}

_TOKEN = re.compile(r"""(?:\s++|\#[^\n]*+)*+(?:("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|([\w.+-]+)|([{}<>:;,\[\]]))""")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.S)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1].isdigit():
        return bytes([int(code, 8) & 255])
    if code[:1] == b"x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    return _ESCAPES.get(code, code)


def _tokens(text: str) -> list[str]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            if re.fullmatch(r"(?:\s++|#[^\n]*+)*+", text[at:]):
                break
            line = text.count("\n", 0, at) + 1
            raise ValueError(f"a Program's text: line {line}: {text[at : at + 20]!r} can not be read")
        found.append(match[match.lastindex or 0])
        at = match.end()
    return found


class _Reader:
    """Turns tokens into the bytes of a message."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise ValueError("a Program's text ends in the middle of a message")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, token: str) -> bool:
        there = self._at < len(self._tokens) and self._tokens[self._at] == token
        self._at += there
        return there

    def message(self, fields: dict[str, Any], until: str | None) -> bytes:
        out = b""
        while not (self._take(until) if until else self._at == len(self._tokens)):
            name = self._next()
            if name not in fields:
                raise ValueError(f"a Program's text: there is no field {name!r} here, only {', '.join(fields)}")
            number, kind = fields[name]
            self._take(":")
            if self._take("["):
                while not self._take("]"):
                    out += self._field(name, number, kind)
                    self._take(",")
            else:
                out += self._field(name, number, kind)
            _ = self._take(";") or self._take(",")
        return out

    def _field(self, name: str, number: int, kind: Any) -> bytes:
        token = self._next()
        if token in ("{", "<"):
            if not isinstance(kind, dict) or kind in (_ATTR_TYPES, _VAR_TYPES):
                raise ValueError(f"a Program's text: {name} is no message")
            body = self.message(kind, "}" if token == "{" else ">")
            return bytes_field(number, body)
        try:
            return self._scalar(number, kind, token)
        except (ValueError, KeyError, OverflowError, struct.error):
            raise ValueError(f"a Program's text: {token!r} is no value of {name}") from None

    def _scalar(self, number: int, kind: Any, token: str) -> bytes:
        if kind is str:
            value = b""
            parts = [token]
            while self._at < len(self._tokens) and self._tokens[self._at][0] in "\"'":
                parts.append(self._next())
            for part in parts:
                if part[0] not in "\"'":
                    raise ValueError
                value += _ESCAPE.sub(_unescaped, part[1:-1].encode())
            return varint(number << 3 | 2) + varint(len(value)) + value
        if isinstance(kind, str):
            bits = 5 if kind == "<f" else 1
            return varint(number << 3 | bits) + struct.pack(kind, float(token))
        if kind is bool:
            value_of = {"true": 1, "false": 0, "1": 1, "0": 0, "True": 1, "False": 0}[token]
        elif kind is int:
            value_of = int(token, 0)
        else:
            value_of = int(token) if token.isdigit() else kind[token]
        if not -(1 << 63) <= value_of < 1 << 63:
            raise OverflowError
        return varint(number << 3) + varint(value_of)


def program_bytes(text: str) -> bytes:
    """The bytes of the ProgramDesc that a text in protobuf's format describes.

    Raises:
        ValueError: for invalid text.
    """
    return _Reader(_tokens(text)).message(_PROGRAM, None)
