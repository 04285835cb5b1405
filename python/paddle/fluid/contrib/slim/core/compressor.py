"""Compressor: trains, evaluates and saves a Program, with strategies called at each step."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from paddle._basics.place import CPUPlace
from paddle._core import EOFException
from paddle.fluid.log_helper import get_logger
from paddle.static import CompiledProgram, scope_guard

from ..graph import GraphWrapper, SlimGraphExecutor
from .config import ConfigFactory

__all__ = ["Compressor", "Context"]

_logger = get_logger(__name__, logging.INFO, fmt="%(asctime)s-%(levelname)s: %(message)s")


def _sampled(reader: Callable[[], Any], rate: float, cache: str, number: int) -> Callable[[], Iterator[Any]]:
    """A reader of a share of the batches, the same in each call with this `number`: they are kept in files."""
    folder = os.path.join(cache, str(number))

    def read() -> Iterator[Any]:
        if not os.path.isdir(folder):
            draw = np.random.RandomState(number)
            kept = [batch for i, batch in enumerate(reader()) if i == 0 or draw.uniform() < rate]
            os.makedirs(folder)
            with open(os.path.join(folder, "batches"), "wb") as file:
                pickle.dump(kept, file)
        with open(os.path.join(folder, "batches"), "rb") as file:
            yield from pickle.load(file)

    return read


def _batches(reader: Any) -> Iterator[Any]:
    """The batches of a reader; None for each where the graph reads by itself, until its loader is at its end."""
    if hasattr(reader, "start") and not getattr(reader, "iterable", False):
        reader.start()
        while True:
            yield None
    else:
        yield from reader()


class Context:
    """What the strategies of a Compressor share.

    Attributes:
        epoch, epoch_id, batch_id (int): number of epochs, and the current ones.
        place, scope: the device; contains the parameters.
        train_graph, eval_graph, optimize_graph (GraphWrapper): with the loss; for evaluation; what is trained, with
            backward and optimizer operators.
        train_reader, eval_reader: batches.
        teacher_graphs (list of GraphWrapper), train_optimizer, distiller_optimizer, search_space: the arguments of the
            Compressor.
        eval_results (dict of list): results of the evaluations by name.
        skip_training (bool): no training in this epoch.
        cache_path (str): folder of sampled batches.
    """

    def __init__(
        self,
        place: Any,
        scope: Any,
        train_graph: Any = None,
        train_reader: Any = None,
        eval_graph: Any = None,
        eval_reader: Any = None,
        teacher_graphs: Any = None,
        train_optimizer: Any = None,
        distiller_optimizer: Any = None,
        search_space: Any = None,
    ) -> None:
        self.epoch = self.epoch_id = self.batch_id = 0
        self.k_v: dict[Any, Any] = {}
        self.place, self.scope = place, scope
        self.train_graph, self.train_reader = train_graph, train_reader
        self.eval_graph, self.eval_reader = eval_graph, eval_reader
        self.executor: Any = None
        self.teacher_graphs = teacher_graphs
        self.train_optimizer, self.distiller_optimizer = train_optimizer, distiller_optimizer
        self.optimize_graph: Any = None
        self.cache_path = "./eval_cache"
        self.eval_results: dict[str, list[Any]] = {}
        self.skip_training = False
        self.search_space = search_space

    def put(self, key: Any, value: Any) -> None:
        """Keeps a value for `get`."""
        self.k_v[key] = value

    def get(self, key: Any) -> Any:
        """The kept value, or None."""
        return self.k_v.get(key)

    def to_file(self, file_name: str) -> None:
        """Saves the epoch and the results of evaluations."""
        with open(file_name, "wb") as file:
            pickle.dump({"epoch_id": self.epoch_id, "eval_results": self.eval_results}, file, protocol=2)

    def from_file(self, file_name: str) -> None:
        """Loads what `to_file` saved."""
        with open(file_name, "rb") as file:
            data = pickle.load(file, encoding="bytes")
        self.epoch_id, self.eval_results = data["epoch_id"], data["eval_results"]

    def eval_converged(self, metric_name: str, delta: float = 0.001) -> bool:
        """Whether the last two results differ by less than `delta`, relative to the first of them."""
        results = self.eval_results.get(metric_name, [])[-2:]
        return len(results) == 2 and bool(abs(results[1] - results[0]) / results[0] < delta)

    def run_eval_graph(self, sampled_rate: float | None = None, cached_id: int = 0) -> tuple[list[Any], Any]:
        """Runs `eval_graph` on all batches, or on a share of them.

        Args:
            sampled_rate (float): the share, in (0, 1]; None: all.
            cached_id (int): calls with the same number take the same batches.

        Returns:
            tuple: the means of the outputs, and their names.

        Raises:
            ValueError: there is no graph or reader for evaluation.
        """
        if self.eval_graph is None or self.eval_reader is None:
            raise ValueError("Context.run_eval_graph: eval_program and eval_reader are needed")
        graph, executor = self.eval_graph.clone(for_test=True), SlimGraphExecutor(self.place)
        reader = self.eval_reader
        if sampled_rate:
            reader = _sampled(reader, sampled_rate, self.cache_path, cached_id)
        results = []
        try:
            for data in _batches(reader):
                results.append([np.mean(r) for r in executor.run(graph, self.scope, data=data)])
        except EOFException:
            reader.reset()
        names = graph.out_nodes.keys()
        means = list(np.mean(np.array(results), axis=0))
        _logger.info(
            "evaluation: %s", ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, means, strict=True))
        )
        return means, names


class Compressor:
    """Trains a Program while strategies compress it: distillation and quantization of paddle.fluid.contrib.slim.

    Args:
        place (Place), scope (Scope): the device (None: the CPU); contains the initialized parameters.
        train_program (Program): computes the loss; without optimizer operators if `train_optimizer` is given.
        train_reader (callable): returns an iterator of batches; or a loader that feeds the Program by itself.
        train_feed_list, train_fetch_list (list of pairs of str): names and Variables' names of inputs and outputs.
            The output named ``loss`` is minimized.
        eval_program, eval_reader, eval_feed_list, eval_fetch_list: the same for evaluation.
        eval_func (dict of callable): instead of `eval_reader`: each is called with the Program and the scope, and
            returns the result that is recorded under its name.
        save_eval_model (bool): whether checkpoints contain the evaluated model.
        prune_infer_model (pair of list of str): names of inputs and outputs of a model for inference in checkpoints.
        teacher_programs (list of Program): for distillation.
        checkpoint_path (str): folder of checkpoints, one an epoch; training goes on from the last. None: none.
        train_optimizer, distiller_optimizer (Optimizer): of the own loss; of the loss with a teacher's.
        search_space: accepted; strategies of architecture search are not here.
        log_period (int): batches between two lines of log.

    Raises:
        TypeError: feeds or fetches are not pairs. ValueError: `log_period` is not positive.

    Source: fluid.contrib.Compressor of Paddle 1.8.

    Examples:
        .. code-block:: python

            import numpy as np
            import paddle
            import paddle.fluid as fluid
            from paddle.fluid.contrib import Compressor

            paddle.enable_static()
            x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
            loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
            test = fluid.default_main_program().clone(for_test=True)
            fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
            samples = [(np.ones(4, "float32"), np.ones(1, "float32"))] * 8
            feeds, fetches = [("x", "x"), ("y", "y")], [("loss", loss.name)]
            compressor = Compressor(
                fluid.CPUPlace(), fluid.global_scope(), fluid.default_main_program(), lambda: iter([samples]),
                feeds, fetches, test, lambda: iter([samples]), feeds, fetches,
                train_optimizer=fluid.optimizer.SGD(0.01),
            )
            compressor.epoch = 2
            graph = compressor.run()
            print(len(compressor.context.eval_results["loss"]))  # 2
            paddle.disable_static()
    """

    def __init__(
        self,
        place: Any,
        scope: Any,
        train_program: Any,
        train_reader: Any = None,
        train_feed_list: Any = None,
        train_fetch_list: Any = None,
        eval_program: Any = None,
        eval_reader: Any = None,
        eval_feed_list: Any = None,
        eval_fetch_list: Any = None,
        eval_func: Any = None,
        save_eval_model: bool = True,
        prune_infer_model: Any = None,
        teacher_programs: Any = [],  # noqa: B006
        checkpoint_path: str | None = None,
        train_optimizer: Any = None,
        distiller_optimizer: Any = None,
        search_space: Any = None,
        log_period: int = 20,
    ) -> None:
        if log_period <= 0:
            raise ValueError(f"Compressor: log_period must be positive, got {log_period}")
        self.strategies: list[Any] = []
        self.epoch = 0
        self.place = CPUPlace() if place is None else place
        self.scope = scope
        self.train_graph = GraphWrapper(train_program, train_feed_list, train_fetch_list)
        self.eval_graph = GraphWrapper(eval_program, eval_feed_list, eval_fetch_list)
        self.train_reader, self.eval_reader, self.eval_func = train_reader, eval_reader, eval_func
        self.save_eval_model, self.prune_infer_model = save_eval_model, prune_infer_model
        self.teacher_graphs = [GraphWrapper(teacher) for teacher in teacher_programs]
        self.checkpoint_path = checkpoint_path
        self.eval_epoch = 1
        self.train_optimizer, self.distiller_optimizer = train_optimizer, distiller_optimizer
        self.init_model: str | None = None
        self.search_space = search_space
        self.log_period = log_period
        self.context: Any = None

    def config(self, config_file: str) -> None:
        """Takes strategies and settings from a YAML file (see ConfigFactory).

        Raises:
            ValueError: `eval_epoch` is not positive, or as ConfigFactory. NotImplementedError: as ConfigFactory.
        """
        settings = ConfigFactory(config_file).compressor
        self.epoch = settings["epoch"]
        for strategy in settings["strategies"]:
            self.strategies.append(strategy)
            self.epoch = max(strategy.end_epoch, self.epoch)
        for name in ("checkpoint_path", "init_model", "eval_epoch"):
            setattr(self, name, settings.get(name, getattr(self, name)))
        if self.eval_epoch <= 0:
            raise ValueError(f"{config_file}: compressor: eval_epoch must be positive, got {self.eval_epoch}")

    def run(self) -> GraphWrapper:
        """Trains, and returns the graph for evaluation."""
        context = self.context = Context(
            self.place,
            self.scope,
            self.train_graph,
            self.train_reader,
            self.eval_graph,
            self.eval_reader,
            self.teacher_graphs,
            self.train_optimizer,
            self.distiller_optimizer,
            self.search_space,
        )
        context.epoch = self.epoch
        if self.teacher_graphs:
            context.put("teachers", self.teacher_graphs)
        self._load_model(context)
        context.optimize_graph = self.train_graph
        if self.train_optimizer is not None:
            self.train_optimizer._name = "train_opt"
            found = self.train_graph.get_optimize_graph(self.train_optimizer, self.place, self.scope)
            if found is None:
                raise ValueError("Compressor: train_fetch_list must name an output 'loss' or 'cost'")
            context.optimize_graph = found
        self._load_checkpoint(context)
        self._each("on_compression_begin", context)
        for epoch in range(context.epoch_id, self.epoch):
            context.epoch_id = epoch
            self._each("on_epoch_begin", context)
            self._train(context)
            if context.epoch_id % self.eval_epoch == 0:
                self._evaluate(context)
            self._save_checkpoint(context)
            self._each("on_epoch_end", context)
        self._each("on_compression_end", context)
        return context.eval_graph

    def _each(self, method: str, context: Context) -> None:
        for strategy in self.strategies:
            getattr(strategy, method)(context)

    def _train(self, context: Context) -> None:
        if context.skip_training or self.train_reader is None:
            return
        graph, executor = context.optimize_graph, SlimGraphExecutor(self.place)
        if graph.compiled_graph is None:
            graph.compiled_graph = CompiledProgram(graph.program).with_data_parallel(loss_name=graph.out_nodes["loss"])
        context.batch_id = 0
        try:
            for data in _batches(context.train_reader):
                self._each("on_batch_begin", context)
                results = executor.run(graph, context.scope, data=data)
                if context.batch_id % self.log_period == 0:
                    shown = ", ".join(f"{k} = {np.mean(r):.6g}" for k, r in zip(graph.out_nodes, results, strict=True))
                    _logger.info("epoch %d, batch %d: %s", context.epoch_id, context.batch_id, shown)
                self._each("on_batch_end", context)
                context.batch_id += 1
        except EOFException:
            context.train_reader.reset()

    def _evaluate(self, context: Context) -> None:
        if self.eval_func is not None:
            found = {name: call(self.eval_graph.program, self.scope) for name, call in self.eval_func.items()}
        elif self.eval_reader is not None:
            values, names = context.run_eval_graph()
            found = dict(zip(names, values, strict=True))
        else:
            return
        for name, value in found.items():
            context.eval_results.setdefault(name, []).append(value)

    def _load_model(self, context: Context) -> None:
        """Loads parameters of `init_model`, which may have been pruned."""
        if not self.init_model or not os.path.exists(self.init_model):
            return
        with scope_guard(context.scope):
            context.train_graph.load_persistables(self.init_model, SlimGraphExecutor(context.place))
        for graph in (context.eval_graph, context.train_graph):
            graph.update_param_shape(context.scope)
            graph.update_groups_of_conv()
        context.train_graph.infer_shape()

    def _load_checkpoint(self, context: Context) -> None:
        """Goes on after the last checkpoint, with the strategies' state in it."""
        folder = self.checkpoint_path
        numbers = [int(n) for n in os.listdir(folder) if n.isdigit()] if folder and os.path.isdir(folder) else []
        if not numbers:
            return
        last = os.path.join(folder or "", str(max(numbers)))
        context.from_file(os.path.join(last, "context"))
        context.epoch_id += 1
        with open(os.path.join(last, "strategies"), "rb") as file:
            saved = pickle.load(file, encoding="bytes")
        if len(saved) != len(self.strategies):
            raise ValueError(f"{last}: has {len(saved)} strategies, the Compressor {len(self.strategies)}")
        for strategy, given in zip(saved, self.strategies, strict=True):
            strategy.__dict__.update(given.__dict__)
        self.strategies = saved
        self._each("restore_from_checkpoint", context)
        with scope_guard(context.scope):
            context.optimize_graph.load_persistables(os.path.join(last, "model"), SlimGraphExecutor(context.place))
        _logger.info("parameters of the checkpoint %s", last)

    def _save_checkpoint(self, context: Context) -> None:
        if not self.checkpoint_path:
            return
        folder, executor = os.path.join(self.checkpoint_path, str(context.epoch_id)), SlimGraphExecutor(self.place)
        model, evaluated = os.path.join(folder, "model"), os.path.join(folder, "eval_model")
        os.makedirs(model, exist_ok=True)
        with scope_guard(context.scope):
            context.optimize_graph.save_persistables(model, executor)
            if self.save_eval_model:
                context.eval_graph.save_model(evaluated, executor)
            if self.prune_infer_model:
                only = self.save_eval_model
                context.eval_graph.save_infer_model(evaluated, executor, self.prune_infer_model, program_only=only)
        context.to_file(os.path.join(folder, "context"))
        with open(os.path.join(folder, "strategies"), "wb") as file:
            pickle.dump(self.strategies, file)
