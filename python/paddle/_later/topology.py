"""`fleet.CommunicateTopology` and `fleet.HybridCommunicateGroup` of Paddle 2.1 to 2.6: the ranks as a grid, whose
axes are the kinds of parallelism."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from paddle import distributed

__all__: list[str] = []

_AXES = ("data", "pipe", "sharding", "sep", "model")


class ParallelMode:
    """The kinds of parallelism: DATA_PARALLEL, TENSOR_PARALLEL, PIPELINE_PARALLEL, SHARDING_PARALLEL, SEGMENT_PARALLEL.

    Examples:
        >>> import paddle
        >>> paddle.distributed.ParallelMode.PIPELINE_PARALLEL
        2
    """

    DATA_PARALLEL = 0
    TENSOR_PARALLEL = 1
    PIPELINE_PARALLEL = 2
    SHARDING_PARALLEL = 3
    SEGMENT_PARALLEL = 4


class CommunicateTopology:
    """A grid of ranks, numbered with the last axis first.

    Args:
        hybrid_group_names (list of str): names of the axes.
        dims (list of int): their sizes.

    Raises:
        ValueError: for other numbers of names and sizes, or a size below 1.

    Examples:
        >>> from paddle.distributed.fleet import CommunicateTopology
        >>> grid = CommunicateTopology(["data", "model"], [2, 2])
        >>> grid.get_comm_list("data"), grid.get_coord(3)
        ([[0, 2], [1, 3]], Coordinate(data=1, model=1))
    """

    def __init__(self, hybrid_group_names=_AXES, dims=(1, 1, 1, 1, 1)):
        if len(hybrid_group_names) != len(dims) or min(dims, default=0) < 1:
            raise ValueError(
                "CommunicateTopology: dims must have a positive size for each of "
                f"{list(hybrid_group_names)}, got {list(dims)}"
            )
        self._parallel_names, self._dims = list(hybrid_group_names), [int(d) for d in dims]
        self.coordinate: Any = collections.namedtuple("Coordinate", self._parallel_names)  # noqa: PYI024
        self._grid = np.arange(int(np.prod(self._dims))).reshape(self._dims)

    def _axis(self, name: str) -> int:
        if name not in self._parallel_names:
            raise ValueError(f"CommunicateTopology has no axis {name!r}; it has {', '.join(self._parallel_names)}")
        return self._parallel_names.index(name)

    def get_hybrid_group_names(self):
        """The names of the axes."""
        return self._parallel_names

    def get_dim(self, axis_name):
        """The size of an axis. ValueError for another name."""
        return self._dims[self._axis(axis_name)]

    get_dim_size = get_dim

    def world_size(self):
        """The number of ranks."""
        return self._grid.size

    def get_rank(self, **args):
        """The rank at a place: a number for each axis. ValueError for missing or other axes, and places outside."""
        if sorted(args) != sorted(self._parallel_names):
            raise ValueError(f"get_rank: a number is needed for each of {self._parallel_names}, got {sorted(args)}")
        place = tuple(args[name] for name in self._parallel_names)
        if any(not 0 <= i < d for i, d in zip(place, self._dims, strict=True)):
            raise ValueError(f"get_rank: {self.coordinate(*place)} is outside of the sizes {self._dims}")
        return int(self._grid[place])

    def get_coord(self, rank):
        """The place of a rank, a named tuple. ValueError for a rank that is not in the grid."""
        if not 0 <= rank < self._grid.size:
            raise ValueError(f"get_coord: rank must be from 0 to {self._grid.size - 1}, got {rank}")
        return self.coordinate(*(int(i) for i in np.unravel_index(rank, self._dims)))

    def get_axis_list(self, axis_name, index):
        """The ranks whose number on an axis is `index`, in order."""
        return np.take(self._grid, [index], self._axis(axis_name)).ravel().tolist()

    def _lists(self, axes: list[str], others: list[str]) -> list[list[int]]:
        order = [self._axis(name) for name in (*others, *axes)]
        last = int(np.prod([self.get_dim(name) for name in axes]))
        return self._grid.transpose(order).reshape(-1, last).tolist()

    def get_fused_ranks(self, fused_axis):
        """The groups of ranks that differ on the given axes only."""
        return self._lists(fused_axis, [name for name in self._parallel_names if name not in fused_axis])

    def get_comm_list(self, axis_name):
        """The groups of ranks that differ on one axis only."""
        return self.get_fused_ranks([axis_name])

    def get_rank_from_stage(self, global_rank, **kwargs):
        """The rank at the place of `global_rank` with other numbers on some axes."""
        return self.get_rank(**{**self.get_coord(global_rank)._asdict(), **kwargs})


class HybridCommunicateGroup:
    """The groups of a rank, one for each axis of a `CommunicateTopology`. Every rank of the job constructs it.

    The groups are those of `paddle.distributed.new_group`, for collectives and `paddle.DataParallel(group=...)`. Layers
    that split a model over them (tensor and pipeline parallelism of 2.1 and later) are not part of this package.

    Args:
        topology (CommunicateTopology): with the axes data, pipe, sharding, sep (may be missing) and model, and as many
            ranks as the job has.

    Raises:
        ValueError: for a topology of other axes, or of another number of ranks.

    Examples:
        >>> from paddle.distributed import fleet
        >>> group = fleet.HybridCommunicateGroup(fleet.CommunicateTopology())
        >>> group.get_data_parallel_world_size(), group.get_data_parallel_group().ranks
        (1, [0])
    """

    def __init__(self, topology):
        names = topology.get_hybrid_group_names()
        if set(names) | {"sep"} != set(_AXES):
            raise ValueError(f"HybridCommunicateGroup: topology must have the axes {', '.join(_AXES)}, got {names}")
        self.nranks, self.global_rank = distributed.get_world_size(), distributed.get_rank()
        if topology.world_size() != self.nranks:
            sizes = ", ".join(f"{name} {topology.get_dim(name)}" for name in names)
            raise ValueError(f"HybridCommunicateGroup: the job has {self.nranks} ranks, the topology {sizes}")
        self._topo = topology
        place = topology.get_coord(self.global_rank)
        self._place = {name: getattr(place, name) if name in names else 0 for name in _AXES}
        self._size = {name: topology.get_dim(name) if name in names else 1 for name in _AXES}
        self._groups = {name: self._made(topology.get_comm_list(name)) for name in names}
        # Ranks with the same number on the axis: norms of gradients and checks for infinite values cover them.
        self._checks = {
            name: self._made([topology.get_axis_list(name, i) for i in range(topology.get_dim(name))])
            for name in ("data", "sharding")
        }
        self._fused: dict[tuple[str, ...], Any] = {}
        if self._size["sep"] > 1:
            for axes in (("data", "sep"), ("pipe", "model")):
                self._fused[axes] = self._made(sorted(topology.get_fused_ranks(list(axes))))
        self.stage_id = self._place["pipe"]
        self.is_first_stage = self.stage_id == 0
        self.is_last_stage = self.stage_id == self._size["pipe"] - 1
        if self._size["pipe"] > 1:
            stages = self._groups["pipe"].ranks
            self.next_rank = stages[(self.stage_id + 1) % len(stages)]
            self.prev_rank = stages[self.stage_id - 1]
        _made[:] = [self]

    def _made(self, all_ranks: list[list[int]]) -> Any:
        """Creates a group for each list; the one that this rank is in."""
        groups = [distributed.new_group(ranks) for ranks in all_ranks]
        return next(group for group in groups if self.global_rank in group.ranks)

    def get_parallel_mode(self):
        """The value of `ParallelMode` that the sizes give; None for a single rank."""
        size = self._size
        if size["pipe"] > 1:
            return ParallelMode.PIPELINE_PARALLEL
        if size["model"] > 1:
            return ParallelMode.TENSOR_PARALLEL
        if size["sep"] > 1:
            return ParallelMode.SEGMENT_PARALLEL
        if size["sharding"] > 1:
            return ParallelMode.SHARDING_PARALLEL
        return ParallelMode.DATA_PARALLEL if size["data"] > 1 else None

    def topology(self):
        """The topology."""
        return self._topo

    def get_global_rank(self):
        """This process's rank in the job."""
        return self.global_rank

    def get_stage_id(self):
        """This rank's number on the axis pipe."""
        return self.stage_id

    def get_check_parallel_group(self, sharding=False):
        """The group whose ranks have this rank's number on the axis data, or sharding."""
        return self._checks["sharding" if sharding else "data"]

    def get_rank_from_stage(self, stage_id, **kwargs):
        """The rank of another stage at this rank's place."""
        return self._topo.get_rank_from_stage(self.global_rank, pipe=stage_id, **kwargs)

    def get_p2p_groups(self):
        """Groups for each direction of a pipeline, which 2.6 creates on request: not in this package."""
        raise NotImplementedError("get_p2p_groups: pipelines of 2.6 are not supported; use get_pipe_parallel_group()")

    def create_fuse_group(self, fused_strategy_list):
        """The ranks, and the group, of those that differ from this rank on the given axes only; all ranks call this."""
        if not fused_strategy_list:
            raise ValueError("create_fuse_group: fused_strategy_list must not be empty")
        group = self._made(sorted(self._topo.get_fused_ranks(fused_strategy_list)))
        return group.ranks, group

    def _fused_group(self, *axes: str) -> Any:
        if axes not in self._fused:
            raise ValueError("HybridCommunicateGroup: the topology has no axis sep, or its size is 1")
        return self._fused[axes]

    def get_dp_sep_parallel_group(self):
        """The group of ranks that differ on the axes data and sep."""
        return self._fused_group("data", "sep")

    def get_pp_mp_parallel_group(self):
        """The group of ranks that differ on the axes pipe and model, where sep is used."""
        return self._fused_group("pipe", "model")

    def _group(self, axis: str) -> Any:
        if axis == "sep" and self._size["sep"] == 1:
            self._fused_group("sep")
        return self._groups[axis]


