"""Executor.train_from_dataset: threads that run a Program over one scope, each over batches of a data set."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from typing import Any

import numpy as np

import paddle._core as _core
from paddle._programs import guards
from paddle._programs import scope as scopes
from paddle._programs.program import Program
from paddle.static.compiler import CompiledProgram
from paddle.static.feed import explain_missing_value

from .fetch_handler import FetchHandler, FetchHandlerMonitor
from .trainer_factory import TrainerFactory

__all__ = ["run_from_dataset"]


def _printed(tensor: Any) -> str:
    """`[number of elements]:[elements]`, as Paddle prints a fetched variable."""
    values = np.asarray(tensor).reshape(-1)
    shown = " ".join(f"{v:g}" if values.dtype.kind == "f" else str(int(v)) for v in values)
    return f"[{values.size}]:[{shown}]"


class _Reporter:
    """The output of the first thread."""

    def __init__(self, infos: list[str], debug: bool) -> None:
        self.infos, self.debug = infos, debug
        self.begin = time.perf_counter()

    def __call__(self, batch: int, tensors: list[Any]) -> None:
        if self.infos:
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            shown = ", ".join(info + _printed(t) for info, t in zip(self.infos, tensors, strict=True))
            print(f"time: [{now}], batch: [{batch}], {shown}", flush=True)
        if self.debug:
            self.profile()
            _core.profiler.start()

    def profile(self) -> None:
        """Prints to stderr the mean time of each operator since the last call."""
        times: dict[str, list[int]] = defaultdict(list)
        for name, start, end, _, depth in _core.profiler.stop():
            if depth == 0:
                times[name].append(end - start)
        for i, (name, spans) in enumerate(times.items()):
            print(f"op_name:[{i}][{name}], op_mean_time:[{sum(spans) / len(spans) / 1e9:f}s]", file=sys.stderr)
        begin, self.begin = self.begin, time.perf_counter()
        print(f"these operators, of all threads, in {self.begin - begin:.3f} s", file=sys.stderr)


def _check(opt: dict[str, Any] | None) -> None:
    """Raises for features of closed-source services."""
    opt = opt or {}
    worker = opt.get("device_worker", "Hogwild")
    if worker != "Hogwild" or opt.get("trainer", "MultiTrainer") not in ("MultiTrainer", "DistMultiTrainer"):
        raise NotImplementedError(
            "train_from_dataset runs MultiTrainer or DistMultiTrainer with Hogwild; "
            f"{opt.get('trainer')} with {worker} needs a service that is not open source"
        )
    if opt.get("dump_fields") or opt.get("dump_param"):
        raise NotImplementedError("train_from_dataset: dump_fields and dump_param are not there yet")


def run_from_dataset(
    executor: Any,
    program: Any,
    dataset: Any,
    scope: Any,
    thread: int,
    is_infer: bool,
    debug: bool,
    fetch_list: list[Any] | None,
    fetch_info: list[str] | None,
    print_period: int,
    fetch_handler: FetchHandler | None,
) -> None:
    """Runs `program` over all batches of `dataset`; see `Executor.train_from_dataset`."""
    program = guards.default_main_program() if program is None else program
    compiled = program if isinstance(program, CompiledProgram) else None
    program = program if compiled is None else compiled._program
    if not isinstance(program, Program):
        raise TypeError(f"train_from_dataset: program must be a Program or CompiledProgram, got {type(program)}")
    if program._pipeline_opt is not None:
        raise NotImplementedError("train_from_dataset: pipelines of Programs are not there yet")
    if dataset is None:
        raise RuntimeError("dataset is need and should be initialized")
    _check(program._fleet_opt)
    scope = scopes.g_scope if scope is None else scope
    fetch_list = list(fetch_list or [])
    names = [v if isinstance(v, str) else v.name for v in fetch_list]
    infos = names if fetch_info is None else [str(i) for i in fetch_info]
    assert len(names) == len(infos), f"fetch_list has {len(names)} variables, fetch_info {len(infos)} texts"

    dataset._prepare_to_run()
    threads = int(thread) if thread > 0 else dataset.thread_num
    if threads <= 0:
        raise RuntimeError("the number of threads is not set, neither in the data set nor in train_from_dataset")
    dataset._dynamic_adjust_before_train(threads)
    trainer = TrainerFactory()._create_trainer(program._fleet_opt)
    trainer._set_program(program)
    trainer._set_thread(threads)
    trainer._set_debug(bool(debug))
    trainer._set_fetch_var_and_info(fetch_list, infos, print_period)
    trainer._set_infer(is_infer)
    trainer._gen_trainer_desc()
    if debug:
        with open(f"{id(program)}_train_desc.prototxt", "w") as out:
            out.write(str(trainer))
    if "lr_sheduler" in program.__dict__:
        executor._set_learning_rate(program, scope)

    if not dataset.dataset._is_in_memory():
        threads = min(threads, dataset.thread_num)  # each thread reads its own files
    slots, batches = dataset.dataset.batches(threads)
    locals_ = [scope.new_scope() for _ in batches]
    reporter = _Reporter(infos, debug)
    period = max(int(print_period), 1) if names or debug else 0
    monitor, watched = None, []
    if fetch_handler is not None:
        monitor = FetchHandlerMonitor(locals_[0], fetch_handler)
        block = program.global_block()
        watched = [n for n in monitor.variables(fetch_handler).values() if block.has_var(n)]
        monitor.start()
    if debug:
        _core.profiler.start()
    native = executor._default_executor
    passes = "none" if debug else None if compiled is None else compiled._passes()
    how = slots, batches, names, period, reporter, watched, passes
    try:
        _core.feed.train(native, program.desc, scope, locals_, *how)
    except _core.EnforceNotMet as error:
        explain_missing_value(error, program, scope, slots)
        raise
    finally:
        for one in batches:
            one.close()
        if debug:
            reporter.profile()
        if monitor is not None:
            monitor.stop()
        scope.drop_kids()
        dataset._dynamic_adjust_after_train()
        dataset._finish_to_run()
