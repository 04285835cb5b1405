"""Predictor: a model that is ready to run on arrays; clones share its parameters."""

from __future__ import annotations

import weakref
from typing import Any

import paddle._core as core
from paddle.utils import profiler

from .config import AnalysisConfig
from .handles import Tensor
from .model import Model

__all__ = ["Predictor", "PredictorPool", "Session", "create_predictor"]


class Session:
    """One user's view of a Model: its inputs, its outputs, and the plans compiled for it.

    Sessions of a Model may run in threads at once: they share the parameters only, which no run changes.
    """

    def __init__(self, config: AnalysisConfig, model: Model | None = None) -> None:
        config._warn_unused()
        self.config = config._copy()
        self.model = Model(config) if model is None else model
        # a scope of its own: variables of sub-blocks live there during a run
        self.scope = self.model.scope.new_scope()
        self._compute = core.Executor(None).bound(
            self.model.desc, self.scope, self.model.feed_names, self.model.fetch_names, self.config._threads
        )
        self.inputs = {name: Tensor(name, True) for name in self.model.feed_names}
        self.outputs = {name: Tensor(name, False) for name in self.model.fetch_names}
        self._slots = list(self.inputs.values())
        self._results = [self.outputs[name] for name in self.model.fetch_names]
        if config._profile:
            profiler.start_profiler("CPU")
            weakref.finalize(self, profiler.stop_profiler, "total", "profile.log")

    def input(self, name: str) -> Tensor:
        """The input `name`; ValueError, which lists the names, for another."""
        if name not in self.inputs:
            raise ValueError(f"Predictor: there is no input {name!r}; the inputs are {self.model.feed_names}")
        return self.inputs[name]

    def output(self, name: str) -> Tensor:
        """The output `name`; ValueError, which lists the names, for another."""
        if name not in self.outputs:
            raise ValueError(f"Predictor: there is no output {name!r}; the outputs are {self.model.fetch_names}")
        return self.outputs[name]

    def run(self) -> None:
        """Computes the outputs from the inputs.

        Raises:
            RuntimeError: when an input is not set. ValueError: for an input of another type or shape.
        """
        tensors, checked = [], True
        for slot in self._slots:
            tensors.append(slot._holder)
            checked = checked and slot._checked
        self._store(self._run(tensors, None if checked else self._check_slots(tensors)))

    def _check_slots(self, tensors: list) -> str | None:
        """As `_check`, of values that `copy_from_cpu` set; a kind that is accepted is not checked again."""
        for slot in self._slots:
            if not slot._copied:
                raise RuntimeError(
                    f"Predictor.run: input '{slot._name}' is not set; the inputs are {self.model.feed_names}"
                )
        problem = self._check(tensors)
        for slot in self._slots:
            slot._checked = problem is None and slot._kind is not None
        return problem

    def compute(self, tensors: list) -> list:
        """The outputs as LoDTensors, from LoDTensors in the order of the inputs."""
        return self._run(tensors, self._check(tensors))

    def _check(self, tensors: list) -> str | None:
        """What is wrong with the sizes of the inputs, if the run fails; ValueError for another type or rank."""
        model, problem = self.model, None
        for name, tensor in zip(model.feed_names, tensors, strict=True):
            reader = model.readers.get(name, "nothing")
            found = model.inputs[name].check(tensor.shape(), tensor._dtype(), bool(tensor.lod()), reader)
            problem = problem or found
        return problem

    def _run(self, tensors: list, problem: str | None) -> list:
        try:
            return self._compute(tensors)
        except Exception as error:
            if problem is None:
                raise
            raise ValueError(problem) from error

    def _store(self, values: list) -> None:
        for i, result in enumerate(self._results):
            result._holder = values[i]

    def clear(self) -> None:
        """Drops the outputs."""
        for handle in self.outputs.values():
            handle._holder = None


class Names:
    """Base of both predictors: the names of the model's inputs and outputs."""

    _session: Session

    def get_input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return list(self._session.model.feed_names)

    def get_output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return list(self._session.model.fetch_names)


