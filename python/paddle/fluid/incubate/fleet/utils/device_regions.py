"""The region of a Program that heterogeneous workers run, by the devices of its operators."""

from __future__ import annotations

from typing import Any

from paddle._basics.names import OP_ROLE, OpRole

__all__: list[str] = []

_CPU = "cpu"


class _Region:
    def __init__(self, device: str) -> None:
        self.device = device
        self.ops: list[Any] = []

    def reads(self) -> set[str]:
        """The variables that the region reads from outside."""
        made: set[str] = set()
        found: set[str] = set()
        for op in self.ops:
            found |= set(op.input_arg_names) - made
            made |= set(op.output_arg_names)
        return found

    def makes(self) -> set[str]:
        return {name for op in self.ops for name in op.output_arg_names}


def _regions(ops: list[Any]) -> list[_Region]:
    """Splits operators into regions of adjacent operators of one device."""
    found: list[_Region] = []
    for op in ops:
        device = op.attr("op_device") or _CPU
        if not found or found[-1].device != device:
            found.append(_Region(device))
        found[-1].ops.append(op)
    return found


def _joined(regions: list[_Region]) -> list[_Region]:
    """Joins two regions of one other device with the CPU operators between them."""
    at = 0
    while at < len(regions):
        device = regions[at].device
        at += 1
        if device == _CPU:
            continue
        end = next((i for i in range(at, len(regions)) if regions[i].device != _CPU), None)
        if end is None:
            break
        if regions[end].device != device:
            at = end
            continue
        for region in regions[at:end]:
            region.device = device
            for op in region.ops:
                op._set_attr("op_device", device)
        at = end
    return _regions([op for region in regions for op in region.ops])


def split(program: Any) -> list[Any] | None:
    """The region of another device: its first and last operator, sent and received variables, and its Program.

    None if all operators are of the CPU; the last of several regions.
    """
    forward: list[Any] = []
    for op in program.global_block().ops:
        if op.has_attr(OP_ROLE) and int(op.attr(OP_ROLE)) & int(OpRole.Optimize):
            break
        if op.has_attr("op_device"):
            forward.append(op)
    regions = _joined(_regions(forward))
    own = {name for name, var in program.global_block().vars.items() if not var.persistable}
    gets: list[list[str]] = []
    for i, region in enumerate(regions):
        before = regions[i - 1].makes() | (own if i == 1 else set()) if i else set()
        gets.append(sorted(before & region.reads()))
    others = [i for i, region in enumerate(regions) if region.device != _CPU]
    if not others:
        return None
    at = others[-1]
    first = sum(len(region.ops) for region in regions[:at])
    sends = gets[at + 1] if at + 1 < len(regions) else []
    part = program.clone()._prune_with_input(gets[at], sends)
    return [first, first + len(regions[at].ops) - 1, sends, gets[at], part]
