"""The pass builder of a BuildStrategy: passes that a user adds to the engine's."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []

#: passes that can be added, with their attributes
_PASSES = {"multi_batch_merge_pass": ("num_repeats",)}


class Pass:
    """A pass: its name and attributes."""

    def __init__(self, name: str) -> None:
        if name not in _PASSES:
            raise NotImplementedError(f"the pass {name!r} cannot be added: there is {', '.join(_PASSES)}")
        self._name = name
        self.attributes: dict[str, Any] = {}

    def type(self) -> str:
        """Its name."""
        return self._name

    def set(self, name: str, value: Any) -> None:
        """Sets an attribute. ValueError for an unknown one."""
        if name not in _PASSES[self._name]:
            raise ValueError(f"the pass {self._name} takes {', '.join(_PASSES[self._name])}, not {name!r}")
        self.attributes[name] = value


class PassBuilder:
    """The passes that were added, in order."""

    def __init__(self) -> None:
        self._passes: list[Pass] = []

    def all_passes(self) -> list[Pass]:
        """The list of passes."""
        return list(self._passes)

    def append_pass(self, name: str) -> Pass:
        """Appends a pass."""
        return self.insert_pass(len(self._passes), name)

    def insert_pass(self, idx: int, name: str) -> Pass:
        """Inserts a pass. IndexError for an index out of range."""
        if not 0 <= idx <= len(self._passes):
            raise IndexError(f"insert_pass: there are {len(self._passes)} passes, {idx} is no place among them")
        self._passes.insert(idx, Pass(name))
        return self._passes[idx]

    def remove_pass(self, idx: int) -> None:
        """Removes a pass. IndexError for an index out of range."""
        if not 0 <= idx < len(self._passes):
            raise IndexError(f"remove_pass: there are {len(self._passes)} passes, none is number {idx}")
        del self._passes[idx]

    def repeats(self) -> int:
        """The number of batches of one update (multi_batch_merge_pass)."""
        merges = [p.attributes.get("num_repeats", 1) for p in self._passes if p.type() == "multi_batch_merge_pass"]
        count = merges[0] if merges else 1
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"multi_batch_merge_pass: num_repeats must be an integer above 0, got {count!r}")
        return count
