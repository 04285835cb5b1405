"""Executor: the class that runs Programs."""

from __future__ import annotations

import atexit
import sys

import paddle._core as core
from paddle._basics import mode, unique_name
from paddle._basics.place import device_number
from paddle._programs import guards, run_observer, runners
from paddle._programs import scope as scopes
from paddle._programs.program import Program
from paddle._programs.scope import _switch_scope, global_scope, scope_guard
from paddle._programs.variable import Variable, isinstance_of

from .datasets import run_from_dataset
from .feed import as_numpy, check_feed_shape_type, split_fetch_list
from .runners import prune, run_at_place, set_learning_rate

__all__ = ["Executor", "global_scope", "scope_guard"]


@atexit.register
def _complete() -> None:
    """Notify parameter servers that this trainer is complete, at the normal end of a script without `Executor.close`.

    A script that ends by an uncaught exception is not complete.
    """
    if getattr(sys, "last_value", None) is None:
        core.dist.complete_servers()


class Executor:
    """Runs Programs: sets the fed variables, runs all operators, returns the fetched variables.

    Args:
        place (CPUPlace|CUDAPlace|str|None): the device; the current one when None.

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
        self.place = mode._current_expected_place() if place is None else mode._get_paddle_place(place)
        self._device = device_number(self.place)
        self._default_executor = core.Executor(self.place)
        self._closed = False
        self._auto_checkpoint_name = unique_name.generate("__auto_checkpoint_executor__")

    def close(self) -> None:
        """Release the executor's resources; later runs raise RuntimeError.

        Parameter servers are notified that this trainer is complete; they exit when all trainers are.
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
            feed (dict|list of dict, optional): name to array, LoDTensor, number or list; over several places one dict
                for each, or one dict whose samples are split.
            fetch_list (list|tuple|Variable|str, optional): Variables or names; with the result of
                ``optimizer.minimize`` in it, only what the fetched variables and the optimizer need is run.
            scope (Scope, optional): holds the variables; the global one when None.
            return_numpy (bool): return arrays, else LoDTensors.
            return_merged (bool): over several places, concatenate the fetched values along the first axis, else return
                a list for each fetched variable.
            use_prune (bool): run only what the fetched variables and the optimizer need.

        Returns:
            list: the fetched values, in order.

        Raises:
            RuntimeError: when the executor is closed, or a tensor with LoD is fetched as an array.
            TypeError, ValueError: for invalid feeds, fetches or programs.
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
        """As :meth:`run`."""
        if self._closed:
            raise RuntimeError("this Executor has been closed")
        if run_observer.observer is not None:
            run_observer.observer.before_run(self, program)
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
        how = feed, fetch_list, fetch_var_name, scope, return_numpy, return_merged, use_prune, default
        return runners.resolve(program).run(self, runners.Request(*how))

    def _run_program(
        self, program, feed, fetch_list, feed_var_name, fetch_var_name, scope, return_numpy, use_program_cache
    ):
        """Runs a Program at the Executor's place."""
        if not isinstance(program, Program):
            raise TypeError(f"run: program must be a Program, got {type(program)}")
        request = runners.Request(feed, fetch_list or (), fetch_var_name, scope, return_numpy)
        return run_at_place(self, program, request)

    def _run_inference(self, exe, feed):
        """Runs the predictor of a CompiledProgram for inference; `feed` and results are PaddleTensors."""
        return exe.run(feed)

    def _run_parallel(self, program, scope, feed, fetch_list, fetch_var_name, return_numpy, return_merged):
        """Runs a CompiledProgram: over its places and trainers where it has several, in the scope of its first run."""
        names = "feed", fetch_var_name, scope, return_numpy, False, return_merged, False
        return self._run_impl(program, feed, fetch_list, *names)

    def _split_optimize_ops_in_fetch_list(self, fetch_list):
        """The variables and names of a fetch list, and the optimizer's operators, which select the part to run.

        Args:
            fetch_list (list): names, Variables, Operators, lists of these, or the result of `minimize`.

        Returns:
            tuple of two lists
        """
        return split_fetch_list(fetch_list)

    def _prune_program(self, program: Program, feed=None, fetch_list=None, optimize_ops=None) -> Program:
        """The part of a Program that `fetch_list` and the optimizer's operators (by default all) need."""
        return prune(program, feed, fetch_list, optimize_ops)

    def _set_learning_rate(self, program: Program, scope) -> None:
        """Write the value of the Program's learning rate scheduler to its variable."""
        set_learning_rate(program, scope, self.place)

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

        The Program is not changed: one without an optimizer (``clone(for_test=True)``) does not update parameters. No
        gradients are pushed to tables of parameter servers.
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
        """Train a Program over all batches of a data set, in threads that share its parameters (Hogwild).

        Args:
            program (Program|CompiledProgram, optional): the default main program when None.
            dataset (DatasetBase): `paddle.distributed.InMemoryDataset` (loaded before) or `QueueDataset`.
            scope (Scope, optional): holds the parameters; the global one when None.
            thread (int): number of threads; 0: that of the data set. Threads of a QueueDataset read separate files, so
                their number is at most that of the data set. With one thread the result equals that of `run` over the
                same batches.
            debug (bool): print the operators' times to stderr, and write the trainer's description to a file.
            fetch_list (list, optional): Variables that the first thread prints.
            fetch_info (list of str, optional): labels of the printed values; their names when None.
            print_period (int): number of the first thread's batches between two prints.
            fetch_handler (FetchHandler, optional): called periodically with the values of variables.

        Raises:
            RuntimeError: without a data set; when a file cannot be read. OSError: for a pipe command that fails.
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
        """Not implemented: raises NotImplementedError."""
        raise NotImplementedError("Executor.start_heter_trainer: heterogeneous parameter servers are not implemented")


def _fetch_var(name: str, scope=None, return_numpy: bool = True):
    """The value of the variable `name` of `scope` (the global one when None).

    Raises:
        AssertionError: when there is no such variable.
    """
    assert isinstance(name, str), f"the name of a variable is a str, but received {type(name)}"
    scope = global_scope() if scope is None else scope
    var = scope.find_var(name)
    assert var is not None, (
        f"fetch_var: variable '{name}' is not in the scope, where only persistable variables stay after a run"
    )
    tensor = var.get_tensor()
    return as_numpy(tensor, copy=True) if return_numpy else tensor


__all__ += ["_fetch_var", "_switch_scope", "as_numpy", "check_feed_shape_type"]
