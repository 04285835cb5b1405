"""Fleet and DistributedOptimizer of 1.x: the base of collective and parameter-server fleets."""

from __future__ import annotations

from typing import Any, NoReturn

from paddle._basics.place import CPUPlace
from paddle.optimizer.base import OptimizerBase
from paddle.static.executor import Executor

from .role_maker import PaddleCloudRoleMaker, RoleMakerBase

__all__ = ["Fleet", "DistributedOptimizer", "Mode"]


class Mode:
    """Collective training or parameter servers."""

    PS = 1
    COLLECTIVE = 2


def _abstract(self: Any, what: str) -> NoReturn:
    raise NotImplementedError(f"{type(self).__name__}.{what}: a subclass must override this")


class NotInitialized(RuntimeError, AttributeError):
    """A role is read before fleet.init. In 2.0.2 it is an AttributeError, which scripts of 1.x catch."""


class Fleet:
    """A job, as one process sees it by its role maker.

    Args:
        mode (Mode): the kind of fleet.
    """

    def __init__(self, mode):
        self._is_initialized = False
        self._mode = mode
        self._optimizer = None
        self._role_maker: Any = None
        self._executor: Any = None

    def _roles(self) -> Any:
        if self._role_maker is None:
            raise NotInitialized("fleet: call fleet.init first, which sets the role of this process")
        return self._role_maker

    def is_first_worker(self):
        """Whether this is worker 0."""
        return self._roles().is_first_worker()

    def worker_index(self):
        """The index of this worker."""
        return self._roles().worker_index()

    def worker_num(self):
        """The number of workers."""
        return self._roles().worker_num()

    def is_worker(self):
        """Whether this is a worker."""
        return self._roles().is_worker()

    def worker_endpoints(self, to_string=False):
        """The workers' endpoints: a list of ``ip:port``, or with `to_string` a comma-separated str."""
        endpoints = self._roles().get_trainer_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_num(self):
        """The number of parameter servers."""
        return len(self._roles().get_pserver_endpoints())

    def server_index(self):
        """The index of this parameter server."""
        return self._roles().server_index()

    def server_endpoints(self, to_string=False):
        """The parameter servers' endpoints: a list of ``ip:port``, or with `to_string` a comma-separated str."""
        endpoints = self._roles().get_pserver_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def is_server(self):
        """Whether this is a parameter server."""
        return self._roles().is_server()

    def is_xpu(self):
        """Whether this is a heterogeneous worker; not every role maker supports it."""
        return self._roles().is_xpu()

    def split_files(self, files):
        """This worker's part of files: consecutive ones; the first workers get one more if needed.

        Args:
            files (list of str): of all workers, in the same order everywhere.

        Returns:
            list of str

        Examples:
            >>> from paddle.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker
            >>> from paddle.fluid.incubate.fleet.collective import fleet
            >>> fleet.init(UserDefinedCollectiveRoleMaker(1, ["127.0.0.1:6170", "127.0.0.1:6171"]))
            >>> fleet.split_files(["a", "b", "c"])
            ['c']
        """
        if not isinstance(files, list):
            raise TypeError(f"split_files: a list of files is needed, got {type(files)}")
        each, more = divmod(len(files), self.worker_num())
        index = self.worker_index()
        begin = index * each + min(index, more)
        return files[begin : begin + each + (index < more)]

    def init(self, role_maker=None):
        """Sets the role of this process; call it once, first.

        Args:
            role_maker (RoleMakerBase, optional): one of ``fleet.base.role_maker``; by default by the environment.

        Raises:
            TypeError: for another type.
        """
        self._executor = Executor(CPUPlace())
        if role_maker is None:
            role_maker = PaddleCloudRoleMaker(is_collective=self._mode == Mode.COLLECTIVE)
        if not isinstance(role_maker, RoleMakerBase):
            raise TypeError(f"fleet.init: a RoleMakerBase is needed, got {type(role_maker)}")
        role_maker.generate_role()
        self._role_maker = role_maker
        self._is_initialized = True

    def all_reduce_worker(self, input, output):  # noqa: A002
        """Puts the sum of the workers' arrays of one dimension into `output`, by the role maker."""
        self._roles().all_reduce_worker(input, output)

    def barrier_worker(self):
        """Waits for all workers, by the role maker."""
        self._roles().barrier_worker()

    def init_worker(self):
        """Initializes a worker."""
        _abstract(self, "init_worker")

    def init_server(self, model_dir=None, **kwargs):
        """Initializes a server."""
        _abstract(self, "init_server")

    def run_server(self):
        """Runs a server."""
        _abstract(self, "run_server")

    def stop_worker(self):
        """Stops a worker."""
        _abstract(self, "stop_worker")

    def distributed_optimizer(self, optimizer, strategy=None):
        """An optimizer whose `minimize` rewrites the Programs for the job."""
        _abstract(self, "distributed_optimizer")

    def save_inference_model(
        self, executor, dirname, feeded_var_names, target_vars, main_program=None, export_for_deployment=True
    ):
        """Saves an inference model from `feeded_var_names` to `target_vars`."""
        _abstract(self, "save_inference_model")

    def save_persistables(self, executor, dirname, main_program=None):
        """Saves the persistable variables."""
        _abstract(self, "save_persistables")


class DistributedOptimizer:
    """An optimizer of one process, with the strategy of the job.

    Args:
        optimizer (Optimizer): of ``paddle.fluid.optimizer`` or ``paddle.optimizer``, or one with mixed precision.
        strategy: of the type that the kind of fleet requires.

    Raises:
        TypeError: for another type than an optimizer.
    """

    def __init__(self, optimizer, strategy=None):
        wraps = hasattr(optimizer, "_optimizer") and callable(getattr(optimizer, "minimize", None))
        if not isinstance(optimizer, OptimizerBase) and not wraps:
            raise TypeError(f"an Optimizer is needed, got {type(optimizer)}")
        self._optimizer = optimizer
        self._strategy = strategy

    def backward(self, loss, startup_program=None, parameter_list=None, no_grad_set=None, callbacks=None):
        """Appends backward to the Program of `loss`.

        Returns:
            list of (parameter, gradient)
        """
        _abstract(self, "backward")

    def apply_gradients(self, params_grads):
        """Appends the updates for pairs of parameter and gradient.

        Returns:
            list of Operator
        """
        _abstract(self, "apply_gradients")

    def minimize(self, losses, scopes=None, startup_programs=None, parameter_list=None, no_grad_set=None):
        """Appends backward and updates, and rewrites the Programs for the job.

        Returns:
            tuple: the operators of the update, pairs of parameter and gradient.
        """
        _abstract(self, "minimize")
