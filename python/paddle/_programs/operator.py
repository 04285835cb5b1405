"""Operator: an operator of a Block."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Any

import paddle._core as core
from paddle._basics import mode
from paddle._basics.dtypes import VarType
from paddle._basics.names import OP_CALLSTACK, OP_DEVICE, OP_NAMESCOPE, OP_ROLE, OP_ROLE_VAR, OpRole
from paddle._basics.op_proto import OpProtoHolder

from .name_scope import _full_name_scope
from .text import op_gaps, op_text, whole
from .variable import Variable, isinstance_of

__all__: list[str] = []

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
#: packages whose frames the operator's callstack leaves out
_MACHINERY = tuple(os.path.join(_PACKAGE, name) for name in ("_basics", "_programs", "_dispatch", "nn/layer_"))
#: frames of the translation of dygraph code, left out everywhere
_TRANSLATION = os.path.join(_PACKAGE, "jit", "")
_BACKWARD = int(OpRole.Backward)
_OPTIMIZE = int(OpRole.Optimize)


def _callstack() -> list[str]:
    """The Python call stack, outermost frame first, two strings a frame as in tracebacks."""
    import linecache

    frames = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.f_back  # frames below `append_op` are not the user's
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_TRANSLATION):
            frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    out: list[str] = []
    names: list[str] = []
    for code, line in reversed(frames):
        name = code.co_name
        if name.startswith("_jst_") and names:
            # a part of the function that the translation made: the function's own frame
            name = names.pop()
            del out[-2:]
        names.append(name)
        out.append(f'  File "{code.co_filename}", line {line}, in {name}')
        out.append("    " + linecache.getline(code.co_filename, line).strip())
    return out


def created_at(op: Any) -> str:
    """The user's line that has made an operator, as the end of a text for errors; empty if it is unknown."""
    stack = op.attr(OP_CALLSTACK) if op.has_attr(OP_CALLSTACK) else []
    for frame, line in zip(stack[-2::-2], stack[::-2], strict=False):
        if f'"{_PACKAGE}{os.sep}' not in frame and "<frozen" not in frame:
            return f"; created at {frame.strip()}: {line.strip()}"
    return ""


def _argument_name(arg: Any, slot: str, op_type: str) -> str:
    if isinstance(arg, str):
        return arg
    if isinstance(arg, bytes):
        return arg.decode()
    if isinstance_of(arg, Variable) or isinstance(arg, core.Tensor):
        return arg.name
    raise TypeError(f"operator {op_type}: '{slot}' must be a str, bytes or Variable, got {arg!r:.200}")


def _is_block(value: Any) -> bool:
    """Whether an attribute's value is a Block; tested by its desc, because block.py imports this module."""
    return isinstance(getattr(value, "desc", None), core.BlockDesc)


