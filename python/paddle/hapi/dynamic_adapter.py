"""`paddle.Model` in dygraph mode."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as _core
from paddle.distributed.collective import all_gather
from paddle.distributed.data_parallel import DataParallel
from paddle.distributed.parallel import init_parallel_env
from paddle.framework.io import save
from paddle.tensor import add_n, concat, to_tensor

from .adapters import Adapter, to_list

__all__: list[str] = []


def _tensors(values: Any) -> list[Any]:
    return [v if isinstance(v, _core.Tensor) else to_tensor(np.asarray(v)) for v in to_list(values)]


class DynamicGraphAdapter(Adapter):
    """Runs batches eagerly; several processes share a batch by DataParallel."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._network = model.network
        if self._nranks > 1:
            if not _core.dist.joined():
                init_parallel_env()
            self._network = DataParallel(model.network)

    def _forward(self, network: Any, inputs: list[Any]) -> list[Any]:
        self._input_info = [list(x.shape) for x in inputs], [x.dtype for x in inputs]
        return to_list(network(*inputs))

    def _metrics(self, outputs: list[Any], labels: list[Any]) -> list[Any]:
        found = []
        for metric in self.model._metrics:
            states = to_list(metric.compute(*outputs, *labels))
            found.append(metric.update(*[s.numpy() if isinstance(s, _core.Tensor) else s for s in states]))
        return found

    def train_batch(self, inputs: Any, labels: Any = None) -> Any:
        """One step of training."""
        model = self.model
        assert model._optimizer, "model not ready, please call `model.prepare()` first"
        assert model._loss, "training requires a loss: pass one to `model.prepare()`"
        model.network.train()
        self.mode = "train"
        labels = _tensors(labels)
        outputs = self._forward(self._network, _tensors(inputs))
        losses = to_list(model._loss(*outputs, *labels))
        whole = losses[0] if len(losses) == 1 else add_n(losses)
        whole.backward()
        model._optimizer.minimize(whole)
        model.network.clear_gradients()
        metrics = self._metrics(outputs, labels)
        return self._result([loss.numpy() for loss in losses], metrics)

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Loss and metrics of a batch."""
        self.model.network.eval()
        self.mode = "eval"
        labels = _tensors(labels)
        outputs = self._forward(self.model.network, _tensors(inputs))
        losses = to_list(self.model._loss(*outputs, *labels)) if self.model._loss else []
        outputs, labels = self._joined(outputs, labels)
        metrics = self._metrics(outputs, labels)
        return self._result([loss.numpy() for loss in losses], metrics)

    def _joined(self, *groups: list[Any]) -> tuple[list[Any], ...]:
        """The tensors of all processes, without repeated samples."""
        if self._nranks < 2:
            return groups
        joined: list[list[Any]] = []
        for group in groups:
            joined.append([])
            for tensor in group:
                parts: list[Any] = []
                all_gather(parts, tensor)
                joined[-1].append(concat(parts, axis=0))
        first = next((t for group in joined for t in group), None)
        if first is None:
            return groups
        kept = self._genuine(first.shape[0])
        return tuple([t[:kept] if t.shape[0] == first.shape[0] else t for t in group] for group in joined)

    def predict_batch(self, inputs: Any) -> list[np.ndarray]:
        """The outputs of a batch."""
        self.model.network.eval()
        self.mode = "test"
        (outputs,) = self._joined(self._forward(self.model.network, _tensors(inputs)))
        return [out.numpy() for out in outputs]

    def prepare(self) -> None:
        """Nothing to prepare."""

    def save(self, path: str) -> None:
        """Saves parameters in ``path.pdparams``, and the optimizer state, if there is any, in ``path.pdopt``."""
        save(self.model.network.state_dict(), path + ".pdparams")
        optimizer = self.model._optimizer
        state = optimizer.state_dict() if optimizer is not None else None
        if state:
            save(state, path + ".pdopt")

    def load(self, pairs: list[tuple[Any, Any]], optimizer_state: dict[str, Any] | None) -> None:
        """Sets parameters and optimizer state."""
        for parameter, value in pairs:
            parameter.set_value(value)
        optimizer = self.model._optimizer
        if optimizer is None or not optimizer_state:
            return
        optimizer.set_state_dict(self._load_optimizer(optimizer_state))

    def set_learning_rate(self, rate: float) -> None:
        """Sets the rate of the next step."""
        self.model._optimizer._learning_rate = rate
