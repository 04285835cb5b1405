"""Protobuf (2) messages in Python: typed fields with defaults, the text format and the wire format."""

from __future__ import annotations

import copy
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .wire import bytes_field, varint

__all__: list[str] = []

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}
_TOKEN = re.compile(
    # possessive: a text that ends in a banner of # is read once, not in every division of it
    r"""(?:\s++|\#[^\n]*+)*+(?:(?P<name>[A-Za-z_]\w*)
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?f?)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[{}\[\]:,;<>]))""",
    re.X,
)


class Int64(int):
    """Kind of an int64 field."""


class UInt64(int):
    """Kind of a uint64 field."""


class UInt32(int):
    """Kind of a uint32 field."""


class Double(float):
    """Kind of a double field."""


_RANGES = {int: (-(2**31), 2**31), Int64: (-(2**63), 2**63), UInt32: (0, 2**32), UInt64: (0, 2**64)}


@dataclass(frozen=True)
class Field:
    """A field: `kind` is bool, int (32 bits), Int64, UInt32, UInt64, float (single precision), Double, str,
    bytes (a message that is not parsed), a tuple of an enum's names or a Schema.

    `number` is the field number in the wire format; `first` the number of an enum's first name.
    """

    name: str
    kind: Any
    default: Any = None
    repeated: bool = False
    number: int = 0
    first: int = 1


class Schema(dict):
    """The fields of a message, in the order of their numbers."""

    def __init__(self, name: str, *fields: Field) -> None:
        super().__init__((f.name, f) for f in fields)
        self.name = name


class Repeated(list):
    """The elements of a repeated field; each is checked when it is added."""

    def __init__(self, message: Message, field: Field) -> None:
        super().__init__()
        self._message, self._field = message, field

    def append(self, value: Any) -> None:
        """Adds an element."""
        super().append(self._message._checked(self._field, value))

    def extend(self, values: Iterable[Any]) -> None:
        """Adds all elements, or none if one is invalid."""
        super().extend([self._message._checked(self._field, v) for v in values])

    def add(self) -> Message:
        """Adds an empty message and returns it."""
        super().append(Message(self._field.kind))
        return self[-1]


