"""Model: training, evaluation, prediction, saving and loading of a network."""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any

import numpy as np

from paddle._basics import mode
from paddle._basics.mode import in_static_mode
from paddle._basics.structure import flatten
from paddle._dispatch.dygraph import no_grad_
from paddle._persistence.atomic_files import where
from paddle._persistence.saving import NAME_TABLE
from paddle.distributed.parallel import ParallelEnv, prepare_context
from paddle.framework.io import load as load_file
from paddle.io import DataLoader, Dataset, DistributedBatchSampler, IterableDataset
from paddle.metric import Metric
from paddle.nn import Layer
from paddle.static import InputSpec
from paddle.static.inference_io import save_inference_model

from .adapters import NOT_READY, Adapter, to_list
from .callbacks import CallbackList, EarlyStopping, config_callbacks
from .dynamic_adapter import DynamicGraphAdapter
from .export import save_for_inference
from .history import History
from .model_summary import summary
from .static_adapter import StaticGraphAdapter

__all__ = ["Model"]


def prepare_distributed_context(place: Any = None) -> Any:
    """Connects to the other processes of the job; Model also does this by itself.

    Args:
        place (Place, optional): ignored.

    Returns:
        ParallelStrategy|None: None for a single process.
    """
    return prepare_context()


class Model:
    """Trains, evaluates, predicts with and saves a network, in the mode (dygraph or static) in which it is created.

    Args:
        network (Layer): the network.
        inputs (InputSpec|list|dict, optional): the inputs of `forward`, each with a name; required in static mode. If
            omitted, the arguments of `forward` determine how many fields of a batch are inputs.
        labels (InputSpec|list, optional): the arguments of the loss after the network's outputs; required in static
            mode for a loss or metric with labels.

    Raises:
        TypeError: in static mode without `inputs`.
        ValueError: for an InputSpec without a name.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> class Line(paddle.io.Dataset):
        ...     def __getitem__(self, index):
        ...         return np.float32([index / 8]), np.float32([index / 4 + 1])
        ...     def __len__(self):
        ...         return 8
        >>> net = paddle.nn.Linear(1, 1)
        >>> model = paddle.Model(net)
        >>> model.prepare(paddle.optimizer.SGD(0.3, parameters=net.parameters()), paddle.nn.MSELoss())
        >>> history = model.fit(Line(), batch_size=8, epochs=300, verbose=0)
        >>> print(model.evaluate(Line(), batch_size=8, verbose=0)["loss"][0] < 1e-3)
        True
    """

    def __init__(self, network: Any, inputs: Any = None, labels: Any = None) -> None:
        self.mode = "train"
        self.network = network
        self.stop_training = False
        self._loss: Any = None
        self._optimizer: Any = None
        self._metrics: list[Metric] = []
        self._test_dataloader: Any = None
        self._place = mode._current_expected_place()
        self._is_shape_inferred = False
        dynamic = not in_static_mode()
        if not dynamic and not isinstance(inputs, (list, tuple, dict, InputSpec)):
            raise TypeError(f"Model: static mode requires inputs (InputSpec, list or dict of it), got {type(inputs)}")
        #: whether the inputs are known, from the caller or from a batch
        self._known = bool(inputs)
        self._inputs: Any = self._specs(inputs) if self._known else self._specs_of_forward()
        self._labels = self._specs(labels)
        self._adapter: Any = DynamicGraphAdapter(self) if dynamic else StaticGraphAdapter(self)

    # ------------------------------------------------------------------------------------------- inputs

    def _forward_arguments(self) -> list[str]:
        arguments = inspect.signature(self.network.forward).parameters.values()
        return [a.name for a in arguments if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]

    def _specs(self, given: Any) -> list[InputSpec]:
        if isinstance(given, dict):
            given = [given[name] for name in self._forward_arguments() if name in given]
        specs = to_list(given)
        for i, spec in enumerate(specs):
            assert isinstance(spec, InputSpec), f"Model: inputs and labels must be InputSpecs, got {type(spec)}"
            if spec.name is None:
                raise ValueError(f"Model: each InputSpec must have a name, but Input[{i}] has none: {spec}")
        return specs

    def _specs_of_forward(self) -> list[InputSpec]:
        return [InputSpec(name=name, shape=[None]) for name in self._forward_arguments()]

    def _keep_inputs(self) -> None:
        """Stores the shapes of the first batch if the inputs are unknown."""
        info = self._adapter._input_info
        if self._known or in_static_mode() or info is None:
            return
        names = self._forward_arguments()
        self._inputs = [InputSpec(shape, dtype, name) for name, shape, dtype in zip(names, *info, strict=False)]
        self._known = self._is_shape_inferred = True

    def _split(self, fields: list[Any], predicting: bool) -> tuple[list[Any], list[Any]]:
        """Splits the fields of a batch into inputs and labels."""
        count = len(self._inputs or ())
        if predicting and not count:
            count = len(fields)
        if not count:
            raise ValueError(
                "the arguments of `forward` do not determine how many fields of a batch are inputs: "
                "pass inputs (a list of paddle.static.InputSpec) to Model"
            )
        return fields[:count], fields[count:]

    # ------------------------------------------------------------------------------------------ batches

    def train_batch(self, inputs: Any, labels: Any = None) -> Any:
        """One step of training.

        Args:
            inputs (Tensor|numpy.ndarray|list): inputs of the network.
            labels (Tensor|numpy.ndarray|list, optional): labels of the loss.

        Returns:
            list: the loss or losses as arrays; with metrics a pair of this list and a list of metric values.

        Examples:
            >>> import numpy as np
            >>> import paddle
            >>> net = paddle.nn.Linear(2, 1)
            >>> model = paddle.Model(net)
            >>> model.prepare(paddle.optimizer.SGD(0.1, parameters=net.parameters()), paddle.nn.MSELoss())
            >>> (loss,) = model.train_batch([np.ones([4, 2], "float32")], [np.ones([4, 1], "float32")])
            >>> loss.shape
            (1,)
        """
        result = self._adapter.train_batch(inputs, labels)
        self._keep_inputs()
        return result

    @no_grad_()
    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Loss and metrics of a batch; arguments and result as in :meth:`train_batch`."""
        result = self._adapter.eval_batch(inputs, labels)
        self._keep_inputs()
        return result

    @no_grad_()
    def predict_batch(self, inputs: Any) -> list[np.ndarray]:
        """The outputs of the network for a batch, as a list of arrays.

        Examples:
            >>> import numpy as np
            >>> import paddle
            >>> model = paddle.Model(paddle.nn.Linear(2, 3))
            >>> model.prepare()
            >>> [out.shape for out in model.predict_batch([np.ones([4, 2], "float32")])]
            [(4, 3)]
        """
        result = self._adapter.predict_batch(inputs)
        self._keep_inputs()
        return result

    # -------------------------------------------------------------------------------------------- files

    def save(self, path: str, training: bool = True) -> None:
        """Saves the model on rank 0; folders are created.

        Args:
            path (str): folder and name without suffix.
            training (bool): True writes ``path.pdparams`` and, if the optimizer has state, ``path.pdopt``; False writes
                an inference model, ``path.pdmodel`` and ``path.pdiparams``, which requires `inputs` of Model or a batch
                that was run before.

        Raises:
            ValueError: for a path without a name.
            RuntimeError: for an inference model with unknown inputs.

        Examples:
            >>> import os, tempfile
            >>> import paddle
            >>> model = paddle.Model(paddle.nn.Linear(2, 3), paddle.static.InputSpec([None, 2], "float32", "x"))
            >>> path = os.path.join(tempfile.mkdtemp(), "linear")
            >>> model.save(path)
            >>> model.load(path)
        """
        if ParallelEnv().local_rank != 0:
            return
        if os.path.basename(path) == "":
            raise ValueError(f"Model.save: path must be 'folder/name' or 'name', got {path!r:.200}")
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        if training:
            self._adapter.save(path)
        else:
            self._save_inference_model(path)

    def _save_inference_model(self, path: str) -> None:
        if not in_static_mode():
            if not self._known:
                raise RuntimeError(
                    "Saving inference model needs 'inputs' or running before saving: pass inputs to Model, or run a "
                    "batch that determines their shapes"
                )
            if self._is_shape_inferred:
                shapes = [list(spec.shape) for spec in self._inputs]
                warnings.warn(
                    f"the saved model accepts inputs of the shapes of the batch that was run, {shapes}: "
                    "pass inputs to Model for other shapes",
                    stacklevel=3,
                )
            save_for_inference(self.network, path, self._inputs)
            return
        program = self._adapter._progs.get("test")
        assert program is not None, NOT_READY
        feeds = [program.global_block().var(v.name) for v in self._adapter._input_vars["test"]]
        fetches = [program.global_block().var(v.name) for v in self._adapter._endpoints["test"]["output"]]
        copy = program.clone(for_test=True)
        save_inference_model(path, feeds, fetches, self._adapter._executor, program=copy)

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Loads a training checkpoint of :meth:`save`, in either mode.

        Args:
            path (str): folder and name, with or without suffix.
            skip_mismatch (bool): parameters that are missing in the file or have another shape keep their values.
            reset_optimizer (bool): ignore ``path.pdopt``.

        Raises:
            AssertionError: if there is no such file.
            ValueError: for a parameter that is missing in the file or has another shape.
        """
        base, suffix = os.path.splitext(path)
        assert suffix in ("", ".pdparams", ".pdopt", ".pdmodel") or not os.path.isfile(path), (
            f"Unknown postfix {suffix} from weights"
        )
        path = base if suffix in (".pdparams", ".pdopt", ".pdmodel") else path
        file = path + ".pdparams"
        assert os.path.exists(where(file)), f"Failed to load parameters, please check path: there is no {file}"
        state = load_file(file, keep_name_table=True)
        pairs = []
        for key, parameter in self.network.state_dict().items():
            problem = self._mismatch(key, parameter, state)
            if problem is None:
                pairs.append((parameter, state[key]))
            elif skip_mismatch:
                warnings.warn(f"Skip loading for {key}. {problem}", stacklevel=2)
                reset_optimizer = True
            else:
                raise ValueError(problem)
        optimizer_state = None
        if not reset_optimizer and os.path.exists(where(path + ".pdopt")):
            optimizer_state = self._own_names(load_file(path + ".pdopt"), state.get(NAME_TABLE) or {})
        self._adapter.load(pairs, optimizer_state)

    @staticmethod
    def _mismatch(key: str, parameter: Any, state: dict[str, Any]) -> str | None:
        value = state.get(key)
        if value is None:
            return f"{key} is not found in the providing file."
        if list(np.shape(value)) != list(parameter.shape):
            expected = list(parameter.shape)
            return f"{key} receives a shape {list(np.shape(value))}, but the expected shape is {expected}."
        return None

    def _own_names(self, optimizer_state: dict[str, Any], saved_names: dict[str, str]) -> dict[str, Any]:
        """Optimizer state with this network's parameter names, which are prefixes of accumulator names."""
        own = {key: parameter.name for key, parameter in self.network.state_dict().items()}
        renamed = {saved_names[key]: name for key, name in own.items() if key in saved_names}
        changed = sorted((old for old, new in renamed.items() if old != new), key=len, reverse=True)
        state = {}
        for name, value in optimizer_state.items():
            old = next((old for old in changed if name.startswith(old + "_")), None)
            state[name if old is None else renamed[old] + name[len(old) :]] = value
        return state

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The parameters of the network."""
        return self.network.parameters()

    # ----------------------------------------------------------------------------------------- preparing

    def prepare(self, optimizer: Any = None, loss: Any = None, metrics: Any = None) -> None:
        """Sets optimizer, loss and metrics.

        Args:
            optimizer (Optimizer, optional): for training.
            loss (callable, optional): function of the network's outputs and the labels, such as a layer of paddle.nn;
                returns a Tensor or a list of them, whose sum is minimized.
            metrics (Metric|list of Metric, optional): accumulated over the batches.

        Raises:
            TypeError: for a loss that is not callable.
        """
        self._place = mode._current_expected_place()
        if loss is not None and not isinstance(loss, Layer) and not callable(loss):
            raise TypeError(f"'loss' must be a Layer or another callable, got {type(loss)}")
        metrics = to_list(metrics)
        for metric in metrics:
            assert isinstance(metric, Metric), f"{type(metric).__name__} is not sub class of Metric"
        self._optimizer, self._loss, self._metrics = optimizer, loss, metrics
        self._adapter.prepare()

    def _set_learning_rate(self, rate: float) -> None:
        self._adapter.set_learning_rate(rate)

    # ------------------------------------------------------------------------------------------- running

    def _loader(self, data: Any, batch_size: int, num_workers: int, **sampling: bool) -> Any:
        """Batches of (this process's part of) a Dataset; other iterables are returned as they are."""
        if not isinstance(data, Dataset):
            return data
        if isinstance(data, IterableDataset):
            # it has no length to divide: every process reads all of it, in its own order
            options: dict[str, Any] = {"drop_last": sampling.get("drop_last", False), "num_workers": num_workers}
            return DataLoader(data, batch_size=batch_size, places=self._place, return_list=True, **options)
        sampler = DistributedBatchSampler(data, batch_size=batch_size, **sampling)
        return DataLoader(data, batch_sampler=sampler, places=self._place, num_workers=num_workers, return_list=True)

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: int = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
    ) -> History:
        """Trains the network.

        Args:
            train_data (Dataset|DataLoader): samples or batches, whose fields are the inputs, then the labels.
            eval_data (Dataset|DataLoader, optional): data for an evaluation after every `eval_freq` epochs.
            batch_size (int): batch size for Datasets.
            epochs (int): number of passes over train_data.
            eval_freq (int): number of epochs between evaluations.
            log_freq (int): number of steps between log lines.
            save_dir (str, optional): folder for a checkpoint after every `save_freq` epochs, and a final one.
            save_freq (int): number of epochs between checkpoints.
            verbose (int): 0 silent, 1 a progress bar, 2 lines, 3 lines with times.
            drop_last (bool): drop a last incomplete batch.
            shuffle (bool): read a Dataset in random order.
            num_workers (int): number of reader processes (0: this process reads).
            callbacks (Callback|list, optional): see paddle.callbacks.

        Returns:
            History: the losses and metrics of the epochs and evaluations (`history`, `plot`).
        """
        assert train_data is not None, "train_data must be given!"
        train_loader = self._loader(train_data, batch_size, num_workers, shuffle=shuffle, drop_last=drop_last)
        eval_loader = self._loader(eval_data, batch_size, num_workers)
        self._test_dataloader = eval_loader
        names = self._metrics_name()
        calls = config_callbacks(
            callbacks,
            model=self,
            batch_size=batch_size,
            epochs=epochs,
            steps=self._steps(train_loader),
            log_freq=log_freq,
            save_freq=save_freq,
            save_dir=save_dir,
            verbose=verbose,
            metrics=names,
        )
        if eval_loader is None and any(isinstance(c, EarlyStopping) for c in calls):
            warnings.warn("EarlyStopping needs validation data.", stacklevel=2)
        self.stop_training = False
        logs: dict[str, Any] = {}
        history = History()
        calls.append(history)
        calls.on_begin("train")
        for epoch in range(epochs):
            calls.on_epoch_begin(epoch)
            logs, _ = self._run_one_epoch(train_loader, calls, "train")
            calls.on_epoch_end(epoch, logs)
            if eval_loader is not None and epoch % eval_freq == 0:
                calls.on_begin("eval", {"steps": self._steps(eval_loader), "metrics": names})
                eval_logs, _ = self._run_one_epoch(eval_loader, calls, "eval")
                calls.on_end("eval", eval_logs)
            if self.stop_training:
                break
        calls.on_end("train", logs)
        self._test_dataloader = None
        return history

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
    ) -> dict[str, Any]:
        """Loss (a list, of the last batch) and metrics (over all batches), by name.

        Args:
            eval_data (Dataset|DataLoader): see `train_data` of :meth:`fit`.
            batch_size, log_freq, verbose, num_workers, callbacks: see :meth:`fit`.
        """
        loader = self._test_dataloader = self._loader(eval_data, batch_size, num_workers)
        names = self._metrics_name()
        calls = config_callbacks(callbacks, model=self, log_freq=log_freq, verbose=verbose, metrics=names)
        calls.on_begin("eval", {"steps": self._steps(loader), "metrics": names})
        logs, _ = self._run_one_epoch(loader, calls, "eval")
        calls.on_end("eval", logs)
        self._test_dataloader = None
        return {name: logs[name] for name in names if name in logs}

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        callbacks: Any = None,
    ) -> list[Any]:
        """The outputs of the network.

        Args:
            test_data (Dataset|DataLoader): inputs; further fields are ignored.
            batch_size, num_workers, callbacks: see :meth:`fit`.
            stack_outputs (bool): return one array per output instead of a tuple of the batches' arrays.
        """
        loader = self._test_dataloader = self._loader(test_data, batch_size, num_workers)
        calls = config_callbacks(callbacks, model=self, verbose=1)
        calls.on_begin("predict", {"steps": self._steps(loader)})
        logs, batches = self._run_one_epoch(loader, calls, "predict")
        outputs: list[Any] = list(zip(*batches, strict=True))
        if stack_outputs:
            outputs = [np.vstack(parts) for parts in outputs]
        self._test_dataloader = None
        calls.on_end("predict", logs)
        return outputs

    def _run_one_epoch(
        self, data_loader: Any, callbacks: CallbackList, kind: str
    ) -> tuple[dict[str, Any], list[list[np.ndarray]]]:
        """One pass over the data: the logs of the last batch, and the outputs of a prediction."""
        logs: dict[str, Any] = {}
        outputs = []
        adapter: Adapter = self._adapter
        adapter.begin()
        for step, data in enumerate(data_loader):
            # a batch is a list of fields, or of lists of them (for several places, or inputs and labels separately)
            fields = flatten(data)
            shape = fields[0].shape
            size = (shape() if callable(shape) else shape)[0]
            callbacks.on_batch_begin(kind, step, logs)
            inputs, labels = self._split(fields, kind == "predict")
            if kind == "predict":
                outputs.append(self.predict_batch(inputs))
            else:
                run = self.train_batch if kind == "train" else self.eval_batch
                logs.update(self._logged(run(inputs, labels)))
            logs["step"] = step
            joined = adapter._merge_count.get(("test" if kind == "predict" else kind) + "_batch", 0)
            logs["batch_size"] = joined or size * adapter._nranks
            callbacks.on_batch_end(kind, step, logs)
        for metric in self._metrics:
            metric.reset()
        return logs, outputs

    def _logged(self, result: Any) -> dict[str, Any]:
        """Loss and current metrics, by name, after a batch with result `result`."""
        values: list[Any] = []
        if self._loss:
            losses = result[0] if self._metrics else result
            values.append([np.asarray(loss).reshape(-1)[0] for loss in losses])
        for metric in self._metrics:
            values.extend(to_list(metric.accumulate()))
        return dict(zip(self._metrics_name(), values, strict=True))

    def _metrics_name(self) -> list[str]:
        names = ["loss"] if self._loss else []
        for metric in self._metrics:
            names.extend(to_list(metric.name()))
        return names

    @staticmethod
    def _steps(loader: Any) -> int | None:
        try:
            return len(loader)
        except (TypeError, RuntimeError):  # the length of an IterableDataset is an error of both kinds
            return None

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, Any]:
        """Prints a table of the network's layers; see paddle.summary.

        Args:
            input_size (tuple|InputSpec|list, optional): shapes of the inputs; None: those of Model.
            dtype (str, optional): dtype of the inputs; float32 when None.

        Returns:
            dict: "total_params" and "trainable_params".
        """
        assert input_size is not None or self._inputs, "Model.summary: input_size, or inputs of Model, must be given"
        return summary(self.network, self._inputs if input_size is None else input_size, dtype)
