"""Export of a dygraph network as an inference model: runs `forward` again in static mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import paddle._core as _core
from paddle._basics import mode
from paddle._basics.place import CPUPlace
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard
from paddle.nn.layer.layers import Layer
from paddle.static.executor import Executor
from paddle.static.inference_io import save_inference_model

from .adapters import to_list

__all__: list[str] = []


@contextlib.contextmanager
def _variables_for_tensors(layers: list[Layer], block: Any, scope: Any) -> Iterator[None]:
    """Context in which the layers hold variables of `block` instead of tensors; the values are in `scope`."""
    made: dict[int, Any] = {}

    def variable(tensor: Any) -> Any:
        if not isinstance(tensor, _core.Tensor):
            return tensor
        if id(tensor) not in made:
            scope.var(tensor.name).get_tensor().set(tensor.numpy(), CPUPlace())
            made[id(tensor)] = block.create_var(
                name=tensor.name, shape=tensor.shape, dtype=tensor.dtype, persistable=True, stop_gradient=True
            )
        return made[id(tensor)]

    kept = []
    for layer in layers:
        for store in (layer._parameters, layer._buffers, layer.__dict__):
            found = {name: value for name, value in store.items() if isinstance(value, _core.Tensor)}
            kept.append((store, found))
            store.update((name, variable(value)) for name, value in found.items())
    try:
        yield
    finally:
        for store, found in kept:
            store.update(found)


@contextlib.contextmanager
def inference_program(network: Layer, specs: list[Any]) -> Iterator[tuple[Program, list[Any], list[Any]]]:
    """Context with the Program of a network's `forward` in evaluation, its inputs and outputs; the current scope has
    the parameters' values.

    `forward` runs in static mode, so it must not read values of tensors.

    Args:
        network (Layer): a dygraph network.
        specs (list of InputSpec): the inputs.
    """
    layers = [network, *network.sublayers()]
    training = [layer.training for layer in layers]
    program, scope = Program(), _core._Scope()
    network.eval()
    try:
        with mode._dygraph_guard(None), scope_guard(scope), program_guard(program, Program()):
            feeds = [spec._create_feed_layer() for spec in specs]
            with _variables_for_tensors(layers, program.global_block(), scope):
                outputs = to_list(network.forward(*feeds))
            yield program, feeds, outputs
    finally:
        for layer, was in zip(layers, training, strict=True):
            layer.training = was


def save_for_inference(network: Layer, path: str, specs: list[Any]) -> None:
    """Writes ``path.pdmodel`` and ``path.pdiparams``.

    Args:
        network (Layer): a dygraph network.
        path (str): folder and name without suffix.
        specs (list of InputSpec): the inputs.
    """
    with inference_program(network, specs) as (program, feeds, outputs):
        save_inference_model(path, feeds, outputs, Executor(CPUPlace()), program=program)


def model_program(model: Any) -> Program | None:
    """The Program of a `paddle.Model` in evaluation: in static mode its own, after `prepare`, else that of its network;
    None without known inputs."""
    if mode.in_static_mode():
        return model._adapter._progs.get("eval")
    if not model._inputs:
        return None
    with inference_program(model.network, model._inputs) as (program, _, _):
        return program
