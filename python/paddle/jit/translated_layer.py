"""TranslatedLayer: a Layer that `jit.load` makes of a saved model."""

from __future__ import annotations

from functools import partial
from typing import Any

import paddle._core as _core
from paddle._basics import mode
from paddle._basics import numpy as np
from paddle._programs import building
from paddle._programs.parameter import ParamBase
from paddle._programs.program import Program
from paddle._programs.variable import Variable, isinstance_of
from paddle.nn.layer.layers import Layer
from paddle.static.creation import InputSpec

from .loaded_program import LoadedProgram
from .saved_files import BUFFER_NAME_PREFIX, PARAMETER_NAME_PREFIX

__all__ = ["TranslatedLayer"]


class TranslatedLayer(Layer):
    """A Layer of the Programs and parameters of a saved model; `paddle.jit.load` makes it.

    It begins in eval mode. In training its parameters get gradients, as those of the saved Layer did.

    Args:
        programs (dict): name of a method to its LoadedProgram.
        persistable_vars (dict): name of a persistable variable in the Programs to its Tensor.

    Examples:
        >>> import paddle
        >>> from paddle.static import InputSpec
        >>> paddle.jit.save(paddle.nn.Linear(4, 2), "translated", [InputSpec([None, 4], "float32", "x")])
        >>> layer = paddle.jit.load("translated")
        >>> layer.train()
        >>> layer(paddle.ones([3, 4])).sum().backward()
        >>> [list(p.gradient().shape) for p in layer.parameters()]
        [[2], [4, 2]]
    """

    def __init__(self, programs: dict[str, LoadedProgram], persistable_vars: dict[str, Any]) -> None:
        super().__init__()
        if not isinstance(programs, dict) or not isinstance(persistable_vars, dict):
            raise TypeError("TranslatedLayer: programs and persistable_vars must be dicts; paddle.jit.load makes them")
        self._methods = programs
        #: variable in the Programs to the key of its Tensor in `_parameters` or `_buffers`
        self._keys: dict[str, str] = {}
        counts = {PARAMETER_NAME_PREFIX: 0, BUFFER_NAME_PREFIX: 0}
        for name, tensor in persistable_vars.items():
            prefix = PARAMETER_NAME_PREFIX if isinstance(tensor, ParamBase) else BUFFER_NAME_PREFIX
            key = self._keys[name] = f"{prefix}_{counts[prefix]}"
            counts[prefix] += 1
            if isinstance(tensor, ParamBase):
                self.add_parameter(key, tensor)
            else:
                self.register_buffer(key, tensor)
        for method in programs:
            object.__setattr__(self, method, partial(self._call, method))
        self.eval()

    def _sources(self, loaded: LoadedProgram) -> list[tuple[dict, str]]:
        keys = [self._keys[name] for name in loaded.names]
        return [(self._parameters if key in self._parameters else self._buffers, key) for key in keys]

    def _tensors(self, loaded: LoadedProgram) -> list:
        return [table[key] for table, key in self._sources(loaded)]

    def _call(self, method: str, *inputs: Any) -> Any:
        loaded = self._loaded(method)
        if len(inputs) != len(loaded.inputs):
            names = [var.name for var in loaded.inputs]
            raise ValueError(f"TranslatedLayer.{method}: there are {len(names)} inputs {names}, got {len(inputs)}")
        if mode.in_static_mode():
            if building.current is None:
                raise RuntimeError(
                    f"TranslatedLayer.{method}: a loaded Layer runs in dygraph mode and inside of to_static; in static "
                    "mode use paddle.static.load_inference_model"
                )
            outs: Any = loaded.append(list(inputs), self._tensors(loaded), self.training)
        else:
            for value in inputs:
                if not isinstance(value, (_core.Tensor, np.ndarray)):
                    raise TypeError(
                        f"TranslatedLayer.{method}: inputs must be Tensors or arrays, but one is {type(value)}"
                    )
            outs = loaded.runner(self.training, self._sources(loaded))(list(inputs))
        if isinstance(outs, (_core.Tensor,)) or isinstance_of(outs, Variable):
            return outs
        return outs[0] if len(outs) == 1 else list(outs)

    def forward(self, *inputs: Any) -> Any:
        """The outputs of the saved `forward`.

        Args:
            *inputs (Tensor|numpy.ndarray): as many as the saved model has.

        Returns:
            Tensor, or a list of several.

        Raises:
            ValueError: for another number of inputs. TypeError: for inputs of other types.
        """
        return self._call("forward", *inputs)

    def train(self) -> None:
        """Training: dropout and batch_norm compute as in training."""
        super().train()

    def eval(self) -> None:
        """Test: dropout and batch_norm compute as in test."""
        super().eval()

    def program(self, method_name: str = "forward") -> Program:
        """The Program of a method, for test.

        Args:
            method_name (str): its name.

        Raises:
            ValueError: for another name.
        """
        return self._loaded(method_name).program

    def _loaded(self, method: str) -> LoadedProgram:
        if method not in self._methods:
            raise ValueError(f"TranslatedLayer: there is no method {method!r}; the methods are {list(self._methods)}")
        return self._methods[method]

    def _input_spec(self, method_name: str = "forward") -> list[InputSpec]:
        """InputSpecs of a method's inputs."""
        return [InputSpec(v.shape, v.dtype, v.name) for v in self._loaded(method_name).inputs]

    def _output_spec(self, method_name: str = "forward") -> list[InputSpec]:
        """InputSpecs of a method's outputs."""
        return [InputSpec(v.shape, v.dtype, v.name) for v in self._loaded(method_name).outputs]
