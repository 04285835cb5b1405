"""Executor: runs Programs."""

from __future__ import annotations

import atexit
import sys
import warnings

import numpy as np

import paddle._core as core
from paddle._basics import mode, unique_name
from paddle._basics.dtypes import VarType, to_numpy_dtype
from paddle._programs import guards, run_observer
from paddle._programs import scope as scopes
from paddle._programs.program import Program
from paddle._programs.scope import _switch_scope, global_scope, scope_guard
from paddle._programs.variable import Variable, isinstance_of

from .compiler import CompiledProgram
from .datasets import run_from_dataset
from .feed import FeedSlot, _to_name_str, as_numpy, check_feed_shape_type, say_what_is_empty, split_fetch_list
from .py_reader import READER_OPS, source_of, without_readers
from .sections import Section

__all__ = ["Executor", "global_scope", "scope_guard"]

#: prepared runs that a program keeps
_MAX_RUNS = 256


@atexit.register
def _complete() -> None:
    """A script that comes to its end without `Executor.close` is complete, too; one that ends by an error is not."""
    if getattr(sys, "last_value", None) is None:
        core.dist.complete_servers()


class _Run:
    """What one (program, feed names, fetch list) needs at every run; made once and kept by the program."""

    __slots__ = ("desc", "slots", "feed_names", "fetch_names", "reads", "fetched", "made_of")

    def __init__(self, program: Program, feed: dict, fetch_list: list) -> None:
        block = program.global_block()
        self.desc = program.desc
        self.slots = []
        #: (where batches come from, the variables of a batch) for each `read` operator: slots to check them by
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
                warnings.warn(f"variable '{name}' is not in the Program: never made there, or pruned", stacklevel=6)
        self.feed_names = [s.name for s in self.slots]
        self.fetch_names = [_to_name_str(v) for v in fetch_list]
        self.fetched = fetch_list  # kept alive: the key of the cache holds their ids
        #: the ProgramDesc (not a clone without readers or what is pruned) and its revision
        self.made_of: tuple = ()


