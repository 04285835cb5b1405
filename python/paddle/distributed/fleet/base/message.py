"""A message of protobuf (2): named fields with types and defaults, and its text format, which other Paddles read."""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__: list[str] = []

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}
_TOKEN = re.compile(r"""\s*(?:\#[^\n]*\s*)*(?:(?P<name>[A-Za-z_]\w*)
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?f?)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[{}\[\]:,;<>]))""", re.X)


@dataclass(frozen=True)
class Field:
    """A field: `kind` is bool, int, float, str, a tuple of an enum's names (from 1 on) or a Schema."""

    name: str
    kind: Any
    default: Any = None
    repeated: bool = False


class Schema(dict):
    """The fields of a message, in the order of their numbers."""

    def __init__(self, name: str, *fields: Field) -> None:
        super().__init__((f.name, f) for f in fields)
        self.name = name


class Message:
    """Values of a schema's fields; what was never set has its default and is not written."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        field = self.schema[name]
        if name not in self._values:
            if isinstance(field.kind, Schema):
                self._values[name] = Message(field.kind)
            elif field.repeated:
                self._values[name] = []
            else:
                return field.default
        return self._values[name]

    def set(self, name: str, value: Any) -> None:
        """Sets a field; the elements of a repeated one are added. TypeError or ValueError for what it cannot hold."""
        field = self.schema[name]
        if field.repeated:
            if isinstance(value, str) or not hasattr(value, "__iter__"):
                raise TypeError(f"{self.schema.name}.{name} takes a list of {field.kind.__name__}, got {value!r}")
            self.get(name).extend([self._checked(field, v) for v in value])
        else:
            self._values[name] = self._checked(field, value)

    def _checked(self, field: Field, value: Any) -> Any:
        where = f"{self.schema.name}.{field.name}"
        if field.kind is bool and isinstance(value, bool | int | np.bool_ | np.integer) and value in (0, 1):
            return bool(value)
        if field.kind is int and isinstance(value, int | np.integer):
            if not -(2**31) <= value < 2**31:
                raise ValueError(f"{where} is an int32, got {value}")
            return int(value)
        if field.kind is float and isinstance(value, int | float | np.number):
            return float(np.float32(value))
        if field.kind is str and isinstance(value, str):
            return value
        if isinstance(field.kind, tuple) and value in field.kind:
            return value
        wanted = " or ".join(field.kind) if isinstance(field.kind, tuple) else field.kind.__name__
        raise TypeError(f"{where} takes {wanted}, got {value!r}")

    def as_dict(self) -> dict[str, Any]:
        return {name: self.get(name) for name in self.schema}

    # ------------------------------------------------------------------------------------------- text format

    def to_text(self, indent: str = "") -> str:
        """The fields that were set, a line each, as protobuf prints them."""
        lines = []
        for name, field in self.schema.items():
            value = self._values.get(name)
            if isinstance(value, Message):
                inner = value.to_text(indent + "  ")
                if inner:
                    lines.append(f"{indent}{name} {{\n{inner}{indent}}}\n")
                continue
            for one in value if field.repeated and value else [] if value is None or field.repeated else [value]:
                lines.append(f"{indent}{name}: {_printed(field, one)}\n")
        return "".join(lines)

    def merge_text(self, text: str) -> None:
        """Takes over the fields of a text. ValueError with the line for what is no such text."""
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
                self.get(field.name)._merge(tokens, next(tokens), "}" if token.text == "{" else ">")
                token = next(tokens)
            else:
                if token.text != ":":
                    raise token.error(f"expected ':' behind {name.text}, got {token.text!r}")
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
    return str(value)


def _parsed(field: Field, token: _Token) -> Any:
    text = token.text
    if field.kind is bool and text in ("true", "True", "t", "1", "false", "False", "f", "0"):
        return text in ("true", "True", "t", "1")
    if field.kind is int and token.kind == "number":
        return int(text)
    if field.kind is float and (token.kind == "number" or text in ("inf", "nan")):
        return float(text.rstrip("f") if token.kind == "number" else text)
    if field.kind is str and token.kind == "text":
        return re.sub(r"\\(.)", lambda m: _ESCAPES[m[1]], text[1:-1])
    if isinstance(field.kind, tuple) and (text in field.kind or token.kind == "number"):
        return text if text in field.kind else field.kind[int(text) - 1]
    raise ValueError(text)


def assign(message: Message, values: Mapping[str, Any], what: str) -> None:
    """Sets the fields that a dict names."""
    for name in values:
        assert name in message.schema, f"key:{name} not in {what}"
    for name, value in values.items():
        message.set(name, value)
