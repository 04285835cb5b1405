"""Asynchronous communication of a trainer's Program that is run without a Communicator of the user's."""

from __future__ import annotations

import os
from typing import Any

import paddle._core as core
from paddle._basics.flags import get_flags
from paddle._programs.runners import Request, Runner, register
from paddle.static.executor import scope_guard
from paddle.static.runners import run_at_place, warn_if_empty

from .communication import Communication, of_program
from .communicator import Communicator
from .config import DistributedMode

__all__ = ["AsyncCommunication", "force_sync_ops", "resume_steps"]

#: the bound of `FLAGS_communicator_max_staleness`, where the flag leaves it open
_MAX_STALENESS = 8

#: whether send and recv operators of this process exchange data when they run (a list: tests set it back)
_sync_ops = [False]


def force_sync_ops() -> None:
    """From now on, in this process, send operators send and recv operators receive when they run."""
    _sync_ops[0] = True


def _for_communicator(program: Any) -> Any:
    """A clone whose sends and recvs leave splitting, concatenating and the exchange to a Communicator."""
    clone = program.clone()
    block = clone.global_block()
    splits = {}
    for op in block.ops:
        if op.type == "split_byref":
            parts = tuple(op.output("Out"))
            splits[parts] = op.input("X")[0], list(op.attr("sections")), op
    concats = {tuple(op.input("X")): (op.output("Out")[0], op) for op in block.ops if op.type == "concat"}
    replaced = []
    for op in block.ops:
        if op.type == "send" and not op.attr("send_varnames"):
            parts = tuple(op.input("X"))
            whole, sections, split = splits.get(parts, (parts[0], [], None))
            if split is None and len(parts) > 1:
                continue
            op._set_attr("send_varnames", list(parts))
            op._set_attr("sections", sections)
            op.desc.set_input("X", [whole])
            replaced += [split] if split else []
        elif op.type == "recv" and not op.attr("recv_varnames"):
            parts = tuple(op.output("Out"))
            whole, concat = concats.get(parts, (parts[0], None))
            if concat is None and len(parts) > 1:
                continue
            op._set_attr("recv_varnames", list(parts))
            op.desc.set_output("Out", [whole])
            replaced += [concat] if concat else []
    for op in replaced:
        block._remove_op(next(i for i, other in enumerate(block.ops) if other is op))
    return clone


class AsyncCommunication:
    """The communication of an asynchronous trainer's Program, kept as ``Program._async_communication``.

    With ``OAR_PS_BACKGROUND=1`` the first run starts a Communicator: merging, sending and receiving overlap with the
    trainer's steps, by ``FLAGS_communicator_*`` as for :class:`~paddle.fluid.communicator.Communicator`. Otherwise,
    while another Communicator runs, in another scope than that of the first run and after ``resume_steps``, send and
    recv operators exchange data when they run, as in 2.0.2.
    """

    def __init__(self, program: Any, trainers: int) -> None:
        self.program, self.trainers = program, trainers
        self.communicator: Any = None
        self._scope: Any = None
        self._rewritten: Any = None
        self._rewritten_of: tuple = ()

    def rewritten(self) -> Any:
        """The Program that runs with the Communicator: made again where the user's Program has changed."""
        made_of = self.program.desc, self.program.desc._revision
        if self._rewritten_of != made_of:
            self._rewritten, self._rewritten_of = _for_communicator(self.program), made_of
            if "lr_sheduler" in self.program.__dict__:
                self._rewritten.lr_sheduler = self.program.lr_sheduler
        return self._rewritten

    def communication(self) -> Communication:
        """What the Communicator sends and receives."""
        return of_program(DistributedMode.ASYNC, self.trainers, self.rewritten())

    def attach(self, communicator: Any, scope: Any) -> None:
        """Registers the Communicator of this Program, and the scope into which it receives parameters."""
        self.communicator, self._scope = communicator, scope

    def to_run(self, scope: Any) -> Any:
        """The Program that the Executor runs in this scope: the user's, or the rewritten one."""
        enabled = os.environ.get("OAR_PS_BACKGROUND") == "1"
        if _sync_ops[0] or self.communicator is None and not enabled:
            return self.program
        if self.communicator is None:
            _make_communicator(self.program, scope)
        if scope is not self._scope:
            return self.program
        if not self.communicator.is_running():
            if not enabled:
                return self.program
            try:
                self.communicator.start()
            except RuntimeError:  # another Communicator of this process runs
                return self.program
        return self.rewritten()


def _make_communicator(program: Any, scope: Any) -> None:
    """Attaches a Communicator that sends each gradient once the one before it is acknowledged.

    Parameters are then a few steps old at most.
    """
    flag = "FLAGS_communicator_max_staleness"
    envs = {
        "communicator_min_send_grad_num_before_recv": 1,
        "communicator_max_staleness": get_flags(flag)[flag] or _MAX_STALENESS,
    }
    with scope_guard(scope):
        Communicator(program, {"send_from": 1}, envs)


def resume_steps(endpoints, trainer_id):
    """The number of steps that a restarted trainer has already sent. Oar's own.

    Call it before the first step, and continue after the counted steps. Where the previous process reached only some of
    the servers, its last step is sent again: servers that have applied it ignore it, and no gradient is applied twice.
    It counts steps of ``send`` operators, not those of a Communicator.

    Args:
        endpoints (str|list of str): the servers. trainer_id (int): this trainer.

    Returns:
        int: 0 for a trainer that was not started before.

    Raises:
        RuntimeError: when this process has already sent something, or a server does not answer.

    Examples:
        >>> from paddle.fluid.communicator import resume_steps
        >>> resume_steps([], 0)
        0
    """
    force_sync_ops()
    if isinstance(endpoints, str):
        endpoints = [e for e in endpoints.split(",") if e]
    return core.dist.resume_trainer(list(endpoints), trainer_id)


class AsyncTrainerRunner(Runner):
    """Runs an asynchronous trainer's Program; its AsyncCommunication (the state) chooses the form of the Program."""

    def run(self, executor: Any, request: Request) -> list:
        program = self.state.to_run(request.scope)
        warn_if_empty(program, request)
        return run_at_place(executor, program, request)


register("parameter_server", AsyncTrainerRunner)
