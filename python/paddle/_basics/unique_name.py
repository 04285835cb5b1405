"""Unique names for variables, operators and layers: ``generate("fc")`` gives ``fc_0``, ``fc_1``, ..."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator

from . import mode

__all__ = ["generate", "switch", "guard"]


class UniqueNameGenerator:
    """Numbers the names of each key.

    Args:
        prefix (str, optional): prefix of every name.
    """

    def __init__(self, prefix: str | None = None) -> None:
        self.ids: collections.defaultdict[str, int] = collections.defaultdict(int)
        self.prefix = prefix or ""

    def __call__(self, key: str) -> str:
        number = self.ids[key]
        self.ids[key] = number + 1
        return f"{self.prefix}{key}_{number}"


class DygraphParameterNameChecker:
    """The parameter names that dygraph mode has used."""

    def __init__(self) -> None:
        self._name_set: set[str] = set()

    def __call__(self, name: str) -> bool:
        if name in self._name_set:
            return True
        self._name_set.add(name)
        return False


generator = UniqueNameGenerator()
dygraph_parameter_name_checker = DygraphParameterNameChecker()


def generate(key: str) -> str:
    """A new name: `key` and a number.

    Examples:
        >>> from paddle.fluid import unique_name
        >>> with unique_name.guard():
        ...     unique_name.generate("fc"), unique_name.generate("fc")
        ('fc_0', 'fc_1')
    """
    return generator(key)


def generate_with_ignorable_key(key: str) -> str:
    """As :func:`generate`; in dygraph mode all keys share one counter."""
    if not mode.in_static_mode():
        return generator("generated_tensor")
    return generator(key)


def switch(new_generator: UniqueNameGenerator | None = None, new_para_name_checker=None):
    """Install another generator (a new one when None); returns the previous generator and name checker."""
    global generator, dygraph_parameter_name_checker
    old = (generator, dygraph_parameter_name_checker)
    generator = UniqueNameGenerator() if new_generator is None else new_generator
    dygraph_parameter_name_checker = (
        DygraphParameterNameChecker() if new_para_name_checker is None else new_para_name_checker
    )
    return old


@contextlib.contextmanager
def guard(new_generator: UniqueNameGenerator | str | bytes | None = None) -> Iterator[None]:
    """The ``with`` block uses a new generator of names.

    Args:
        new_generator (str|bytes|None): a prefix for all names of the block, or None.
    """
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = UniqueNameGenerator(new_generator)
    old = switch(new_generator)
    try:
        yield
    finally:
        switch(*old)
