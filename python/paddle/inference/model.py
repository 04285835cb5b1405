"""A model to be served: its Program from files or memory, its parameters in a Scope, and the passes over both."""

from __future__ import annotations

import os
from typing import Any

import paddle._core as core
from paddle._basics.dtypes import VarType, convert_dtype
from paddle._basics.mode import _dygraph_guard
from paddle._basics.place import CPUPlace
from paddle._persistence.atomic_files import read_together, where
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard
from paddle.static.executor import Executor
from paddle.static.inference_io import load_from_file
from paddle.static.newer_models import translate
from paddle.static.vars_io import is_persistable, load_vars

from .config import AnalysisConfig
from .graph import Graph
from .passes.filters import pack_filters
from .passes.panels import SLOT, pack_weights
from .passes.registry import PASSES

__all__ = ["Input", "Model"]


class Input:
    """What the Program declares of an input."""

    __slots__ = ("name", "shape", "dtype", "checked")

    def __init__(self, name: str, shape: tuple, dtype: Any, checked: bool) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.checked = checked

    def check(self, shape: list[int], dtype: Any, has_lod: bool, reader: str) -> str | None:
        """What is wrong with the sizes of a tensor, if the run fails: operators may take other sizes than declared.

        Raises:
            ValueError: for another type or rank.
        """
        if not self.checked:
            return None
        if dtype != self.dtype:
            raise ValueError(
                f"Predictor: input '{self.name}', which {reader} reads, must be {convert_dtype(self.dtype)}, got "
                f"{convert_dtype(dtype)}"
            )
        declared = list(self.shape)
        fits = len(shape) == len(declared) or (has_lod and len(shape) >= 1 and len(declared) >= 1)
        pairs = list(zip(shape, declared, strict=False))[1 if has_lod else 0 :]
        if fits and not any(want >= 0 and want != got for got, want in pairs):
            return None
        problem = (
            f"Predictor: input '{self.name}', which {reader} reads, must have shape {declared} (-1: any size), got "
            f"{list(shape)}"
        )
        if not fits:
            raise ValueError(problem)
        return problem


class Model:
    """The Program and the parameters that predictors share.

    Args:
        config (Config): names the model and the passes.

    Raises:
        ValueError: when there is no model, or its file is none. RuntimeError: when the parameters are not the model's.
    """

    def __init__(self, config: AnalysisConfig) -> None:
        self.scope = core._Scope()
        self.memory_optim = config._memory_optim
        with scope_guard(self.scope), _dygraph_guard(None):
            self.program = _read(config)
        self.desc = self.program.desc
        translate(self.desc, f"Predictor: {_what(config)}")
        self.feed_names, self.fetch_names = _interface(self.desc, _what(config))
        block = self.program.global_block()
        self.inputs: dict[str, Input] = {}
        for name in self.feed_names:
            desc = block.desc.find_var(name)
            if desc is None or desc.type() != VarType.LOD_TENSOR:
                raise ValueError(f"Predictor: {_what(config)} feeds '{name}', which it does not declare as a tensor")
            self.inputs[name] = Input(name, tuple(desc.shape()), desc.dtype(), True)
        for name in self.fetch_names:
            if block.desc.find_var(name) is None:
                raise ValueError(f"Predictor: {_what(config)} fetches '{name}', which it does not declare")
        #: pass, number of its rewrites
        self.applied: list[tuple[str, int]] = []
        #: parameters that hold other ones packed
        self.panels: set[str] = set()
        if config.ir_optim():
            self._optimise(config)
        else:
            _drop_feeds(self.desc)
        self.readers = self._first_readers()

    def _optimise(self, config: AnalysisConfig) -> None:
        _drop_feeds(self.desc)
        pinned = [*self.feed_names, *self.fetch_names]
        graph = Graph(self.desc, self.scope, pinned, config._bfloat16_ops)
        for name in config.pass_builder().all_passes():
            if name == "graph_viz_pass":
                _draw(graph, len(self.applied), self.applied[-1][0] if self.applied else "model")
            elif name in PASSES:
                self.applied.append((name, PASSES[name](graph)))
        self.panels = pack_weights(graph) | pack_filters(graph)
        graph.write_back()

    def _first_readers(self) -> dict[str, str]:
        """The operator that first reads each input, for messages."""
        block = self.desc.block(0)
        found: dict[str, str] = {}
        for i in range(block.op_size()):
            op = block.op(i)
            for name in op.input_arg_names():
                found.setdefault(name, f"operator {op.type()}")
        return found

    def serialized(self) -> bytes:
        """The Program after the passes, with feed and fetch operators."""
        desc = core.ProgramDesc(self.desc)
        block = desc.block(0)
        for op in (block.op(i) for i in range(block.op_size())):
            if SLOT in op.inputs():
                op.set_input(SLOT, [])
        for name in self.panels:
            block._remove_var(name)
        for kind, holder in (("feed", VarType.FEED_MINIBATCH), ("fetch", VarType.FETCH_LIST)):
            var = block.var(kind)
            var.set_type(holder)
            var.set_persistable(True)
        for i in range(len(self.feed_names) - 1, -1, -1):
            op = block._prepend_op()
            op.set_type("feed")
            op.set_input("X", ["feed"])
            op.set_output("Out", [self.feed_names[i]])
            op._set_attr("col", i)
        for i, name in enumerate(self.fetch_names):
            op = block.append_op()
            op.set_type("fetch")
            op.set_input("X", [name])
            op.set_output("Out", ["fetch"])
            op._set_attr("col", i)
        return desc.serialize_to_string()


