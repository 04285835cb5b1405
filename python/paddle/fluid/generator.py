"""fluid.generator: Generator, a Mersenne twister with get_state and set_state."""

from __future__ import annotations

from typing import Any

import paddle._core as _core
from paddle._basics.mode import _get_paddle_place
from paddle._basics.place import CPUPlace

__all__ = ["Generator"]

_WORDS, _MIDDLE = 312, 156
_LOW, _ALL = (1 << 31) - 1, (1 << 64) - 1


def _seed_sequence(seed: int, n: int) -> list[int]:
    """`n` 32-bit numbers from a seed, equal to those of C++'s std::seed_seq (for n >= 623)."""
    mask = 0xFFFFFFFF
    p = (n - 11) // 2
    out = [0x8B8B8B8B] * n

    def mixed(x: int) -> int:
        return x ^ (x >> 27)

    for k in range(n):
        far, farther = (k + p) % n, (k + p + 11) % n
        one = 1664525 * mixed(out[k] ^ out[far] ^ out[k - 1]) & mask
        two = one + (1 if k == 0 else k + seed if k == 1 else k) & mask
        out[far] = out[far] + one & mask
        out[farther] = out[farther] + two & mask
        out[k] = two
    for k in range(n):
        far, farther = (k + p) % n, (k + p + 11) % n
        one = 1566083941 * mixed(out[k] + out[far] + out[k - 1] & mask) & mask
        two = one - k & mask
        out[far] ^= one
        out[farther] ^= two
        out[k] = two
    return out


class Generator:
    """The 64-bit Mersenne twister of the CPU operators; operators do not draw from this object.

    Args:
        place (CPUPlace|str, optional): None or the CPU.

    Raises:
        ValueError: for another place.

    Examples:
        >>> from paddle.fluid.generator import Generator
        >>> generator = Generator().manual_seed(7)
        >>> state = generator.get_state()
        >>> number = generator.random()
        >>> generator.set_state(state)
        >>> generator.random() == number
        True
    """

    def __init__(self, place: Any = None) -> None:
        self.place = _get_paddle_place(place)
        if self.place is not None and not isinstance(self.place, CPUPlace):
            raise ValueError(f"Generator: place must be None or CPUPlace, got {place}")
        self.manual_seed(_core.initial_seed())

    def manual_seed(self, seed: int) -> Generator:
        """Restarts from `seed`."""
        halves = _seed_sequence(int(seed) & 0xFFFFFFFF, 2 * _WORDS)
        words = [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]
        self.set_state((int(seed) & _ALL, words, _WORDS))
        return self

    def initial_seed(self) -> int:
        """The seed."""
        return self._seed

    def random(self) -> int:
        """The next number, from 0 to 2**64 - 1."""
        if self._next == _WORDS:
            self._renew()
        word = self._words[self._next]
        self._next += 1
        word ^= (word >> 29) & 0x5555555555555555
        word ^= (word << 17) & 0x71D67FFFEDA60000
        word ^= (word << 37) & 0xFFF7EEE000000000
        return word ^ (word >> 43)

    def _renew(self) -> None:
        words = self._words
        for i in range(_WORDS):
            x = (words[i] & (_ALL ^ _LOW)) | (words[(i + 1) % _WORDS] & _LOW)
            words[i] = words[(i + _MIDDLE) % _WORDS] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
        self._next = 0

    def get_state(self) -> tuple[int, list[int], int]:
        """(seed, words, position of the next word), the format of `paddle.seed(...).get_state()`."""
        return self._seed, list(self._words), self._next

    def set_state(self, arg: tuple[int, list[int], int]) -> None:
        """Restores a state from `get_state`.

        Raises:
            ValueError: for an invalid state.
        """
        seed, words, position = arg
        if len(words) != _WORDS or not 0 <= position <= _WORDS:
            raise ValueError("Generator.set_state: arg is not a generator's state")
        self._seed, self._words, self._next = int(seed), [int(w) & _ALL for w in words], int(position)
