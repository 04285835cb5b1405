"""DataParallel: replicas of a Layer in every process, with averaged gradients."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import paddle._core as _core
from paddle.nn.layer.layer_support import _takes_stat_dict
from paddle.nn.layer.layers import Layer
from paddle.nn.layer.sync_batch_norm import SyncBatchNorm

from . import nccl, on_device
from .collective import _group, broadcast
from .parallel import ParallelStrategy

__all__ = ["DataParallel"]


def _parameters(layer: Layer) -> tuple[list, list[bool]]:
    """The trainable parameters, and whether each belongs to an embedding with a sparse gradient."""
    found, sparse, seen = [], [], set()
    for owner in [layer, *layer.sublayers()]:
        rows = bool(getattr(owner, "_sparse", False) or getattr(owner, "_is_sparse", False))
        for _, parameter in owner.named_parameters(include_sublayers=False):
            if parameter is None or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            if parameter.trainable:
                found.append(parameter)
                sparse.append(rows and len(parameter.shape) == 2)
    return found, sparse


class DataParallel(Layer):
    """Runs `layers` in every process of the job and averages the gradients while backward computes them.

    Parameters and buffers are broadcast from rank 0. After a backward ``.grad`` is the average over all ranks, with the
    same bits on each, so that equal optimizers keep the replicas equal; the average over equal parts of a batch is the
    gradient of the whole batch. All ranks must run the same backwards in the same order.

    Args:
        layers (Layer): the model.
        strategy (ParallelStrategy, optional): as in 1.8; its ``nranks`` is the number of processes.
        comm_buffer_size (int): megabytes of a bucket of gradients.
        last_comm_buffer_size (float): megabytes of the bucket that backward fills last.
        find_unused_parameters (bool): whether a backward may leave parameters without a gradient on some or all ranks;
            True as in 2.0.2. The gradient of a parameter that this rank does not use and others do counts as zeros.
        group (int|Group): the ranks; 0 are all.

    Raises:
        RuntimeError: in backward, when another rank failed; with ``find_unused_parameters=False`` also when a parameter
            has no gradient.

    Examples:
        >>> import warnings
        >>> import paddle
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # this process is alone
        ...     model = paddle.DataParallel(paddle.nn.Linear(4, 2))
        >>> loss = model(paddle.ones([3, 4])).mean()
        >>> loss.backward()
        >>> model.parameters()[1].grad.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self,
        layers,
        strategy=None,
        comm_buffer_size=25,
        last_comm_buffer_size=1,
        *,
        find_unused_parameters=True,
        group=0,
    ):
        super().__init__(layers.full_name() + "_data_parallel")
        self._layers = layers
        self._strategy = ParallelStrategy() if strategy is None else strategy
        self.comm_buffer_size = int(comm_buffer_size * 1024 * 1024)
        self.last_comm_buffer_size = int(last_comm_buffer_size * 1024 * 1024)
        self._find_unused_parameters = bool(find_unused_parameters)
        self._reducer = None
        self._ranks = group
        if self._strategy.nranks < 2:
            warnings.warn(
                "DataParallel runs on this one process: the world has a single rank. For several, start the script "
                "with paddle.distributed.launch or spawn on a machine that has the devices",
                stacklevel=2,
            )
            return
        if not _core.dist.joined():
            raise RuntimeError("Call paddle.distributed.init_parallel_env() before making a DataParallel.")
        self.init_reducer()

    def init_reducer(self) -> None:
        """Receives rank 0's parameters and buffers, and assigns the gradients to buckets."""
        group = _group(self._ranks)
        for value in [*self._layers.parameters(), *self._layers.buffers()]:
            broadcast(value, group.ranks[0], group)
        parameters, sparse = _parameters(self._layers)
        if not parameters:
            raise ValueError("DataParallel needs a model with trainable parameters.")
        limits = [self.last_comm_buffer_size, self.comm_buffer_size]
        names = [p.name for p in parameters]
        there = nccl.serves(group._number) and all(on_device.is_on_device(p) for p in parameters)
        how = names, sparse, group, limits, self._find_unused_parameters
        average = on_device.Averages(parameters, group) if there else None
        self._reducer = _core.dist.Reducer(parameters, *how, average)
        if (
            there
            and self._find_unused_parameters
            and any(isinstance(layer, SyncBatchNorm) for layer in self.sublayers())
        ):
            # Ranks that leave out parameters complete buckets at other times; the ring needs one order of all
            # collectives, those of SyncBatchNorm in backward among them.
            self._reducer.overlap = False

    def forward(self, *inputs, **kwargs):
        """The result of the model."""
        return self._layers(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Context: gradients accumulate in each process; the next backward outside averages their sum.

        Examples:
            >>> import warnings
            >>> import paddle
            >>> with warnings.catch_warnings():
            ...     warnings.simplefilter("ignore")  # this process is alone
            ...     model = paddle.DataParallel(paddle.nn.Linear(4, 2))
            >>> with model.no_sync():
            ...     model(paddle.ones([3, 4])).mean().backward()
            >>> model(paddle.ones([3, 4])).mean().backward()
            >>> model.parameters()[1].grad.tolist()
            [1.0, 1.0]
        """
        reducer = self._reducer
        if reducer is None:
            yield
            return
        before = reducer.enabled
        reducer.enabled = False
        try:
            yield
        finally:
            reducer.enabled = before

    def scale_loss(self, loss):
        """Returns the loss unchanged: gradients are averaged, not summed. For scripts of 1.8."""
        return loss

    def apply_collective_grads(self) -> None:
        """Does nothing: gradients are averaged in backward. For scripts of 1.8."""

    def state_dict(self, destination=None, include_sublayers=True, structured_name_prefix=""):
        """The model's own `state_dict`, without a prefix for the wrapper."""
        return self._layers.state_dict(destination, include_sublayers, structured_name_prefix)

    @_takes_stat_dict
    def set_state_dict(self, state_dict, include_sublayers=True, use_structured_name=True) -> None:
        """The model's own `set_state_dict`. All ranks must load the same values."""
        self._layers.set_state_dict(state_dict, include_sublayers, use_structured_name)

    set_dict = set_state_dict
    load_dict = set_state_dict
