"""The seed of the random generator."""

from __future__ import annotations

from typing import Any

import paddle._core as _core

__all__: list[str] = []


def seed(seed: int) -> Any:
    """Set the seed of the global generator; the same seed gives the numbers that Paddle gives on CPU.

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
        """The state, to be given to `set_state`."""
        return _core.get_rng_state()

    def set_state(self, state) -> None:
        """Go on from a state that `get_state` gave."""
        _core.set_rng_state(state)


def get_cuda_rng_state() -> list:
    """The generators of the GPUs: there are none."""
    return []


def set_cuda_rng_state(state_list) -> None:
    """Set the generators of the GPUs.

    Raises:
        ValueError: as there are none, for a list that is not empty.
    """
    if len(state_list) != 0:
        raise ValueError("Length of gpu state list should be equal to the gpu device count")
