"""Fleet and DistributedOptimizer of 1.x: what fleets of workers alone, or of workers and servers, have in common."""

from __future__ import annotations

from typing import Any, NoReturn

from paddle._basics.place import CPUPlace
from paddle.optimizer.base import OptimizerBase
from paddle.static.executor import Executor

from .role_maker import PaddleCloudRoleMaker, RoleMakerBase

__all__ = ["Fleet", "DistributedOptimizer", "Mode"]


class Mode:
    """Whether workers talk to servers, or to each other."""

    PS = 1
    COLLECTIVE = 2


def _abstract(self: Any, what: str) -> NoReturn:
    raise NotImplementedError(f"{type(self).__name__}.{what}: a class of one's own has to say what this does")


class NotInitialized(RuntimeError, AttributeError):
    """Somebody asks who takes part before fleet.init; scripts of 1.x catch the AttributeError that it is in 2.0.2."""


class Fleet:
    """The job as this process sees it: who takes part, by a role maker.

    Args:
        mode (Mode): what kind it is.
    """

    def __init__(self, mode):
        self._is_initialized = False
        self._mode = mode
        self._optimizer = None
        self._role_maker: Any = None
        self._executor: Any = None

    def _roles(self) -> Any:
        if self._role_maker is None:
            raise NotInitialized("fleet: call fleet.init first, which says what this process is")
        return self._role_maker

    def is_first_worker(self):
        """Whether this is worker 0."""
        return self._roles().is_first_worker()

    def worker_index(self):
        """This process's number among the workers."""
        return self._roles().worker_index()

    def worker_num(self):
        """How many workers there are."""
        return self._roles().worker_num()

    def is_worker(self):
        """Whether this is a worker."""
        return self._roles().is_worker()

    def worker_endpoints(self, to_string=False):
        """Where the workers are: a list of ``ip:port``, or with `to_string` one str with commas."""
        endpoints = self._roles().get_trainer_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_num(self):
        """How many parameter servers there are."""
        return len(self._roles().get_pserver_endpoints())

    def server_index(self):
        """This process's number among the parameter servers."""
        return self._roles().server_index()

    def server_endpoints(self, to_string=False):
        """Where the parameter servers are: a list of ``ip:port``, or with `to_string` one str with commas."""
        endpoints = self._roles().get_pserver_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def is_server(self):
        """Whether this is a parameter server."""
        return self._roles().is_server()

    def is_xpu(self):
        """Whether this is a heterogeneous worker: only role makers that know such have an answer."""
        return self._roles().is_xpu()

    def split_files(self, files):
        """The files that this worker is to read: neighbours, the first workers one more if need be.

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
        """Say what this process is; call it once, before anything else.

        Args:
            role_maker (RoleMakerBase, optional): one of ``fleet.base.role_maker``; the environment says it when None.

        Raises:
            TypeError: for something else.
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
        """What a worker does before it trains."""
        _abstract(self, "init_worker")

    def init_server(self, model_dir=None, **kwargs):
        """What a server does before it serves."""
        _abstract(self, "init_server")

    def run_server(self):
        """Serve."""
        _abstract(self, "run_server")

    def stop_worker(self):
        """What a worker does at the end."""
        _abstract(self, "stop_worker")

    def distributed_optimizer(self, optimizer, strategy=None):
        """An optimizer whose `minimize` makes the Program that of the job."""
        _abstract(self, "distributed_optimizer")

    def save_inference_model(
        self, executor, dirname, feeded_var_names, target_vars, main_program=None, export_for_deployment=True
    ):
        """Save what computes `target_vars` from `feeded_var_names`."""
        _abstract(self, "save_inference_model")

    def save_persistables(self, executor, dirname, main_program=None):
        """Save the persistable variables."""
        _abstract(self, "save_persistables")


class DistributedOptimizer:
    """An optimizer of this process, and how the job is to use it.

    Args:
        optimizer (Optimizer): of ``paddle.fluid.optimizer`` or ``paddle.optimizer``, or one with mixed precision.
        strategy: what the kind of fleet asks for.

    Raises:
        TypeError: for something that is no optimizer.
    """

    def __init__(self, optimizer, strategy=None):
        wraps = hasattr(optimizer, "_optimizer") and callable(getattr(optimizer, "minimize", None))
        if not isinstance(optimizer, OptimizerBase) and not wraps:
            raise TypeError(f"an Optimizer is needed, got {type(optimizer)}")
        self._optimizer = optimizer
        self._strategy = strategy

    def backward(self, loss, startup_program=None, parameter_list=None, no_grad_set=None, callbacks=None):
        """Append backward to the Program of `loss`.

        Returns:
            list of (parameter, gradient)
        """
        _abstract(self, "backward")

    def apply_gradients(self, params_grads):
        """Append the updates for pairs of parameter and gradient.

        Returns:
            list of Operator
        """
        _abstract(self, "apply_gradients")

    def minimize(self, losses, scopes=None, startup_programs=None, parameter_list=None, no_grad_set=None):
        """Append backward and updates, and make the Programs those of the job.

        Returns:
            tuple: the operators of the update, pairs of parameter and gradient.
        """
        _abstract(self, "minimize")
