"""Programs as text: protobuf's text format of descs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle._core as core

__all__: list[str] = []

_ATTR_FIELDS = {
    "INT": "i",
    "FLOAT": "f",
    "STRING": "s",
    "INTS": "ints",
    "FLOATS": "floats",
    "STRINGS": "strings",
    "BOOL": "b",
    "BOOLEAN": "b",
    "BOOLS": "bools",
    "BOOLEANS": "bools",
    "BLOCK": "block_idx",
    "BLOCKS": "blocks_idx",
    "LONG": "l",
    "LONGS": "longs",
}


#: the field of a VarType that has the tensor's description
_FIELDS = {"LOD_TENSOR": "lod_tensor", "LOD_TENSOR_ARRAY": "tensor_array", "SELECTED_ROWS": "selected_rows"}


def indent(text: str, by: str = "  ") -> str:
    """`text` with `by` before each line."""
    return "".join(f"{by}{line}\n" for line in text.splitlines())


def message(name: str, body: str) -> str:
    """A nested message of protobuf's text format."""
    return f"{name} {{\n{indent(body)}}}\n"


def quoted(value: str) -> str:
    """A string as protobuf's text format writes it."""
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}
    out = []
    for byte in value.encode():
        ch = chr(byte)
        out.append(escapes.get(ch) or (ch if 32 <= byte < 127 else f"\\{byte:03o}"))
    return '"' + "".join(out) + '"'


def _name(enum_value) -> str:
    return str(getattr(enum_value, "name", enum_value)).rpartition(".")[2]


def var_text(desc) -> str:
    """A VarDesc in protobuf's text format."""
    kind = desc.type()
    body = f"type: {_name(kind)}\n"
    parts = desc._set_parts()
    if parts:
        tensor = f"data_type: {_name(desc.dtype())}\n" if "data_type" in parts else ""
        tensor += "".join(f"dims: {d}\n" for d in desc.shape())
        if kind != core.VarDesc.VarType.SELECTED_ROWS:
            tensor = message("tensor", tensor) if "tensor" in parts else ""
            tensor += f"lod_level: {desc.lod_level()}\n" if "lod_level" in parts else ""
        body += message(_FIELDS[_name(kind)], tensor)
    text = f"name: {quoted(desc.name())}\n" + message("type", body)
    if desc.persistable():
        text += "persistable: true\n"
    if desc.need_check_feed():
        text += "need_check_feed: true\n"
    return text


def var_gaps(desc) -> list[str]:
    """The required fields of a VarDesc that are not set."""
    parts, kind = desc._set_parts(), _name(desc.type())
    if not parts or "data_type" in parts:
        return []
    inner = [] if kind == "SELECTED_ROWS" else ["tensor"]
    return [".".join(["type", _FIELDS[kind], *inner, *(["data_type"] if "tensor" in parts else [])])]


def op_gaps(desc) -> list[str]:
    """The required fields of an OpDesc that are not set."""
    return [] if desc.type() else ["type"]


def block_gaps(desc) -> list[str]:
    """The required fields of a BlockDesc that are not set."""
    variables, ops = desc.all_vars(), [desc.op(i) for i in range(desc.op_size())]
    found = [f"vars[{i}].{gap}" for i, var in enumerate(variables) for gap in var_gaps(var)]
    return found + [f"ops[{i}].{gap}" for i, op in enumerate(ops) for gap in op_gaps(op)]


def program_gaps(desc) -> list[str]:
    """The required fields of a ProgramDesc that are not set."""
    return [f"blocks[{i}].{gap}" for i in range(desc.num_blocks()) for gap in block_gaps(desc.block(i))]


def whole(desc, text: Callable[[Any], str], gaps: Callable[[Any], list[str]], throw_on_error: bool) -> str:
    """`text`; with `throw_on_error` ValueError when a required field is not set."""
    written = text(desc)
    missing = gaps(desc) if throw_on_error else []
    if missing:
        raise ValueError(f"{missing} are not initialized.\nThe message is {written}:\n")
    return written


def _scalar(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)


def op_text(desc) -> str:
    """An OpDesc in protobuf's text format."""
    text = ""
    for field, names, args in (
        ("inputs", desc.input_names(), desc.input),
        ("outputs", desc.output_names(), desc.output),
    ):
        for slot in names:
            body = f"parameter: {quoted(slot)}\n" + "".join(f"arguments: {quoted(a)}\n" for a in args(slot))
            text += message(field, body)
    text += f"type: {quoted(desc.type())}\n" if desc.type() else ""
    for name in desc.attr_names():
        kind = _name(desc.attr_type(name))
        if kind == "BLOCK":
            value = desc._block_attr_id(name)
        elif kind == "BLOCKS":
            value = desc._blocks_attr_ids(name)
        else:
            value = desc.attr(name)
        field = _ATTR_FIELDS[kind]
        values = value if isinstance(value, (list, tuple)) else [value]
        body = f"name: {quoted(name)}\ntype: {kind}\n" + "".join(f"{field}: {_scalar(v)}\n" for v in values)
        text += message("attrs", body)
    return text


def block_text(desc) -> str:
    """A BlockDesc in protobuf's text format."""
    text = f"idx: {desc.id}\nparent_idx: {desc.parent}\n"
    text += "".join(message("vars", var_text(v)) for v in desc.all_vars())
    text += "".join(message("ops", op_text(desc.op(i))) for i in range(desc.op_size()))
    forward = desc.get_forward_block_idx()
    return text if forward < 0 else text + f"forward_block_idx: {forward}\n"


def program_text(desc) -> str:
    """A ProgramDesc in protobuf's text format."""
    text = "".join(message("blocks", block_text(desc.block(i))) for i in range(desc.num_blocks()))
    return text + message("version", f"version: {desc._version()}\n")
