"""paddle.batch, paddle.reader, the files of paddle.dataset."""

import gzip
import struct

import numpy as np
import paddle
import pytest
from paddle.reader import decorator


def numbers(n):
    return lambda: iter(range(n))


def test_batch():
    assert list(paddle.batch(numbers(5), 2)()) == [[0, 1], [2, 3], [4]]
    assert list(paddle.batch(numbers(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="batch_size"):
        paddle.batch(numbers(5), 0)


def test_readers():
    assert list(decorator.firstn(numbers(9), 3)()) == [0, 1, 2]
    assert list(decorator.chain(numbers(2), numbers(3))()) == [0, 1, 0, 1, 2]
    assert sorted(decorator.shuffle(numbers(10), 4)()) == list(range(10))
    assert list(decorator.buffered(numbers(10), 2)()) == list(range(10))
    assert list(decorator.cache(numbers(3))()) == [0, 1, 2]
    assert list(decorator.map_readers(lambda a, b: a * b, numbers(3), numbers(3))()) == [0, 1, 4]
    with pytest.raises(decorator.ComposeNotAligned):
        list(decorator.compose(numbers(2), numbers(3))())
    assert list(decorator.compose(numbers(2), numbers(3), check_alignment=False)()) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("order", [False, True])
def test_xmap(order):
    found = list(decorator.xmap_readers(lambda v: v * v, numbers(50), 3, 4, order)())
    assert (found if order else sorted(found)) == [v * v for v in range(50)]


def test_failures_reach_the_reader():
    def broken():
        yield 1
        raise KeyError("broken")

    for reader in (decorator.buffered(broken, 2), decorator.xmap_readers(lambda v: v, broken, 2, 2)):
        with pytest.raises(KeyError, match="broken"):
            list(reader())
    with pytest.raises(RuntimeError, match="broken"):
        list(decorator.multiprocess_reader([broken])())
    assert sorted(decorator.multiprocess_reader([numbers(3), numbers(2)])()) == [0, 0, 1, 1, 2]


def test_mnist_files(tmp_path):
    images, labels = str(tmp_path / "images.gz"), str(tmp_path / "labels.gz")
    pixels = np.random.RandomState(0).randint(0, 256, (7, 4)).astype("uint8")
    with gzip.open(images, "wb") as f:
        f.write(struct.pack(">IIII", 2051, 7, 2, 2) + pixels.tobytes())
    with gzip.open(labels, "wb") as f:
        f.write(struct.pack(">II", 2049, 7) + bytes(range(7)))
    read = list(paddle.dataset.mnist.reader_creator(images, labels, 3)())
    assert [label for _, label in read] == list(range(7))
    np.testing.assert_allclose(np.stack([v for v, _ in read]), pixels / 127.5 - 1, atol=1e-6)
    assert read[0][0].dtype == np.float32


def test_if_else():
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        layers = paddle.fluid.layers
        with paddle.static.program_guard(main, paddle.static.Program()):
            a = layers.data("a", [3])
            a.stop_gradient = False
            c = layers.data("c", [1])
            branch = layers.IfElse(layers.less_than(layers.zeros_like(c), c))
            with branch.true_block():
                branch.output(branch.input(a) * 2.0)
            with branch.false_block():
                branch.output(branch.input(a) * -1.0)
            out = branch()[0]
        run = paddle.static.Executor().run
        values = np.arange(9, dtype="float32").reshape(3, 3)
        for signs in ([1, -1, 1], [1, 1, 1], [-1, -1, -1]):
            column = np.array(signs, "float32").reshape(3, 1)
            found = run(main, feed={"a": values, "c": column}, fetch_list=[out])[0]
            np.testing.assert_allclose(found, np.where(column > 0, 2 * values, -values))
    finally:
        paddle.disable_static()
