"""Functions that Python had before."""

from __future__ import annotations

import inspect
import random
import sys
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

__all__: list[str] = []

ArgSpec = namedtuple("ArgSpec", "args varargs keywords defaults")


def getargspec(func: Callable) -> Any:
    """The names of a function's arguments, and the defaults."""
    return ArgSpec(*inspect.getfullargspec(func)[:4])


def formatargspec(
    args: Sequence[str], varargs: str | None = None, varkw: str | None = None, defaults: Any = None
) -> str:
    """Arguments as the text of a signature."""
    first = len(args) - len(defaults or ())
    texts = [f"{name}={defaults[i - first]!r}" if i >= first else name for i, name in enumerate(args)]
    texts += [f"*{varargs}"] * bool(varargs) + [f"**{varkw}"] * bool(varkw)
    return f"({', '.join(texts)})"


def setdefaultencoding(name: str) -> None:
    """Nothing: texts are Unicode."""


def exc_clear() -> None:
    """Nothing: an exception ends with its except clause."""


def maketrans(old: Any, new: Any) -> Any:
    """The table that `translate` takes."""
    return type(old).maketrans(old, new)


def join(words: Sequence[str], sep: str = " ") -> str:
    """The words with `sep` between them."""
    return sep.join(words)


def cmp(x: Any, y: Any) -> int:
    """-1, 0 or 1: how `x` compares with `y`."""
    return (x > y) - (x < y)


def execfile(filename: str, globals: Any = None, locals: Any = None) -> None:  # noqa: A002 (Python 2's names)
    """Executes a file in the caller's namespace."""
    frame = sys._getframe(1)
    with open(filename, encoding="utf-8") as file:
        code = compile(file.read(), filename, "exec")
    space = frame.f_globals if globals is None else globals
    exec(code, space, frame.f_locals if globals is None and locals is None else locals)


def shuffle(x: Any, random: Callable[[], float] | None = None) -> None:
    """As random.shuffle before 3.11, which took the function that draws."""
    if random is None:
        _shuffle(x)
        return
    for i in reversed(range(1, len(x))):
        j = int(random() * (i + 1))
        x[i], x[j] = x[j], x[i]


def sample(population: Any, k: int) -> list[Any]:
    """As random.sample before 3.11, which took sets and the views of dicts."""
    if not isinstance(population, Sequence) and not hasattr(population, "__getitem__"):
        population = tuple(population)
    return random.sample(population, k)


_shuffle = random.shuffle
