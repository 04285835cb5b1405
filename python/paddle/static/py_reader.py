"""Readers in Programs: py_reader, and DataLoader.from_generator(iterable=False)."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType, convert_np_dtype_to_dtype_
from paddle._basics.mode import _get_paddle_place, choose_static
from paddle._basics.place import CPUPlace
from paddle._basics.unique_name import UniqueNameGenerator
from paddle._programs import guards
from paddle._programs.program import Program
from paddle._programs.variable import Variable

from .creation import data_variable
from .feeder import DataFeeder

__all__ = ["py_reader", "create_py_reader_by_data", "read_file", "double_buffer"]

#: operators of readers, in whose place the executor feeds the batch
READER_OPS = ("create_py_reader", "create_double_buffer_reader", "create_custom_reader", "read")
#: generator of reader names, unique in the process
loader_names = UniqueNameGenerator()
#: reader variable -> source of its batches
_sources: weakref.WeakValueDictionary[str, _Source] = weakref.WeakValueDictionary()


def without_readers(program: Program):
    """The ProgramDesc, or a copy without operators of readers."""
    if not any(op.type in READER_OPS for op in program.global_block().ops):
        return program.desc
    desc = core.ProgramDesc(program.desc)
    block = desc.block(0)
    for i in range(block.op_size() - 1, -1, -1):
        if block.op(i).type() in READER_OPS:
            block._remove_op(i, i + 1)
    return desc


class _Source:
    """A bounded queue of batches that a thread fills from a generator, or the user by `push`."""

    def __init__(self, capacity: int) -> None:
        self.capacity = max(1, int(capacity))
        self.provider: Callable[[], Iterable] | None = None
        #: whether the user fills the queue
        self.by_hand = False
        self.thread: threading.Thread | None = None
        self._change = threading.Condition()
        self._batches: deque = deque()
        self._state: Any = "new"  # None while running, the end, or an exception

    def start(self) -> None:
        """Start the thread; RuntimeError without a generator, or when it was started already."""
        if self.provider is None:
            raise RuntimeError("the reader has nothing to read: set a generator (or decorate_* of a py_reader) first")
        if self._state == "running":
            raise RuntimeError("the reader was started already: call reset() before it is started again")
        self._batches.clear()
        self._state = "running"
        self.thread = threading.Thread(target=self._run, name="paddle-py_reader", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        end: Any = "ended"
        try:
            assert self.provider is not None
            for batch in self.provider():
                if not self._put(batch):
                    return
        except Exception as error:
            end = error
        with self._change:
            # after a reset the queue may belong to another thread
            if self._state == "running" and self.thread is threading.current_thread():
                self._state = end
            self._change.notify_all()

    def _put(self, batch: list) -> bool:
        with self._change:
            me = threading.current_thread()

            def mine() -> bool:
                return self._state == "running" and (self.by_hand or self.thread is me)

            self._change.wait_for(lambda: len(self._batches) < self.capacity or not mine())
            if not mine():
                return False
            self._batches.append(batch)
            self._change.notify_all()
            return True

    def push(self, batch: Any) -> bool:
        """Put a batch (a LoDTensorArray or a list of LoDTensors) into the queue; blocks while it is full.

        Returns:
            bool: False when the queue is closed.
        """
        with self._change:
            self.by_hand = True
            if self._state == "new":
                self._state = "running"
        return self._put(list(batch))

    def next(self) -> list:
        """The next batch; raises EOFException at the end, and the exception of a failed generator."""
        with self._change:
            if self._state == "new" and not self.by_hand:
                raise RuntimeError("the reader was not started: call start() before Executor.run")
            while not self._batches and self._state in ("new", "running"):
                # with a timeout, so that Ctrl-C is handled
                self._change.wait(0.2)
            if self._batches:
                batch = self._batches.popleft()
                self._change.notify_all()
                return batch
            if isinstance(self._state, Exception):
                raise SystemError(f"(Fatal) the reader has raised an exception: {self._state!r}") from self._state
            raise core.EOFException("There is no next data.")

    def close(self) -> None:
        """Close the queue; batches in it can still be read."""
        with self._change:
            if not isinstance(self._state, Exception):
                self._state = "ended"
            self._change.notify_all()

    def kill(self) -> None:
        """Close the queue and drop its batches: reads raise an error."""
        with self._change:
            self._state = RuntimeError("the queue was killed")
            self._batches.clear()
            self._change.notify_all()

    def is_closed(self) -> bool:
        """Whether the queue is closed."""
        return self._state not in ("new", "running")

    def size(self) -> int:
        """The number of batches in the queue."""
        return len(self._batches)

    def reset(self) -> None:
        """Stop the thread and drop the batches."""
        with self._change:
            self._state = "new"
            self._batches.clear()
            self._change.notify_all()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(timeout=10)
        self.thread = None


class _ReaderVariable(Variable):
    """The variable of a py_reader, with its queue."""

    source: _Source

    @property
    def queue(self) -> _Source:
        """The queue, to push batches into instead of setting a generator."""
        self.source.by_hand = True
        return self.source

    @property
    def thread(self) -> threading.Thread | None:
        """The thread that reads."""
        return self.source.thread


class _Worked:
    """The batches of another source, processed by the operators of a block (create_custom_reader)."""

    def __init__(self, inner: Any, program: Program, op: Any) -> None:
        self._inner = inner
        self._given, self._asked = list(op.attr("source_var_names")), list(op.attr("sink_var_names"))
        # the block as a separate Program that shares no variable with the training Program
        self._desc = core.ProgramDesc(program.desc)
        root, block = self._desc.block(0), program.desc.block(op._block_attr_id("sub_block"))
        root._remove_op(0, root.op_size())
        for i in range(block.op_size()):
            root.append_op().copy_from(block.op(i))
        self._executor = core.Executor(CPUPlace())

    def next(self) -> list:
        batch = self._inner.next()
        if len(batch) != len(self._given):
            raise ValueError(f"a custom reader works on {self._given}, and got a batch of {len(batch)} variables")
        known = dict(zip(self._given, batch, strict=True))
        made = [name for name in self._asked if name not in known]
        known.update(zip(made, self._executor.run(self._desc, core._Scope(), self._given, batch, made), strict=True))
        return [known[name] for name in self._asked]


def source_of(program: Program, reader_name: str) -> Any:
    """The source of the batches of a `read` operator; RuntimeError when its py_reader no longer exists."""
    block = program.global_block()
    under = {op.output("Out")[0]: op for op in block.ops if "UnderlyingReader" in op.input_names}
    worked = []
    while reader_name in under:
        op = under[reader_name]
        reader_name = op.input("UnderlyingReader")[0]
        worked += [op] if op.type == "create_custom_reader" else []
    # several Programs may use the name: the Program's own variable has priority
    source: Any = getattr(block.vars.get(reader_name), "source", None) or _sources.get(reader_name)
    if source is None:
        raise RuntimeError(f"no py_reader of this process has the name {reader_name}: a Program from a file has none")
    for op in reversed(worked):
        source = _Worked(source, program, op)
    return source


def _describe(shapes, dtypes, lod_levels, feed_list) -> tuple[list, list, list, list]:
    if feed_list is not None:
        if not isinstance(feed_list, list):
            raise TypeError(f"feed_list must be a list of Variable, got {type(feed_list)}")
        return (
            [list(v.shape) for v in feed_list],
            [v.dtype for v in feed_list],
            [v.lod_level for v in feed_list],
            [int(v.desc.need_check_feed()) for v in feed_list],
        )
    shapes = [list(s) for s in shapes]
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    return shapes, [convert_np_dtype_to_dtype_(d) for d in dtypes], levels, [0] * len(shapes)


def _set_descs(var, shapes, dtypes, levels) -> None:
    var.desc.set_shapes(shapes)
    var.desc.set_dtypes(dtypes)
    var.desc.set_lod_levels(levels)
    var.persistable = True
    var.stop_gradient = True


def _append_reader(block, reader_name: str, queue_name: str, shapes, dtypes, levels, checks):
    """Append the operator that creates a reader; returns its variable."""
    made = block.create_var(name=reader_name, type=VarType.READER)
    block.append_op(
        type="create_py_reader",
        inputs={"blocking_queue": [queue_name]},
        outputs={"Out": [made]},
        attrs={
            "shape_concat": [n for shape in shapes for n in shape],
            "ranks": [len(shape) for shape in shapes],
            "lod_levels": levels,
            "dtypes": [int(d) for d in dtypes],
            "need_check_feed": checks,
        },
    )
    _set_descs(made, shapes, dtypes, levels)
    return made


def _py_reader(capacity, shapes, dtypes, lod_levels=None, name=None, use_double_buffer=True, feed_list=None):
    choose_static()
    shapes, dtypes, levels, checks = _describe(shapes, dtypes, lod_levels, feed_list)
    if name is None:
        queue_name = unique_name.generate("lod_tensor_blocking_queue")
        reader_name = unique_name.generate("create_py_reader")
        buffer_name = unique_name.generate("double_buffer")
    else:
        queue_name, reader_name, buffer_name = f"{name}_queue", f"{name}_reader", f"{name}_double_buffer"

    startup = guards.default_startup_program().current_block()
    _append_reader(startup, reader_name, queue_name, shapes, dtypes, levels, checks)
    reader = guards.default_main_program().current_block().create_var(name=reader_name, type=VarType.READER)
    _set_descs(reader, shapes, dtypes, levels)
    source = reader.source = _Source(capacity)
    if use_double_buffer:
        reader = double_buffer(reader, name=buffer_name)
    _give_methods(reader, reader_name, source, shapes, dtypes, levels, feed_list)
    return reader


def attach_source(feed_list: list, capacity: int, use_double_buffer: bool, drop_last: bool) -> _Source:
    """Append a reader of the variables of `feed_list` to the main program; returns the source of its batches."""
    shapes, dtypes, levels, checks = _describe(None, None, None, list(feed_list))
    queue_name = loader_names("lod_tensor_blocking_queue")
    reader_name = loader_names("create_py_reader")
    buffer_name = loader_names("double_buffer")
    block = guards.default_main_program().current_block()
    reader = _append_reader(block, reader_name, queue_name, shapes, dtypes, levels, checks)
    source = reader.source = _sources[reader_name] = _Source(capacity)
    if use_double_buffer:
        reader = double_buffer(reader, name=buffer_name)
    block.append_op(
        type="read", inputs={"Reader": [reader]}, outputs={"Out": feed_list}, attrs={"drop_last": drop_last}
    )
    return source


def _give_methods(reader, reader_name: str, source: _Source, shapes, dtypes, levels, feed_list) -> None:
    def set_tensor_provider(function) -> None:
        def batches():
            for batch in function():
                yield [t if isinstance(t, core.LoDTensor) else np.asarray(t) for t in batch]

        source.provider = batches

    def set_paddle_reader(paddle_reader) -> None:
        variables = feed_list
        if variables is None:
            with guards.program_guard(Program(), Program()):
                variables = [
                    data_variable(str(i), shape, dtype, level, False)
                    for i, (shape, dtype, level) in enumerate(zip(shapes, dtypes, levels, strict=True))
                ]
        feeder = DataFeeder(variables, CPUPlace(), variables[0].block.program)

        def batches():
            for samples in paddle_reader():
                feed = feeder.feed(samples)
                yield [feed[v.name] for v in variables]

        source.provider = batches

    _sources[reader_name] = source
    reader.__class__ = _ReaderVariable
    reader.source = source  # kept alive by the variable
    reader.start, reader.reset = source.start, source.reset
    reader.decorate_tensor_provider = reader.decorate_batch_generator = set_tensor_provider
    reader.decorate_paddle_reader = reader.decorate_sample_list_generator = set_paddle_reader


def py_reader(capacity, shapes, dtypes, lod_levels=None, name=None, use_double_buffer=True):
    """A reader variable whose batches a thread prepares; :func:`read_file` returns the variables of a batch.

    Args:
        capacity (int): batches prepared ahead.
        shapes (list|tuple): the shape of each field, -1 for an arbitrary size.
        dtypes (list|tuple): the element type of each field.
        lod_levels (list|tuple, optional): levels of sequence nesting; zeros when None.
        name (str, optional): prefix of the names of its variables.
        use_double_buffer (bool): stored in the Program; batches are prepared ahead in both cases.

    Returns:
        Variable: with the methods decorate_paddle_reader, decorate_tensor_provider (and their newer names
        decorate_sample_list_generator, decorate_batch_generator), start and reset. ``Executor.run`` raises
        ``fluid.core.EOFException`` after the last batch.
    """
    warnings.warn(
        "fluid.layers.py_reader is deprecated: use paddle.io.DataLoader instead", DeprecationWarning, stacklevel=2
    )
    return _py_reader(capacity, shapes, dtypes, lod_levels, name, use_double_buffer)


def create_py_reader_by_data(capacity, feed_list, name=None, use_double_buffer=True):
    """As :func:`py_reader`, for the fields that `feed_list` (a list of Variables) declares."""
    return _py_reader(capacity, None, None, None, name, use_double_buffer, feed_list)


def double_buffer(reader, place=None, name=None):
    """A reader that prepares a batch ahead of `reader`.

    Args:
        reader (Variable): of :func:`py_reader`.
        place (Place|str, optional): the batches' place.
        name (str, optional): its name.
    """
    attrs = {} if place is None else {"place": str(_get_paddle_place(place)).upper()}
    block = guards.default_main_program().current_block()
    new = block.create_var(name=name or unique_name.generate("create_double_buffer_reader"), type=VarType.READER)
    block.append_op(
        type="create_double_buffer_reader", inputs={"UnderlyingReader": reader}, outputs={"Out": [new]}, attrs=attrs
    )
    _set_descs(new, reader.desc.shapes(), reader.desc.dtypes(), reader.desc.lod_levels())
    if isinstance(reader, _ReaderVariable):
        new.__class__ = _ReaderVariable
    for method in ("source", "start", "reset"):
        if method in reader.__dict__:
            setattr(new, method, reader.__dict__[method])
    return new


def read_file(reader):
    """The variables of the next batch of `reader`: one, or a list."""
    block = guards.default_main_program().current_block()
    key = unique_name.generate("read_file") + ".tmp"
    out = [
        block.create_var(name=unique_name.generate(key), shape=shape, dtype=dtype, lod_level=level, stop_gradient=True)
        for shape, dtype, level in zip(
            reader.desc.shapes(), reader.desc.dtypes(), reader.desc.lod_levels(), strict=True
        )
    ]
    block.append_op(type="read", inputs={"Reader": [reader]}, outputs={"Out": out}, attrs={"infer_out": True})
    return out[0] if len(out) == 1 else out
