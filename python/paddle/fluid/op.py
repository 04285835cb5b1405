"""fluid.op: Operator, which runs a single operator on the variables of a scope."""

from __future__ import annotations

import paddle._core as _core
from paddle._basics.op_proto import OpProtoHolder

__all__ = ["Operator", "get_all_op_protos"]


def get_all_op_protos() -> list:
    """The OpProtos of all operators."""
    return list(OpProtoHolder.instance().op_proto_map.values())


class Operator:
    """An operator with named variables: ``Operator("sgd", Param="w", Grad="g", ...)``.

    Args:
        type (str): the operator's type.
        **kwargs: a name or a list of names for each slot, a value for each attribute; other
            names are ignored.

    Raises:
        ValueError: if the operator does not exist.
    """

    def __init__(self, type: str, **kwargs) -> None:  # noqa: A002
        table = {op["type"]: op for op in _core.op_table()}
        if type not in table:
            raise ValueError(f'The operator: "{type}" is not registered.')
        op = table[type]
        self.desc = _core.OpDesc()
        self.desc.set_type(type)
        slots = {s["name"]: self.desc.set_input for s in op["inputs"]}
        slots.update({s["name"]: self.desc.set_output for s in op["outputs"]})
        attrs = {a["name"] for a in op["attrs"]}
        for name, value in kwargs.items():
            if name in slots:
                names = value if isinstance(value, (list, tuple)) else [value]
                slots[name](name, [str(n) for n in names])
            elif name in attrs:
                self.desc._set_attr(name, value)
            # Other names are ignored, as in 2.0.2.

    def run(self, scope, place) -> None:
        """Runs the operator on the variables of `scope`."""
        _core.run_op(self.desc, scope)

    def type(self) -> str:
        return self.desc.type()


class DynamicRecurrentOp:
    """A name that scripts of 1.x import; the operator does not exist, in Paddle either, and a call raises."""

    def __call__(self, *args, **kwargs):
        """Raises NotImplementedError."""
        raise NotImplementedError("there is no operator dynamic_recurrent; use fluid.layers.DynamicRNN")
