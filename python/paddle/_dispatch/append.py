"""The static mode of the operator builtins: creates the output variables and appends the operator.

In static mode ``paddle._ops.<op>(...)`` calls :func:`append` and returns the outputs as an eager call does: one
Variable, or a tuple in slot order; a list for a duplicable slot, None for an absent slot.
"""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle import _ops
from paddle._basics import autocast, mode, unique_name
from paddle._basics.checks import INTS
from paddle._basics.dtypes import VarType
from paddle._basics.op_proto import OpProto, OpProtoHolder
from paddle._programs import building, guards
from paddle._programs.operator import Operator

from .input_checks import FUNCTIONS, check_inputs

__all__: list[str] = []

#: the `name` argument of the API function that is appending operators
_layer_name: str | None = None


class layer_name:  # noqa: N801 (reads as a guard)
    """``with layer_name(name):`` outputs created inside are named ``<name>.tmp_<n>``; None changes nothing."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def __enter__(self) -> None:
        global _layer_name
        self.former = _layer_name
        if self.name:
            _layer_name = self.name

    def __exit__(self, *exc) -> None:
        global _layer_name
        _layer_name = self.former


def named(name: str | None, builtin, *args, **kwargs):
    """`builtin(*args, **kwargs)`; in static mode `name` is the prefix of its outputs' names."""
    if name is None:
        return builtin(*args, **kwargs)
    if not isinstance(name, str):
        raise TypeError(f"name must be a str or None, got {type(name)}")
    with layer_name(name):
        return builtin(*args, **kwargs)


def checked(name: str | None, builtin, *args, **kwargs):
    """`named`; in static mode TypeError for inputs of other types than the row of `input_checks.FUNCTIONS` accepts.

    Args:
        name (str, optional): prefix of the outputs' names.
        builtin: the operator.
        *args: its inputs in slot order; keywords are attributes.
    """
    if mode.in_static_mode():
        op_type = builtin.__name__
        slots = OpProtoHolder.instance().get_op_proto(op_type).inputs
        check_inputs(op_type, slots, {s.name: v for s, v in zip(slots, args, strict=False)}, FUNCTIONS[op_type])
    return named(name, builtin, *args, **kwargs)


def activated(out, act: str | None, name: str | None = None, layer: str = "activation"):
    """The activation `act` of `out`, or `out` for None; without `name` its outputs are named after `layer`."""
    if act is None:
        return out
    if not isinstance(act, str):
        raise TypeError(f"{act} should be a str")
    if mode.in_static_mode():
        OpProtoHolder.instance().get_op_proto(act)  # ValueError for an unknown operator
    return named(name or unique_name.generate(layer), getattr(_ops, act), out)


def _output_counts(block, op_type: str, inputs: dict, attrs: dict) -> dict[str, int]:
    """The number of variables of each duplicable output, by the operator's shape rule, as in an eager call."""
    return Operator(block, _core.OpDesc(), op_type, inputs, None, attrs).desc._output_counts(block.desc)


def _autocast(op_type: str, proto: OpProto, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs as `paddle.amp.auto_cast` casts them in dygraph mode."""
    listed = {
        slot.name: inputs[slot.name] if isinstance(inputs[slot.name], (list, tuple)) else [inputs[slot.name]]
        for slot in proto.inputs
        if inputs.get(slot.name) is not None
    }
    halves = (VarType.FP32, autocast.LOW_TYPES[autocast.low() or "float16"])
    made = dict(inputs)
    wanted = autocast.targets(op_type, {name: [getattr(v, "dtype", None) for v in vs] for name, vs in listed.items()})
    for name, dtype in wanted.items():
        values = [
            _ops.cast(v, in_dtype=int(v.dtype), out_dtype=int(dtype))
            if getattr(v, "dtype", None) in halves and v.dtype != dtype
            else v
            for v in listed[name]
        ]
        made[name] = values if isinstance(inputs[name], (list, tuple)) else values[0]
    return made


def append(op_type: str, inputs: dict[str, Any], attrs: dict[str, Any], outputs: dict[str, Any]):
    """Append `op_type` to the current block of the main program.

    Args:
        op_type (str): the operator.
        inputs (dict): slot to Variable, or list of these; an absent slot is left out or None.
        attrs (dict): attributes that differ from the defaults.
        outputs (dict): slot to an existing Variable (or list), or to the number of variables of a duplicable slot.

    Returns:
        dict: slot to its Variable or list, without the dispensable slots that `outputs` does not name.
    """
    block = guards.default_main_program().current_block()
    proto = OpProtoHolder.instance().get_op_proto(op_type)
    if building.current is not None:
        inputs = building.current.variables(inputs)
        if autocast.low() is not None:
            inputs = _autocast(op_type, proto, inputs)
    check_inputs(op_type, proto.inputs, inputs)
    key = (_layer_name or unique_name.generate(proto.layer)) + ".tmp"
    counts: dict[str, int] = {}
    slots: dict[str, Any] = {}
    for slot in proto.outputs:
        given = outputs.get(slot.name)
        if given is None and slot.dispensable:
            continue
        if given is None and slot.duplicable:
            counts = counts or _output_counts(block, op_type, inputs, attrs)
            given = counts[slot.name]
        if given is None or (isinstance(given, INTS) and not isinstance(given, bool)):
            made = [block.create_var(name=unique_name.generate(key)) for _ in range(given if slot.duplicable else 1)]  # type: ignore[arg-type]
            given = made if slot.duplicable else made[0]
        slots[slot.name] = given
    block.append_op(type=op_type, inputs=inputs, outputs=slots, attrs=attrs)
    return slots


_core.set_append_hook(append)