_made: list[HybridCommunicateGroup] = []


def get_hybrid_communicate_group():
    """The `HybridCommunicateGroup` that was constructed last. Before the first one, every rank of the job calls this;
    the result has all ranks on the axis data.

    Returns:
        HybridCommunicateGroup: the groups of this rank.

    Examples:
        >>> from paddle.distributed import fleet
        >>> fleet.get_hybrid_communicate_group().get_data_parallel_world_size()
        1
    """
    if not _made:
        HybridCommunicateGroup(CommunicateTopology(_AXES, (distributed.get_world_size(), 1, 1, 1, 1)))
    return _made[0]


def _add_accessors() -> None:
    """`get_data_parallel_rank` and its kind, for each axis."""

    def define(name: str, about: str, function: Any) -> None:
        function.__name__, function.__qualname__ = name, f"HybridCommunicateGroup.{name}"
        function.__doc__ = about
        setattr(HybridCommunicateGroup, name, function)

    for axis in _AXES:
        start = f"get_{axis}_parallel_"
        if axis != "pipe":
            define(start + "rank", f"This rank's number on the axis {axis}.", lambda self, a=axis: self._place[a])
            first = lambda self, a=axis: self._group(a).ranks[0]  # noqa: E731
            define(start + "group_src_rank", f"The first rank of the group of the axis {axis}.", first)
        define(start + "world_size", f"The size of the axis {axis}.", lambda self, a=axis: self._size[a])
        define(
            start + "group", f"The group of ranks that differ on the axis {axis}.", lambda self, a=axis: self._group(a)
        )


_add_accessors()
