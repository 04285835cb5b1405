"""The runners of static Programs: plain, compiled, pipeline section, redirect, inference."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.dtypes import VarType, to_numpy_dtype
from paddle._programs.program import Program
from paddle._programs.runners import Request, Runner, register, resolve

from .compiler import CompiledProgram
from .feed import FeedSlot, _to_name_str, as_numpy, explain_missing_value, split_fetch_list
from .py_reader import READER_OPS, source_of, without_readers
from .sections import Section

__all__: list[str] = []

#: prepared runs that a Program keeps; the oldest is dropped first
MAX_PREPARED_RUNS = 256


class PreparedRun:
    """What all runs with the same Program, device, fed names and fetch list share.

    Args:
        program (Program): the Program, after pruning.
        feed (dict): the names are used, not the values.
        fetch_list (list): Variables and names.
        place (Place): where the operators run.
    """

    __slots__ = ("desc", "slots", "feed_names", "fetch_names", "reads", "fetched", "made_of", "native")

    def __init__(self, program: Program, feed: dict, fetch_list: list, place: Any) -> None:
        block = program.global_block()
        self.desc = program.desc
        self.slots = []
        #: (source of the batches, slots that check the variables of a batch) for each `read` operator
        self.reads = []
        if any(op.type in READER_OPS for op in block.ops):
            for op in block.ops:
                if op.type == "read":
                    slots = [FeedSlot(block.var(name)) for name in op.output("Out")]
                    self.reads.append((source_of(program, op.input("Reader")[0]), slots))
            self.desc = without_readers(program)
        for name in feed:
            if not isinstance(name, str):
                raise TypeError(f"the names of fed variables are str, but received {name!r:.200}")
            if block.has_var(name):
                self.slots.append(FeedSlot(block.var(name)))
            else:
                warnings.warn(
                    f"variable '{name}' is not in the Program: it was not created there, or it was pruned", stacklevel=7
                )
        self.feed_names = [s.name for s in self.slots]
        self.fetch_names = [_to_name_str(v) for v in fetch_list]
        self.fetched = fetch_list  # kept alive: the key of the cache holds their ids
        #: the caller's ProgramDesc (not a clone without readers or pruned operators) and its revision
        self.made_of: tuple = ()
        #: compiles the plans of this run at its first call and keeps them
        self.native = core.Executor(place)


def prune(program: Program, feed=None, fetch_list=None, optimize_ops=None) -> Program:
    """The part of `program` that `fetch_list` and the optimizer's operators (all where none are given) need."""
    if not optimize_ops:
        optimize_ops = [op for block in program.blocks for op in block.ops if op._is_optimize_op()]
    return program._prune_with_input(list(feed or ()), [*(fetch_list or ()), *optimize_ops])


def prepare(executor: Any, program: Program, feed: dict, fetch_list: list, use_prune: bool) -> PreparedRun:
    """A PreparedRun at the Executor's place; with operators of the optimizer in `fetch_list`, of the pruned Program.

    Raises:
        ValueError: when a variable that the pruned Program reads is not fed.
    """
    variables, optimize_ops = split_fetch_list(fetch_list)
    if use_prune or optimize_ops:
        program = executor._prune_program(program, feed, variables, optimize_ops)
        block = program.global_block()
        feed = {name: value for name, value in feed.items() if block.has_var(name)}
        for name, var in block.vars.items():
            if var.is_data and var.stop_gradient and var.desc.need_check_feed() and name not in feed:
                if not var.persistable and var.type == VarType.LOD_TENSOR and not var.belong_to_optimizer:
                    raise ValueError(f"feed has no data for variable '{name}'")
    run = PreparedRun(program, feed, variables, executor.place)
    run.fetched = fetch_list
    return run


def keep(runs: dict, key: tuple, run: PreparedRun) -> None:
    """Add a run to a Program's cache; the oldest ones are dropped."""
    for oldest in list(runs)[: len(runs) + 1 - MAX_PREPARED_RUNS]:
        runs.pop(oldest, None)
    runs[key] = run


def set_learning_rate(program: Program, scope: Any, place: Any) -> None:
    """Write the value of the Program's scheduler, if it has one, to the variable of the learning rate."""
    scheduler = program.__dict__.get("lr_sheduler")
    if scheduler is None:
        return
    var = program.global_block().vars[scheduler._var_name]
    rate = np.array([scheduler()], dtype=to_numpy_dtype(var.dtype))
    scope.var(scheduler._var_name).get_tensor().set(rate, place)


def single_feed(feed: Any) -> dict:
    """The feed of a run at one place, from a dict, a list of one dict, or None."""
    if feed is None:
        return {}
    if isinstance(feed, (list, tuple)):
        if len(feed) != 1:
            raise AssertionError(f"a list of feeds has one for each place, and there is one place, not {len(feed)}")
        feed = feed[0]
    if not isinstance(feed, dict):
        raise TypeError(f"run: feed must be a dict, got {type(feed)}")
    return feed


