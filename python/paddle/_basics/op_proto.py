"""The operator table as OpProto objects, with Paddle's field names."""

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
    """The definition of an operator: slots, attributes, and whether it has a gradient or is one.

    `layer` is the prefix of its outputs' names, `grad` the type of its gradient operator (None where a function makes
    the gradient).

    Args:
        row (dict): of `core.op_table()`.
    """

    __slots__ = (
        "type",
        "layer",
        "inputs",
        "outputs",
        "attrs",
        "attr_names",
        "comment",
        "grad",
        "has_grad",
        "is_gradient",
    )

    def __init__(self, row: dict) -> None:
        self.type = row["type"]
        self.layer = row["layer"]
        self.inputs = [_slot(slot) for slot in row["inputs"]]
        self.outputs = [_slot(slot) for slot in row["outputs"]]
        self.attrs = [AttrProto(attr["name"], attr["type"], attr["default"]) for attr in row["attrs"]]
        #: names in the table; without the attributes that every operator has
        self.attr_names = {a.name for a in self.attrs}
        for name, kind in (
            ("op_role", 0),
            ("op_role_var", 5),
            ("op_namescope", 2),
            ("op_callstack", 5),
            ("op_device", 2),
        ):
            if name not in self.attr_names:
                self.attrs.append(AttrProto(name, kind))
        self.comment = ""
        self.has_grad = row["grad_form"] != "none"
        self.grad = row["grad"]
        self.is_gradient = row["is_gradient"]

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
        """Add operators that were registered since; returns their names."""
        new = [row for row in core.op_table() if row["type"] not in self.op_proto_map]
        self.op_proto_map.update((row["type"], OpProto(row)) for row in new)
        return [row["type"] for row in new]

    @staticmethod
    def generated_op_attr_names() -> set[str]:
        return set(GENERATED_ATTRS)


def has_non_empty_grad_op_maker(type: str) -> bool:
    """Whether the operator `type` has a gradient."""
    proto = OpProtoHolder.instance().op_proto_map.get(type)
    return proto is not None and proto.has_grad


def is_gradient(type: str) -> bool:
    """Whether the operator `type` computes the gradient of another operator."""
    proto = OpProtoHolder.instance().op_proto_map.get(type)
    return proto is not None and proto.is_gradient
