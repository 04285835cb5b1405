"""TracedLayer: a Program of the operators that one call of a layer ran.

While a layer is traced, the core records the inputs and outputs of every eager call of an operator; :class:`_Builder`
makes a Program of the record.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import cache
from typing import Any

import paddle._core as _core
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.tracer import Tracer
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard
from paddle._programs.variable import Variable
from paddle.nn.layer.layers import Layer
from paddle.static.executor import Executor
from paddle.static.inference_folder import save_inference_model
from paddle.static.strategies import BuildStrategy, ExecutionStrategy

__all__ = ["TracedLayer"]


def extract_vars(inputs: Any) -> list:
    """The tensors in nested lists and tuples, in order.

    Raises:
        TypeError: for anything else among them.
    """
    if isinstance(inputs, (_core.Tensor, Variable)):
        return [inputs]
    if isinstance(inputs, (list, tuple)):
        return [var for each in inputs for var in extract_vars(each)]
    raise TypeError(
        "The type of 'each element of inputs' in fluid.dygraph.jit.TracedLayer.trace must be fluid.Variable, "
        f"but received {type(inputs)}."
    )


@cache
def _output_slots() -> dict[str, list[dict]]:
    return {op["type"]: op["outputs"] for op in _core.op_table()}


def _held(layer: Layer) -> list:
    """The tensors of a layer and its sublayers: parameters, buffers, plain attributes."""
    found = []
    for each in [layer, *layer.sublayers()]:
        for values in (each._parameters, each._buffers, each.__dict__):
            found += [value for value in values.values() if isinstance(value, _core.Tensor)]
    return found


class _Builder:
    """Makes a Program of the recorded calls."""

    def __init__(self, feeds: list, fetches: list, prefixes: tuple[str, str, str] = ("feed_", "fetch_", "t_")) -> None:
        feed, fetch, self.prefix = prefixes
        self.program = Program()
        self.block = self.program.global_block()
        self.parameters: list = []
        self.vars: dict[int, Variable] = {}
        self.names = {id(t): f"{fetch}{i}" for i, t in enumerate(fetches)}
        self.temporaries = 0
        #: tensors that no operator computed, by their id
        self.given: dict[int, Any] = {}
        for i, tensor in enumerate(feeds):
            self.vars[id(tensor)] = self.block.create_var(
                name=f"{feed}{i}", shape=[-1, *tensor.shape[1:]], dtype=tensor.dtype, is_data=True
            )

    def temporary(self, dtype: Any) -> Variable:
        self.temporaries += 1
        return self.block.create_var(name=f"{self.prefix}{self.temporaries - 1}", dtype=dtype)

    def read(self, op_type: str, tensor: Any) -> Variable:
        if id(tensor) in self.given and not tensor.persistable:
            raise RuntimeError(
                f"TracedLayer: operator {op_type} reads the tensor {tensor.name} of shape {tensor.shape}, which got "
                "its value from an array, by x[index] = value, from backward or from another process while the layer "
                "ran: it cannot be computed from the inputs. Compute it with operators, or before tracing."
            )
        var = self.vars.get(id(tensor))
        if var is None:
            # no operator computed it: a tensor of the layer
            var = self.block.create_var(name=tensor.name, shape=tensor.shape, dtype=tensor.dtype, persistable=True)
            self.vars[id(tensor)] = var
            self.parameters.append(tensor)
        return var

    def write(self, tensor: Any) -> Variable:
        self.given.pop(id(tensor), None)
        var = self.vars.get(id(tensor))
        if var is None:
            name = self.names.get(id(tensor))
            var = self.temporary(tensor.dtype) if name is None else self.block.create_var(name=name, dtype=tensor.dtype)
            self.vars[id(tensor)] = var
        return var

    def append(self, op_type: str | None, inputs: dict, outputs: dict, attrs: dict) -> None:
        if op_type is None:
            self.given.update((id(t), t) for tensors in outputs.values() for t in tensors)
            return
        ins = {slot: [self.read(op_type, t) for t in tensors] for slot, tensors in inputs.items()}
        outs = {}
        for slot in _output_slots()[op_type]:
            name = slot["name"]
            if name in outputs:
                tensors = outputs[name]
                outs[name] = [self.read(op_type, t) if t.persistable else self.write(t) for t in tensors]
            elif slot["not_returned"] or not slot["dispensable"]:
                outs[name] = [self.temporary("float32")]
        self.block.append_op(type=op_type, inputs=ins, outputs=outs, attrs=attrs)


def _build(calls: list, feeds: list, fetches: list, *prefixes: Any) -> tuple[_Builder, list[str], list[str]]:
    """A Program of recorded calls, and the names of its feeds and fetches."""
    with mode._dygraph_guard(None):
        builder = _Builder(feeds, fetches, *prefixes)
        with program_guard(builder.program, Program()):
            for call in calls:
                builder.append(*call)
        names = [builder.read("fetch", t).name for t in fetches]
    return builder, [builder.vars[id(t)].name for t in feeds], names


class ProgramDescTracer:
    """What `Tracer._get_program_desc_tracer` returns: records eager calls within `program_desc_tracing_guard`.

    It is the interface of 2.0.2's internal class, which packages use to make Programs of layers.
    """

    def create_program_desc(
        self, feeds: list, feed_prefix: str, fetches: list, fetch_prefix: str, tmp_prefix: str
    ) -> tuple[Any, list[str], list[str], list]:
        """Ends the record.

        Args:
            feeds, fetches (list of Tensor): the inputs and outputs of the calls.
            feed_prefix, fetch_prefix, tmp_prefix (str): prefixes of the names of inputs, outputs and other variables.

        Returns:
            tuple: the ProgramDesc, the names of the inputs, those of the outputs, and the parameters.

        Raises:
            RuntimeError: outside of the guard, or when an operator reads a Tensor that was made from an array.
        """
        layers = [each for each in gc.get_objects() if isinstance(each, Layer)]
        held = [t for each in layers for t in _held(each)]
        known = [*feeds, *held, *fetches]
        calls, stand_ins = _core.stop_trace(known)
        feeds, fetches = stand_ins[: len(feeds)], stand_ins[len(feeds) + len(held) :]
        made_here = {id(t): t for t in feeds}
        for call in list(calls):
            # a feed that was made from an array within the guard
            if call[0] is None and made_here.pop(id(call[2]["Out"][0]), None) is not None:
                calls.remove(call)
        builder, names, results = _build(calls, feeds, fetches, (feed_prefix, fetch_prefix, tmp_prefix))
        return builder.program.desc, names, results, builder.parameters

    def reset(self) -> None:
        """Drops the record."""
        _core.stop_trace([])


Tracer.program_desc_tracer = ProgramDescTracer


class TracedLayer:
    """A layer as a static Program that shares the layer's parameters; made by :meth:`trace`.

    The Program repeats the operators of the traced call for all inputs: branches of Python code are not part of it.
    """

    def __init__(self, program: Program, parameters: list, feed_names: list[str], fetch_names: list[str]) -> None:
        self._program = program
        self._params = parameters
        self._feed_names = feed_names
        self._fetch_names = fetch_names
        self._scope = _core._Scope()
        self._exe = Executor(mode._current_expected_place())
        self._ran = False
        written = {name for op in program.global_block().ops for name in op.output_arg_names}
        self._updated = [p for p in parameters if p.name in written]

    @property
    def program(self) -> Program:
        """The Program."""
        return self._program

    @staticmethod
    def trace(layer: Layer, inputs: Any) -> tuple[Any, TracedLayer]:
        """Call a layer and make a Program of the operators that ran.

        Args:
            layer (Layer): the layer to call.
            inputs (Tensor|list|tuple): its arguments.

        Returns:
            tuple: the result of ``layer(*inputs)``, and the TracedLayer.

        Raises:
            AssertionError: when `layer` is no Layer, or outside dygraph mode.
            RuntimeError: when an operator reads a tensor that was made from an array while the layer ran.

        Examples:
            >>> import paddle
            >>> x = paddle.ones([2, 3])
            >>> out, traced = paddle.jit.TracedLayer.trace(paddle.nn.Linear(3, 4), [x])
            >>> bool((traced([x])[0] == out.numpy()).all())
            True
        """
        assert not mode.in_static_mode(), "TracedLayer.trace can be used in dygraph mode only"
        assert isinstance(layer, Layer), (
            "The type of 'layer' in fluid.dygraph.jit.TracedLayer.trace must be fluid.dygraph.Layer, "
            f"but received {type(layer)}."
        )
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        feeds = extract_vars(given)
        known = feeds + _held(layer)
        fetches: list = []
        _core.start_trace()
        try:
            outputs = layer(*given)
            fetches = extract_vars(outputs)
        finally:
            calls, stand_ins = _core.stop_trace(known + fetches)
        # tensors that share a variable (detach) are one variable in the record
        feeds, fetches = stand_ins[: len(feeds)], stand_ins[len(known) :]
        builder, feed_names, names = _build(calls, feeds, fetches)
        return outputs, TracedLayer(builder.program, builder.parameters, feed_names, names)

    def set_strategy(
        self, build_strategy: BuildStrategy | None = None, exec_strategy: ExecutionStrategy | None = None
    ) -> None:
        """Check and keep strategies, which have no effect on this engine.

        Raises:
            AssertionError: for other types, or when the layer has run.
        """
        assert not self._ran, "TracedLayer.set_strategy must come before the first run"
        kinds = {"build_strategy": (build_strategy, BuildStrategy), "exec_strategy": (exec_strategy, ExecutionStrategy)}
        for name, (value, kind) in kinds.items():
            assert value is None or isinstance(value, kind), (
                f"The type of '{name}' in fluid.dygraph.jit.TracedLayer.set_strategy must be fluid.{kind.__name__}, "
                f"but received {type(value)}."
            )

    def _switch(self, is_test: bool = True) -> None:
        """Set `is_test` of operators that differ between training and test (dropout, batch_norm)."""
        for block in self._program.blocks:
            for op in block.ops:
                if op.has_attr("is_test"):
                    op._set_attr("is_test", is_test)

    def _share(self) -> None:
        for p in self._params:
            self._scope.var(p.name).get_tensor()._share_data_with(p.value().get_tensor())

    def __call__(self, inputs: list | tuple) -> list:
        """Run the Program.

        Args:
            inputs (list|tuple): as many tensors (or arrays) as were traced.

        Returns:
            list of numpy.ndarray.
        """
        assert isinstance(inputs, (list, tuple)), "TracedLayer: inputs must be a list or tuple of Tensors"
        assert len(inputs) == len(self._feed_names), (
            f"{len(self._feed_names)} inputs were traced, but received {len(inputs)}"
        )
        self._ran = True
        feed = {
            name: x.value().get_tensor() if isinstance(x, _core.Tensor) else x
            for name, x in zip(self._feed_names, inputs, strict=False)
        }
        self._share()
        with scope_guard(self._scope), mode._dygraph_guard(None):
            results = self._exe.run(self._program, feed=feed, fetch_list=self._fetch_names)
        for p in self._updated:
            p.value().get_tensor()._share_data_with(self._scope.var(p.name).get_tensor())
        return results

    def save_inference_model(
        self, dirname: str, feed: Sequence[int] | None = None, fetch: Sequence[int] | None = None
    ) -> None:
        """Save Program and parameters for inference, in the folder `dirname`.

        Args:
            dirname (str): the folder.
            feed (list, tuple or range of int, optional): which inputs the model has; all when None.
            fetch (list, tuple or range of int, optional): which outputs; all when None.

        Raises:
            TypeError: for arguments of other types.
        """
        where = "fluid.dygraph.jit.TracedLayer.save_inference_model"
        chosen = []
        with mode._dygraph_guard(None):  # dygraph mode skips the checks
            check_type(dirname, "dirname", str, where)
            for what, indices, names in (("feed", feed, self._feed_names), ("fetch", fetch, self._fetch_names)):
                indices = list(indices) if isinstance(indices, (tuple, range)) else indices
                check_type(indices, what, (type(None), list), where)
                for index in indices or ():
                    check_type(index, f"each element of {what}", int, where)
                chosen.append(names if indices is None else [names[i] for i in indices])
        self._share()
        with scope_guard(self._scope), mode._dygraph_guard(None):
            block = self._program.global_block()
            save_inference_model(
                dirname=dirname,
                feeded_var_names=chosen[0],
                target_vars=[block.var(name) for name in chosen[1]],
                executor=self._exe,
                main_program=self._program.clone(),
            )
