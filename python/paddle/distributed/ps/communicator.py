"""Communicator: a trainer's sends and receives on threads of their own; LargeScaleKV: the tables of this process."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import paddle._core as core
from paddle._basics.flags import get_flags
from paddle._programs.program import Program
from paddle.static.executor import global_scope

from .communication import CommContext, Communication
from .config import DistributedMode

__all__ = ["Communicator", "LargeScaleKV"]

_MODES = {
    DistributedMode.SYNC: "SYNC",
    DistributedMode.ASYNC: "ASYNC",
    DistributedMode.HALF_ASYNC: "HALF_ASYNC",
    DistributedMode.GEO: "GEO",
}


class _Variable(NamedTuple):
    """A variable as the native communicator reads it."""

    name: str
    parts: list[str]
    endpoints: list[str]
    sections: list[int]
    trainer: int
    sum: bool
    sparse: bool
    everywhere: bool


class _Settings(NamedTuple):
    max_merge_var_num: int
    send_queue_size: int
    send_from: int
    send_wait_times: int
    min_send_grad_num_before_recv: int
    independent_recv_thread: bool
    merge_sparse_grad: bool
    max_staleness: int
    trainers: int
    push_nums: int


def _of(context: CommContext, adds: bool) -> _Variable:
    c = context
    return _Variable(
        c.var_name(),
        c.split_varnames(),
        c.split_endpoints(),
        c.sections(),
        c.trainer_id(),
        c.everywhere or (c.aggregate() and adds),
        c.is_sparse(),
        c.everywhere,
    )


def _takes_a_program(init: Any) -> Any:
    """A Program that is the first argument is the argument `program`; the others follow it, as in 1.x."""

    @functools.wraps(init)
    def wrapper(self, *args, **named):
        if args and isinstance(args[0], Program):
            named["program"], args = args[0], args[1:]
        if "program" in named and not isinstance(named["program"], Program):
            raise TypeError(f"Communicator: program must be a Program, got {type(named['program']).__name__}")
        if "program" in named and args and isinstance(args[0], dict):
            args = (None, *args)
        if "program" in named and not args:
            named.setdefault("mode", None)
        return init(self, *args, **named)

    return wrapper


class Communicator:
    """Sends gradients and receives parameters for a trainer, on threads of its own.

    While it runs, ``send`` operators that name what servers call the parts (``runtime_split_send_recv`` of
    :class:`~paddle.fluid.DistributeTranspilerConfig`) put gradients in queues. ASYNC merges the gradients of several
    steps and sends them while the following steps run; HALF_ASYNC makes the trainer wait at the end of a step until its
    gradients are applied and parameters received; SYNC synchronizes all trainers at each step. With GEO trainers update
    their own parameters: every few steps the changes are sent, divided by the number of trainers, and the changes of
    the other trainers are added.

    ``FLAGS_communicator_*`` are the settings; `envs` overrides them. At most ``send_queue_size`` gradients of a
    variable are queued, then the trainer waits; at most ``max_merge_var_num`` are merged, into their sum
    (``is_sgd_optimizer``) or their mean; an empty queue is polled ``send_wait_times`` times, every 10 ms, before
    gradients are sent; parameters are received after ``min_send_grad_num_before_recv`` sent steps, on a separate
    thread (``independent_recv_thread``). Oar's own ``max_staleness`` bounds the number of steps without received
    parameters. There is one thread for each server, whatever ``thread_pool_size`` is.

    Args:
        mode (int|Program): one of DistributedMode; or a trainer's Program, transpiled by DistributeTranspiler or
            GeoSgdTranspiler, from which all else is read (as in 1.x).
        kwargs (dict, optional): ``trainers``, ``trainer_id``, and for GEO ``push_nums``, the steps between exchanges.
        envs (dict, optional): flags by their names without ``FLAGS_``.
        program (Program, optional): as a Program that is given first; 1.8's arguments are program, mode, kwargs and
            envs.

    Raises:
        ValueError: for an unknown mode, or a Program without sends by a communicator.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
        >>> _ = fluid.optimizer.SGD(0.001).minimize(loss)
        >>> config = fluid.DistributeTranspilerConfig()
        >>> config.sync_mode = False
        >>> config.runtime_split_send_recv = True
        >>> t = fluid.DistributeTranspiler(config)
        >>> t.transpile(0, pservers="127.0.0.1:6174", trainers=1, sync_mode=False)
        >>> comm = fluid.communicator.Communicator(t.get_trainer_program(wait_port=False))
        >>> comm.is_running()
        False
    """

    @_takes_a_program
    def __init__(self, mode, kwargs=None, envs=None, program=None):
        self.communicator_: Any = None
        self.send_ctx_: dict[str, CommContext] | None = None
        self.recv_ctx_: dict[str, CommContext] | None = None
        self.envs = dict(envs or {})
        described = program
        if described is not None:
            found = described._communication
            if described._async_communication is not None:
                found = described._async_communication.communication()
                described._async_communication.attach(self, global_scope())
            if not isinstance(found, Communication) or not found.send:
                raise ValueError("this Program sends nothing by a communicator (see runtime_split_send_recv)")
            mode = found.mode if mode is None else mode
            kwargs = {"trainers": found.trainers, "push_nums": found.push_nums, **(kwargs or {})}
        if mode not in _MODES:
            raise ValueError(f"mode must be one of DistributedMode, got {mode!r}")
        self.mode = _MODES[mode]
        self._kwargs = dict(kwargs or {})
        if described is not None:
            self.init_with_ctx(found.send, found.recv, None, None)

    def _setting(self, name: str) -> Any:
        flag = f"FLAGS_communicator_{name}"
        default = get_flags(flag)[flag]
        given = self.envs.get(f"communicator_{name}", default)
        return type(default)(int(given))

    def _settings(self) -> _Settings:
        default: dict[str, Any] = {"trainers": 1, "push_nums": 100, "send_from": 0}
        flags = {name: self._setting(name) for name in _Settings._fields if name not in default}
        more: dict[str, Any] = {name: int(self._kwargs.get(name, value)) for name, value in default.items()}
        return _Settings(**flags, **more)

    def init_with_ctx(self, send_ctx, recv_ctx, proto_txt, unit64_hosts, scope=None):
        """Sets the variables that are sent and received.

        Args:
            send_ctx (dict): a CommContext for each variable that is sent, by its name.
            recv_ctx (dict): a CommContext for each parameter that is received, by its name.
            proto_txt, unit64_hosts: not read; they are of brpc servers.
            scope (Scope, optional): the scope of the parameters; the global one when None.
        """
        adds = self._setting("is_sgd_optimizer")

        def every(contexts: dict[str, CommContext]) -> Iterable[_Variable]:
            return [_of(c, adds) for c in contexts.values()]

        scope = global_scope() if scope is None else scope
        self.send_ctx_, self.recv_ctx_ = send_ctx, recv_ctx
        self.communicator_ = core.dist.Communicator(
            self.mode, every(send_ctx), every(recv_ctx), scope, self._settings()
        )

    def _made(self) -> Any:
        if self.communicator_ is None:
            raise RuntimeError("this Communicator has no variables to send: call init_with_ctx first")
        return self.communicator_

    def start(self):
        """Starts the threads, before the first step. With GEO, parameters are received first.

        Raises:
            RuntimeError: while another one runs.
        """
        self._made().start()

    def stop(self):
        """Sends what is queued and stops the threads, after the last step."""
        self._made().stop()

    def is_running(self):
        """Whether it is started and not stopped.

        Returns:
            bool
        """
        return self.communicator_ is not None and self.communicator_.is_running()

    def recv(self):
        """Receives all parameters from the servers now, into the scope."""
        self._made().recv()

    def init_params(self, context):
        """Receives parameters from the servers now.

        Args:
            context (dict): the parameters, a subset of the `recv_ctx` of init_with_ctx.
        """
        unknown = [name for name in context if name not in (self.recv_ctx_ or {})]
        if unknown:
            raise ValueError(f"parameters that are not in recv_ctx: {', '.join(unknown)}")
        self.recv()


class LargeScaleKV:
    """The tables of this process whose rows are initialized on first access (``lookup_sparse_table_init``).

    A description of eight fields, as in 2.0.2, may have a ninth one, Oar's own: ``rows=1000000`` (the maximum number of
    rows in memory; the least recently used are evicted), ``spill=FOLDER`` (evicted rows go to a file there and are read
    back on access) and ``float16=1`` (the parameter, the first value, in half precision), separated by ``&``.

    Examples:
        >>> import paddle.fluid as fluid
        >>> tables = fluid.communicator.LargeScaleKV()
    """

    def save(self, varname, dirname):
        """Writes a table into a folder, for :meth:`load` of any process.

        Args:
            varname (str): its name. dirname (str): the folder; it is created.
        """
        core.dist.save_table(varname, dirname)

    def load(self, varname, dirname):
        """Reads the rows that :meth:`save` wrote into the table of that name; other rows of the table stay.

        Args:
            varname (str): its name. dirname (str): the folder.
        """
        core.dist.load_table(varname, dirname, 0, 1)

    def load_part(self, varname, dirname, server, servers):
        """As :meth:`load`, but only the rows of one of several servers. Oar's own.

        Args:
            varname (str): its name. dirname (str): the folder. server, servers (int): the index of the server and
                their number: the rows whose id modulo `servers` is `server` are read.
        """
        core.dist.load_table(varname, dirname, server, servers)

    def size(self, varname):
        """The number of rows of a table.

        Args:
            varname (str): its name.

        Returns:
            int
        """
        return core.dist.table_size(varname)

    def memory(self, varname):
        """The memory use of a table. Oar's own.

        Args:
            varname (str): its name.

        Returns:
            dict: "rows"; "spilled", the rows on disk; "bytes" of memory of the others.
        """
        return dict(zip(("rows", "spilled", "bytes"), core.dist.table_memory(varname), strict=True))

    def shrink(self, varname, unseen=1):
        """Ends a day of a table: rows without an access in the last days are removed. Oar's own.

        Args:
            varname (str): its name. unseen (int, optional): the number of days, including the one that ends.

        Returns:
            int: the number of removed rows.
        """
        return core.dist.shrink_table(varname, unseen)