class Operator:
    """An operator of a Block: its type, the names in its slots, its attributes.

    Made by :meth:`Block.append_op` and its like.

    Args:
        block (Block): the owner.
        desc (core.OpDesc): the description to fill in, or a complete one.
        type (str): the operator type.
        inputs, outputs (dict): slot name to Variable, name, or list of these.
        attrs (dict): attribute name to value; None leaves the default.

    Raises:
        ValueError: without a type, for an unknown one, for a missing output slot, or several arguments where one goes.
        AssertionError: for a missing input slot.
        TypeError: for an argument that is no Variable and no name.
    """

    OP_WITHOUT_KERNEL_SET = frozenset(
        "feed fetch recurrent go rnn_memory_helper_grad conditional_block while send recv listen_and_serv "
        "fl_listen_and_serv ncclInit select checkpoint_notify gen_nccl_id c_gen_nccl_id c_comm_init c_sync_calc_stream "
        "c_sync_comm_stream queue_generator dequeue enqueue heter_listen_and_serv".split()
    )

    def __init__(self, block, desc, type=None, inputs=None, outputs=None, attrs=None):  # noqa: A002
        if not mode.in_static_mode():
            if type is None:
                raise ValueError("`type` to initialized an Operator can not be None.")
            self._type = type
            self.attrs = attrs or {}
            return
        self.block = block
        self.desc = desc
        if desc.type():
            return  # an existing operator
        if type is None:
            raise ValueError("`type` to initialized an Operator can not be None.")
        if attrs is not None and not isinstance(attrs, dict):
            raise TypeError("Operator: attrs must be a dict")
        proto = OpProtoHolder.instance().get_op_proto(type)
        desc.set_type(type)
        attrs = self._with_generated_attrs(dict(attrs or {}), type)
        if inputs is not None:
            self._set_inputs(proto, inputs)
        if outputs is not None:
            self._set_outputs(proto, outputs)
        for attr in proto.attrs:
            value = attrs.get(attr.name)
            if value is not None:
                self._update_desc_attr(attr.name, value)
        desc.check_attrs()
        if self._has_kernel(type):
            desc.infer_var_type(block.desc)
            desc.infer_shape(block.desc)

    def _with_generated_attrs(self, attrs: dict, type: str) -> dict:  # noqa: A002
        program = self.block.program
        if OP_ROLE not in attrs:
            attrs[OP_ROLE] = int(program._op_role)
        role_var = attrs.get(OP_ROLE_VAR) or program._op_role_var
        # Paddle writes these two even when they are empty
        attrs[OP_ROLE_VAR] = list(role_var)
        attrs.setdefault(OP_DEVICE, "")
        attrs[OP_CALLSTACK] = _callstack()
        attrs[OP_NAMESCOPE] = _full_name_scope()
        if mode._current_device is not None:
            if self._has_kernel(type):
                attrs[OP_DEVICE] = mode._current_device
            else:
                warnings.warn(f"The Op({type}) is not support to set device.", stacklevel=4)
            if attrs.get("force_cpu"):
                warnings.warn(
                    f"The Attr(force_cpu) of Op({type}) is deprecated; 'device_guard' has priority over it.",
                    stacklevel=4,
                )
        return attrs

    def _set_inputs(self, proto, inputs: dict) -> None:
        for slot in proto.inputs:
            args = inputs.get(slot.name)
            if args is None:
                assert slot.dispensable, f"Input {slot.name} not found"
                self.desc.set_input(slot.name, [])
                continue
            if not isinstance(args, (list, tuple)):
                args = [args]
            if not slot.duplicable and len(args) > 1:
                raise ValueError(f"input {slot.name} takes one Variable, got {len(args)}")
            self.desc.set_input(slot.name, [_argument_name(a, slot.name, proto.type) for a in args])

    def _set_outputs(self, proto, outputs: dict) -> None:
        for slot in proto.outputs:
            if slot.name not in outputs and not slot.dispensable:
                wanted = [s.name for s in proto.outputs if not s.dispensable]
                raise ValueError(
                    f'Incorrect setting for output(s) of operator "{proto.type}": {slot.name} is missing, '
                    f"should set: {wanted}."
                )
        for slot in proto.outputs:
            args = outputs.get(slot.name)
            if args is None:
                continue
            if not isinstance(args, (list, tuple)):
                args = [args]
            if not slot.duplicable and len(args) > 1:
                raise ValueError(f"output {slot.name} takes one Variable, got {len(args)}")
            names = []
            for arg in args:
                name = _argument_name(arg, slot.name, proto.type)
                (self.block.var(name) if isinstance(arg, (str, bytes)) else arg).op = self
                names.append(name)
            self.desc.set_output(slot.name, names)

    def _has_kernel(self, op_type: str) -> bool:
        return op_type not in self.OP_WITHOUT_KERNEL_SET

    # ------------------------------------------------------------------ text

    def to_string(self, throw_on_error) -> str:
        """The operator as protobuf text."""
        return whole(self.desc, op_text, op_gaps, throw_on_error)

    def _to_readable_code(self, skip_op_callstack=True) -> str:
        assert isinstance(skip_op_callstack, bool), (
            f"to_string: skip_op_callstack must be a bool, got {type(skip_op_callstack)}"
        )

        def slots(names, args):
            return "{" + ", ".join(f"{n}={args(n)}" for n in names) + "}"

        parts = []
        for name in sorted(self.attr_names):
            if skip_op_callstack and name == OP_CALLSTACK:
                continue
            kind = self.desc.attr_type(name)
            if kind == core.AttrType.BLOCK:
                parts.append(f"{name} = block[{self._block_attr_id(name)}]")
            elif kind == core.AttrType.BLOCKS:
                parts.append(f"{name} = blocks{self._blocks_attr_ids(name)}")
            else:
                parts.append(f"{name} = {self.desc.attr(name)}")
        inputs = slots(self.input_names, self.input)
        call = f"{self.type}(inputs={inputs}, {', '.join(parts)})"
        outputs = slots(self.output_names, self.output)
        return call if outputs == "{}" else f"{outputs} = {call}"

    def __str__(self) -> str:
        return self._to_readable_code()

    __repr__ = __str__

    # ------------------------------------------------------------------ slots

    @property
    def type(self) -> str:
        """The operator type."""
        desc = self.__dict__.get("desc")
        return self._type if desc is None else desc.type()

    def input(self, name) -> list[str]:
        """The names in the input slot `name`."""
        return self.desc.input(name)

    def output(self, name) -> list[str]:
        """The names in the output slot `name`."""
        return self.desc.output(name)

    def _rename_input(self, old_name, new_name) -> None:
        self.desc._rename_input(old_name, new_name)

    def _rename_output(self, old_name, new_name) -> None:
        self.desc._rename_output(old_name, new_name)

    @property
    def input_names(self) -> list[str]:
        """The input slots."""
        return self.desc.input_names()

    @property
    def output_names(self) -> list[str]:
        """The output slots."""
        return self.desc.output_names()

    @property
    def input_arg_names(self) -> list[str]:
        """The names in all input slots."""
        return self.desc.input_arg_names()

    @property
    def output_arg_names(self) -> list[str]:
        """The names in all output slots."""
        return self.desc.output_arg_names()

    @property
    def idx(self) -> int:
        """Its position in the block."""
        for i, op in enumerate(self.block.ops):
            if op is self:
                return i
        raise ValueError("The operator is not in its block.")

    # ------------------------------------------------------------------ attributes

    def has_attr(self, name) -> bool:
        """Whether the attribute `name` is set."""
        return self.desc.has_attr(name)

    def attr_type(self, name):
        """The AttrType of the attribute `name`."""
        return self.desc.attr_type(name)

    @property
    def attr_names(self) -> list[str]:
        """The names of the attributes that are set."""
        return self.desc.attr_names()

    def attr(self, name):
        """The value of the attribute `name`."""
        return self.desc.attr(name)

    def _set_attr(self, name, val) -> None:
        self._update_desc_attr(name, val)

    def _remove_attr(self, name) -> None:
        self.desc.remove_attr(name)

    def _update_desc_attr(self, name, val) -> None:
        if _is_block(val):
            self.desc.set_block_attr(name, val.desc)
        elif isinstance(val, list) and val and all(_is_block(v) for v in val):
            self.desc.set_blocks_attr(name, [v.desc for v in val])
        elif isinstance(val, (core.BlockDesc, core.ProgramDesc)):
            self.desc.set_serialized_attr(name, val.serialize_to_string())
        else:
            # element types are stored as numbers
            self.desc._set_attr(name, int(val) if isinstance(val, VarType) else val)

    def _block_attr_id(self, name) -> int:
        return self.desc._block_attr_id(name)

    def _blocks_attr_ids(self, name) -> list[int]:
        return self.desc._blocks_attr_ids(name)

    def _block_attr(self, name):
        return self.block.program.blocks[self._block_attr_id(name)]

    def _blocks_attr(self, name) -> list:
        return [self.block.program.blocks[i] for i in self._blocks_attr_ids(name)]

    def all_attrs(self) -> dict[str, Any]:
        """All attributes that are set, blocks as Block objects."""
        out = {}
        for name in self.attr_names:
            kind = self.desc.attr_type(name)
            if kind == core.AttrType.BLOCK:
                out[name] = self._block_attr(name)
            elif kind == core.AttrType.BLOCKS:
                out[name] = self._blocks_attr(name)
            else:
                out[name] = self.attr(name)
        return out

    def _has_role(self, bit: int) -> bool:
        return self.desc.has_attr(OP_ROLE) and bool(int(self.desc.attr(OP_ROLE)) & bit)

    def _is_optimize_op(self) -> bool:
        return self._has_role(_OPTIMIZE)

    def _is_backward_op(self) -> bool:
        return self._has_role(_BACKWARD)
