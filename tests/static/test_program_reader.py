"""Readers in Programs: DataLoader.from_generator(iterable=False), PyReader, py_reader."""

import threading

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle.fluid import layers

pytestmark = pytest.mark.filterwarnings("ignore:fluid.layers.py_reader is deprecated")


@pytest.fixture
def exe():
    return fluid.Executor(fluid.CPUPlace())


def batches():
    for i in range(3):
        yield np.full([4, 2], i, "float32"), np.full([4, 1], 10 * i, "int64")


def sample_lists():
    for x, y in batches():
        yield list(zip(x, y, strict=True))


def samples():
    for rows in sample_lists():
        yield from rows


SOURCES = {
    "set_batch_generator": (batches,),
    "set_sample_list_generator": (sample_lists,),
    "set_sample_generator": (samples, 4),
}


def model(**options):
    """(Program, loader, fetch list): sums of a batch's two fields."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [-1, 2], "float32")
        y = fluid.data("y", [-1, 1], "int64")
        loader = fluid.io.DataLoader.from_generator([x, y], capacity=2, iterable=False, **options)
        fetch = [layers.reduce_sum(x), layers.reduce_sum(y)]
    return main, loader, fetch


def read_all(exe, program, fetch):
    got = []
    with pytest.raises(fluid.core.EOFException):
        while True:
            got.append(tuple(v.item() for v in exe.run(program, fetch_list=fetch)))
    return got


WANTED = [(8.0 * i, 40 * i) for i in range(3)]


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_loader(static, exe, source, buffered):
    main, loader, fetch = model(use_double_buffer=buffered)
    assert getattr(loader, source)(*SOURCES[source]) is loader
    types = [op.type for op in main.global_block().ops[: 3 if buffered else 2]]
    assert types == ["create_py_reader", *["create_double_buffer_reader"] * buffered, "read"]
    for program in (main, fluid.CompiledProgram(main)):
        loader.start()
        assert read_all(exe, program, fetch) == WANTED
        loader.reset()
    # reset() in the middle of a pass: the next pass starts at the first batch
    loader.start()
    exe.run(main, fetch_list=fetch)
    loader.reset()
    loader.start()
    assert read_all(exe, main, fetch) == WANTED


def test_py_reader_class(static, exe):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [-1, 2], "float32")
        reader = fluid.io.PyReader([x], capacity=1, iterable=False)
        fetch = [layers.reduce_sum(x)]
    assert not reader.iterable
    reader.decorate_batch_generator(lambda: ([x] for x, _ in batches()))
    reader.start()
    assert read_all(exe, main, fetch) == [(0.0,), (8.0,), (16.0,)]
    reader.reset()


def test_clone_for_test_is_fed(static, exe):
    main, _, fetch = model()
    test = main.clone(for_test=True)
    feed = {"x": np.ones([1, 2], "float32"), "y": np.ones([1, 1], "int64")}
    with pytest.raises(RuntimeError, match="start"):
        exe.run(main, fetch_list=fetch)
    pruned = test._inference_optimize(prune_read_op=True)
    assert [v.item() for v in exe.run(pruned, feed=feed, fetch_list=[v.name for v in fetch])] == [2.0, 1]


def test_errors(static, exe):
    main, loader, fetch = model()
    with pytest.raises(AssertionError, match="not set yet"):
        loader.start()
    with pytest.raises(AssertionError, match="not iterable"):
        iter(loader)

    def raising():
        yield from list(batches())[:1]
        raise KeyError("no more")

    loader.set_batch_generator(batches)
    loader.start()
    with pytest.raises(RuntimeError, match="started already"):
        loader.start()  # three batches are more than the capacity: the thread waits
    loader.reset()
    loader.set_batch_generator(raising)
    loader.start()
    exe.run(main, fetch_list=fetch)
    with pytest.raises(SystemError, match="no more"):
        exe.run(main, fetch_list=fetch)
    loader.reset()

    for bad, text in (
        ([np.zeros([1, 2], "float32")], "1 fields"),
        ([np.zeros([1, 3], "float32"), np.zeros([1, 1], "int64")], "'x' should have"),
        ([np.zeros([1, 2], "int64"), np.zeros([1, 1], "int64")], "data type of fed Variable 'x'"),
    ):
        loader.set_batch_generator(lambda bad=bad: [bad])
        loader.start()
        with pytest.raises((RuntimeError, SystemError, ValueError), match=text):
            exe.run(main, fetch_list=fetch)
        loader.reset()

    with fluid.program_guard(fluid.Program()):
        iterable = fluid.io.DataLoader.from_generator([fluid.data("x", [-1, 2])], capacity=2)
    for call in (iterable.start, iterable.reset):
        with pytest.raises(AssertionError, match="iterable"):
            call()


def tensors(*arrays):
    array = fluid.LoDTensorArray()
    for one in arrays:
        tensor = fluid.LoDTensor()
        tensor.set(one, fluid.CPUPlace())
        array.append(tensor)
    return array


@pytest.mark.parametrize("buffered", [False, True])
def test_queue_by_hand(static, exe, buffered):
    """A user's thread pushes batches into the queue of a py_reader while Executor.run waits."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        reader = layers.py_reader(1, [[-1, 2], [-1, 1]], ["float32", "int64"], use_double_buffer=buffered)
        queue = reader.queue
        fetch = [layers.reduce_sum(v) for v in layers.read_file(reader)]

    def feed():
        for fields in batches():
            assert queue.push(tensors(*fields))
        queue.close()

    thread = threading.Thread(target=feed)
    thread.start()
    assert read_all(exe, main, fetch) == WANTED
    thread.join()
    assert queue.is_closed() and queue.size() == 0
    assert not queue.push(tensors(*next(batches())))
    reader.reset()
    assert queue.push(tensors(*next(batches()))) and queue.size() == 1
    queue.kill()
    with pytest.raises(SystemError, match="killed"):
        exe.run(main, fetch_list=fetch)


def test_same_names(static, exe):
    """Two Programs whose readers have the same name each read from their own source."""
    made = []
    for factor in (1, 2):
        with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
            reader = layers.py_reader(2, [[-1, 2]], ["float32"], use_double_buffer=False)
            x = layers.read_file(reader)
            reader.decorate_batch_generator(lambda factor=factor: ([factor * x] for x, _ in batches()))
            made.append((fluid.default_main_program(), reader, [layers.reduce_sum(x)]))
    for _, reader, _ in made:
        reader.start()
    for factor, (main, _, fetch) in zip((1, 2), made, strict=True):
        assert read_all(exe, main, fetch) == [(8.0 * i * factor,) for i in range(3)]
    assert paddle.io.DataLoader is fluid.io.DataLoader


def test_attributes_changed_between_batches(static, exe):
    """The clone without readers is made again when the Program changes."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [-1, 2], "float32")
        loader = fluid.io.DataLoader.from_generator([x], capacity=2, iterable=False)
        y = layers.scale(x, 2.0)
    loader.set_batch_generator(lambda: iter([[np.ones([4, 2], "float32")]] * 3))
    loader.start()
    for scale in (2.0, 3.0, 2.0):
        y.op._set_attr("scale", scale)
        assert (exe.run(main, fetch_list=[y])[0] == scale).all()
