"""Names and constants that Programs share with Paddle's files: variable suffixes, op roles, op attributes."""

from __future__ import annotations

import enum
import os

__all__: list[str] = []

EMPTY_VAR_NAME = "@EMPTY@"
TEMP_VAR_NAME = "@TEMP@"
GRAD_VAR_SUFFIX = "@GRAD"
#: precedes block and number in the name of an earlier version of a variable
VERSION_MARK = "@VERSION@"
ZERO_VAR_SUFFIX = "@ZERO"
CONTROL_DEP_VAR_PREFIX = "__control_var"

OP_ROLE = "op_role"
OP_ROLE_VAR = "op_role_var"
OP_NAMESCOPE = "op_namescope"
OP_CALLSTACK = "op_callstack"
OP_DEVICE = "op_device"

#: attributes that every operator has in addition to its own
GENERATED_ATTRS = frozenset((OP_ROLE, OP_ROLE_VAR, OP_NAMESCOPE, OP_CALLSTACK, OP_DEVICE))


class OpRole(enum.IntEnum):
    """The role of an operator in a Program; roles are bits that may be combined."""

    Forward = 0x0000
    Backward = 0x0001
    Optimize = 0x0002
    RPC = 0x0004
    Dist = 0x0008
    LRSched = 0x0010
    Loss = 0x0100
    NotSpecified = 0x1000


class op_proto_and_checker_maker:  # noqa: N801 (the name that Paddle's core exports)
    """The names of the attributes that every operator has, as Paddle's core exports them."""

    OpRole = OpRole

    @staticmethod
    def kOpRoleAttrName() -> str:
        return OP_ROLE

    @staticmethod
    def kOpRoleVarAttrName() -> str:
        return OP_ROLE_VAR

    @staticmethod
    def kOpNameScopeAttrName() -> str:
        return OP_NAMESCOPE

    @staticmethod
    def kOpCreationCallstackAttrName() -> str:
        return OP_CALLSTACK

    @staticmethod
    def kOpDeviceAttrName() -> str:
        return OP_DEVICE


def generate_control_dev_var_name() -> str:
    """A name for a control variable: their prefix and a random number."""
    return f"{CONTROL_DEP_VAR_PREFIX}@{int.from_bytes(os.urandom(7)) / 2**56}"


def grad_var_name(var_name: str) -> str:
    """The name of the gradient of the variable `var_name`: ``"x"`` gives ``"x@GRAD"``."""
    return var_name + GRAD_VAR_SUFFIX


def strip_grad_suffix(name: str) -> str:
    """The forward variable's name: the part before the first ``@GRAD``, without ``@RENAME`` parts."""
    return name.partition(GRAD_VAR_SUFFIX)[0]