def _what(config: AnalysisConfig) -> str:
    if config.model_from_memory():
        return "the model in memory"
    path = config.prog_file() or os.path.join(config.model_dir(), "__model__")
    return f"the model '{path!s}'"


def _read(config: AnalysisConfig) -> Program:
    """The Program; its parameters go into the current Scope."""
    executor = Executor(CPUPlace())
    if config.model_from_memory():
        return _read_parts(config.prog_file(), config.params_file(), executor, _what(config))  # type: ignore[arg-type]
    prog, params, folder = config.prog_file(), config.params_file(), config.model_dir()
    if not prog and not folder:
        raise ValueError(
            "Predictor: the Config names no model: Config(folder), or Config(model file, parameters' file)"
        )
    if folder and not prog:
        prog = os.path.join(folder, "__model__")
    assert isinstance(prog, str) and isinstance(params, str)
    if not os.path.exists(where(prog)):
        raise FileNotFoundError(f"Predictor: there is no file '{prog}'")
    if params and not os.path.exists(where(params)):
        raise FileNotFoundError(f"Predictor: there is no file '{params}' (the model is '{prog}')")

    def read() -> Program:
        content = load_from_file(prog)
        values = load_from_file(params) if params else None
        return _read_parts(content, values, executor, f"the model '{prog}'", folder or os.path.dirname(prog), params)

    return read_together([prog, params] if params else [prog], read)


def _read_parts(
    content: bytes, params: bytes | None, executor: Any, what: str, folder: str = "", params_path: str = ""
) -> Program:
    try:
        program = Program.parse_from_string(content)
    except (ValueError, RuntimeError, core.EnforceNotMet) as error:
        raise ValueError(f"Predictor: {what} cannot be read: {error}") from error
    if not program.desc.num_blocks() or not program.global_block().desc.op_size():
        raise ValueError(f"Predictor: {what} holds no operators: it is no model")
    try:
        if params is None:
            load_vars(executor, folder, program, None, is_persistable, None)
        else:
            load_vars(executor, None, program, None, is_persistable, params)
    except (ValueError, RuntimeError, OSError, core.EnforceNotMet) as error:
        source = (
            f"'{params_path}'" if params_path else "the parameters in memory" if params else f"the folder '{folder}'"
        )
        raise RuntimeError(f"Predictor: the parameters of {what} cannot be read from {source}: {error}") from error
    return program


def _interface(desc: Any, what: str) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs, by the columns of feed and fetch operators."""
    block = desc.block(0)
    feeds: dict[int, str] = {}
    fetches: dict[int, str] = {}
    for i in range(block.op_size()):
        op = block.op(i)
        if op.type() == "feed" and op.output("Out"):
            feeds[int(op.attr("col")) if op.has_attr("col") else len(feeds)] = op.output("Out")[0]
        elif op.type() == "fetch" and op.input("X"):
            fetches[int(op.attr("col")) if op.has_attr("col") else len(fetches)] = op.input("X")[0]
    if not fetches:
        raise ValueError(f"Predictor: {what} has no fetch operator: it was not saved for inference")
    return [feeds[k] for k in sorted(feeds)], [fetches[k] for k in sorted(fetches)]


def _drop_feeds(desc: Any) -> None:
    """Removes feed and fetch operators: the executor feeds and fetches by name."""
    block = desc.block(0)
    for i in range(block.op_size() - 1, -1, -1):
        if block.op(i).type() in ("feed", "fetch"):
            block._remove_op(i, i + 1)


def _draw(graph: Graph, number: int, name: str) -> None:
    lines = ["digraph G {"]
    for i, node in enumerate(graph.nodes):
        lines.append(f'  op_{i} [label="{node.type}" shape=box]')
        lines += [f'  "{n}" -> op_{i}' for n in node.reads()]
        lines += [f'  op_{i} -> "{n}"' for n in node.writes()]
    with open(f"{number}_ir_{name}.dot", "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, "}"]) + "\n")
