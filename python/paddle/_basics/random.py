"""The global random generator: its seed and its state."""

from __future__ import annotations

from typing import Any

import paddle._core as _core

__all__: list[str] = []


def seed(seed: int) -> Any:
    """Set the seed of the global generator; a seed produces the numbers that Paddle produces on CPU.

    Args:
        seed (int): any integer.

    Returns:
        Generator: the global generator.

    Examples:
        >>> import paddle
        >>> paddle.seed(7)  # doctest: +ELLIPSIS
        <...Generator...>
        >>> a = paddle.rand([2]).numpy()
        >>> _ = paddle.seed(7)
        >>> bool((paddle.rand([2]).numpy() == a).all())
        True
    """
    _core.set_seed(int(seed))
    return Generator()


class Generator:
    """The global random generator: its state can be read and set."""

    def manual_seed(self, seed: int):
        """Set the seed."""
        _core.set_seed(int(seed))
        return self

    def get_state(self):
        """The state, for `set_state`."""
        return _core.get_rng_state()

    def set_state(self, state) -> None:
        """Restore a state that `get_state` returned."""
        _core.set_rng_state(state)


def get_cuda_rng_state() -> list:
    """The states of the GPUs' generators: always an empty list."""
    return []


def set_cuda_rng_state(state_list) -> None:
    """Set the states of the GPUs' generators, of which there are none.

    Raises:
        ValueError: for a list that is not empty.
    """
    if len(state_list) != 0:
        raise ValueError("Length of gpu state list should be equal to the gpu device count")