class Executor:
    """Runs Programs: feeds them, runs all their operators, fetches what is asked for.

    Args:
        place (CPUPlace|CUDAPlace|str|None): where; the current device when None.

    Examples:
        >>> import numpy as np, paddle
        >>> paddle.enable_static()
        >>> main, startup = paddle.static.Program(), paddle.static.Program()
        >>> with paddle.static.program_guard(main, startup):
        ...     x = paddle.static.data("x", [None, 2], "float32")
        ...     y = x * 2.0
        >>> exe = paddle.static.Executor(paddle.CPUPlace())
        >>> _ = exe.run(startup) # doctest: +SKIP
        >>> exe.run(main, feed={"x": np.ones((1, 2), "float32")}, fetch_list=[y])
        [array([[2., 2.]], dtype=float32)]
    """

    def __init__(self, place=None) -> None:
        mode.choose_static()
        self.place = mode._current_expected_place() if place is None else mode._get_paddle_place(place)
        self._default_executor = core.Executor(self.place)
        self._closed = False
        self._pruned: dict = {}
        self._auto_checkpoint_name = unique_name.generate("__auto_checkpoint_executor__")

    def close(self) -> None:
        """Give back what the executor holds; it cannot run any more.

        Parameter servers are told that this trainer is complete; they end when all trainers are.
        """
        if not self._closed:
            self._default_executor.close()
            self._closed = True
            core.dist.complete_servers()

    def run(
        self,
        program=None,
        feed=None,
        fetch_list=None,
        feed_var_name="feed",
        fetch_var_name="fetch",
        scope=None,
        return_numpy=True,
        use_program_cache=False,
        return_merged=True,
        use_prune=False,
    ):
        """Run all operators of `program`.

        Args:
            program (Program|CompiledProgram, optional): the default main program when None.
            feed (dict|list of dict, optional): name to array, LoDTensor, number or list; over several places
                one for each, or one whose samples are dealt out.
            fetch_list (list|tuple|Variable|str, optional): Variables or names; with the result of
                ``optimizer.minimize`` in it, only what the fetched variables and the optimizer need is run.
            scope (Scope, optional): where the variables live; the global one when None.
            return_numpy (bool): fetch arrays, else LoDTensors.
            return_merged (bool): over several places what they fetch is put one after the other along the first
                axis, else a list for each fetched variable.
            use_prune (bool): run only what the fetched variables and the optimizer need.

        Returns:
            list: what was fetched, in order.

        Raises:
            RuntimeError: when the executor was closed, or a tensor with LoD is fetched as an array.
            TypeError, ValueError: for feeds, fetches or programs that are not what they should be.
        """
        return self._run_impl(
            program,
            feed,
            fetch_list,
            feed_var_name,
            fetch_var_name,
            scope,
            return_numpy,
            use_program_cache,
            return_merged,
            use_prune,
        )

    def _run_impl(
        self,
        program,
        feed,
        fetch_list,
        feed_var_name,
        fetch_var_name,
        scope,
        return_numpy,
        use_program_cache,
        return_merged,
        use_prune,
    ):
        """As :meth:`run`: finds out what the program is, and runs it as such."""
        if self._closed:
            raise RuntimeError("this Executor has been closed")
        if run_observer.observer is not None:
            run_observer.observer.before_run(self, program)
        if isinstance(program, CompiledProgram) and program._is_inference:
            return self._run_inference(program._predictor, feed)
        default = program is None
        if default:
            program = guards.default_main_program()
        if fetch_list is None:
            fetch_list = ()
        elif not isinstance(fetch_list, (list, tuple)):
            if not isinstance(fetch_list, str) and not isinstance_of(fetch_list, Variable):
                raise AssertionError(f"run: fetch_list must be a list or tuple, got {type(fetch_list)}")
            fetch_list = [fetch_list]
        if scope is None:
            scope = scopes.g_scope
        compiled = None
        if isinstance(program, Program) and program._pipeline_opt:
            if "startup_program" not in program._pipeline_opt:
                return self._run_section(program, feed or {}, fetch_list, scope, return_numpy)
            program = program._pipeline_opt["startup_program"]
        if isinstance(program, CompiledProgram):
            compiled, program = program, program._compile(scope, self.place)._program
        elif type(program) is not Program and not isinstance(program, Program):
            raise TypeError(f"run: program must be a Program, got {type(program)}")
        elif isinstance(program._graph, CompiledProgram):
            compiled = program._graph
            compiled._compile(scope, self.place)
        elif program._async_communication is not None:
            program = program._async_communication.to_run(scope)
        if not program.blocks[0].ops:
            self._warn_of_nothing(default)
        if compiled is not None and compiled._dry_run():
            return []
        if compiled is not None and compiled._executor is not None:
            return self._run_places(compiled, feed, list(fetch_list), return_numpy, return_merged, use_prune)
        passes = None if compiled is None else compiled._passes()
        return self._run_place(program, feed, fetch_list, fetch_var_name, scope, return_numpy, use_prune, passes)

    def _run_program(
        self, program, feed, fetch_list, feed_var_name, fetch_var_name, scope, return_numpy, use_program_cache
    ):
        """Runs a Program at the Executor's place."""
        if not isinstance(program, Program):
            raise TypeError(f"run: program must be a Program, got {type(program)}")
        fetch_list = fetch_list or ()
        return self._run_place(program, feed, fetch_list, fetch_var_name, scope, return_numpy, False, None)

    def _run_place(self, program, feed, fetch_list, fetch_var_name, scope, return_numpy, use_prune, passes):
        if not isinstance(fetch_var_name, str):
            raise TypeError(f"fetch_var: name must be a str, got {type(fetch_var_name)}")
        if feed is None:
            feed = {}
        elif type(feed) is not dict:
            feed = self._one_feed(feed)

        fetch_key = tuple([v if type(v) is str else id(v) for v in fetch_list])
        key = (tuple(feed), fetch_key, use_prune)
        prepared = program._runs.get(key)
        desc = program.desc
        if prepared is None or prepared.made_of != (desc, desc._revision):
            prepared = self._prepare(program, feed, list(fetch_list), use_prune)
            # Preparing may change the Program itself: it fills in what operators leave open.
            prepared.made_of = (desc, desc._revision)
            if len(program._runs) >= _MAX_RUNS:
                program._runs.clear()
            program._runs[key] = prepared
        place = self.place
        tensors = [slot.tensor(feed[slot.name], place) for slot in prepared.slots]
        names = prepared.feed_names
        if prepared.reads:
            names = list(names)
            for source, slots in prepared.reads:
                fields = source.next()
                if len(fields) != len(slots):
                    raise ValueError(f"a batch of the reader has {len(fields)} fields, the Program reads {len(slots)}")
                tensors.extend(slot.tensor(field, place) for slot, field in zip(slots, fields, strict=True))
                names.extend(slot.name for slot in slots)
        if "lr_sheduler" in program.__dict__:
            self._set_learning_rate(program, scope)
        try:
            out = self._default_executor.run(prepared.desc, scope, names, tensors, prepared.fetch_names, passes)
        except core.EnforceNotMet as error:
            say_what_is_empty(error, program, scope, names)
            raise
        return [as_numpy(t) for t in out] if return_numpy else out

    def _run_section(self, program: Program, feed: dict, fetch_list, scope, return_numpy) -> list:
        """A batch through this process's section of a pipeline."""
        known: dict = program._pipeline_opt  # type: ignore[assignment]  # of a section there is one
        if "section" not in known:
            known["section"] = Section(known["section_program"]["program"], known["num_microbatches"])
        if "lr_sheduler" in program.__dict__:
            self._set_learning_rate(program, scope)
        return known["section"].run(self._default_executor, feed, list(fetch_list), scope, self.place, return_numpy)

    def _run_inference(self, exe, feed):
        """Runs what a CompiledProgram has been made for inference from; `feed` and results are PaddleTensors."""
        return exe.run(feed)

    def _run_parallel(self, program, scope, feed, fetch_list, fetch_var_name, return_numpy, return_merged):
        """Runs a CompiledProgram: over its places and trainers where it has several, in the scope of its first run."""
        names = "feed", fetch_var_name, scope, return_numpy, False, return_merged, False
        return self._run_impl(program, feed, fetch_list, *names)

    def _run_places(self, compiled, feed, fetch_list: list, return_numpy, return_merged, use_prune) -> list:
        program = compiled._program
        variables, optimize_ops = split_fetch_list(fetch_list)
        if use_prune or optimize_ops:
            names = feed if isinstance(feed, dict) else {name: 0 for one in feed or () for name in one}
            program = self._prune_program(program, names, variables, optimize_ops)
        if "lr_sheduler" in program.__dict__:
            self._set_learning_rate(program, compiled._scope)
        feed = {} if feed is None else feed
        how = compiled._passes(), return_numpy, return_merged, compiled._threads()
        try:
            return compiled._executor.run(self._default_executor, program, feed, variables, *how)
        except core.EnforceNotMet as error:
            fed = [name for one in (feed if isinstance(feed, (list, tuple)) else [feed]) for name in one]
            say_what_is_empty(error, program, compiled._scope, fed)
            raise

    def _split_optimize_ops_in_fetch_list(self, fetch_list):
        """What of a fetch list is variables and names, and the optimizer's operators, which say what is to be run.

        Args:
            fetch_list (list): names, Variables, Operators, lists of these, or what `minimize` returned.

        Returns:
            tuple of two lists
        """
        return split_fetch_list(fetch_list)

    def _prepare(self, program: Program, feed: dict, fetch_list: list, use_prune: bool) -> _Run:
        variables, optimize_ops = split_fetch_list(fetch_list)
        if use_prune or optimize_ops:
            program = self._prune_program(program, feed, variables, optimize_ops)
            block = program.global_block()
            feed = {name: value for name, value in feed.items() if block.has_var(name)}
            for name, var in block.vars.items():
                if var.is_data and var.stop_gradient and var.desc.need_check_feed() and name not in feed:
                    if not var.persistable and var.type == VarType.LOD_TENSOR and not var.belong_to_optimizer:
                        raise ValueError(f"feed has no data for variable '{name}'")
        run = _Run(program, feed, variables)
        run.fetched = fetch_list
        return run

    def _prune_program(self, program: Program, feed=None, fetch_list=None, optimize_ops=None) -> Program:
        """What `fetch_list` and the optimizer's operators (all, unless some are given) need."""
        if not optimize_ops:
            optimize_ops = [op for block in program.blocks for op in block.ops if op._is_optimize_op()]
        return program._prune_with_input(list(feed or ()), [*(fetch_list or ()), *optimize_ops])

    @staticmethod
    def _one_feed(feed) -> dict:
        if isinstance(feed, (list, tuple)):
            if len(feed) != 1:
                raise AssertionError(f"a list of feeds has one for each place, and there is one place, not {len(feed)}")
            feed = feed[0]
        if not isinstance(feed, dict):
            raise TypeError(f"run: feed must be a dict, got {type(feed)}")
        return feed

    def _set_learning_rate(self, program: Program, scope) -> None:
        scheduler = program.lr_sheduler  # type: ignore[attr-defined]  # optimizers set it
        var = program.global_block().vars[scheduler._var_name]
        rate = np.array([scheduler()], dtype=to_numpy_dtype(var.dtype))
        scope.var(scheduler._var_name).get_tensor().set(rate, self.place)

    @staticmethod
    def _warn_of_nothing(default: bool) -> None:
        hint = (
            "you are using default_main_program: make sure that the model was created in it, or pass the Program"
            if default
            else "if you pass a Program, make sure that the model was created under its program_guard"
        )
        warnings.warn(f"the Program has no operators to run; {hint}", stacklevel=4)

    def infer_from_dataset(
        self,
        program=None,
        dataset=None,
        scope=None,
        thread=0,
        debug=False,
        fetch_list=None,
        fetch_info=None,
        print_period=100,
        fetch_handler=None,
    ):
        """Run a Program over all batches of a data set, as :meth:`train_from_dataset` does, to evaluate it.

        The Program is run as it is: one without an optimizer (``clone(for_test=True)``) leaves parameters alone. To
        parameter servers of tables nothing is pushed.
        """
        how = debug, fetch_list, fetch_info, print_period, fetch_handler
        self._run_from_dataset(program, dataset, scope, thread, True, *how)

    def train_from_dataset(
        self,
        program=None,
        dataset=None,
        scope=None,
        thread=0,
        debug=False,
        fetch_list=None,
        fetch_info=None,
        print_period=100,
        fetch_handler=None,
    ):
        """Train a Program over all batches of a data set, by threads that share its parameters (Hogwild).

        Args:
            program (Program|CompiledProgram, optional): the default main program when None.
            dataset (DatasetBase): `paddle.distributed.InMemoryDataset` (loaded before) or `QueueDataset`.
            scope (Scope, optional): where the parameters live; the global one when None.
            thread (int): how many threads; 0: as many as the data set has. Those of a QueueDataset read files of their
                own, so there are not more of them than the data set has threads. With one thread the result is that of
                `run` over the same batches.
            debug (bool): also print to stderr what operators took, and write the trainer's description to a file.
            fetch_list (list, optional): Variables that the first thread prints.
            fetch_info (list of str, optional): what stands before their values; their names when None.
            print_period (int): batches of the first thread between two prints.
            fetch_handler (FetchHandler, optional): called with the values of variables every so many seconds.

        Raises:
            RuntimeError: without a data set; where a file cannot be read. OSError: for a pipe command that fails.
            ValueError: for a damaged line, naming file and line.

        Examples:
            >>> import paddle
            >>> paddle.enable_static()
            >>> main, startup = paddle.static.Program(), paddle.static.Program()
            >>> with paddle.static.program_guard(main, startup):
            ...     x = paddle.static.data("x", [None, 2], "float32")
            ...     mean = paddle.mean(x)
            >>> with open("train_from_dataset.txt", "w") as file:
            ...     _ = file.write("2 1 2\\n2 3 4\\n")
            >>> dataset = paddle.distributed.QueueDataset()
            >>> dataset.init(batch_size=2, use_var=[x])
            >>> dataset.set_filelist(["train_from_dataset.txt"])
            >>> exe = paddle.static.Executor(paddle.CPUPlace())
            >>> exe.train_from_dataset(main, dataset, fetch_list=[mean], print_period=1) # doctest: +ELLIPSIS
            time: [...], batch: [1], ...[1]:[2.5]
        """
        how = debug, fetch_list, fetch_info, print_period, fetch_handler
        self._run_from_dataset(program, dataset, scope, thread, False, *how)

    def _run_from_dataset(
        self,
        program=None,
        dataset=None,
        scope=None,
        thread=0,
        is_infer=False,
        debug=False,
        fetch_list=None,
        fetch_info=None,
        print_period=100,
        fetch_handler=None,
    ):
        if self._closed:
            raise RuntimeError("this Executor has been closed")
        how = is_infer, debug, fetch_list, fetch_info, print_period, fetch_handler
        run_from_dataset(self, program, dataset, scope, thread, *how)

    def start_heter_trainer(
        self,
        program=None,
        scope=None,
        debug=False,
        fetch_list=None,
        fetch_info=None,
        print_period=100,
        fetch_handler=None,
    ):
        """Waiting for work of trainers on other devices is not there: raises NotImplementedError."""
        raise NotImplementedError("Executor.start_heter_trainer: heterogeneous parameter servers are not there yet")


def _fetch_var(name: str, scope=None, return_numpy: bool = True):
    """The value of the variable `name` of `scope` (the global one when None).

    Raises:
        AssertionError: when there is no such variable.
    """
    assert isinstance(name, str), f"the name of a variable is a str, but received {type(name)}"
    scope = global_scope() if scope is None else scope
    var = scope.find_var(name)
    assert var is not None, (
        f"fetch_var: variable '{name}' is not in the scope; one that is to stay there must be persistable"
    )
    tensor = var.get_tensor()
    return as_numpy(tensor, copy=True) if return_numpy else tensor


__all__ += ["_fetch_var", "_switch_scope", "as_numpy", "check_feed_shape_type"]
