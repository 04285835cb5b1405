"""Passes that insert quantization into a graph for training, and measurement of operators' outputs."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.mode import _get_paddle_place
from paddle._basics.op_proto import OpProtoHolder

from .freezing import ConvertToInt8Pass, QuantizationFreezePass, TransformForMobilePass
from .inserted_functions import insert_function
from .inserting import (
    Inserter,
    check_graph,
    check_kinds,
    in_order,
    is_skipped,
    kind_of,
    load,
    persistable_names,
    reads_no_persistable,
)
from .op_slots import (
    _channelwise_quant_axis1_ops,
    _fake_dequant_op_list,
    _fake_quant_op_list,
    _get_input_name_index,
    _get_op_input_var_names,
    _get_op_output_var_names,
    _get_output_name_index,
    _op_real_in_out_name,
    _out_scale_op_list,
    has_channels,
)

__all__ = [
    "QuantizationTransformPass",
    "QuantizationFreezePass",
    "ConvertToInt8Pass",
    "TransformForMobilePass",
    "OutScaleForTrainingPass",
    "OutScaleForInferencePass",
    "AddQuantDequantPass",
]

# Imported from here by other tools.
_IMPORTED = (_fake_dequant_op_list, _fake_quant_op_list, _get_input_name_index, _op_real_in_out_name)

_FLOATS = (VarType.FP32, VarType.FP64)
_KINDS = ("abs_max", "channel_wise_abs_max", "range_abs_max", "moving_average_abs_max")


class QuantizationTransformPass:
    """Quantizes and dequantizes the inputs of operators with weights.

    Gradients pass through unchanged (straight-through estimator).

    Args:
        scope (Scope), place (Place): of the variables that the pass adds.
        weight_bits, activation_bits (int): bit widths of weights and of other inputs.
        activation_quantize_type (str): how the scale is computed: from the largest magnitude of the batch ("abs_max"),
            of the last `window_size` batches ("range_abs_max"), or as a moving average ("moving_average_abs_max").
        weight_quantize_type (str): the same, or "channel_wise_abs_max".
        window_size (int), moving_rate (float): see above; the decay of the moving average.
        skip_pattern (str|list of str): operators whose name scope contains it are skipped.
        quantizable_op_type (list of str): of conv2d, depthwise_conv2d, conv2d_transpose, mul and matmul.
        weight_quantize_func, act_quantize_func (callable): quantizes and dequantizes instead of the operators.
        weight_preprocess_func, act_preprocess_func (callable): applied before quantization.
        optimizer_func (callable): returns the optimizer of the parameters of those functions; needed in training.
        executor (Executor): initializes these parameters.

    Raises:
        ValueError: for an unknown type.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> from paddle.fluid.contrib.slim.quantization import QuantizationTransformPass
        >>> paddle.enable_static()
        >>> program = fluid.Program()
        >>> with fluid.program_guard(program, fluid.Program()):
        ...     y = fluid.layers.fc(fluid.data("x", [None, 4]), 2, bias_attr=False)
        >>> graph = fluid.framework.IrGraph(fluid.core.Graph(program.desc), for_test=True)
        >>> graph = QuantizationTransformPass(fluid.global_scope(), fluid.CPUPlace()).apply(graph)
        >>> [op.name().replace("fake_", "") for op in graph.topology_sort()]
        ['quantize_abs_max', 'dequantize_max_abs', 'quantize_abs_max', 'dequantize_max_abs', 'mul']
    """

    _supported_quantizable_op_type = ["conv2d", "depthwise_conv2d", "conv2d_transpose", "mul", "matmul"]

    def __init__(
        self,
        scope=None,
        place=None,
        weight_bits=8,
        activation_bits=8,
        activation_quantize_type="abs_max",
        weight_quantize_type="abs_max",
        window_size=10000,
        moving_rate=0.9,
        skip_pattern=["skip_quant"],  # noqa: B006 (Paddle's default)
        quantizable_op_type=["conv2d", "depthwise_conv2d", "mul"],  # noqa: B006
        weight_quantize_func=None,
        act_quantize_func=None,
        weight_preprocess_func=None,
        act_preprocess_func=None,
        optimizer_func=None,
        executor=None,
    ) -> None:
        check_kinds(activation_quantize_type, weight_quantize_type, _KINDS)
        for op in quantizable_op_type:
            assert op in self._supported_quantizable_op_type, f"{op} is not supported for quantization."
        self._scope, self._place = scope, _get_paddle_place(place)
        self._weight = (weight_preprocess_func, weight_quantize_func, weight_quantize_type, weight_bits)
        self._activation = (act_preprocess_func, act_quantize_func, activation_quantize_type, activation_bits)
        self._window_size, self._moving_rate = window_size, moving_rate
        self._skip_pattern = skip_pattern
        self._quantizable_ops = quantizable_op_type
        self._optimizer, self._exe = optimizer_func, executor
        self._global_step: Any = None

    def apply(self, graph):
        """Rewrites an IrGraph, and returns it."""
        check_graph(graph)
        inserter = Inserter(graph, self._scope, self._place)
        if not graph.is_test() and "range_abs_max" in (self._weight[2], self._activation[2]):
            self._global_step = self._count_steps(inserter)
        ops = in_order(graph.all_op_nodes())
        forward = [op for op in ops if op.name() in self._quantizable_ops]
        backward = [op for op in ops if op.name().removesuffix("_grad") in self._quantizable_ops and op not in forward]
        for op in (*forward, *backward):
            if is_skipped(op.op(), self._skip_pattern):
                op.set_attr("skip_quant", True)
        #: result of a user-defined function -> its input, for freezing
        graph.out_node_mapping_table = {}
        rounded: dict[str, Any] = {}
        by_function: set[str] = set()
        for op in forward:
            if not self._is_skipped(graph, op):
                self._round_inputs(inserter, op, rounded, by_function)
        for op in backward:
            for var in op.inputs:
                if var.name() in op.input_arg_names() and var.name() in rounded:
                    graph.update_input_link(var, rounded[var.name()], op)
        graph.resolve_hazard()
        return graph

    def _is_skipped(self, graph: Any, op: Any) -> bool:
        desc = op.op()
        if desc.has_attr("skip_quant") and desc.attr("skip_quant"):
            return True
        # products of two activations are quantized by AddQuantDequantPass
        products = op.name() in ("mul", "matmul") and reads_no_persistable(graph, op)
        return products or kind_of(desc) == "qat_without_weight"

    def _round_inputs(self, inserter: Inserter, op: Any, rounded: dict[str, Any], by_function: set[str]) -> None:
        graph = inserter.graph
        op.set_attr("quantization_type", "qat_with_weight")
        persistable = persistable_names(graph)
        for var in op.inputs:
            name = var.name()
            if name not in op.input_arg_names() or name in by_function:
                continue
            if name not in rounded:
                preprocess, quantize, kind, bits = self._weight if name in persistable else self._activation
                if preprocess is not None:
                    var = self._insert_func(graph, preprocess, var, op)
                if quantize is not None:
                    self._insert_func(graph, quantize, var, op)
                    by_function.add(name)
                    continue
                # a preprocessed weight is quantized as an activation
                bits = bits if var.name() in persistable or name not in persistable else self._activation[3]
                rounded[name] = self._round(inserter, var, name, kind, bits, op.name())
            graph.update_input_link(var, rounded[name], op)

    def _insert_func(self, graph: Any, function: Any, var: Any, op: Any) -> Any:
        return insert_function(graph, function, var, op, self._optimizer, self._scope, self._exe)

    def _count_steps(self, inserter: Inserter) -> Any:
        """The variable that counts runs."""
        name = "@STEP_COUNTER@"
        found = [n for n in in_order(inserter.graph.all_var_nodes()) if n.name() == name]
        if found:
            return found[-1]
        before = inserter.persistable(name, VarType.INT64, [0])
        after = inserter.graph.create_var_node_from_desc(before.var())
        inserter.op("increment", {"step": 1.0}, {"X": before}, {"Out": after})
        return after

    def _round(self, inserter: Inserter, var: Any, name: str, kind: str, bits: int, reader: str) -> Any:
        """Inserts quantization and dequantization; returns the resulting variable."""
        quantized = inserter.like(f"{name}.quantized", var)
        back = inserter.like(f"{name}.quantized.dequantized", var)
        scale_name, dtype, attrs = f"{name}.scale", var.dtype(), {"bit_length": bits}
        kind = "abs_max" if kind == "channel_wise_abs_max" and not has_channels(reader) else kind
        if kind == "channel_wise_abs_max":
            axis = int(reader in _channelwise_quant_axis1_ops)
            scale = inserter.persistable(scale_name, dtype, [0] * var.shape()[axis])
            how = {**attrs, "quant_axis": axis, "is_test": inserter.graph.is_test()}
            inserter.op(f"fake_{kind[:12]}_quantize_abs_max", how, {"X": var}, {"Out": quantized, "OutScale": scale})
            inserter.op(
                "fake_channel_wise_dequantize_max_abs",
                {"quant_bits": [bits], "quant_axis": axis},
                {"X": quantized, "Scales": [scale]},
                {"Out": back},
            )
            return back
        if kind == "abs_max":
            scale = inserter.persistable(scale_name, dtype, [0])
            inserter.op("fake_quantize_abs_max", attrs, {"X": var}, {"Out": quantized, "OutScale": scale})
        else:
            before = inserter.persistable(scale_name, dtype, [0.001])
            scale = inserter.graph.create_var_node_from_desc(before.var())
            slots: tuple[dict, dict] = ({"InScale": before}, {"Out": quantized, "OutScale": scale})
            if kind == "moving_average_abs_max":
                attrs = {**attrs, "moving_rate": self._moving_rate}
                inserter.following(f"fake_quantize_{kind}", attrs, var, slots, ("state", "accum"))
            else:
                self._round_by_range(inserter, var, attrs, slots)
        most = float((1 << (bits - 1)) - 1)
        inserter.op("fake_dequantize_max_abs", {"max_range": most}, {"X": quantized, "Scale": scale}, {"Out": back})
        return back

    def _round_by_range(self, inserter: Inserter, var: Any, attrs: dict, slots: tuple[dict, dict]) -> None:
        test = inserter.graph.is_test()
        if not test:
            slots[0]["Iter"] = self._global_step
            window = [0] * self._window_size
            slots[1]["OutScales"] = inserter.persistable(unique_name.generate("scales"), var.dtype(), window)
        how = {**attrs, "window_size": self._window_size, "is_test": test}
        inserter.op("fake_quantize_range_abs_max", how, {"X": var, **slots[0]}, slots[1])


class AddQuantDequantPass:
    """Quantizes the inputs of operators without weights, with one operator that quantizes and dequantizes.

    Args:
        scope (Scope), place (Place): of the variables that the pass adds.
        moving_rate (float): decay of the moving average of the largest magnitude.
        quant_bits (int): bit width.
        skip_pattern (str|list of str): operators whose name scope contains it are skipped.
        quantizable_op_type (list of str): the operators.
        is_full_quantized (bool): all supported operators.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> from paddle.fluid.contrib.slim.quantization import AddQuantDequantPass
        >>> paddle.enable_static()
        >>> program = fluid.Program()
        >>> with fluid.program_guard(program, fluid.Program()):
        ...     x = fluid.data("x", [None, 4])
        ...     y = fluid.layers.elementwise_add(x, x)
        >>> graph = fluid.framework.IrGraph(fluid.core.Graph(program.desc), for_test=True)
        >>> graph = AddQuantDequantPass(fluid.global_scope(), fluid.CPUPlace()).apply(graph)
        >>> [op.name() for op in graph.topology_sort()]
        ['fake_quantize_dequantize_moving_average_abs_max', 'elementwise_add']
    """

    _supported_quantizable_op_type = (
        "pool2d elementwise_add concat softmax argmax transpose equal gather greater_equal greater_than less_equal "
        "less_than mean not_equal reshape reshape2 bilinear_interp nearest_interp trilinear_interp slice squeeze "
        "elementwise_sub mul matmul relu relu6 leaky_relu tanh swish"
    ).split()
    _activation_type = ["relu", "relu6", "leaky_relu", "tanh", "swish"]

    def __init__(
        self,
        scope=None,
        place=None,
        moving_rate=0.9,
        quant_bits=8,
        skip_pattern=["skip_quant"],  # noqa: B006 (Paddle's default)
        quantizable_op_type=["elementwise_add", "pool2d"],  # noqa: B006
        is_full_quantized=False,
    ) -> None:
        ops = self._supported_quantizable_op_type if is_full_quantized else quantizable_op_type
        for op in ops:
            assert op in self._supported_quantizable_op_type, f"{op} is not supported for quantization."
        assert scope is not None, "scope must not be None."
        assert place is not None, "place must not be None."
        self._scope, self._place = scope, _get_paddle_place(place)
        self._moving_rate, self._quant_bits = moving_rate, quant_bits
        self._skip_pattern, self._quantizable_op_type = skip_pattern, ops

    def apply(self, graph):
        """Rewrites an IrGraph, and returns it."""
        check_graph(graph)
        inserter = Inserter(graph, self._scope, self._place)
        ops, rounded = in_order(graph.all_op_nodes()), dict[str, Any]()
        for op in ops:
            if op.name() not in self._quantizable_op_type or is_skipped(op.op(), self._skip_pattern):
                continue
            if kind_of(op.op()) == "qat_with_weight" or not reads_no_persistable(graph, op):
                continue
            op.set_attr("quantization_type", "qat_without_weight")
            op.set_attr("activation_bits", self._quant_bits)
            # a variable in two slots is renamed in both at once
            for name in dict.fromkeys(_get_op_input_var_names(op)):
                var = graph._find_node_by_name(op.inputs, name)
                if name not in rounded:
                    rounded[name] = self._round(inserter, var)
                graph.update_input_link(var, rounded[name], op)
        protos = OpProtoHolder.instance().op_proto_map
        gradients = {protos[kind].grad for kind in self._quantizable_op_type if kind in protos}
        for op in ops:
            if op.name() in gradients:
                for name in dict.fromkeys(op.input_arg_names()):
                    if name in rounded:
                        graph.update_input_link(graph._find_node_by_name(op.inputs, name), rounded[name], op)
        graph.resolve_hazard()
        return graph

    def _round(self, inserter: Inserter, var: Any) -> Any:
        name = f"{var.name()}.quant_dequant"
        out = inserter.like(name, var)
        scale = inserter.persistable(f"{name}.scale", var.dtype(), [0.001])
        slots = ({"InScale": scale}, {"Out": out, "OutScale": inserter.graph.create_var_node_from_desc(scale.var())})
        attrs = {"bit_length": self._quant_bits, "moving_rate": self._moving_rate}
        kind = "fake_quantize_dequantize_moving_average_abs_max"
        inserter.following(kind, attrs, var, slots, ("quant_dequant.state", "quant_dequant.accum"))
        return out


class OutScaleForTrainingPass:
    """Measures operators' outputs: a moving average of the largest magnitude, in the variable ``NAME@scale``.

    Args:
        scope (Scope), place (Place): of the variables that the pass adds.
        moving_rate (float): decay of the moving average.
    """

    def __init__(self, scope=None, place=None, moving_rate=0.9) -> None:
        self._scope, self._place, self._moving_rate = scope, _get_paddle_place(place), moving_rate

    def apply(self, graph):
        """Rewrites an IrGraph, and returns it."""
        check_graph(graph)
        inserter = Inserter(graph, self._scope, self._place)
        for op, name in _measured(graph):
            var = graph._find_node_by_name(op.outputs, name)
            if var.dtype() in _FLOATS:
                slots = ({}, {"OutScale": inserter.persistable(_scale_name(name), var.dtype(), [1])})
                attrs, names = {"moving_rate": self._moving_rate}, ("scale_state@", "scale_accum@")
                inserter.following("moving_average_abs_max_scale", attrs, var, slots, names)
        graph.resolve_hazard()
        return graph


class OutScaleForInferencePass:
    """Stores the measurements of OutScaleForTrainingPass as attributes: ``out_threshold``, and one per output slot.

    Args:
        scope (Scope): contains the measurements.
    """

    def __init__(self, scope=None) -> None:
        self._scope = scope

    def apply(self, graph):
        """Rewrites an IrGraph, and returns it.

        Raises:
            AssertionError: if a measurement is missing.
        """
        check_graph(graph)
        for op, name in _measured(graph):
            if graph._find_node_by_name(op.outputs, name).dtype() in _FLOATS:
                value = float(load(self._scope, _scale_name(name))[0])
                place = _get_output_name_index(op, name)
                assert place is not None, f"{name} is not an output of {op.name()}"
                op.set_attr("out_threshold", value)
                op.set_attr(f"{place[0]}{place[1]}_threshold", value)
        graph.resolve_hazard()
        return graph


def _measured(graph: Any) -> list[tuple[Any, str]]:
    ops = [op for op in in_order(graph.all_op_nodes()) if op.name() in _out_scale_op_list]
    return [(op, name) for op in ops for name in _get_op_output_var_names(op)]


def _scale_name(name: str) -> str:
    return f"{name}@scale"
