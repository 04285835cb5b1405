"""Graphs as messages of the package onnx."""

from __future__ import annotations

from typing import Any

from paddle import version

from .graph import ELEMENT_TYPES, Graph, Node

__all__ = ["ValueType", "model_of", "require_onnx"]

#: version of the file format for each version of the operator set, from 11 on
_IR_VERSIONS = {11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}


def require_onnx() -> Any:
    """The package onnx.

    Raises:
        ImportError: where it is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError("paddle.onnx.export requires the package onnx: pip install 'oar-paddle[onnx]'") from error
    return onnx


class ValueType:
    """Type of an input or output: element type, sizes (None: rank unknown; a str: named size), whether a sequence."""

    def __init__(self, dtype: Any, shape: list[int | str] | None = None, sequence: bool = False) -> None:
        self.dtype = dtype
        self.shape = shape
        self.sequence = sequence

    def message(self, name: str) -> Any:
        from onnx import helper

        number = ELEMENT_TYPES[self.dtype][0]
        if self.sequence:
            return helper.make_tensor_sequence_value_info(name, number, self.shape)
        return helper.make_tensor_value_info(name, number, self.shape)


def _node(node: Node) -> Any:
    from onnx import helper

    attrs = {k: _graph(v, k) if isinstance(v, Graph) else v for k, v in node.attrs.items() if v is not None}
    return helper.make_node(node.kind, node.inputs, node.outputs, name=node.name, **attrs)


def _graph(graph: Graph, name: str) -> Any:
    from onnx import helper

    inputs = [kind.message(value) for value, kind in graph.inputs]
    outputs = [kind.message(value) for value, kind in graph.outputs]
    return helper.make_graph([_node(node) for node in graph.nodes], name, inputs, outputs)


def model_of(graph: Graph, name: str) -> Any:
    """The ModelProto of a main graph, checked by the package onnx."""
    from onnx import helper, numpy_helper

    opset = graph.opset
    message = _graph(graph, name)
    read = graph.read()
    for key, array in graph.root.constants.items():
        if key in read:
            message.initializer.append(numpy_helper.from_array(array, key))
    model = helper.make_model(
        message,
        opset_imports=[helper.make_opsetid("", opset)],
        producer_name="oar",
        producer_version=version.full_version,
    )
    model.ir_version = _IR_VERSIONS[opset]
    return model
