"""generate_layer_fn: a layer function for an operator with one output."""

from __future__ import annotations

import re

from paddle._basics.op_proto import OpProtoHolder
from paddle._programs.variable import Variable
from paddle.nn.layer_helper import LayerHelper

__all__ = ["generate_layer_fn"]

#: word boundaries in a slot's name
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])")


def _argument(slot: str) -> str:
    return _WORDS.sub("_", slot).lower()


def generate_layer_fn(op_type):
    """A layer function that appends an operator with one output.

    It takes the operator's inputs in order, or by name in snake case (`LogProbs` is `log_probs`), optionally the output
    variable, attributes by name, `name` and `act`.
    Source: python/paddle/fluid/layers/layer_function_generator.py of 2.0.2

    Args:
        op_type (str): the operator.

    Returns:
        function: it returns the output Variable.

    Raises:
        ValueError: if the operator does not exist, or has several outputs or a list of outputs.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.layers.layer_function_generator import generate_layer_fn
        >>> paddle.enable_static()
        >>> scale = generate_layer_fn("scale")
        >>> scale(fluid.data("x", [2, 3]), scale=10.0).shape
        (2, 3)
    """
    proto = OpProtoHolder.instance().get_op_proto(op_type)
    shown = [slot.name for slot in proto.outputs if not slot.intermediate]
    if len(shown) != 1 or any(slot.duplicable for slot in proto.outputs):
        raise ValueError(f"generate_layer_fn: operator {op_type} must have one output, got {proto.outputs}")

    def function(*args, **kwargs):
        helper, left = LayerHelper(op_type, name=kwargs.pop("name", None), act=kwargs.pop("act", None)), list(args)
        inputs = {}
        for slot in proto.inputs:
            value = kwargs.pop(_argument(slot.name), None)
            if value is None and left:
                value = left.pop(0)
            if value is not None:
                inputs[slot.name] = list(value) if isinstance(value, (list, tuple)) else [value]
        every = [v for values in inputs.values() for v in values]
        if left or not all(isinstance(v, Variable) for v in every):
            raise ValueError(f"{op_type} takes Variables as its inputs {proto.inputs}, got {args}")
        dtypes = list(dict.fromkeys(v.dtype for v in every))
        if len(dtypes) > 1:
            raise ValueError(f"{op_type}: the inputs must be of one data type, got {dtypes}")
        dtype = dtypes[0] if dtypes else kwargs.get("dtype") or "float32"
        out = kwargs.pop(_argument(shown[0]), None)
        out = out[0] if isinstance(out, (list, tuple)) else out
        # No variable is created for a given output: it might take its name.
        outputs = {
            slot.name: helper.create_variable_for_type_inference(dtype) if out is None or slot.name != shown[0] else out
            for slot in proto.outputs
        }
        helper.append_op(type=op_type, inputs=inputs, outputs=outputs, attrs=kwargs)
        return helper.append_activation(outputs[shown[0]])

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"Append the operator {op_type}; see :func:`generate_layer_fn`."
    return function
