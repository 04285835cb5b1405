"""Blocks of variables: slices along the first axis that servers hold, and their names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["VarBlock", "cut", "height_sections", "is_part_of", "name_parts", "orig_name", "row_numel", "slice_variable"]

_TRAINER, _BLOCK = ".trainer_", ".block"


class VarBlock(NamedTuple):
    """A block of a variable: its index (`offset`) and its number of elements (`size`)."""

    varname: str
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.varname}:{self.offset}:{self.size}"


def row_numel(shape: Iterable[int]) -> int:
    """The number of elements of one row: the product of all dimensions but the first."""
    return math.prod(list(shape)[1:])


def cut(var_list: Iterable[Any], slice_count: int, min_block_size: int) -> list[VarBlock]:
    """Splits variables into at most `slice_count` blocks of whole rows.

    A block has at least `min_block_size` elements, except the last one and smaller variables.

    Args:
        var_list (list of Variable): the variables.
        slice_count (int): usually the number of servers.
        min_block_size (int): the minimum number of elements of a block.

    Returns:
        list of VarBlock, in the order of the variables.
    """
    blocks = []
    for var in var_list:
        numel, row = math.prod(var.shape), row_numel(var.shape)
        parts = min(slice_count, max(numel // min_block_size, 1))
        # rounded up twice: elements of a part, then to whole rows
        size = math.ceil(math.ceil(numel / parts) / row) * row
        blocks += [VarBlock(var.name, i, min(size, numel - i * size)) for i in range(math.ceil(numel / size))]
    return blocks


def slice_variable(var_list: Iterable[Any], slice_count: int, min_block_size: int) -> list[str]:
    """As :func:`cut`, each block as ``name:number:elements``."""
    return [str(block) for block in cut(var_list, slice_count, min_block_size)]


def height_sections(parts: Iterable[Any]) -> list[int]:
    """The number of rows of each part."""
    return [part.shape[0] for part in parts]


def is_part_of(name: str, whole: str) -> bool:
    """Whether `name` is the variable `whole` or a block of it."""
    return name == whole or name.startswith(whole + _BLOCK)


def name_parts(name: str) -> tuple[str, str, str]:
    """Splits a name: ``"w.block1.trainer_0"`` is ``("w", "block1", "trainer_0")``; missing parts are empty."""
    at = name.find(_TRAINER)
    end = len(name) if at < 0 else at
    trainer = "" if at < 0 else name[at + 1 :]
    cut = name.find(_BLOCK)
    block = "" if cut < 0 else name[cut + 1 : end]
    return name[: end if cut < 0 else min(cut, end)], block, trainer


def orig_name(name: str) -> str:
    """The name of the whole variable, without block and trainer."""
    return name_parts(name)[0]
