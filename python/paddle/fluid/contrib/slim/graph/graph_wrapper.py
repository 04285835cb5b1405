"""GraphWrapper: a Program with named inputs and outputs, as the strategies of slim see it."""

from __future__ import annotations

import copy
import math
import os
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np

from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle._programs.variable import Parameter, Variable
from paddle.fluid import io
from paddle.static import CompiledProgram, Executor

__all__ = ["GraphWrapper", "OpWrapper", "VarWrapper"]

_OPTIMIZERS = (
    "momentum lars_momentum adagrad adam adamax dpsgd decayed_adagrad adadelta rmsprop sgd lamb ftrl"
).split()


class VarWrapper:
    """A variable of a graph; two are equal if their names are."""

    def __init__(self, var: Variable, graph: GraphWrapper) -> None:
        self._var = var
        self._graph = graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VarWrapper) and self._var.name == other._var.name

    def __hash__(self) -> int:
        return hash(self._var.name)

    def name(self) -> str:
        return self._var.name

    def shape(self) -> tuple[int, ...]:
        return tuple(self._var.shape)

    def set_shape(self, shape: Iterable[int]) -> None:
        self._var.desc.set_shape([int(size) for size in shape])

    def inputs(self) -> list[OpWrapper]:
        """The operators that read the variable."""
        return [op for op in self._graph.ops() if self in op.all_inputs()]

    def outputs(self) -> list[OpWrapper]:
        """The operators that write the variable."""
        return [op for op in self._graph.ops() if self in op.all_outputs()]


class OpWrapper:
    """An operator of a graph; two are equal if they stand at the same place."""

    def __init__(self, op: Any, graph: GraphWrapper) -> None:
        self._op = op
        self._graph = graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpWrapper) and self._op.block is other._op.block and self.idx() == other.idx()

    def __hash__(self) -> int:
        return hash((id(self._op.block), self.idx()))

    def idx(self) -> int:
        return self._op.idx

    def type(self) -> str:
        return self._op.type

    def all_inputs(self) -> list[VarWrapper]:
        return [self._graph.var(name) for name in self._op.input_arg_names]

    def all_outputs(self) -> list[VarWrapper]:
        return [self._graph.var(name) for name in self._op.output_arg_names]

    def inputs(self, name: str) -> list[VarWrapper]:
        """The variables of the input slot `name`."""
        return [self._graph.var(v) for v in self._op.input(name)]

    def outputs(self, name: str) -> list[VarWrapper]:
        """The variables of the output slot `name`."""
        return [self._graph.var(v) for v in self._op.output(name)]

    def is_bwd_op(self) -> bool:
        return self.type().endswith("_grad")

    def is_opt_op(self) -> bool:
        return self.type() in _OPTIMIZERS

    def attr(self, name: str) -> Any:
        return self._op.attr(name)

    def set_attr(self, key: str, value: Any) -> None:
        self._op._set_attr(key, value)


def _names(given: Any, argument: str) -> OrderedDict[str, str]:
    """Names for people, and the variables' names."""
    if isinstance(given, dict):
        return OrderedDict(given)
    pairs = list(given or [])
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError(f"GraphWrapper: {argument} must be pairs, such as [('image', image.name)], got {given!r}")
    return OrderedDict(pairs)


