"""Checks of axes and permutations, shared by the functions of 1.x and 2.0."""

from __future__ import annotations

__all__: list[str] = []


def check_permutation(perm, rank: int) -> None:
    """ValueError unless `perm` orders the `rank` dimensions of a Variable."""
    if len(perm) != rank:
        raise ValueError(f"transpose: perm must have one entry for each of the {rank} dimensions of x, got {len(perm)}")
    for i, dim in enumerate(perm):
        if dim >= rank:
            raise ValueError(f"transpose: perm[{i}] must be below the rank of x ({rank}), got {dim}")


def check_axis(name: str, axis: int, rank: int) -> int:
    """`axis` as a number from 0 on; ValueError, naming the function, when it is out of range for the rank."""
    if not -rank <= axis < rank:
        raise ValueError(f"{name}: axis must be in [{-rank}, {rank}) for a tensor of rank {rank}, got {axis}")
    return axis % rank
