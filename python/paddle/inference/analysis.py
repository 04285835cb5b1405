"""AnalysisPredictor: the predictor of 1.x, which runs PaddleTensors or ZeroCopyTensors."""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.mode import _dygraph_guard
from paddle._basics.place import CPUPlace
from paddle._persistence.atomic_files import saving
from paddle._programs.scope import scope_guard
from paddle.static.executor import Executor
from paddle.static.predictor import ARRAY_TYPES, NativeConfig, NativePredictor, PaddleDType, PaddleTensor
from paddle.static.vars_io import chosen_vars, is_persistable, write_vars

from .config import AnalysisConfig
from .handles import Tensor
from .model import Model
from .predictor import Names, Session

__all__ = ["AnalysisPredictor", "PaddlePredictor", "create_paddle_predictor", "paddle_tensor_to_bytes"]


class PaddlePredictor:
    """The predictors of 1.x. `create_paddle_predictor` makes them."""

    class Config:
        """The base of a predictor's configurations."""

        def __init__(self) -> None:
            self.model_dir = ""


class AnalysisPredictor(Names, PaddlePredictor):
    """A model that is ready to run on PaddleTensors (`run`) or ZeroCopyTensors (`zero_copy_run`).

    Args:
        config (AnalysisConfig): names the model, and how it is prepared and run.

    Raises:
        FileNotFoundError: when a file is missing. ValueError: when it is no model. RuntimeError: when the parameters do
            not fit the model.
    """

    def __init__(self, config: AnalysisConfig, _model: Model | None = None) -> None:
        if not isinstance(config, AnalysisConfig):
            raise TypeError(f"AnalysisPredictor: config must be an AnalysisConfig, got {type(config)}")
        self._session = Session(config, _model)

    def init(self, parent_scope: Any = None, program: Any = None) -> bool:
        """True: the constructor has loaded the model.

        Args:
            parent_scope (Scope, optional), program (ProgramDesc, optional): not used.
        """
        return True

    def run(self, inputs: list[PaddleTensor]) -> list[PaddleTensor]:
        """The outputs.

        Args:
            inputs (list of PaddleTensor): in the order of the model's inputs; after `switch_specify_input_names` by
                their names.

        Raises:
            ValueError: for a wrong number of inputs, an unknown name, a wrong type or shape.
        """
        model = self._session.model
        if len(inputs) != len(model.feed_names):
            raise ValueError(
                f"AnalysisPredictor.run: the model has {len(model.feed_names)} inputs {model.feed_names}, got "
                f"{len(inputs)}"
            )
        holders: dict[str, Any] = {}
        for i, tensor in enumerate(inputs):
            if not isinstance(tensor, PaddleTensor):
                raise TypeError(f"AnalysisPredictor.run: inputs must be PaddleTensors, got {type(tensor)}")
            name = model.feed_names[i]
            if self._session.config.specify_input_name():
                name = tensor.name
                self._session.input(name)
            holder = core.LoDTensor()
            holder.set(tensor.as_ndarray())
            if tensor.lod:
                holder.set_lod(tensor.lod)
            holders[name] = holder
        missing = [name for name in model.feed_names if name not in holders]
        if missing:
            raise ValueError(f"AnalysisPredictor.run: no tensor has the name of the inputs {missing}")
        values = self._session.compute([holders[name] for name in model.feed_names])
        self._session._store(values)
        return [
            PaddleTensor(v.__array__(), name, [list(level) for level in v.lod()])
            for v, name in zip(values, model.fetch_names, strict=True)
        ]

    def zero_copy_run(self) -> bool:
        """Computes the outputs from the input tensors.

        Raises:
            RuntimeError: when an input is not set. ValueError: for an input of another type or shape.
        """
        self._session.run()
        return True

    def get_input_tensor(self, name: str) -> Tensor:
        """The input `name`; ValueError for an unknown one.

        Args:
            name (str): one of `get_input_names`.
        """
        return self._session.input(name)

    def get_output_tensor(self, name: str) -> Tensor:
        """The output `name`; ValueError for an unknown one.

        Args:
            name (str): one of `get_output_names`.
        """
        return self._session.output(name)

    def get_input_tensor_shape(self) -> dict[str, list[int]]:
        """The declared shape of each input; -1 for any size."""
        return {name: list(each.shape) for name, each in self._session.model.inputs.items()}

    def clone(self) -> AnalysisPredictor:
        """A predictor over the same parameters, with inputs and outputs of its own, for another thread."""
        return AnalysisPredictor(self._session.config, self._session.model)

    def clear_intermediate_tensor(self) -> None:
        """Drops the outputs; a run keeps no intermediate tensors."""
        self._session.clear()

    def try_shrink_memory(self) -> int:
        """Drops the outputs and returns idle memory to the system."""
        self._session.clear()
        core.empty_cache()
        return 0

    def scope(self) -> Any:
        """The Scope of the parameters."""
        return self._session.model.scope

    def program(self) -> Any:
        """The ProgramDesc after the passes."""
        return self._session.model.desc

    def get_serialized_program(self) -> bytes:
        """The bytes of the Program after the passes, with feed and fetch operators."""
        return self._session.model.serialized()

    def create_feed_fetch_var(self, scope: Any) -> None:
        """Creates the variables that feed and fetch operators use.

        Args:
            scope (Scope): gets them.
        """
        scope.var("feed")
        scope.var("fetch")

    def prepare_feed_fetch(self) -> None:
        """No effect: the constructor has done it."""

    def prepare_argument(self) -> None:
        """No effect: the constructor has done it."""

    def optimize_inference_program(self) -> None:
        """No effect: the constructor has applied the passes."""

    def analysis_argument(self) -> dict[str, Any]:
        """What the passes did: `passes`, a list of (name, number of rewrites)."""
        return {"passes": list(self._session.model.applied)}

    def mkldnn_quantize(self) -> bool:
        """Not implemented: raises NotImplementedError."""
        raise NotImplementedError("AnalysisPredictor.mkldnn_quantize: quantisation by oneDNN is not implemented")

    def SaveOptimModel(self, dir: str) -> None:  # noqa: A002, N802 (Paddle's names)
        """Saves the Program after the passes, and its parameters: the files `model` and `params` of a folder.

        Args:
            dir (str): the folder.
        """
        model = self._session.model
        model.program._sync_with_cpp()
        with scope_guard(model.scope), _dygraph_guard(None), saving(os.path.normpath(dir)) as files:
            chosen = [v for v in chosen_vars(model.program, None, is_persistable) if v.name not in model.panels]
            if chosen:
                write_vars(Executor(CPUPlace()), chosen, files, "params")
            files.write("model", model.serialized())


