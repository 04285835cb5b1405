"""Eager execution of an operator given by its name."""

from __future__ import annotations

import paddle._core as _core
from paddle import _ops

from .op_proto import OpProtoHolder

__all__: list[str] = []


def run_eager(op_type: str, inputs: dict, outputs: dict, attrs: dict, stop_gradient: bool = False) -> None:
    """Run `op_type` on tensors, writing to those in `outputs`: `Block.append_op` of dygraph mode."""
    proto = OpProtoHolder.instance().get_op_proto(op_type)
    known = {a.name for a in proto.attrs if not a.generated}
    args = []
    for slot in proto.inputs:
        value = inputs.get(slot.name)
        if isinstance(value, (list, tuple)) and not slot.duplicable:
            value = value[0] if value else None
        elif slot.duplicable and value is not None and not isinstance(value, (list, tuple)):
            value = [value]
        args.append(value)
    keywords = {k: v for k, v in attrs.items() if k in known and v is not None}
    for slot in proto.outputs:
        value = outputs.get(slot.name)
        if value is None or slot.name == "OutScope":  # run_program: each call has a new scope
            continue
        if isinstance(value, (list, tuple)) and not slot.duplicable:
            value = value[0]
        elif slot.duplicable and not isinstance(value, (list, tuple)):
            value = [value]
        keywords[slot.name] = value
    # Without recording, the outputs keep their stop_gradient.
    former = _core.set_grad_enabled(False) if stop_gradient else None
    try:
        getattr(_ops, op_type)(*args, **keywords)
    finally:
        if former:
            _core.set_grad_enabled(True)
