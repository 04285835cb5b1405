"""Offloading of recompute checkpoints to pinned host memory."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.names import OP_ROLE, OpRole
from paddle._programs.guards import default_startup_program

__all__: list[str] = []

#: the places of the operators memcpy and fill_constant
_CUDA, _PINNED = 1, 2


def _first(ops: list[Any], role: int) -> int:
    return next(i for i, op in enumerate(ops) if op.attr(OP_ROLE) == role)


class _Offloaded:
    """One checkpoint: its variable in pinned memory, and the copy back."""

    def __init__(self, block: Any, name: str, shape: list[int]) -> None:
        self.block, self.name = block, name
        dtype = block.var(name).dtype
        made = [
            block.create_var(
                name=unique_name.generate(f"{name}@{what}"),
                shape=shape,
                dtype=dtype,
                persistable=False,
                stop_gradient=what == "Pinned",
            )
            for what in ("Pinned", "Fetch")
        ]
        self.pinned, self.fetched = made
        startup = default_startup_program().global_block()
        startup.create_var(name=self.pinned.name, shape=shape, dtype=dtype, persistable=False, stop_gradient=True)
        attrs = {"shape": shape, "dtype": dtype, "value": 0.0, "place_type": _PINNED, OP_ROLE: OpRole.Forward}
        startup.append_op(type="fill_constant", outputs={"Out": self.pinned.name}, attrs=attrs)

    def _copy(self, at: int, source: Any, target: Any, role: int, place: int) -> None:
        attrs = {"dst_place_type": place, OP_ROLE: role}
        self.block._insert_op(at, type="memcpy", inputs={"X": [source]}, outputs={"Out": [target]}, attrs=attrs)

    def put(self) -> None:
        """Inserts the copy to pinned memory after the last forward operator that reads it."""
        ops = self.block.ops[: _first(self.block.ops, int(OpRole.Backward))]
        used = [i for i, op in enumerate(ops) if self.name in (*op.input_arg_names, *op.output_arg_names)]
        self._copy(used[-1] + 1, self.block.var(self.name), self.pinned, int(OpRole.Forward), _PINNED)

    def fetch(self, at: int) -> None:
        """Inserts the copy back before the operator `at`."""
        self._copy(at, self.pinned, self.fetched, int(OpRole.Backward), _CUDA)


def offload(block: Any, checkpoints: list[Any], shape: list[int]) -> None:
    """Rewrites a block with backward: every checkpoint but the last is copied to pinned memory, and backward reads a
    copy of it, which is transferred while the next segment is recomputed."""
    names = [c if isinstance(c, str) else c.name for c in checkpoints]
    written = {name: i for i, op in reversed(list(enumerate(block.ops))) for name in op.output_arg_names}
    names = sorted(names, key=written.__getitem__)[:-1]
    if not names:
        return
    waiting = {name: _Offloaded(block, name, shape) for name in names}
    begin = _first(block.ops, int(OpRole.Backward))
    uses: dict[str, int] = {}
    for at in range(begin, len(block.ops)):
        op = block.ops[at]
        for name in set(op.input_arg_names) & set(names):
            uses.setdefault(name, at)
            op._rename_input(name, waiting[name].fetched.name)
    # a checkpoint is fetched when backward first reads the next one
    places = dict(zip(reversed(names), [begin, *(uses.get(name, begin) for name in reversed(names))], strict=False))
    for name, at in sorted(places.items(), key=lambda item: -item[1]):
        waiting[name].fetch(at)
    for one in waiting.values():
        one.put()
