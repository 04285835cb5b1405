"""Data parallelism of a CompiledProgram over several places of one process: feeds are split, fetched values merged."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.names import OpRole
from paddle._programs.program import Program

from .drawing import draw
from .feed import FeedSlot, _to_name_str, as_numpy
from .py_reader import source_of, without_readers
from .replicas import Replicas, at_place, merge, split
from .strategies import BuildStrategy
from .trainers import Trainers

__all__: list[str] = []

_Scale = BuildStrategy.GradientScaleStrategy


#: the most programs (by revision) whose replicas are kept
_MOST_PROGRAMS = 16


class _Known:
    """Facts about a Program that all its runs use."""

    def __init__(self, program: Program) -> None:
        self.block = program.global_block()
        self.trains = any(op._has_role(OpRole.Backward) for op in self.block.ops)
        #: (source of the batches, the variables of a batch, whether an incomplete round is dropped)
        self.reads = [
            (source_of(program, op.input("Reader")[0]), op.output("Out"), op.attr("drop_last"))
            for op in self.block.ops
            if op.type == "read"
        ]
        self._slots: dict[tuple[str, int], FeedSlot] = {}

    def slot(self, name: str, places: int) -> FeedSlot:
        """The FeedSlot of a variable whose values `places` places share."""
        key = (name, places)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = FeedSlot(self.block.var(name), places)
        return slot


class MultiPlaceExecutor:
    """Runs a CompiledProgram over several places (its `_executor`).

    Parameters exist once, in the scope of the run; variables that the places change independently, such as running
    averages, exist once for each place, that of the first place under its own name.
    """

    def __init__(self, strategy: Any, loss_name: str | None, scope, places: list, shares: bool = False) -> None:
        strategy = strategy or BuildStrategy()
        self._sync, self._graph_path = strategy.sync_batch_norm, strategy.debug_graphviz_path
        self._trainers = Trainers(strategy) if strategy.num_trainers > 1 else None
        # as on Paddle's CPU places, which copy variables only for all-reduce
        self._one_state = strategy.reduce_strategy == BuildStrategy.ReduceStrategy.Reduce
        self._unshared = self._trainers is not None and not shares
        #: copies of the model at each place; one update sums their gradients
        self._repeats = strategy._repeats()
        self._scope, self._places = scope, [place for place in places for _ in range(self._repeats)]
        self._loss_name = loss_name
        scales = {_Scale.CoeffNumDevice: 1.0 / (len(self._places) * strategy.num_trainers), _Scale.One: 1.0}
        self._scale = scales.get(strategy.gradient_scale_strategy)
        self._made: dict = {}
        self._programs: dict[tuple, _Known] = {}

    def device_count(self) -> int:
        """The number of places."""
        return len(self._places) // self._repeats

    def local_scopes(self) -> list:
        """A list with the scope of the parameters for each place."""
        return [self._scope] * self.device_count()

    def drop_local_exe_scopes(self) -> None:
        """Drop the local scopes; the variables of a run are dropped after each run."""
        self._scope.drop_kids()

    def run(
        self, executor, program: Program, feed, fetch_list: list, passes, return_numpy, return_merged, threads: int = 0
    ) -> list:
        """As `Executor.run`: for each item of `fetch_list` the merged value, or a list with the value of each place.

        Operators run on `threads` threads; 0: one for each place.
        """
        known = self._known(program)
        trains = known.trains
        if self._unshared and self._trainers is not None:
            self._trainers.share(executor, program, self._scope)
            self._unshared = False
        shares = self._read(known) + self._shares(known, feed)
        count = len(self._places)
        fed: dict[str, list] = {}
        for share in shares:
            for name, parts in share.items():
                if len(parts) < count and trains:
                    raise core.EnforceNotMet(
                        f"(PreconditionNotMet) the batch of '{name}' makes {len(parts)} parts, but there are {count} "
                        "CPU places, each of which needs samples: feed larger batches (DataLoader: drop_last=True), or "
                        "set the environment variable CPU_NUM to fewer places"
                    )
                fed[name] = parts
        if not trains and fed:
            block = program.global_block()
            # a persistable variable goes to all places, also to those without samples
            samples = {name: len(parts) for name, parts in fed.items() if not block.var(name).persistable}
            count = max((samples or {name: len(parts) for name, parts in fed.items()}).values())
            for name, parts in fed.items():
                if len(parts) < count or (name in samples and len(parts) > count):
                    raise ValueError(f"feed: '{name}' makes {len(parts)} parts, other variables make {count}")
                fed[name] = parts[:count]
        replicas = self._replicas(program, count, tuple(fed))
        fetch_names = [_to_name_str(v) for v in fetch_list]
        # the first copy's at each place
        shown = range(0, count, self._repeats if count == len(self._places) else 1)
        wanted = [replicas.name(name, place) for name in fetch_names for place in shown]
        names = [at_place(name, place) for name in fed for place in range(count)]
        tensors = [part for parts in fed.values() for part in parts]
        distinct = list(dict.fromkeys(wanted))
        out = executor.run(replicas.desc, self._scope, names, tensors, distinct, passes, threads or count)
        found = dict(zip(distinct, out, strict=True))
        results: list = []
        for at in range(len(fetch_names)):
            parts = [found[name] for name in wanted[at * len(shown) : (at + 1) * len(shown)]]
            results.append(merge(parts) if return_merged else parts)
        return [as_numpy(r) for r in results] if return_numpy else results

    def _replicas(self, program: Program, count: int, fed: tuple) -> Replicas:
        key = (program.desc._uid, program.desc._revision, count, frozenset(fed))
        made = self._made.get(key)
        if made is None:
            how = self._loss_name, self._scale, self._trainers, self._sync, self._one_state
            made = self._made[key] = Replicas(without_readers(program), count, fed, *how)
            if self._graph_path:
                draw(program.desc, self._graph_path + "_original_graph")
                draw(made.desc, self._graph_path)
        self._set_place_count(made)
        for name in made.states:
            value = self._scope.find_var(name)
            for place in range(1, count):
                mine = self._scope.var(at_place(name, place)).get_tensor()
                if value is not None and not mine._is_initialized() and value.get_tensor()._is_initialized():
                    mine.set(np.array(value.get_tensor()), self._places[place])
        return made

    def _set_place_count(self, made: Replicas) -> None:
        """Sets the variable from which operators of deep gradient compression read the number of places."""
        for name in {op.input("nranks")[0] for op in made.compressed.values()}:
            found = self._scope.find_var(name)
            if found is None:
                raise RuntimeError(f"the variable {name} has no value: run the startup Program first")
            ranks = len(self._places) * (self._trainers.count if self._trainers is not None else 1)
            found.get_tensor().set(np.array([ranks], "float32"), self._places[0])

    def _known(self, program: Program) -> _Known:
        key = (program.desc._uid, program.desc._revision)
        known = self._programs.get(key)
        if known is None:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
                self._made.clear()
            known = self._programs[key] = _Known(program)
        return known

    def _shares(self, known: _Known, feed) -> list[dict[str, list]]:
        """The fed values by name, a part for each place, which its copies of the model share."""
        count = self.device_count()
        if isinstance(feed, dict):
            shares: dict[str, list] = {}
            for name, value in feed.items():
                parts = split(known.slot(name, count).tensor(value, self._places[0]), count)
                if known.block.var(name).persistable and len(parts) == 1:
                    parts *= count
                shares[name] = [part for part in parts for _ in range(self._repeats)]
            return [shares]
        if not isinstance(feed, (list, tuple)):
            raise TypeError(f"run: feed must be a dict or a list of dicts, got {type(feed)}")
        feed = [one for one in feed if not isinstance(one, dict) or one]
        if len(feed) > count or (known.trains and feed and len(feed) != count):
            raise core.EnforceNotMet(
                f"(Unimplemented) a list of feeds has one for each of the {count} places, not {len(feed)}; a "
                "DataLoader that feeds a training Program needs drop_last=True"
            )
        by_name: dict[str, list] = {}
        for one, place in zip(feed, self._places[:: self._repeats], strict=False):
            if not isinstance(one, dict):
                raise TypeError("run: each element of a list of feeds must be a dict")
            for name, value in one.items():
                by_name.setdefault(name, []).extend([known.slot(name, 1).tensor(value, place)] * self._repeats)
        return [by_name]

    def _read(self, known: _Known) -> list[dict[str, list]]:
        """The batches of the Program's readers, one for each place."""
        shares = []
        for source, names, drop_last in known.reads:
            share: dict[str, list] = {name: [] for name in names}
            for place in self._places:
                try:
                    fields = source.next()
                except core.EOFException:
                    if known.trains or drop_last or not share[names[0]]:
                        raise
                    break
                if len(fields) != len(names):
                    raise ValueError(f"a batch of the reader has {len(fields)} fields, the Program reads {len(names)}")
                for name, field in zip(names, fields, strict=True):
                    share[name].append(known.slot(name, 1).tensor(field, place))
            shares.append(share)
        return shares
