"""Names that no other variable of a Program has: "fc_0.w_0", "fc_0.b_0", "fc_1.w_0", ..."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator

__all__ = ["generate", "switch", "guard"]


class UniqueNameGenerator:
    """Counts how often each key was asked for; `prefix` goes before every name."""

    def __init__(self, prefix: str | None = None) -> None:
        self.ids: collections.defaultdict[str, int] = collections.defaultdict(int)
        self.prefix = prefix or ""

    def __call__(self, key: str) -> str:
        number = self.ids[key]
        self.ids[key] = number + 1
        return f"{self.prefix}{key}_{number}"


class DygraphParameterNameChecker:
    """Tells whether an eager parameter's name was given before: two parameters of one name could not be saved."""

    def __init__(self) -> None:
        self._name_set: set[str] = set()

    def __call__(self, name: str) -> bool:
        used = name in self._name_set
        self._name_set.add(name)
        return used


generator = UniqueNameGenerator()
dygraph_parameter_name_checker = DygraphParameterNameChecker()
# Names of eager temporaries: their own counter, so that they do not use up the names of layers.
_temporaries = UniqueNameGenerator()


def generate(key: str) -> str:
    """`key` with a number that it has not had yet in this namespace.

    Examples:
        >>> import paddle
        >>> with paddle.utils.unique_name.guard():
        ...     print(paddle.utils.unique_name.generate("fc"), paddle.utils.unique_name.generate("fc"))
        fc_0 fc_1
    """
    return generator(key)


def generate_with_ignorable_key(key: str) -> str:
    """Like `generate`; an eager temporary, whose name nobody reads, gets one without `key`."""
    from paddle.framework.kinds import in_dygraph_mode

    return _temporaries("generated_tensor") if in_dygraph_mode() else generator(key)


def switch(
    new_generator: UniqueNameGenerator | None = None,
    new_para_name_checker: DygraphParameterNameChecker | None = None,
) -> tuple[UniqueNameGenerator, DygraphParameterNameChecker]:
    """Goes to another namespace (a new one without arguments) and returns the one before.

    Examples:
        >>> import paddle
        >>> before = paddle.utils.unique_name.switch()
        >>> paddle.utils.unique_name.generate("fc")
        'fc_0'
        >>> _ = paddle.utils.unique_name.switch(*before)
    """
    global generator, dygraph_parameter_name_checker
    old = generator, dygraph_parameter_name_checker
    generator = UniqueNameGenerator() if new_generator is None else new_generator
    dygraph_parameter_name_checker = (
        DygraphParameterNameChecker() if new_para_name_checker is None else new_para_name_checker
    )
    return old


@contextlib.contextmanager
def guard(new_generator: str | bytes | UniqueNameGenerator | None = None) -> Iterator[None]:
    """A namespace of its own for the block; a str or bytes goes before every name in it.

    Examples:
        >>> import paddle
        >>> with paddle.utils.unique_name.guard("A"):
        ...     print(paddle.utils.unique_name.generate("fc"))
        Afc_0
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