def run_at_place(executor: Any, program: Program, request: Request, passes: str | None = None) -> list:
    """One run at the Executor's place, whatever runner the Program names; `passes` as for `core.Executor.run`."""
    if not isinstance(request.fetch_var_name, str):
        raise TypeError(f"fetch_var: name must be a str, got {type(request.fetch_var_name)}")
    feed, fetch_list, place, scope = request.feed, request.fetch_list, executor.place, request.scope
    if type(feed) is not dict:
        feed = single_feed(feed)
    fetch_key = tuple([v if type(v) is str else id(v) for v in fetch_list])
    key = (tuple(feed), fetch_key, request.use_prune, executor._device)
    run, desc = program._prepared_runs.get(key), program.desc
    if run is None or run.made_of != (desc, desc._revision):
        run = prepare(executor, program, feed, list(fetch_list), request.use_prune)
        # Preparing may change the Program: it fills in what operators leave open.
        run.made_of = (desc, desc._revision)
        keep(program._prepared_runs, key, run)
    tensors = [slot.tensor(feed[slot.name], place) for slot in run.slots]
    names = run.feed_names
    if run.reads:
        names = list(names)
        for source, slots in run.reads:
            fields = source.next()
            if len(fields) != len(slots):
                raise ValueError(f"a batch of the reader has {len(fields)} fields, the Program reads {len(slots)}")
            tensors.extend(slot.tensor(field, place) for slot, field in zip(slots, fields, strict=True))
            names.extend(slot.name for slot in slots)
    if "lr_sheduler" in program.__dict__:
        set_learning_rate(program, scope, place)
    try:
        out = run.native.run(run.desc, scope, names, tensors, run.fetch_names, passes)
    except core.EnforceNotMet as error:
        explain_missing_value(error, program, scope, names)
        raise
    return [as_numpy(t) for t in out] if request.return_numpy else out


def warn_if_empty(program: Program, request: Request) -> None:
    """A warning at the caller of `Executor.run` when the Program has no operators."""
    if program.blocks[0].ops:
        return
    hint = (
        "you are using default_main_program: make sure that the model was created in it, or pass the Program"
        if request.default
        else "if you pass a Program, make sure that the model was created under its program_guard"
    )
    warnings.warn(f"the Program has no operators to run; {hint}", stacklevel=5)


class PlainRunner(Runner):
    """Runs a Program at the Executor's place."""

    def run(self, executor: Any, request: Request) -> list:
        program = self.program
        if not program.blocks[0].ops:
            warn_if_empty(program, request)
        return run_at_place(executor, program, request)


class RedirectRunner(Runner):
    """Runs another Program (the state) instead, by that Program's runner."""

    def run(self, executor: Any, request: Request) -> list:
        return resolve(self.state).run(executor, request)


class CompiledRunner(Runner):
    """Runs a CompiledProgram, over its places and trainers where it has several.

    The CompiledProgram is the state, or the program itself where there is no state.
    """

    def run(self, executor: Any, request: Request) -> list:
        compiled: CompiledProgram = self.program if self.state is None else self.state
        compiled._compile(request.scope, executor.place)
        program = compiled._program
        warn_if_empty(program, request)
        if compiled._dry_run():
            return []
        if compiled._executor is None:
            return run_at_place(executor, program, request, compiled._passes())
        return self._run_places(executor, compiled, program, request)

    def _run_places(self, executor: Any, compiled: Any, program: Program, request: Request) -> list:
        feed = request.feed
        variables, optimize_ops = split_fetch_list(list(request.fetch_list))
        if request.use_prune or optimize_ops:
            names = feed if isinstance(feed, dict) else {name: 0 for one in feed or () for name in one}
            program = executor._prune_program(program, names, variables, optimize_ops)
        set_learning_rate(program, compiled._scope, executor.place)
        feed = {} if feed is None else feed
        how = compiled._passes(), request.return_numpy, request.return_merged, compiled._threads()
        try:
            return compiled._executor.run(executor._default_executor, program, feed, variables, *how)
        except core.EnforceNotMet as error:
            fed = [name for one in (feed if isinstance(feed, (list, tuple)) else [feed]) for name in one]
            explain_missing_value(error, program, compiled._scope, fed)
            raise


class PipelineRunner(Runner):
    """Runs one batch through this process's section of a pipeline.

    The state is the Program's `_pipeline_opt`: the section's Program and the number of micro-batches.
    """

    def __init__(self, program: Any, state: Any = None) -> None:
        super().__init__(program, state)
        self._section = Section(state["section_program"]["program"], state["num_microbatches"])

    def run(self, executor: Any, request: Request) -> list:
        set_learning_rate(self.program, request.scope, executor.place)
        feed, fetch_list = request.feed or {}, list(request.fetch_list)
        native, where = executor._default_executor, (request.scope, executor.place)
        return self._section.run(native, feed, fetch_list, *where, request.return_numpy)


class InferenceRunner(Runner):
    """Runs the predictor (the state) of a CompiledProgram; `feed` and the results are lists of PaddleTensor."""

    def run(self, executor: Any, request: Request) -> list:
        return self.state.run(request.feed)


register("plain", PlainRunner)
register("redirect", RedirectRunner)
register("compiled", CompiledRunner)
register("pipeline", PipelineRunner)
register("inference", InferenceRunner)
