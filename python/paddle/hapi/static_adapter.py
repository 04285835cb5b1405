"""`paddle.Model` in static mode: one Program each for training, evaluation and prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as _core
from paddle import _ops
from paddle._programs.guards import default_main_program, default_startup_program, program_guard
from paddle._programs.program import Program
from paddle._programs.scope import global_scope
from paddle.distributed import data_parallel_program
from paddle.distributed.parallel import init_parallel_env
from paddle.framework.io import save
from paddle.static.compiler import CompiledProgram
from paddle.static.executor import Executor
from paddle.static.vars_io import is_belong_to_optimizer
from paddle.tensor import add_n

from .adapters import NOT_READY, Adapter, to_list

__all__: list[str] = []


def _tensor(name: str) -> Any:
    return global_scope().var(name).get_tensor()


def _initialized(name: str) -> bool:
    found = global_scope().find_var(name)
    return found is not None and found.get_tensor()._is_initialized()


class StaticGraphAdapter(Adapter):
    """Builds the Programs in `prepare`; batches are fed to them."""

    _counters = ("global_step", "@LR_DECAY_COUNTER@")

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        # the network's parameters exist already
        self._startup_prog = default_startup_program()
        self._orig_prog = default_main_program()
        self._executor: Executor | None = None
        self._progs: dict[str, Program] = {}
        self._compiled_progs: dict[str, Any] = {}
        self._input_vars: dict[str, list[Any]] = {}
        self._label_vars: dict[str, list[Any]] = {}
        self._endpoints: dict[str, dict[str, Any]] = {}

    # ------------------------------------------------------------------------------------------ building

    def prepare(self) -> None:
        """Builds the three Programs and initializes variables without values."""
        self._progs.clear()
        for mode in ("train", "eval", "test"):
            self._progs[mode] = self._make_program(mode)
        place = self.model._place
        self._executor = self._executor or Executor(place)
        missing = [var for var in self._startup_prog.list_vars() if not _initialized(var.name)]
        if missing:
            self._executor.run(self._startup_prog._prune(missing))
        if self._nranks > 1:
            self._share_parameters()
        for mode, program in self._progs.items():
            self._compiled_progs[mode] = CompiledProgram(program) if self._nranks < 2 else program

    def _make_program(self, mode: str) -> Program:
        model = self.model
        program = self._orig_prog.clone()
        if mode != "train":
            # A learning rate schedule computed by the Program may exist: only training increments its step.
            block = program.global_block()
            for _ in range(len(block.ops)):
                block._remove_op(0)
        elif model._optimizer is not None and self._orig_prog in model._optimizer._learning_rate_map:
            rates = model._optimizer._learning_rate_map
            rates[program] = program.global_block().vars[rates[self._orig_prog].name]
        losses: list[Any] = []
        metrics: list[list[Any]] = []
        with program_guard(program, self._startup_prog):
            inputs = [spec._create_feed_layer() for spec in model._inputs]
            labels = [spec._create_feed_layer() for spec in model._labels]
            self._input_vars[mode], self._label_vars[mode] = inputs, labels
            outputs = to_list(model.network.forward(*inputs))
            if mode != "test" and model._loss:
                losses = to_list(model._loss(*outputs, *labels))
            shown, known = outputs, labels
            if mode != "train" and self._nranks > 1:
                shown = [self._all_gather(x) for x in outputs]
                known = [self._all_gather(x) for x in labels] if mode == "eval" else labels
            if mode != "test":
                metrics = [to_list(metric.compute(*shown, *known)) for metric in model._metrics]
            if mode == "train" and model._optimizer is not None and losses:
                self._minimize(losses[0] if len(losses) == 1 else add_n(losses))
        self._endpoints[mode] = {"output": shown, "loss": losses, "metric": metrics}
        return program if mode == "train" else program.clone(for_test=True)

    def _all_gather(self, x: Any) -> Any:
        return _ops.c_allgather(x, nranks=self._nranks, ring_id=0, use_calc_stream=True)

    def _minimize(self, loss: Any) -> None:
        optimizer = self.model._optimizer
        if self._nranks < 2:
            optimizer.minimize(loss, self._startup_prog)
            return
        data_parallel_program.minimize(optimizer, loss, self._startup_prog, ranks=self._nranks)

    def _share_parameters(self) -> None:
        """Broadcasts the values of rank 0 to all processes."""
        if not _core.dist.joined():
            init_parallel_env()
        program = Program()
        data_parallel_program.share(program, self._progs["train"].all_parameters())
        if program.global_block().ops:
            assert self._executor is not None
            self._executor.run(program)

    # ------------------------------------------------------------------------------------------- running

    def train_batch(self, inputs: Any, labels: Any = None) -> Any:
        """One step of training."""
        assert self.model._optimizer, "model not ready, please call `model.prepare()` first"
        self.mode = "train"
        return self._run(inputs, labels)

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Loss and metrics of a batch."""
        self.mode = "eval"
        return self._run(inputs, labels)

    def predict_batch(self, inputs: Any) -> list[np.ndarray]:
        """The outputs of a batch."""
        self.mode = "test"
        outputs = self._run(inputs, None)
        if self._nranks < 2 or not outputs:
            return outputs
        kept = self._genuine(outputs[0].shape[0])
        return [out[:kept] for out in outputs]

    def _run(self, inputs: Any, labels: Any) -> Any:
        mode = self.mode
        program = self._compiled_progs.get(mode)
        assert program is not None and self._executor is not None, NOT_READY
        inputs, labels = to_list(inputs), to_list(labels)
        wanted = self._input_vars[mode]
        assert len(inputs) == len(wanted), (
            f"`forward` takes {len(wanted)} inputs by the model's InputSpecs, but this batch has {len(inputs)}"
        )
        # training and evaluation may have different inputs
        feed = {var.name: value for var, value in zip(wanted, inputs, strict=True) if value is not None}
        if mode != "test":
            feed.update((var.name, value) for var, value in zip(self._label_vars[mode], labels, strict=False))
        ends = self._endpoints[mode]
        targets = ends["output"] if mode == "test" else [*ends["loss"], *(v for m in ends["metric"] for v in m)]
        # an input that is also an output is fed only
        fetched = iter(
            self._executor.run(
                program, feed=feed, fetch_list=[v for v in targets if v.name not in feed], return_numpy=False
            )
        )
        values = [np.array(feed[v.name] if v.name in feed else next(fetched)) for v in targets]
        if mode == "test":
            return values
        losses, rest = values[: len(ends["loss"])], values[len(ends["loss"]) :]
        metrics = []
        kept = None
        for metric, variables in zip(self.model._metrics, ends["metric"], strict=True):
            states, rest = rest[: len(variables)], rest[len(variables) :]
            if mode == "eval" and self._nranks > 1:
                kept = self._genuine(states[0].shape[0]) if kept is None else kept
                states = [state[:kept] for state in states]
            metrics.append(metric.update(*states))
        return self._result(losses, metrics)

    # --------------------------------------------------------------------------------------------- state

    def save(self, path: str) -> None:
        """Saves parameters in ``path.pdparams``, and optimizer variables, if there are any, in ``path.pdopt``."""
        state = {}
        for key, var in self.model.network.state_dict().items():
            state[key] = _core.Tensor(np.array(_tensor(var.name)))
            state[key].name = var.name  # stored in the file's name table
        save(state, path + ".pdparams")
        program = self._progs.get("train")
        if program is None or self.model._optimizer is None:
            return
        variables = {v.name: np.array(_tensor(v.name)) for v in program.list_vars() if is_belong_to_optimizer(v)}
        if variables:
            save(variables, path + ".pdopt")

    def load(self, pairs: list[tuple[Any, Any]], optimizer_state: dict[str, Any] | None) -> None:
        """Sets parameters and optimizer variables."""
        for parameter, value in pairs:
            self._set(parameter.name, value)
        if self.model._optimizer is None or not optimizer_state:
            return
        program = self._progs.get("train")
        assert program is not None, "optimizer state can be loaded only after `model.prepare(optimizer, ...)`"
        state = self._load_optimizer(optimizer_state)
        for var in filter(is_belong_to_optimizer, program.list_vars()):
            if var.name in state:
                self._set(var.name, state[var.name])
            # in dygraph mode the rate is a number, which is not saved
            elif not var.name.startswith("learning_rate_"):
                raise AssertionError(f"variable [{var.name}] is not in optimizer state file")

    def _set(self, name: str, value: Any) -> None:
        _tensor(name).set(np.asarray(value), self.model._place)

    def set_learning_rate(self, rate: float) -> None:
        """Sets the rate of the next step, a variable of the Program."""
        optimizer = self.model._optimizer
        optimizer._learning_rate = rate
        for var in optimizer._learning_rate_map.values():
            if _initialized(var.name):
                self._set(var.name, np.full([1], rate, np.array(_tensor(var.name)).dtype))