class Message:
    """The values of a schema's fields, as attributes; a field that was not set has its default and is not written."""

    schema: Schema
    _values: dict[str, Any]

    def __init__(self, schema: Schema) -> None:
        self.__dict__.update(schema=schema, _values={})

    def __getattr__(self, name: str) -> Any:
        if name in ("schema", "_values"):  # made without __init__, by copy or pickle
            raise AttributeError(f"this {type(self).__name__} has no {name}")
        if name.startswith("__") or name not in self.schema:
            raise AttributeError(f"{self.schema.name} has no field {name!r}")
        return self.get(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Message:
        made = memo[id(self)] = Message(self.schema)
        for name, value in self._values.items():
            if isinstance(value, Repeated):
                # The elements are checked; the Repeated belongs to this message.
                list.extend(made.get(name), (copy.deepcopy(one, memo) for one in value))
            else:
                made._values[name] = copy.deepcopy(value, memo)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.schema.get(name)
        if field is None or field.repeated or isinstance(field.kind, Schema):
            what = "has no field" if field is None else "cannot be given another message or list for"
            raise AttributeError(f"{self.schema.name} {what} {name!r}")
        self.set(name, value)

    def __str__(self) -> str:
        return self.to_text()

    def get(self, name: str) -> Any:
        field = self.schema[name]
        if name not in self._values:
            if field.repeated:
                self._values[name] = Repeated(self, field)
            elif isinstance(field.kind, Schema):
                self._values[name] = Message(field.kind)
            else:
                return field.default
        return self._values[name]

    def set(self, name: str, value: Any) -> None:
        """Sets a field; for a repeated one, adds elements. TypeError or ValueError for an invalid value."""
        field = self.schema[name]
        if field.repeated:
            if isinstance(value, str) or not hasattr(value, "__iter__"):
                raise TypeError(f"{self.schema.name}.{name} takes a list of {field.kind.__name__}, got {value!r}")
            self.get(name).extend(value)
        else:
            self._values[name] = self._checked(field, value)

    def _checked(self, field: Field, value: Any) -> Any:
        where = f"{self.schema.name}.{field.name}"
        if field.kind is bool and isinstance(value, bool | int | np.bool_ | np.integer) and value in (0, 1):
            return bool(value)
        if field.kind in _RANGES and isinstance(value, int | np.integer):
            least, end = _RANGES[field.kind]
            if not least <= value < end:
                raise ValueError(f"{where} is {least} or more and below {end}, got {value}")
            return int(value)
        if field.kind is float and isinstance(value, int | float | np.number):
            return float(np.float32(value))
        if field.kind is Double and isinstance(value, int | float | np.number):
            return float(value)
        if field.kind in (str, bytes) and isinstance(value, field.kind):
            return value
        if isinstance(field.kind, tuple) and value in field.kind:
            return value
        if isinstance(field.kind, Schema) and isinstance(value, Message) and value.schema is field.kind:
            return value
        if isinstance(field.kind, Schema):
            raise TypeError(f"{where} takes a message {field.kind.name}, got {value!r}")
        wanted = " or ".join(field.kind) if isinstance(field.kind, tuple) else field.kind.__name__
        raise TypeError(f"{where} takes {wanted}, got {value!r}")

    def HasField(self, name: str) -> bool:  # noqa: N802 (protobuf's name)
        """Whether a field was set; for a field that is a message, whether one of its fields was."""
        value = self._values.get(name)
        return any(value._set(f) for f in value.schema.values()) if isinstance(value, Message) else value is not None

    def CopyFrom(self, other: Message) -> None:  # noqa: N802 (protobuf's name)
        """Takes the fields of another message of the same schema. TypeError for another schema."""
        if not isinstance(other, Message) or other.schema is not self.schema:
            raise TypeError(f"CopyFrom takes a message {self.schema.name}, got {other!r:.200}")
        self.__dict__["_values"] = copy.deepcopy(other)._values

    def as_dict(self) -> dict[str, Any]:
        return {name: self.get(name) for name in self.schema}

    # ------------------------------------------------------------------------------------------- text format

    def to_text(self, indent: str = "") -> str:
        """The fields that were set, in protobuf's text format."""
        lines = []
        for name, field in self.schema.items():
            for one in self._set(field):
                if isinstance(one, Message):
                    inner = one.to_text(indent + "  ")
                    if inner or field.repeated:
                        lines.append(f"{indent}{name} {{\n{inner}{indent}}}\n")
                else:
                    lines.append(f"{indent}{name}: {_printed(field, one)}\n")
        return "".join(lines)

    def _set(self, field: Field) -> list[Any]:
        """The values of a field that was set, as a list."""
        value = self._values.get(field.name)
        return [] if value is None else list(value) if field.repeated else [value]

    def SerializeToString(self) -> bytes:  # noqa: N802 (protobuf's name)
        """The bytes of the fields that were set."""
        out = bytearray()
        for field in self.schema.values():
            for one in self._set(field):
                out += _wire(field, one)
        return bytes(out)

    def merge_text(self, text: str) -> None:
        """Merges the fields of a text. ValueError, with the line, for invalid text."""
        tokens = _tokens(text)
        self._merge(tokens, next(tokens), "")

    def _merge(self, tokens: Iterator[_Token], token: _Token, end: str) -> None:
        while token.text != end:
            if token.kind != "name":
                raise token.error(f"expected the name of a field of {self.schema.name}, got {token.text!r}")
            field = self.schema.get(token.text)
            if field is None:
                raise token.error(f"{self.schema.name} has no field {token.text!r}")
            name, token = token, next(tokens)
            if isinstance(field.kind, Schema):
                if token.text == ":":
                    token = next(tokens)
                if token.text not in "{<" or not token.text:
                    raise token.error(f"{name.text} is a message, expected '{{', got {token.text!r}")
                inner = self.get(field.name).add() if field.repeated else self.get(field.name)
                inner._merge(tokens, next(tokens), "}" if token.text == "{" else ">")
                token = next(tokens)
            else:
                if token.text != ":":
                    raise token.error(f"expected ':' after {name.text}, got {token.text!r}")
                token = next(tokens)
                if token.text == "[" and field.repeated:
                    token = next(tokens)
                    while token.text != "]":
                        self._store(field, token)
                        token = next(tokens)
                        if token.text == ",":
                            token = next(tokens)
                else:
                    self._store(field, token)
                token = next(tokens)
            if token.text in (",", ";"):
                token = next(tokens)

    def _store(self, field: Field, token: _Token) -> None:
        try:
            value = _parsed(field, token)
            self.set(field.name, [value] if field.repeated else value)
        except (TypeError, ValueError, KeyError) as e:
            if isinstance(e, _TextError):
                raise
            raise token.error(f"{field.name} cannot be {token.text!r}") from None


class _TextError(ValueError):
    pass


@dataclass
class _Token:
    kind: str
    text: str
    line: int

    def error(self, what: str) -> ValueError:
        return _TextError(f"line {self.line}: {what if self.text else what + ' (the text ends)'}")


def _tokens(text: str) -> Iterator[_Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            rest = text[at:].lstrip()
            if not rest or rest.startswith("#"):
                break
            raise _Token("", rest[0], text.count("\n", 0, len(text) - len(rest)) + 1).error(f"unexpected {rest[:20]!r}")
        kind = str(found.lastgroup)
        yield _Token(kind, found[kind], text.count("\n", 0, found.start(kind)) + 1)
        at = found.end()
    while True:
        yield _Token("", "", text.count("\n") + 1)


def _printed(field: Field, value: Any) -> str:
    if field.kind is bool:
        return "true" if value else "false"
    if field.kind is str:
        escaped = {text: f"\\{letter}" for letter, text in _ESCAPES.items() if letter != "'"}
        return '"' + "".join(escaped.get(c, c) for c in value) + '"'
    if field.kind is float:
        return str(np.float32(value)) if value != int(value) or abs(value) > 1e15 else f"{value:.1f}"
    if field.kind is Double:
        return repr(value)
    return str(value)


def _wire(field: Field, value: Any) -> bytes:
    """A field in the wire format; an empty message is written only in a repeated field."""
    if isinstance(value, Message | str | bytes):
        inner = value.SerializeToString() if isinstance(value, Message) else value
        inner = inner.encode() if isinstance(inner, str) else inner
        if not inner and isinstance(value, Message) and not field.repeated:
            return b""
        return bytes_field(field.number, inner)
    if field.kind is float:
        return varint(field.number << 3 | 5) + struct.pack("<f", value)
    if field.kind is Double:
        return varint(field.number << 3 | 1) + struct.pack("<d", value)
    number = field.kind.index(value) + field.first if isinstance(field.kind, tuple) else int(value)
    return varint(field.number << 3) + varint(number)


def _parsed(field: Field, token: _Token) -> Any:
    text = token.text
    if field.kind is bool and text in ("true", "True", "t", "1", "false", "False", "f", "0"):
        return text in ("true", "True", "t", "1")
    if field.kind in _RANGES and token.kind == "number":
        return int(text)
    if field.kind in (float, Double) and (token.kind == "number" or text in ("inf", "nan")):
        return float(text.rstrip("f") if token.kind == "number" else text)
    if field.kind is str and token.kind == "text":
        return re.sub(r"\\(.)", lambda m: _ESCAPES[m[1]], text[1:-1])
    if isinstance(field.kind, tuple) and (text in field.kind or token.kind == "number"):
        return text if text in field.kind else field.kind[int(text) - field.first]
    raise ValueError(text)


def assign(message: Message, values: Mapping[str, Any], what: str) -> None:
    """Sets fields from a dict."""
    for name in values:
        assert name in message.schema, f"key:{name} not in {what}"
    for name, value in values.items():
        message.set(name, value)