class Predictor(Names):
    """A model that is ready to run; `create_predictor` makes it.

    Args:
        config (Config): names the model, and how it is prepared and run.

    Raises:
        FileNotFoundError: when a file is missing. ValueError: when it is no model. RuntimeError: when the parameters do
            not fit the model.
    """

    def __init__(self, config: AnalysisConfig, _model: Model | None = None) -> None:
        if not isinstance(config, AnalysisConfig):
            raise TypeError(f"Predictor: config must be a Config, got {type(config)}")
        self._session = Session(config, _model)

    def get_input_handle(self, name: str) -> Tensor:
        """The input `name`.

        Args:
            name (str): one of `get_input_names`.

        Raises:
            ValueError: for another name.
        """
        return self._session.input(name)

    def get_output_handle(self, name: str) -> Tensor:
        """The output `name`.

        Args:
            name (str): one of `get_output_names`.

        Raises:
            ValueError: for another name.
        """
        return self._session.output(name)

    def run(self, inputs: list | None = None) -> Any:
        """Computes the outputs.

        Args:
            inputs (list of Tensor, optional): as in later versions of Paddle: the inputs in order, in place of
                `copy_from_cpu`.

        Returns:
            True; with `inputs` the outputs as a list of Tensor.

        Raises:
            RuntimeError: when an input is not set. ValueError: for an input of another type or shape.
        """
        if inputs is None:
            self._session.run()
            return True
        names = self.get_input_names()
        if len(inputs) != len(names):
            raise ValueError(f"Predictor.run: the model has {len(names)} inputs {names}, got {len(inputs)}")
        for name, tensor in zip(names, inputs, strict=True):
            self.get_input_handle(name).copy_from_cpu(tensor.numpy())
        self._session.run()
        return [core.Tensor(value.copy_to_cpu()) for value in self._session.outputs.values()]

    def clone(self) -> Predictor:
        """A Predictor over the same parameters, with inputs and outputs of its own, for another thread."""
        return Predictor(self._session.config, self._session.model)

    def try_shrink_memory(self) -> int:
        """Drops the outputs and returns idle memory to the system."""
        self._session.clear()
        core.empty_cache()
        return 0

    def clear_intermediate_tensor(self) -> None:
        """Drops the outputs; a run keeps no intermediate tensors."""
        self._session.clear()


def create_predictor(config: AnalysisConfig) -> Predictor:
    """A Predictor for a model.

    Args:
        config (Config): names the model, and how it is prepared and run.

    Returns:
        Predictor

    Examples:
        >>> import numpy as np, paddle
        >>> from paddle.inference import Config, create_predictor
        >>> paddle.enable_static()
        >>> x = paddle.static.data("x", [None, 2], "float32")
        >>> y = paddle.static.nn.fc(x, 3, activation="relu")
        >>> exe = paddle.static.Executor(paddle.CPUPlace())
        >>> _ = exe.run(paddle.static.default_startup_program())
        >>> paddle.static.save_inference_model("served", [x], [y], exe)
        >>> predictor = create_predictor(Config("served.pdmodel", "served.pdiparams"))
        >>> predictor.get_input_handle("x").copy_from_cpu(np.ones((4, 2), "float32"))
        >>> _ = predictor.run()
        >>> predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu().shape
        (4, 3)
    """
    return Predictor(config)


class PredictorPool:
    """A predictor and clones of it, for as many threads.

    Args:
        config (Config): names the model.
        size (int): how many predictors, at least 1.

    Raises:
        ValueError: for a size below 1.
    """

    def __init__(self, config: AnalysisConfig, size: int) -> None:
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"PredictorPool: size must be an int of at least 1, got {size!r}")
        first = Predictor(config)
        self._predictors = [first, *(first.clone() for _ in range(size - 1))]

    def retrive(self, idx: int) -> Predictor:
        """A predictor of the pool.

        Args:
            idx (int): its number, from 0.

        Raises:
            IndexError: for a number outside of the pool.
        """
        if not 0 <= idx < len(self._predictors):
            raise IndexError(f"PredictorPool.retrive: there are {len(self._predictors)} predictors, got idx {idx}")
        return self._predictors[idx]

    retrieve = retrive