def create_paddle_predictor(config: AnalysisConfig | NativeConfig) -> Any:
    """A predictor of 1.x.

    Args:
        config (AnalysisConfig|NativeConfig): names the model.

    Returns:
        AnalysisPredictor, or NativePaddlePredictor for a NativeConfig.

    Raises:
        TypeError: for another config.
    """
    if isinstance(config, NativeConfig):
        return NativePredictor(config)
    return AnalysisPredictor(config)


def paddle_tensor_to_bytes(tensor: PaddleTensor) -> bytes:
    """A PaddleTensor as bytes: type, shape, LoD, name and elements, each after its length.

    Args:
        tensor (PaddleTensor): the tensor.
    """

    def sized(items: bytes, count: int) -> bytes:
        return struct.pack("<Q", count) + items

    name = tensor.name.encode()
    array: np.ndarray = np.ascontiguousarray(tensor.as_ndarray()).astype(
        ARRAY_TYPES[PaddleDType(tensor.dtype)], copy=False
    )
    lod = b"".join(sized(struct.pack(f"<{len(level)}Q", *level), len(level)) for level in tensor.lod)
    shape = struct.pack(f"<{len(tensor.shape)}i", *tensor.shape)
    parts = [
        struct.pack("<i", int(tensor.dtype)),
        sized(name, len(name)),
        sized(shape, len(tensor.shape)),
        sized(lod, len(tensor.lod)),
        sized(array.tobytes(), array.nbytes),
    ]
    return b"".join(parts)
