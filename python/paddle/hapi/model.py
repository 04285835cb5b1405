"""Model: a network with training, evaluation, prediction and files."""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any

import numpy as np

from paddle._basics import mode
from paddle._basics.structure import flatten
from paddle._dispatch.dygraph import no_grad_
from paddle._persistence.saving import NAME_TABLE
from paddle._persistence.whole_files import where
from paddle.distributed.parallel import ParallelEnv, prepare_context
from paddle.framework.io import load as load_file
from paddle.io import DataLoader, Dataset, DistributedBatchSampler
from paddle.metric import Metric
from paddle.nn import Layer
from paddle.static import InputSpec
from paddle.static.inference_io import save_inference_model

from .adapters import NOT_READY, Adapter, to_list
from .callbacks import CallbackList, EarlyStopping, config_callbacks
from .dynamic_adapter import DynamicGraphAdapter
from .export import save_for_inference
from .model_summary import summary
from .static_adapter import StaticGraphAdapter

__all__ = ["Model"]


def prepare_distributed_context(place: Any = None) -> Any:
    """Joins the other processes of the job, which Model does by itself, too.

    Args:
        place (Place, optional): not looked at; one way of communication serves all.

    Returns:
        ParallelStrategy|None: None for a process that is alone.
    """
    return prepare_context()


