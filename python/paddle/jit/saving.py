"""jit.save: a Layer's methods as Programs, with its parameters, for `jit.load`, predictors and other tools."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import paddle._core as _core
from paddle._basics.mode import _current_expected_place, _dygraph_guard
from paddle._persistence.atomic_files import saving
from paddle._programs.parameter import ParamBase
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard
from paddle._programs.variable import Variable, isinstance_of
from paddle.nn.layer.layers import Layer
from paddle.static.creation import InputSpec
from paddle.static.executor import Executor
from paddle.static.inference_io import pruned_for_inference, write_persistables

from .decorators import to_static
from .program_translator import ProgramTranslator
from .saved_files import INFER_MODEL_SUFFIX, INFER_PARAMS_INFO_SUFFIX, INFER_PARAMS_SUFFIX
from .static_function import StaticFunction
from .stop_flags import with_flags
from .structure import leaves
from .translated_layer import TranslatedLayer

__all__ = ["save"]


class _Method(NamedTuple):
    """A method as a Program: its inputs and outputs, and the Tensors of its persistable variables.

    `places`: the positions of outputs, by the names that they have in this and other Programs of the method.
    `stopped`: the names of variables that stop gradients, whichever inputs and parameters do.
    """

    name: str
    program: Program
    inputs: list[Variable]
    outputs: list[Variable]
    tensors: dict[str, Any]
    places: dict[str, int]
    stopped: set[str]


def save(layer: Layer, path: str, input_spec: list | None = None, **configs: Any) -> None:
    """Save a Layer as Programs and parameters, which `paddle.jit.load` and predictors read.

    `forward` becomes <path>.pdmodel and <path>.pdiparams, a further method that `to_static` decorates
    <path>.<method>.pdmodel and <path>.<method>.pdiparams; <path>.pdiparams.info has the names of the parameters.

    Args:
        layer (Layer): what is saved.
        path (str): folder and name, without suffix.
        input_spec (list of InputSpec|Tensor, optional): the inputs of `forward`, for a method that has no Program yet.
            With fewer of them than the method has inputs, the inputs of their names are kept, and what does not need
            the others.
        output_spec (list of Tensor|Variable, optional): with fewer of them than the method has outputs, the outputs of
            their names are kept.

    Raises:
        TypeError: when `layer` is no Layer, or a spec of another type.
        ValueError: for a path without a name, specs that do not fit, other keywords, a method without Program and
            specs, or one whose results depend on a Tensor in number or structure.
        RuntimeError: while `ProgramTranslator` is disabled.

    Examples:
        >>> import paddle
        >>> from paddle.static import InputSpec
        >>> net = paddle.nn.Linear(4, 2)
        >>> paddle.jit.save(net, "saved_linear", [InputSpec([None, 4], "float32", "x")])
        >>> loaded = paddle.jit.load("saved_linear")
        >>> x = paddle.ones([3, 4])
        >>> bool((loaded(x) == net(x)).all())
        True
    """
    if not ProgramTranslator().enable_to_static:
        raise RuntimeError("jit.save: ProgramTranslator.enable(False) is in effect, but saving needs the translation")
    if not isinstance(layer, Layer):
        raise TypeError(f"jit.save: layer must be a Layer, got {type(layer)}")
    for name in configs:
        if name != "output_spec":
            raise ValueError(f"jit.save: keyword '{name}' is not known: output_spec is")
    output_spec = configs.get("output_spec")
    if output_spec is not None and not isinstance(output_spec, list):
        raise TypeError(f"jit.save: output_spec must be a list, got {type(output_spec)}")
    folder, name = os.path.split(path)
    if not name:
        raise ValueError(f"jit.save: path must be a folder and a name, as in 'folder/name', got {path!r}")
    inner: Any = layer
    if type(layer).__name__ == "DataParallel":
        inner = layer._layers
    specs = _specs(inner, input_spec)
    scope, info = _core._Scope(), {}
    structured = {tensor.name: key for key, tensor in inner.state_dict().items()}
    # Programs are made first: a method that cannot be translated leaves the files as they are
    methods = list(_methods(inner, specs))
    with scope_guard(scope), _dygraph_guard(None), saving(os.path.normpath(folder or ".")) as files:
        executor = Executor(_current_expected_place())
        for method in methods:
            given = None if isinstance(inner, TranslatedLayer) else specs
            feeds = _chosen_inputs(method, given)
            fetches = _chosen_outputs(method, output_spec)
            for var_name, tensor in method.tensors.items():
                scope.var(var_name).get_tensor()._share_data_with(tensor.value().get_tensor())
                info[var_name] = _described(tensor, structured)
            program, _ = pruned_for_inference(method.program.clone(), feeds, fetches)
            prefix = name if method.name == "forward" else f"{name}.{method.name}"
            if any(v.persistable and v.type == _core.VarDesc.VarType.LOD_TENSOR for v in program.list_vars()):
                write_persistables(executor, program, files, prefix + INFER_PARAMS_SUFFIX)
            content = with_flags(program.desc.serialize_to_string(), method.stopped)
            files.write(prefix + INFER_MODEL_SUFFIX, content)
        files.write(name + INFER_PARAMS_INFO_SUFFIX, pickle.dumps(info, protocol=2))


def _described(tensor: Any, structured: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if tensor.name in structured:
        row["structured_name"] = structured[tensor.name]
    row["stop_gradient"] = bool(tensor.stop_gradient)
    if isinstance(tensor, ParamBase):
        row["trainable"] = bool(tensor.trainable)
    return row


def _static_methods(layer: Any) -> Iterator[tuple[str, StaticFunction]]:
    """The methods of a Layer that are StaticFunctions; properties are not evaluated."""
    for name in dir(layer):
        if isinstance(getattr(type(layer), name, None), property):
            continue
        found = getattr(layer, name, None)
        if isinstance(found, StaticFunction):
            yield name, found


def _specs(layer: Any, input_spec: list | None) -> list | None:
    """The InputSpecs of `forward`, in their structure."""
    if input_spec is None:
        return None
    others = [name for name, _ in _static_methods(layer) if name != "forward"]
    if others:
        raise ValueError(
            f"jit.save: input_spec must be None, as the methods {others} are saved as well: give each method its own "
            "by to_static(input_spec=...)"
        )
    if not isinstance(input_spec, list):
        raise TypeError(f"jit.save: input_spec must be a list, got {type(input_spec)}")
    specs = []
    for spec in leaves(input_spec):
        if isinstance(spec, InputSpec):
            specs.append(spec)
        elif isinstance(spec, _core.Tensor) or isinstance_of(spec, Variable):
            made: Any = InputSpec.from_tensor(spec)
            made.of_tensor = True
            specs.append(made)
        else:
            raise TypeError(f"jit.save: input_spec must hold InputSpecs or Tensors, but one is {type(spec)}")
    return specs


def _methods(layer: Any, specs: list | None) -> Iterator[_Method]:
    if isinstance(layer, TranslatedLayer):
        for name, loaded in layer._methods.items():
            tensors = dict(zip(loaded.names, layer._tensors(loaded), strict=True))
            places = {var.name: i for i, var in enumerate(loaded.outputs)}
            stopped = _stopped(loaded.program)
            yield _Method(name, loaded.program, loaded.inputs, loaded.outputs, tensors, places, stopped)
        return
    found = dict(_static_methods(layer))
    if "forward" not in found:
        found["forward"] = to_static(layer.forward, input_spec=specs)
    for name, function in found.items():
        wanted, own = specs if name == "forward" else None, function.input_spec
        if wanted is not None and own is not None and len(wanted) < len(leaves(own)):
            wanted = None  # they choose inputs of the decorator's specs
        concrete = function.program_to_save(wanted)
        outputs = concrete.output_variables("jit.save")
        builder = concrete.builder
        tensors = {} if builder is None else dict(zip(builder.names, builder.tensors, strict=True))
        for var_name, (tensor, source) in zip(
            tensors, [] if builder is None else zip(builder.tensors, builder.sources, strict=True), strict=True
        ):
            tensors[var_name] = tensor if source is None else source[0].get(source[1], tensor)
        places = function.program_cache.output_places()
        stopped = _stopped(concrete.main_program) - (set() if builder is None else builder.derived)
        yield _Method(name, concrete.main_program, concrete.feeds(), outputs, tensors, places, stopped)


def _stopped(program: Program) -> set[str]:
    """The names of variables that stop gradients, without parameters and buffers."""
    return {var.name for var in program.list_vars() if var.stop_gradient and not var.persistable}


def _chosen_inputs(method: _Method, specs: list | None) -> list[str]:
    """The names to feed: all, or with fewer specs those of the specs."""
    names = [var.name for var in method.inputs]
    if specs is None:
        return names
    # a Tensor of another call than the first has another name: its position counts
    of_place = {i for i, spec in enumerate(specs) if getattr(spec, "of_tensor", False) and spec.name not in names}
    for i, spec in enumerate(specs):
        problem = None
        if i in of_place and i < len(names):
            continue
        if spec.name is None:
            problem = f"jit.save: {spec} has no name: give it the name of an input of {method.name}(), one of {names}"
        elif spec.name not in names:
            problem = f"jit.save: there is no input '{spec.name}' of {method.name}(): its inputs are {names}"
        if problem and len(specs) != len(names):
            raise ValueError(problem)
        if problem and spec.name is not None:
            warnings.warn(problem, stacklevel=4)
    if len(specs) == len(names):
        return names
    return [names[i] if i in of_place else spec.name for i, spec in enumerate(specs)]


def _chosen_outputs(method: _Method, output_spec: list | None) -> list[Variable]:
    """The outputs: all, or with fewer of them in `output_spec` those of its names."""
    named = {name: method.outputs[i] for name, i in method.places.items() if i < len(method.outputs)}
    if output_spec is None:
        return method.outputs
    for var in output_spec:
        if not isinstance(var, _core.Tensor) and not isinstance_of(var, Variable):
            raise TypeError(f"jit.save: output_spec must hold Tensors or Variables, but one is {type(var)}")
        if var.name not in named:
            problem = f"jit.save: there is no output '{var.name}' of {method.name}(): its outputs are "
            problem += str([out.name for out in method.outputs])
            if len(output_spec) != len(method.outputs):
                raise ValueError(problem)
            warnings.warn(problem, stacklevel=4)
    if len(output_spec) == len(method.outputs):
        return method.outputs
    return [named[var.name] for var in output_spec]