class GraphWrapper:
    """A Program whose inputs and outputs have names.

    Args:
        program (Program): the Program; None: an empty one.
        in_nodes, out_nodes (list of pairs, or dict): a name, and the name of the Variable. The output named ``loss``
            (or ``cost``) is minimized.

    Attributes:
        program (Program), in_nodes, out_nodes (OrderedDict): the arguments.
        compiled_graph (CompiledProgram): what an executor runs instead of `program`, if not None.
        persistables, teacher_persistables (dict): variables that are saved, by name; those that `merge` has added.

    Raises:
        TypeError: the nodes are not pairs.

    Source: fluid.contrib.slim.graph.GraphWrapper of Paddle 1.8.
    """

    def __init__(self, program: Program | None = None, in_nodes: Any = None, out_nodes: Any = None) -> None:
        self.program = Program() if program is None else program
        self.persistables = {v.name: v for v in self.program.list_vars() if v.persistable}
        self.teacher_persistables: dict[str, Variable] = {}
        self.compiled_graph: Any = None
        self.in_nodes = _names(in_nodes, "in_nodes")
        self.out_nodes = _names(out_nodes, "out_nodes")

    def all_parameters(self) -> list[VarWrapper]:
        return [VarWrapper(p, self) for block in self.program.blocks for p in block.all_parameters()]

    def is_parameter(self, var: VarWrapper) -> bool:
        return isinstance(var._var, Parameter)

    def is_persistable(self, var: VarWrapper) -> bool:
        return var._var.persistable

    def ops(self) -> list[OpWrapper]:
        return [OpWrapper(op, self) for block in self.program.blocks for op in block.ops]

    def vars(self) -> list[VarWrapper]:
        return [VarWrapper(var, self) for var in self.program.list_vars()]

    def var(self, name: str) -> VarWrapper:
        return VarWrapper(self.program.global_block().var(name), self)

    def pre_ops(self, op: OpWrapper) -> list[OpWrapper]:
        """The operators that write what `op` reads."""
        read = set(op._op.input_arg_names)
        return [p for p in self.ops() if read & set(p._op.output_arg_names)]

    def next_ops(self, op: OpWrapper) -> list[OpWrapper]:
        """The operators that read what `op` writes."""
        written = set(op._op.output_arg_names)
        return [p for p in self.ops() if written & set(p._op.input_arg_names)]

    def get_param_by_op(self, op: OpWrapper) -> list[VarWrapper]:
        """The parameters that `op` reads.

        Raises:
            ValueError: there is none.
        """
        found = [var for var in op.all_inputs() if self.is_parameter(var)]
        if not found:
            raise ValueError(f"GraphWrapper.get_param_by_op: operator {op.type()} reads no parameter")
        return found

    def numel_params(self) -> int:
        return sum(math.prod(p.shape()) for p in self.all_parameters())

    def compile(self, for_parallel: bool = True, for_test: bool = False, mem_opt: bool = False) -> None:
        """Sets `compiled_graph`; `mem_opt` has no effect: memory is always planned."""
        self.compiled_graph = CompiledProgram(self.program)
        if for_parallel:
            self.compiled_graph.with_data_parallel(loss_name=None if for_test else self.out_nodes["loss"])

    def clone(self, for_test: bool = False) -> GraphWrapper:
        return GraphWrapper(self.program.clone(for_test), copy.copy(self.in_nodes), copy.copy(self.out_nodes))

    def merge(self, graph: GraphWrapper) -> None:
        """Appends the variables and operators of `graph`. Variables of the same name are one."""
        block = self.program.global_block()
        for var in graph.program.list_vars():
            if var.persistable:
                self.teacher_persistables[var.name] = var
            if not block.has_var(var.name):
                block._clone_variable(var, force_persistable=False).stop_gradient = var.stop_gradient
        for wrapper in graph.ops():
            op = wrapper._op
            block.append_op(
                type=op.type,
                inputs={slot: [block.var(v) for v in op.input(slot)] for slot in op.input_names},
                outputs={slot: [block.var(v) for v in op.output(slot)] for slot in op.output_names},
                attrs={name: op.attr(name) for name in op.attr_names},
            )

    def minimize(self, optimizer: Any, place: Any, scope: Any, no_grad_set: Any = None) -> None:
        """Appends backward and optimizer operators for the output ``loss`` or ``cost``, and creates their states.

        Raises:
            ValueError: there is no such output.
        """
        target = self.out_nodes.get("loss", self.out_nodes.get("cost"))
        if target is None:
            raise ValueError(f"GraphWrapper: an output named 'loss' or 'cost' is needed, got {list(self.out_nodes)}")
        startup = Program()
        with program_guard(self.program, startup):
            # The rate may be a variable of the Program that was cloned.
            if isinstance(optimizer._learning_rate, Variable):
                optimizer._learning_rate_map[self.program] = self.program.global_block().var(
                    optimizer._learning_rate.name
                )
            optimizer.minimize(self.var(target)._var, no_grad_set=set(no_grad_set or ()))
        Executor(place).run(startup, scope=scope)

    def get_optimize_graph(
        self, optimizer: Any, place: Any, scope: Any, no_grad_var_names: Any = ()
    ) -> GraphWrapper | None:
        """A clone with backward and optimizer operators; None without an output ``loss`` or ``cost``."""
        if not {"loss", "cost"} & set(self.out_nodes):
            return None
        graph = self.clone()
        graph.minimize(optimizer, place, scope, no_grad_var_names)
        return graph

    def flops(self, only_conv: bool = False) -> int:
        """Operations of convolutions and, unless `only_conv`, of pooling, products and activations (sizes of -1: 1)."""
        total = 0
        for op in self.ops():
            kind = op.type()
            if kind in ("conv2d", "depthwise_conv2d"):
                out, in_, height, width = op.inputs("Filter")[0].shape()
                each = height * width * in_ + bool(op.inputs("Bias"))
                total += 2 * math.prod(op.outputs("Output")[0].shape()[2:]) * out * each
            elif only_conv:
                continue
            elif kind == "pool2d":
                total += math.prod(op.outputs("Out")[0].shape()[1:]) * op.attr("ksize")[0] ** 2
            elif kind == "mul":
                x, y = op.inputs("X")[0].shape(), op.inputs("Y")[0].shape()
                total += 2 * abs(x[0]) * x[1] * y[1]
            elif kind in ("relu", "sigmoid", "batch_norm"):
                x = op.inputs("X")[0].shape()
                total += abs(x[0]) * math.prod(x[1:])
        return total

    def save_model(self, path: str, exe: Any) -> None:
        """Saves inputs to outputs for `load_inference_model`, in the files ``__model__`` and ``__params__``."""
        self.save_infer_model(path, exe, (self.in_nodes.values(), self.out_nodes.values()), model="__model__")

    def save_infer_model(
        self, path: str, exe: Any, in_out: Any, program_only: bool = False, model: str = "__model__.infer"
    ) -> None:
        """Saves from the inputs `in_out[0]` to the outputs `in_out[1]` (names), in the file `model`.

        Raises:
            ValueError: there are no inputs or no outputs.
        """
        inputs, outputs = (list(names) for names in in_out)
        if not inputs or not outputs:
            raise ValueError(f"GraphWrapper.save_infer_model: inputs and outputs are needed, got {inputs}, {outputs}")
        io.save_inference_model(
            path,
            inputs,
            [self.var(name)._var for name in outputs],
            exe.exe,
            main_program=self.program.clone(),
            model_filename=model,
            params_filename="__params__",
            program_only=program_only,
        )

    def save_persistables(self, path: str, exe: Any) -> None:
        """Saves persistable variables, but for readers and those that `merge` has added, a file each."""
        for var in self.program.list_vars():
            if var.persistable:
                self.persistables.setdefault(var.name, var)
        kept = [
            v for name, v in self.persistables.items() if self._saved(name) and name not in self.teacher_persistables
        ]
        io.save_vars(exe.exe, path, vars=kept)

    def load_persistables(self, path: str, exe: Any) -> None:
        """Loads those persistable variables whose files are in the folder `path`."""
        kept = [v for name, v in self.persistables.items() if self._saved(name)]
        io.load_vars(exe.exe, path, vars=[v for v in kept if os.path.exists(os.path.join(path, v.name))])

    @staticmethod
    def _saved(name: str) -> bool:
        return "reader" not in name and "double_buffer" not in name

    def update_param_shape(self, scope: Any) -> None:
        """Gives parameters the shapes of their tensors in `scope`, after pruned ones were loaded."""
        for param in self.all_parameters():
            param.set_shape(np.array(scope.find_var(param.name()).get_tensor()).shape)

    def infer_shape(self) -> None:
        """Applies the shape rules of all operators, in order."""
        for op in self.ops():
            if op.type() != "conditional_block":
                op._op.desc.infer_shape(op._op.block.desc)

    def update_groups_of_conv(self) -> None:
        """The groups of depthwise convolutions are the numbers of their filters, after these were pruned."""
        for op in self.ops():
            if op.type() in ("depthwise_conv2d", "depthwise_conv2d_grad"):
                op.set_attr("groups", op.inputs("Filter")[0].shape()[0])
