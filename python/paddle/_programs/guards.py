"""The current Programs, and the guards that switch them."""

from __future__ import annotations

import contextlib

from paddle._basics import mode
from paddle._basics.checks import check_type

from .program import Program
from .variable import Variable

__all__: list[str] = []


_main_program_ = Program()
_startup_program_ = Program()


def default_startup_program() -> Program:
    """The Program that initialisers of parameters go to.

    Examples:
        >>> import paddle.static as static
        >>> isinstance(static.default_startup_program(), static.Program)
        True
    """
    return _startup_program_


def default_main_program() -> Program:
    """The Program that API functions append operators to in static mode."""
    return _main_program_


def switch_main_program(program: Program) -> Program:
    """Make `program` the default main Program; returns the previous one."""
    global _main_program_
    former, _main_program_ = _main_program_, program
    return former


def switch_startup_program(program: Program) -> Program:
    """Make `program` the default startup Program; returns the previous one."""
    global _startup_program_
    former, _startup_program_ = _startup_program_, program
    return former


@contextlib.contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None):
    """In the ``with`` block operators go to `main_program`, initialisers to `startup_program` (None: unchanged).

    Raises:
        TypeError: when an argument is no Program.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> main = paddle.static.Program()
        >>> with paddle.static.program_guard(main):
        ...     x = paddle.static.data("x", [None, 4])
        >>> main.global_block().has_var("x")
        True
    """
    check_type(main_program, "main_program", Program, "paddle.static.program_guard")
    if startup_program is not None:
        check_type(startup_program, "startup_program", Program, "paddle.static.program_guard")

    def built() -> bool:
        programs = [main_program] if startup_program is None else [main_program, startup_program]
        return any(p.num_blocks > 1 or p.global_block().ops or p.global_block().vars for p in programs)

    with mode.static_if_undecided(built), program_guard_unchecked(main_program, startup_program):
        yield


@contextlib.contextmanager
def program_guard_unchecked(main_program: Program, startup_program: Program | None = None):
    """As :func:`program_guard`, in any mode."""
    former = switch_main_program(main_program)
    former_startup = switch_startup_program(startup_program) if startup_program is not None else None
    try:
        yield
    finally:
        switch_main_program(former)
        if former_startup is not None:
            switch_startup_program(former_startup)


def _get_var(name: str, program: Program | None = None) -> Variable:
    """The variable `name` of the global block of `program` (the main one when None)."""
    if program is None:
        program = default_main_program()
    assert isinstance(name, str)
    assert isinstance(program, Program)
    return program.global_block().var(name)


def _manual_program_seed(seed: int) -> None:
    """Seed the two default Programs, and Programs created from now on."""
    default_main_program().random_seed = seed
    default_startup_program().random_seed = seed
    Program().global_seed(seed)
