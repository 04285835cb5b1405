"""Passes over a graph after quantization-aware training: freezing, int8 weights, mobile operator names."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.flags import is_18
from paddle._basics.mode import _get_paddle_place
from paddle.static.ir_graph import IrNode

from .inserting import (
    Inserter,
    check_graph,
    check_scope_and_place,
    in_order,
    kind_of,
    load,
    persistable_names,
    remove_unused,
    store,
)
from .op_slots import _channelwise_quant_axis1_ops, _fake_dequant_op_list, _fake_quant_op_list, has_channels

__all__ = ["ConvertToInt8Pass", "QuantizationFreezePass", "TransformForMobilePass"]

_SUFFIXES = (".quantized.dequantized", ".quantized", ".dequantized", ".scale")


class QuantizationFreezePass:
    """Quantizes the weights in the scope, removes their quantization operators, and dequantizes the operators' results.

    Args:
        scope (Scope), place (Place): contains the weights; their device.
        weight_bits, activation_bits (int), weight_quantize_type (str): as for QuantizationTransformPass.
        quantizable_op_type (list of str): ignored: all quantized operators are frozen.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> from paddle.fluid.contrib.slim.quantization import QuantizationFreezePass, QuantizationTransformPass
        >>> paddle.enable_static()
        >>> program, startup = fluid.Program(), fluid.Program()
        >>> with fluid.program_guard(program, startup):
        ...     y = fluid.layers.fc(fluid.data("x", [None, 4]), 2, bias_attr=False)
        >>> place, scope = fluid.CPUPlace(), fluid.global_scope()
        >>> exe = fluid.Executor(place)
        >>> _ = exe.run(startup)
        >>> graph = fluid.framework.IrGraph(fluid.core.Graph(program.desc), for_test=True)
        >>> graph = QuantizationTransformPass(scope, place).apply(graph)
        >>> _ = exe.run(graph.to_program(), feed={"x": [[1.0, 2.0, 3.0, 4.0]]})
        >>> graph = QuantizationFreezePass(scope, place).apply(graph)
        >>> [op.type for op in graph.to_program().global_block().ops]
        ['fake_quantize_abs_max', 'mul', 'fake_dequantize_max_abs']
    """

    def __init__(
        self, scope, place, weight_bits=8, activation_bits=8, weight_quantize_type="abs_max", quantizable_op_type=None
    ) -> None:
        check_scope_and_place(scope, place)
        self._scope, self._place = scope, _get_paddle_place(place)
        self._weight_bits, self._activation_bits = weight_bits, activation_bits
        self._weight_quantize_type = weight_quantize_type

    def apply(self, graph):
        """Rewrites an inference IrGraph, and returns it.

        Raises:
            ValueError: for an operator with several outputs, or an input without quantization.
        """
        check_graph(graph)
        inserter = Inserter(graph, self._scope, self._place)
        persistable = persistable_names(graph)
        made_of = getattr(graph, "out_node_mapping_table", {})
        scales: dict[str, Any] = {}
        sources: dict[Any, Any] = {}
        for op in in_order(graph.all_op_nodes()):
            if op.name() in _fake_quant_op_list:
                read, scale = op.input("X")[0], op.output("OutScale")[0]
                name = made_of.get(read, read)
                if name in persistable:
                    scales[name] = self._freeze_weight(op, name, self._scale_of_weight(name, scale))
                    _bypass(graph, op, sources)
                else:
                    scales[name] = graph._find_node_by_name(op.outputs, scale)
        for op in in_order(graph.all_op_nodes()):
            if op.name() in _fake_dequant_op_list:
                _bypass(graph, op, sources)
        results: dict[Any, Any] = {}
        ops = in_order(graph.all_op_nodes())
        for op in ops:
            if kind_of(op.op()) == "qat_with_weight":
                out, scaled = self._scale_result(inserter, op, scales, sources, persistable)
                results[out.node] = scaled
        for op in ops:
            for var in op.inputs:
                if var.node in results:
                    graph.update_input_link(var, results[var.node], op)
        remove_unused(graph)
        graph.resolve_hazard()
        return graph

    def _scale_of_weight(self, name: str, scale: str) -> np.ndarray:
        """The scale of the last run, [1] or [channels]; with FLAGS_compat=1.8 that of the weight as it is."""
        found = load(self._scope, scale)
        if not is_18() or self._weight_quantize_type not in ("abs_max", "channel_wise_abs_max"):
            return found
        weight = np.abs(load(self._scope, name))
        return weight.max().reshape(1) if found.size == 1 else weight.reshape(len(weight), -1).max(1)

    def _freeze_weight(self, op: Any, name: str, scale: np.ndarray) -> float | np.ndarray:
        """Quantizes a weight in the scope; returns its scale, or the scales of its channels."""
        assert scale.ndim in (1, 2), f"the scale of {name} must have 1 or 2 dimensions, got {scale.ndim}"
        row = scale[0] if scale.ndim == 2 else scale
        weight, most = load(self._scope, name), (1 << (self._weight_bits - 1)) - 1
        found: Any = row
        if row.size == 1:
            found = row[0]
        else:
            readers = {n.name() for var in op.outputs for back in var.outputs for v in back.outputs for n in v.outputs}
            axis = int(bool(readers & set(_channelwise_quant_axis1_ops)))
            shape = [1] * weight.ndim
            shape[axis] = -1
            row = row.reshape(shape)
        levels = np.round(np.clip(weight, -row, row) / row * most)
        store(self._scope, self._place, name, levels.astype(weight.dtype))
        return found

    def _scale_result(self, inserter: Inserter, op: Any, scales: dict, sources: dict, persistable: set[str]) -> tuple:
        """Inserts dequantization after an operator; returns its output and the variable that replaces it."""
        graph = inserter.graph
        by_channel = self._weight_quantize_type == "channel_wise_abs_max" and has_channels(op.name())
        most, of_channels, of_activation = 1.0, None, None
        for var in op.inputs:
            name = var.name()
            if name not in op.input_arg_names():
                continue
            if var.node in sources:
                graph.update_input_link(var, sources[var.node], op)
            name = _original(name)
            if name not in scales:
                raise ValueError(f"QuantizationFreezePass: {op.name()} reads {name}, which no pass quantized")
            scale = scales[name]
            if name not in persistable:
                assert isinstance(scale, IrNode), f"the scale of {name} is not a variable"
                most, of_activation = most * _max_level(self._activation_bits), scale
            elif by_channel:
                assert np.ndim(scale) == 1, f"the weight {name} has no scale for each channel"
                of_channels = scale
            else:
                assert np.ndim(scale) == 0, f"the weight {name} has more than one scale"
                most *= _max_level(self._weight_bits) / scale
        if len(op.output_arg_names()) != 1:
            raise ValueError(f"QuantizationFreezePass: {op.name()} must have one output, got {op.output_arg_names()}")
        assert of_activation is not None, f"{op.name()} reads no activation"
        out = graph._find_node_by_name(op.outputs, op.output_arg_names()[0])
        scaled = inserter.like(f"{out.name()}.dequantized", out)
        if by_channel:
            weight_scale = inserter.persistable(unique_name.generate("channel_scale"), out.dtype(), of_channels)
            bits = {"quant_bits": [self._weight_bits, self._activation_bits]}
            slots = {"X": out, "Scales": [weight_scale, of_activation]}
            inserter.op("fake_channel_wise_dequantize_max_abs", bits, slots, {"Out": scaled})
        else:
            slots = {"X": out, "Scale": of_activation}
            inserter.op("fake_dequantize_max_abs", {"max_range": float(most)}, slots, {"Out": scaled})
        return out, scaled


class ConvertToInt8Pass:
    """Converts the weights of a frozen graph to int8, in variables with the suffix ".int8".

    Args:
        scope (Scope), place (Place): contains the weights; their device.
        quantizable_op_type (list of str): ignored.
    """

    def __init__(self, scope, place, quantizable_op_type=None) -> None:
        check_scope_and_place(scope, place)
        self._scope, self._place = scope, _get_paddle_place(place)

    def apply(self, graph):
        """Rewrites an IrGraph, and returns it."""
        check_graph(graph)
        persistable, made = persistable_names(graph), dict[str, Any]()
        for op in in_order(graph.all_op_nodes()):
            if kind_of(op.op()) != "qat_with_weight":
                continue
            for var in op.inputs:
                name = var.name()
                if name in persistable:
                    if name not in made:
                        new = f"{name}.int8"
                        made[name] = graph.create_persistable_node(new, var.type(), var.shape(), VarType.INT8)
                        store(self._scope, self._place, new, load(self._scope, name).astype(np.int8))
                    graph.update_input_link(var, made[name], op)
        remove_unused(graph)
        graph.resolve_hazard()
        return graph


class TransformForMobilePass:
    """Renames the operators of a frozen graph for paddle-mobile: quantize and dequantize.

    The result is for saving only: here these names are oneDNN's operators, and the Program does not run.
    """

    def apply(self, graph):
        """Rewrites an IrGraph, and returns it."""
        check_graph(graph)
        for op in in_order(graph.all_op_nodes()):
            for ops, kind in ((_fake_quant_op_list, "quantize"), (_fake_dequant_op_list, "dequantize")):
                if op.name() in ops:
                    op.set_type(kind)
                    new = graph.create_op_node_from_desc(op.op())
                    for before in op.inputs:
                        graph.link_to(before, new)
                    for after in op.outputs:
                        graph.link_to(new, after)
                    graph.safe_remove_nodes(op)
        graph.resolve_hazard()
        return graph


def _bypass(graph: Any, op: Any, sources: dict[Any, Any]) -> None:
    """Removes an operator; readers of its output read its input instead."""
    read = graph._find_node_by_name(op.inputs, op.input("X")[0])
    sources[graph._find_node_by_name(op.outputs, op.output("Out")[0]).node] = sources.get(read.node, read)
    graph.safe_remove_nodes(op)


def _original(name: str) -> str:
    suffix = next((s for s in _SUFFIXES if name.endswith(s)), "")
    return name[: len(name) - len(suffix)]


def _max_level(bits: int) -> int:
    return (1 << (bits - 1)) - 1
