"""QuantizeTranspiler: quantization-aware training of Programs, and freezing for inference."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._programs.guards import default_main_program, default_startup_program, program_guard
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper
from paddle.nn.param_attr import ParamAttr
from paddle.static import global_scope
from paddle.static.creation import autoincreased_step_counter

__all__ = ["QuantizeTranspiler"]

_KINDS = ("abs_max", "range_abs_max", "moving_average_abs_max")
_READERS = ("conv2d", "depthwise_conv2d", "mul")
_SUFFIXES = (".quantized.dequantized", ".quantized", ".dequantized", ".scale")


def _original_var_name(var_name: str) -> str:
    """The name of the variable from which a quantized, dequantized or scale variable was created."""
    suffix = next((s for s in _SUFFIXES if var_name.endswith(s)), "")
    return var_name[: len(var_name) - len(suffix)]


def _levels(bits: int) -> int:
    return (1 << (bits - 1)) - 1


def _like(block: Any, var: Any, suffix: str) -> Any:
    return block.create_var(name=var.name + suffix, type=var.type, shape=var.shape, dtype=var.dtype)


def _remove_unused(program: Any) -> None:
    for block in program.blocks:
        used = {name for op in block.ops for name in (*op.input_arg_names, *op.output_arg_names)}
        for name in [name for name in block.vars if name not in used]:
            block._remove_var(name)


class QuantizeTranspiler:
    """Rewrites Programs so that conv2d, depthwise_conv2d and mul read quantized values
    (Paddle 2.0: paddle.fluid.contrib.QuantizeTranspiler).

    Args:
        weight_bits, activation_bits (int): bit widths of parameters and of other inputs.
        activation_quantize_type, weight_quantize_type (str): how the scale is computed: from the largest magnitude of
            the batch ("abs_max"), of the last `window_size` runs ("range_abs_max"), or as a moving average
            ("moving_average_abs_max").
        window_size (int): see above.
        moving_rate (float): decay of the moving average.

    Raises:
        ValueError: for another type.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> main, startup = fluid.Program(), fluid.Program()
        >>> with fluid.program_guard(main, startup):
        ...     y = fluid.layers.fc(fluid.data("x", [None, 4]), 2, bias_attr=False)
        >>> fluid.contrib.QuantizeTranspiler().training_transpile(main, startup)
        >>> [op.type for op in main.global_block().ops][-3:]
        ['fake_quantize_abs_max', 'fake_dequantize_max_abs', 'mul']
    """

    def __init__(
        self,
        weight_bits: int = 8,
        activation_bits: int = 8,
        activation_quantize_type: str = "abs_max",
        weight_quantize_type: str = "abs_max",
        window_size: int = 10000,
        moving_rate: float = 0.9,
    ) -> None:
        for what, kind in (
            ("weight_quantize_type", weight_quantize_type),
            ("activation_quantize_type", activation_quantize_type),
        ):
            if kind not in _KINDS:
                raise ValueError(f"Unknown {what}: {kind!r}. It can only be one of {', '.join(_KINDS)}")
        self.weight_bits, self.activation_bits = weight_bits, activation_bits
        self.weight_quantize_type, self.activation_quantize_type = weight_quantize_type, activation_quantize_type
        self.window_size, self.moving_rate = window_size, moving_rate
        self.helper = LayerHelper(type(self).__name__)
        self.global_step: Any = None

    # Training

    def training_transpile(self, program: Any = None, startup_program: Any = None) -> None:
        """Inserts quantization and dequantization before each quantizable operator; gradients pass through unchanged.

        Args:
            program (Program, optional): with or without backward operators. Default: the main Program.
            startup_program (Program, optional): initializes the scales. Default: the startup Program.

        Raises:
            ValueError: for a gradient operator without its forward operator.
        """
        program = default_main_program() if program is None else program
        startup = default_startup_program() if startup_program is None else startup_program
        parameters = {p.name for p in program.global_block().iter_parameters()}
        with program_guard(program, startup):
            if "range_abs_max" in (self.weight_quantize_type, self.activation_quantize_type):
                self.global_step = autoincreased_step_counter()
            for block in program.blocks:
                made: dict[str, str] = {}
                for op in list(block.ops):
                    if op.type in _READERS:
                        at = block.ops.index(op)
                        for name in op.input_arg_names:
                            if name not in made:
                                made[name] = self._insert(block, at, name, name in parameters)
                            op._rename_input(name, made[name])
                    elif op.type.removesuffix("_grad") in _READERS:
                        names = [name for name in op.input_arg_names if name in made]
                        if not names:
                            raise ValueError(f"There is no dequanted inputs for op {op.type}.")
                        for name in names:
                            op._rename_input(name, made[name])

    def _insert(self, block: Any, at: int, name: str, is_parameter: bool) -> str:
        """Inserts quantization and dequantization into the block; returns the name of the result."""
        kind = self.weight_quantize_type if is_parameter else self.activation_quantize_type
        bits = self.weight_bits if is_parameter else self.activation_bits
        var = block.var(name)
        quantized = _like(block, var, ".quantized")
        inputs, outputs = {"X": var}, {"Out": quantized}
        attrs: dict[str, Any] = {"bit_length": bits}
        if kind == "abs_max":
            scale = outputs["OutScale"] = _like(block, var, ".scale")
        else:
            attr = ParamAttr(name=f"{name}.scale", initializer=Constant(0.001), trainable=False)
            scale = self.helper.create_parameter(attr=attr, shape=[1], dtype=var.dtype)
            scale.stop_gradient = True
            inputs["InScale"] = outputs["OutScale"] = scale
            attrs["is_test"] = False
        if kind == "range_abs_max":
            inputs["Iter"] = self.global_step
            outputs["OutScales"] = self._state("scales", var, 0.0, self.window_size)
            attrs["window_size"] = self.window_size
        elif kind == "moving_average_abs_max":
            inputs["InState"] = outputs["OutState"] = self._state("state", var, 1.0)
            inputs["InAccum"] = outputs["OutAccum"] = self._state("accum", var, 1.0)
            attrs["moving_rate"] = self.moving_rate
        block._insert_op(at, type=f"fake_quantize_{kind}", inputs=inputs, outputs=outputs, attrs=attrs)
        back = _like(block, quantized, ".dequantized")
        block._insert_op(
            at + 1,
            type="fake_dequantize_max_abs",
            attrs={"max_range": float(_levels(bits))},
            inputs={"X": quantized, "Scale": scale},
            outputs={"Out": back},
        )
        return back.name

    def _state(self, name: str, var: Any, start: float, count: int = 1) -> Any:
        state = self.helper.create_global_variable(
            name=unique_name.generate(name), persistable=True, dtype=var.dtype, shape=[count]
        )
        self.helper.set_variable_initializer(state, Constant(start))
        return state

    # Inference

    def freeze_program(self, program: Any, place: Any, scope: Any = None) -> None:
        """Quantizes the parameters in the scope; operators read integers, and their results are dequantized.

        Args:
            program (Program): a result of `training_transpile`, without backward operators.
            place (Place): device of the parameters.
            scope (Scope, optional): contains the parameters. Default: the global one.

        Raises:
            ValueError: for an operator with several outputs.
        """
        scope = global_scope() if scope is None else scope
        program = default_main_program() if program is None else program
        persistable = {v.name for v in program.list_vars() if v.persistable}

        def tensor(name: str) -> Any:
            return scope.find_var(name).get_tensor()

        for block in program.blocks:
            scales: dict[str, Any] = {}
            read: dict[str, str] = {}  # replacements of the inputs of quantizable operators
            given: dict[str, str] = {}  # replacements of their outputs for all other operators
            for op in list(block.ops):
                for name in op.input_arg_names:
                    if name in given:
                        op._rename_input(name, given[name])
                if op.type.startswith("fake_quantize_"):
                    name = op.input("X")[0]
                    if name not in persistable:
                        scales[name] = block.var(op.output("OutScale")[0])
                        continue
                    weight = np.array(tensor(name))
                    if self.weight_quantize_type == "abs_max":
                        scale = float(np.max(np.abs(weight)))
                    else:
                        scale = float(np.ravel(np.array(tensor(op.output("OutScale")[0])))[0])
                    scales[name] = scale
                    levels = np.round(weight / np.float32(scale) * _levels(self.weight_bits))
                    tensor(name).set(levels.astype(weight.dtype), place)
                if op.type.startswith("fake_quantize_") or op.type == "fake_dequantize_max_abs":
                    source = op.input("X")[0]
                    read[op.output("Out")[0]] = read.get(source, source)
                    block._remove_op(block.ops.index(op))
                elif op.type in _READERS:
                    self._insert_behind(block, op, read, scales, given)
        _remove_unused(program)

    def _insert_behind(self, block: Any, op: Any, read: dict, scales: dict, given: dict) -> None:
        """Dequantizes the result of an operator by the scales of its inputs."""
        max_range, scale = 1.0, None
        for name in op.input_arg_names:
            if name in read:
                op._rename_input(name, read[name])
            of_input = scales[_original_var_name(name)]
            if isinstance(of_input, float):
                max_range = _levels(self.weight_bits) * _levels(self.activation_bits) / of_input
            else:
                scale = of_input
        if len(op.output_arg_names) != 1:
            raise ValueError(f"Only support one output, but op {op.type} has more than one output.")
        out = block.var(op.output_arg_names[0])
        back = _like(block, out, ".dequantized")
        block._insert_op(
            block.ops.index(op) + 1,
            type="fake_dequantize_max_abs",
            attrs={"max_range": float(max_range)},
            inputs={"X": out, "Scale": scale},
            outputs={"Out": back},
        )
        given[out.name] = back.name

    def convert_to_int8(self, program: Any, place: Any, scope: Any = None) -> None:
        """Converts the parameters that quantizable operators of a frozen Program read to int8, as ``<name>.int8``: the
        files have a quarter of the size.

        Args:
            program (Program): a result of `freeze_program`. It is for saving only: its operators do not run on int8.
            place (Place): device of the parameters.
            scope (Scope, optional): contains the parameters. Default: the global one.
        """
        scope = global_scope() if scope is None else scope
        program = default_main_program() if program is None else program
        made: dict[str, str] = {}
        for block in program.blocks:
            for op in block.ops:
                if op.type not in _READERS:
                    continue
                for name in op.input_arg_names:
                    var = block.var(name)
                    if not var.persistable:
                        continue
                    if name not in made:
                        made[name] = f"{name}.int8"
                        program.global_block().create_parameter(
                            name=made[name], type=var.type, dtype=VarType.INT8, shape=var.shape
                        )
                        levels = np.array(scope.find_var(name).get_tensor()).astype("int8")
                        scope.var(made[name]).get_tensor().set(levels, place)
                    op._rename_input(name, made[name])
        _remove_unused(program)