class Model:
    """A network that trains, evaluates, predicts and is saved, in the mode (dygraph or static) in which it is made.

    Args:
        network (Layer): what is trained.
        inputs (InputSpec|list|dict, optional): what `forward` takes, each with a name; static mode needs it. Without
            it, `forward`'s arguments say how many of a batch's fields are inputs.
        labels (InputSpec|list, optional): what the loss takes behind the network's outputs; static mode needs it for
            a loss or a metric with labels.

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
        >>> model.fit(Line(), batch_size=8, epochs=300, verbose=0)
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
        dynamic = mode.in_dygraph_mode()
        if not dynamic and not isinstance(inputs, (list, tuple, dict, InputSpec)):
            raise TypeError(f"Model: static mode needs inputs, as InputSpec or list or dict of it, got {type(inputs)}")
        #: whether somebody said, or a batch showed, what the inputs are
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
            assert isinstance(spec, InputSpec), f"Model: inputs and labels are InputSpecs, and this is {type(spec)}"
            if spec.name is None:
                raise ValueError(f"Model: every InputSpec needs a name, and Input[{i}] has none: {spec}")
        return specs

    def _specs_of_forward(self) -> list[InputSpec]:
        return [InputSpec(name=name, shape=[None]) for name in self._forward_arguments()]

    def _keep_inputs(self) -> None:
        """Remembers the first batch's shapes where nobody said what the inputs are."""
        info = self._adapter._input_info
        if self._known or not mode.in_dygraph_mode() or info is None:
            return
        names = self._forward_arguments()
        self._inputs = [InputSpec(shape, dtype, name) for name, shape, dtype in zip(names, *info, strict=False)]
        self._known = self._is_shape_inferred = True

    def _split(self, fields: list[Any], predicting: bool) -> tuple[list[Any], list[Any]]:
        """The inputs and the labels among the fields of a batch."""
        count = len(self._inputs or ())
        if predicting and not count:
            count = len(fields)
        if not count:
            raise ValueError(
                "the arguments of `forward` do not say how many fields of a batch are inputs: "
                "give Model its inputs (a list of paddle.static.InputSpec)"
            )
        return fields[:count], fields[count:]

    # ------------------------------------------------------------------------------------------ batches

    def train_batch(self, inputs: Any, labels: Any = None) -> Any:
        """One step of training.

        Args:
            inputs (Tensor|numpy.ndarray|list): of the network.
            labels (Tensor|numpy.ndarray|list, optional): of the loss.

        Returns:
            list: the loss, or the losses, as arrays; with metrics a pair of it and a list of theirs.

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
        """The loss of a batch, and its metrics; arguments and result as of :meth:`train_batch`."""
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
        """Writes the model on rank 0; folders are made.

        Args:
            path (str): folder and name, no suffix.
            training (bool): True writes ``path.pdparams`` and, where the optimizer has state, ``path.pdopt``; False an
                inference model, ``path.pdmodel`` and ``path.pdiparams``, which needs `inputs` of Model or a batch
                that ran before.

        Raises:
            ValueError: for a path without a name.
            RuntimeError: for an inference model of unknown inputs.

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
        if mode.in_dygraph_mode():
            if not self._known:
                raise RuntimeError(
                    "Saving inference model needs 'inputs' or running before saving: give Model its inputs, or run a "
                    "batch that shows their shapes"
                )
            if self._is_shape_inferred:
                shapes = [list(spec.shape) for spec in self._inputs]
                warnings.warn(
                    f"the saved model takes inputs of the shapes of a batch that ran, {shapes}: "
                    "give Model its inputs for others",
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
        """Takes over what :meth:`save` wrote for training, in either mode.

        Args:
            path (str): folder and name; a suffix may be there.
            skip_mismatch (bool): parameters that the file lacks, or has in another shape, keep their values.
            reset_optimizer (bool): leaves ``path.pdopt`` alone.

        Raises:
            AssertionError: when there is no such file.
            ValueError: for a parameter that the file lacks or has in another shape.
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
        """The state of an optimizer by this network's names of parameters, which begin the names of accumulators."""
        own = {key: parameter.name for key, parameter in self.network.state_dict().items()}
        renamed = {saved_names[key]: name for key, name in own.items() if key in saved_names}
        changed = sorted((old for old, new in renamed.items() if old != new), key=len, reverse=True)
        state = {}
        for name, value in optimizer_state.items():
            old = next((old for old in changed if name.startswith(old + "_")), None)
            state[name if old is None else renamed[old] + name[len(old) :]] = value
        return state

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The network's parameters."""
        return self.network.parameters()

    # ----------------------------------------------------------------------------------------- preparing

    def prepare(self, optimizer: Any = None, loss: Any = None, metrics: Any = None) -> None:
        """Says what training and evaluation use.

        Args:
            optimizer (Optimizer, optional): for training.
            loss (callable, optional): of the network's outputs and the labels, such as a layer of paddle.nn; gives a
                Tensor or a list of them, whose sum is minimised.
            metrics (Metric|list of Metric, optional): are gathered over the batches.

        Raises:
            TypeError: for a loss that cannot be called.
        """
        self._place = mode._current_expected_place()
        if loss is not None and not isinstance(loss, Layer) and not callable(loss):
            raise TypeError(f"'loss' must be a Layer or something else that can be called, got {type(loss)}")
        metrics = to_list(metrics)
        for metric in metrics:
            assert isinstance(metric, Metric), f"{type(metric).__name__} is not sub class of Metric"
        self._optimizer, self._loss, self._metrics = optimizer, loss, metrics
        self._adapter.prepare()

    def _set_learning_rate(self, rate: float) -> None:
        self._adapter.set_learning_rate(rate)

    # ------------------------------------------------------------------------------------------- running

    def _loader(self, data: Any, batch_size: int, num_workers: int, **sampling: bool) -> Any:
        """Batches of a Dataset, of this process's part where there are several; anything else as it is."""
        if not isinstance(data, Dataset):
            return data
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
    ) -> None:
        """Trains.

        Args:
            train_data (Dataset|DataLoader): of samples or batches, whose fields are the inputs, then the labels.
            eval_data (Dataset|DataLoader, optional): for an evaluation after every `eval_freq`-th epoch.
            batch_size (int): of Datasets.
            epochs (int): passes over train_data.
            eval_freq (int): epochs from one evaluation to the next.
            log_freq (int): steps from one line to the next.
            save_dir (str, optional): folder for a checkpoint after every `save_freq`-th epoch, and at last.
            save_freq (int): epochs from one checkpoint to the next.
            verbose (int): 0 silent, 1 a progress bar, 2 lines, 3 lines with times.
            drop_last (bool): leave out a last batch that is not full.
            shuffle (bool): a Dataset in random order.
            num_workers (int): processes that read (0: this one).
            callbacks (Callback|list, optional): are called on the way; see paddle.callbacks.
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

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
    ) -> dict[str, Any]:
        """Loss (of the last batch, a list) and metrics (over all batches) of some data, by name.

        Args:
            eval_data (Dataset|DataLoader): as `train_data` of :meth:`fit`.
            batch_size, log_freq, verbose, num_workers, callbacks: as of :meth:`fit`.
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
        """The network's outputs for some data.

        Args:
            test_data (Dataset|DataLoader): of inputs; fields behind them are left out.
            batch_size, num_workers, callbacks: as of :meth:`fit`.
            stack_outputs (bool): one array for each output, instead of a tuple of the batches' arrays.
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
        """One pass over the data: what the last batch logged, and the outputs of a prediction."""
        logs: dict[str, Any] = {}
        outputs = []
        adapter: Adapter = self._adapter
        adapter.begin()
        for step, data in enumerate(data_loader):
            # a batch is a list of fields, or of lists of them (a list of several places, inputs and labels apart)
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
        """Loss and metrics so far, by name, after a batch that gave `result`."""
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
        except TypeError:
            return None

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, Any]:
        """Prints a table of the network's layers; see paddle.summary.

        Args:
            input_size (tuple|InputSpec|list, optional): shapes of the inputs; those of Model when None.
            dtype (str, optional): of the inputs; float32 when None.

        Returns:
            dict: "total_params" and "trainable_params".
        """
        assert input_size is not None or self._inputs, "Model.summary: input_size, or inputs of Model, must be given"
        return summary(self.network, self._inputs if input_size is None else input_size, dtype)
