"""Asynchronous training without a communicator of one's own: what a Program exchanges is exchanged beside its steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .communication import Communication, of_program
from .config import DistributedMode

__all__ = ["Beside", "literally"]

#: makes a communicator of (program, scope): fluid.communicator says how
make: list[Callable[[Any, Any], Any]] = []

#: this process counts its steps by what its send operators send, each at its time
_literal = [False]


def literally() -> None:
    """From now on, in this process, send operators send and recv operators receive when they are run."""
    _literal[0] = True


def _instead(program: Any) -> Any:
    """The same Program, but for its exchange: the communicator cuts, joins, sends and receives."""
    twin = program.clone()
    block = twin.global_block()
    wholes = {}
    for op in block.ops:
        if op.type == "split_byref":
            parts = tuple(op.output("Out"))
            wholes[parts] = op.input("X")[0], list(op.attr("sections")), op
    joined = {tuple(op.input("X")): (op.output("Out")[0], op) for op in block.ops if op.type == "concat"}
    gone = []
    for op in block.ops:
        if op.type == "send" and not op.attr("send_varnames"):
            parts = tuple(op.input("X"))
            whole, sections, cut = wholes.get(parts, (parts[0], [], None))
            if cut is None and len(parts) > 1:
                continue
            op._set_attr("send_varnames", list(parts))
            op._set_attr("sections", sections)
            op.desc.set_input("X", [whole])
            gone += [cut] if cut else []
        elif op.type == "recv" and not op.attr("recv_varnames"):
            parts = tuple(op.output("Out"))
            whole, join = joined.get(parts, (parts[0], None))
            if join is None and len(parts) > 1:
                continue
            op._set_attr("recv_varnames", list(parts))
            op.desc.set_output("Out", [whole])
            gone += [join] if join else []
    for op in gone:
        block._remove_op(next(i for i, other in enumerate(block.ops) if other is op))
    return twin


class Beside:
    """Runs a trainer's Program with a communicator, which it starts with the first step where ``OAR_PS_BESIDE=1``.

    Merging, sending and receiving go on while the trainer computes; ``FLAGS_communicator_*`` say how, as for
    :class:`~paddle.fluid.communicator.Communicator`. Without that word, where another communicator runs, in another
    scope than that of the first step and after ``resume_steps``, operators do what they say when they are run, as in
    2.0.2.
    """

    def __init__(self, program: Any, trainers: int) -> None:
        self.program, self.trainers = program, trainers
        self.communicator: Any = None
        self._scope: Any = None
        self._twin: Any = None
        self._made_of: tuple = ()

    def twin(self) -> Any:
        """The Program that runs with the communicator."""
        made_of = self.program.desc, self.program.desc._revision
        if self._made_of != made_of:
            self._twin, self._made_of = _instead(self.program), made_of
            if "lr_sheduler" in self.program.__dict__:
                self._twin.lr_sheduler = self.program.lr_sheduler
        return self._twin

    def communication(self) -> Communication:
        """What the communicator is to send and receive."""
        return of_program(DistributedMode.ASYNC, self.trainers, self.twin())

    def take(self, communicator: Any, scope: Any) -> None:
        """This communicator has been made for the Program; parameters come to that scope."""
        self.communicator, self._scope = communicator, scope

    def to_run(self, scope: Any) -> Any:
        """What the Executor is to run in this scope."""
        wanted = os.environ.get("OAR_PS_BESIDE") == "1"
        if _literal[0] or self.communicator is None and not wanted:
            return self.program
        if self.communicator is None:
            make[0](self.program, scope)
        if scope is not self._scope:
            return self.program
        if not self.communicator.is_running():
            if not wanted:
                return self.program
            try:
                self.communicator.start()
            except RuntimeError:  # another one runs
                return self.program
        return self.twin()
