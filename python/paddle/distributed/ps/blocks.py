"""Blocks of variables: how they are cut, and what they are called."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["VarBlock", "cut", "height_sections", "is_part_of", "name_parts", "orig_name", "row_numel", "slice_variable"]

_TRAINER, _BLOCK = ".trainer_", ".block"


class VarBlock(NamedTuple):
    """A block of a variable: its number and how many elements it has."""

    varname: str
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.varname}:{self.offset}:{self.size}"


def row_numel(shape: Iterable[int]) -> int:
    """Elements of one row (index along the first axis)."""
    return math.prod(list(shape)[1:])


def cut(var_list: Iterable[Any], slice_count: int, min_block_size: int) -> list[VarBlock]:
    """Cut variables into at most `slice_count` blocks of whole rows.

    A block has at least `min_block_size` elements, but for the last one and variables that are smaller.

    Args:
        var_list (list of Variable): what is cut.
        slice_count (int): usually the number of servers.
        min_block_size (int): fewest elements.

    Returns:
        list of VarBlock, in the order of the variables.
    """
    blocks = []
    for var in var_list:
        numel, row = math.prod(var.shape), row_numel(var.shape)
        parts = min(slice_count, max(numel // min_block_size, 1))
        # rounded up twice: to a block for each part, and to whole rows
        size = math.ceil(math.ceil(numel / parts) / row) * row
        blocks += [VarBlock(var.name, i, min(size, numel - i * size)) for i in range(math.ceil(numel / size))]
    return blocks


def slice_variable(var_list: Iterable[Any], slice_count: int, min_block_size: int) -> list[str]:
    """As :func:`cut`, each block as ``name:number:elements``."""
    return [str(block) for block in cut(var_list, slice_count, min_block_size)]


def height_sections(parts: Iterable[Any]) -> list[int]:
    """How many rows each part has."""
    return [part.shape[0] for part in parts]


def is_part_of(name: str, whole: str) -> bool:
    """Whether `name` is the variable `whole` or a block of it."""
    return name == whole or name.startswith(whole + _BLOCK)


def name_parts(name: str) -> tuple[str, str, str]:
    """Taken apart: ``"w.block1.trainer_0"`` is ``("w", "block1", "trainer_0")``; what is not there is empty."""
    at = name.find(_TRAINER)
    end = len(name) if at < 0 else at
    trainer = "" if at < 0 else name[at + 1 :]
    cut = name.find(_BLOCK)
    block = "" if cut < 0 else name[cut + 1 : end]
    return name[: end if cut < 0 else min(cut, end)], block, trainer


def orig_name(name: str) -> str:
    """The name of the whole, for any trainer."""
    return name_parts(name)[0]
