"""The operator table as Python sees it: OpProto objects with Paddle's field names."""

from __future__ import annotations

from typing import Any

import paddle._core as core

from .names import GENERATED_ATTRS

__all__: list[str] = []


class VarProto:
    """One slot of an operator."""

    __slots__ = ("name", "duplicable", "dispensable", "intermediate", "extra", "comment")

    def __init__(self, name: str, duplicable: bool, dispensable: bool, intermediate: bool) -> None:
        self.name = name
        self.duplicable = duplicable
        self.dispensable = dispensable
        self.intermediate = intermediate
        self.extra = False
        self.comment = ""

    def __repr__(self) -> str:
        flags = [f for f in ("duplicable", "dispensable", "intermediate") if getattr(self, f)]
        return f"{self.name}({', '.join(flags)})" if flags else self.name


class AttrProto:
    """One attribute of an operator: its name, its type as an AttrType number, its default."""

    __slots__ = ("name", "type", "default", "generated", "extra", "comment")

    def __init__(self, name: str, type: int, default: Any = None) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.generated = name in GENERATED_ATTRS
        self.extra = False
        self.comment = ""

    def __repr__(self) -> str:
        return f"{self.name}={self.default!r}"


def _slot(row: dict) -> VarProto:
    return VarProto(row["name"], row["duplicable"], row["dispensable"], row["intermediate"])


class OpProto:
    """What an operator takes and gives."""

    __slots__ = ("type", "inputs", "outputs", "attrs", "comment", "has_grad")

    def __init__(self, type: str, inputs, outputs, attrs, has_grad: bool) -> None:
        self.type = type
        self.inputs = [_slot(row) for row in inputs]
        self.outputs = [_slot(row) for row in outputs]
        self.attrs = [AttrProto(row["name"], row["type"], row["default"]) for row in attrs]
        known = {a.name for a in self.attrs}
        for name, kind in (
            ("op_role", 0),
            ("op_role_var", 5),
            ("op_namescope", 2),
            ("op_callstack", 5),
            ("op_device", 2),
        ):
            if name not in known:
                self.attrs.append(AttrProto(name, kind))
        self.comment = ""
        self.has_grad = has_grad

    def __repr__(self) -> str:
        return f"{self.type}(inputs={self.inputs}, outputs={self.outputs}, attrs={self.attrs})"


def get_all_op_protos() -> list[OpProto]:
    """One OpProto for every operator of the table."""
    return list(OpProtoHolder.instance().op_proto_map.values())


class OpProtoHolder:
    """All operators by type; use :meth:`instance`."""

    _instance: OpProtoHolder | None = None

    @classmethod
    def instance(cls) -> OpProtoHolder:
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def __init__(self) -> None:
        assert self.__class__._instance is None, "OpProtoHolder: there is one, which instance() returns"
        self.op_proto_map: dict[str, OpProto] = {}
        self.update_op_proto()

    def get_op_proto(self, type: str) -> OpProto:
        try:
            return self.op_proto_map[type]
        except KeyError:
            raise ValueError(f'Operator "{type}" has not been registered.') from None

    def update_op_proto(self) -> list[str]:
        """Take up operators registered since; returns their names."""
        new = []
        for row in core.op_table():
            kind = row["type"]
            if kind not in self.op_proto_map:
                self.op_proto_map[kind] = OpProto(
                    kind, row["inputs"], row["outputs"], row["attrs"], row["grad_form"] != "none"
                )
                new.append(kind)
        return new

    @staticmethod
    def generated_op_attr_names() -> set[str]:
        return set(GENERATED_ATTRS)


def has_non_empty_grad_op_maker(type: str) -> bool:
    """Whether the operator `type` has a gradient."""
    proto = OpProtoHolder.instance().op_proto_map.get(type)
    return proto is not None and proto.has_grad
