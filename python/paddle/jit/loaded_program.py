"""LoadedProgram: one method of a saved model, ready to run in dygraph mode or to be appended to a Program."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle._basics import mode, unique_name
from paddle._basics.dtypes import VarType
from paddle._programs import building, guards
from paddle._programs.operator import Operator
from paddle._programs.program import Program
from paddle._programs.variable import Variable
from paddle.static.vars_io import is_persistable

from .builder import Builder
from .concrete_program import ConcreteProgram
from .partial_program import PartialProgramLayer

__all__: list[str] = []

#: operators whose `is_test` changes no value: it leaves out what their gradients read
_FOR_GRADIENTS = frozenset({"while", "sequence_pool"})


class LoadedProgram:
    """One method of a saved model.

    Args:
        method (str): its name.
        program (Program): as it was saved, with feed and fetch operators; it is changed.

    Raises:
        ValueError: when the Program has no fetch operator.
    """

    def __init__(self, method: str, program: Program) -> None:
        self.method = method
        self.program = program
        with mode._dygraph_guard(None):
            self._prepare(method, program)
        #: the persistable variables, by name
        self.names = sorted(var.name for var in program.list_vars() if is_persistable(var))
        self._runs: dict[bool, PartialProgramLayer] = {}

    def _prepare(self, method: str, program: Program) -> None:
        feeds, fetches = _strip_interface(program.desc)
        if not fetches:
            raise ValueError(
                f"jit.load: the Program of '{method}' has no fetch operator: it was not saved for inference"
            )
        program._sync_with_cpp()
        block = program.global_block()
        for name in (*feeds, *fetches):
            if not block.has_var(name):
                raise ValueError(f"jit.load: the Program of '{method}' does not declare its input or output '{name}'")
        self.inputs = [block.var(name) for name in feeds]
        # a variable of its own for each output: an output may be an input, a parameter, or occur twice
        with guards.program_guard_unchecked(program, Program()):
            self.outputs = [
                _copied(block, block.var(name), f"translated_layer/scale_{i}.tmp") for i, name in enumerate(fetches)
            ]

    def variable(self, name: str) -> Variable:
        """The persistable variable `name`."""
        return next(v for block in self.program.blocks for v in block.vars.values() if v.name == name)

    def written(self) -> set[str]:
        """The names of variables that operators write."""
        return {name for block in self.program.blocks for op in block.ops for name in op.output_arg_names}

    def in_mode(self, training: bool) -> Program:
        """The Program, whose dropout and batch_norm operators compute as in training or in test."""
        with mode._dygraph_guard(None):
            program = self.program.clone()
            for block in program.blocks:
                for op in block.ops:
                    if op.has_attr("is_test"):
                        op._set_attr("is_test", not training and op.type not in _FOR_GRADIENTS)
        return program

    def runner(self, training: bool, sources: list[tuple[dict, str]]) -> PartialProgramLayer:
        """The call of the Program in one mode; `sources` are the tables that hold its persistable Tensors."""
        found = self._runs.get(training)
        if found is not None:
            return found
        program = self.in_mode(training)
        block = program.global_block()
        builder = Builder(program)
        for name, (table, key) in zip(self.names, sources, strict=True):
            tensor = table[key]
            program_var = next(b.vars[name] for b in program.blocks if name in b.vars)
            program_var.stop_gradient = tensor.stop_gradient
            builder.tensors.append(tensor)
            builder.sources.append((table, key))
            builder.names.append(name)
        outputs = [block.var(v.name) for v in self.outputs]
        concrete = ConcreteProgram([block.var(v.name) for v in self.inputs], outputs, builder.tensors, None, program)
        concrete.builder = builder
        found = self._runs[training] = PartialProgramLayer(concrete)
        return found

    def append(self, inputs: list, tensors: list, training: bool) -> list[Variable]:
        """Append the operators to the current block of the Program that is being built.

        Args:
            inputs (list of Variable): the inputs.
            tensors (list): the Tensors (or Variables) of the persistable variables, in the order of `names`.
            training (bool): the mode.
        """
        builder = building.current
        bound = {var.name: value.name for var, value in zip(self.inputs, inputs, strict=True)}
        for name, tensor in zip(self.names, tensors, strict=True):
            var = builder.variable(tensor) if isinstance(tensor, _core.Tensor) else tensor
            bound[name] = var.name
        program = guards.default_main_program()
        _append_block(program, program.current_block(), self.in_mode(training), 0, bound)
        block = program.current_block()
        return [block.var(bound[var.name]) for var in self.outputs]


def _strip_interface(desc: Any) -> tuple[list[str], list[str]]:
    """Removes feed and fetch operators, and scale operators that saving appended; the names to feed and to fetch."""
    block, feeds, fetches, scales, gone = desc.block(0), {}, {}, {}, []
    for i in range(block.op_size()):
        op = block.op(i)
        if op.type() == "feed":
            feeds[op.attr("col")] = op.output("Out")[0]
            gone.append(i)
        elif op.type() == "fetch":
            fetches[op.attr("col")] = op.input("X")[0]
            gone.append(i)
        elif op.type() == "scale" and op.output("Out")[0].startswith("save_infer_model/scale_"):
            scales[op.output("Out")[0]] = op.input("X")[0]
            gone.append(i)
    for i in reversed(gone):
        block._remove_op(i, i + 1)
    for name in ("feed", "fetch", *scales):
        if block.has_var(name):
            block._remove_var(name)
    for i in range(desc.num_blocks()):
        for k in range(desc.block(i).op_size()):
            desc.block(i).op(k).remove_attr("op_callstack")
    names = [fetches[k] for k in sorted(fetches)]
    return [feeds[k] for k in sorted(feeds)], [scales.get(name, name) for name in names]


def _copied(block: Any, var: Variable, base: str) -> Variable:
    name = unique_name.generate(base)
    while block.has_var(name):
        name = unique_name.generate(base)
    out = block.create_var(name=name, shape=var.shape, dtype=var.dtype, lod_level=var.lod_level)
    out.stop_gradient = var.stop_gradient
    if var.dtype == VarType.BOOL:  # scale has no kernel for it
        block.append_op(type="assign", inputs={"X": [var]}, outputs={"Out": [out]})
    else:
        block.append_op(type="scale", inputs={"X": [var]}, outputs={"Out": [out]}, attrs={"scale": 1.0, "bias": 0.0})
    return out


def _append_block(program: Program, block: Any, source: Program, index: int, bound: dict[str, str]) -> None:
    """Appends block `index` of `source`; `bound` maps its variables to those of `block`, and gets the new ones."""
    given = source.block(index)
    for var in given.vars.values():
        if var.name in bound:
            continue
        stopped = building.current.recording and not _core.is_grad_enabled()
        kwargs: dict[str, Any] = {"stop_gradient": stopped or var.stop_gradient}
        if var.type in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY):
            kwargs |= {"shape": var.shape, "dtype": var.dtype}
        if var.type in (VarType.LOD_TENSOR, VarType.LOD_TENSOR_ARRAY):
            kwargs["lod_level"] = var.lod_level
        bound[var.name] = block.create_var(name=unique_name.generate(var.name), type=var.type, **kwargs).name
    for op in given.ops:
        desc = block.desc.append_op()
        desc.copy_from(op.desc)
        for slot in op.input_names:
            desc.set_input(slot, [bound.get(name, name) for name in op.input(slot)])
        for slot in op.output_names:
            desc.set_output(slot, [bound.get(name, name) for name in op.output(slot)])
        for name in op.attr_names:
            if op.attr_type(name) == _core.AttrType.BLOCK:
                sub = program._create_block(block.idx)
                _append_block(program, sub, source, op._block_attr_id(name), dict(bound))
                program._rollback()
                desc.set_block_attr(name, sub.desc)
        block.ops.append(Operator(block, desc))
