"""Tables whose rows are created on access."""

import os

import numpy as np
import pytest
from case import Rows, covers
from case_values import to_eager
from paddle import _core
from paddle.fluid.communicator import LargeScaleKV

SHAPE = "Param,Moment1,Moment2:4,4,4:0:t@GRAD:t"
INITS = "uniform_random&3&-0.5&0.5,fill_constant&0.0,fill_constant&0.0"


def make(name: str, entry: str = "none", inits: str = INITS) -> None:
    _core.ops.lookup_sparse_table_init(large_scale_metas=[f"{name}:{SHAPE}:{inits}:{entry}"])


def tensor(value, dtype="float32") -> _core.Tensor:
    return _core.Tensor(np.asarray(value, dtype))


def read(name: str, ids, *values: str, init: bool = True) -> list[np.ndarray]:
    names = list(values or ["Param"])
    found = _core.ops.lookup_sparse_table_read(Ids=tensor(ids, "int64"), tablename=name, value_names=names, init=init)
    return [t.numpy() for t in found]


def gradient(rows: list[int], values: np.ndarray) -> _core.Tensor:
    return to_eager(Rows(rows, 1 << 40, values.astype("float32")), None, True)


@covers("lookup_sparse_table_init", "lookup_sparse_table_read", "lookup_sparse_table_write")
def test_rows_are_created_once_and_kept() -> None:
    make("first")
    ids = [[7], [1 << 50], [7], [-3]]
    param, moment = read("first", ids, "Param", "Moment1")
    assert param.shape == moment.shape == (4, 4) and not moment.any()
    assert (np.abs(param) <= 0.5).all() and len(np.unique(param)) == 12
    np.testing.assert_array_equal(param[0], param[2])
    np.testing.assert_array_equal(read("first", ids, init=False)[0], param)
    # rows do not depend on the order of access
    make("second")
    np.testing.assert_array_equal(read("second", ids[::-1])[0][::-1], param)
    _core.ops.lookup_sparse_table_write(
        Ids=tensor([1, 7], "int64"), In=[tensor(np.ones((2, 4)))], tablename="first", value_names=["Moment2"]
    )
    np.testing.assert_array_equal(read("first", [7], "Moment2", "Param")[0], np.ones((1, 4)))
    np.testing.assert_array_equal(read("first", [7])[0][0], param[0])


def test_rows_are_drawn_by_the_initializer() -> None:
    make("normal", inits="gaussian_random&5&1.0&2.0,fill_constant&0.25,uniform_random&1&0.0&1.0")
    param, constant, uniform = read("normal", np.arange(4000), "Param", "Moment1", "Moment2")
    assert abs(param.mean() - 1) < 0.05 and abs(param.std() - 2) < 0.05
    assert (constant == 0.25).all()
    assert abs(uniform.mean() - 0.5) < 0.01 and uniform.min() >= 0 and uniform.max() < 1


def test_errors() -> None:
    make("errors")
    with pytest.raises(RuntimeError, match="no table 'nowhere'"):
        read("nowhere", [1])
    with pytest.raises(RuntimeError, match="no row 5"):
        read("errors", [5], init=False)
    with pytest.raises(RuntimeError, match="no value 'Other'"):
        read("errors", [5], "Other")
    for meta in (
        "x:Param:8",
        "x:Param:8:0:g:c:weird&1:none",
        "x:Param:-8:0:g:c:fill_constant&0:none",
        "x:Param:8:0:g:c:fill_constant&0:weird",
        "x:Param,Moment:8:0:g:c:fill_constant&0:none",
        "x:Param:99999999999:0:g:c:fill_constant&0:none",
    ):
        with pytest.raises(ValueError):
            _core.ops.lookup_sparse_table_init(large_scale_metas=[meta])


@covers("lookup_sparse_table_fuse_sgd")
def test_sgd_on_the_rows_of_a_gradient() -> None:
    make("sgd")
    before = read("sgd", [2, 9, 4])[0]
    grad = np.arange(12).reshape(3, 4) / 10
    attrs = {"is_entry": False, "tablename": "sgd", "value_names": ["Param"]}
    _core.ops.lookup_sparse_table_fuse_sgd(Grad=gradient([9, 2, 9], grad), LearningRate=tensor([0.5]), **attrs)
    after = read("sgd", [2, 9, 4])[0]
    np.testing.assert_allclose(after, before - 0.5 * np.stack([grad[1], grad[0] + grad[2], 0 * grad[0]]), rtol=1e-6)
    with pytest.raises(ValueError, match="elements"):
        _core.ops.lookup_sparse_table_fuse_sgd(Grad=gradient([2], grad[:1, :3]), LearningRate=tensor([0.5]), **attrs)


@covers("lookup_sparse_table_fuse_adam")
def test_adam_on_the_rows_of_a_gradient() -> None:
    make("adam")
    p, m, v = (x.astype("float64") for x in read("adam", [3, 8], "Param", "Moment1", "Moment2"))
    attrs = {"is_entry": False, "tablename": "adam", "value_names": ["Param", "Moment1", "Moment2"]}
    pows = [tensor([0.9]), tensor([0.999])]
    b1, b2 = 0.9, 0.999
    for step in range(3):
        g = np.sin(np.arange(8).reshape(2, 4) + step)
        pows = _core.ops.lookup_sparse_table_fuse_adam(
            Grad=gradient([8, 3], g), Beta1Pow=pows[0], Beta2Pow=pows[1], LearningRate=tensor([0.01]), **attrs
        )
        g = g[::-1]
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p -= 0.01 * np.sqrt(1 - b2) / (1 - b1) * m / (np.sqrt(v) + 1e-8)
        b1, b2 = b1 * 0.9, b2 * 0.999
        np.testing.assert_allclose([pows[0].numpy()[0], pows[1].numpy()[0]], [b1, b2], rtol=1e-6)
    for found, want in zip(read("adam", [3, 8], "Param", "Moment1", "Moment2"), (p, m, v), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=1e-6)


@covers("lookup_sparse_table_grad_split")
def test_rows_that_are_not_admitted_are_not_trained() -> None:
    make("filtered", "count_filter&2")
    read("filtered", [1, 2])
    read("filtered", [2])
    grad = gradient([2, 1, 2], np.ones((3, 4)))
    row, value = _core.ops.lookup_sparse_table_grad_split(Grad=grad, is_entry=True, tablename="filtered")
    assert sorted(row.numpy().ravel().tolist()) == [1, 2] and row.numpy().shape == (2, 1)
    found = dict(zip(row.numpy().ravel().tolist(), value.numpy(), strict=True))
    assert (found[2] == 2).all() and (found[1] == 0).all()
    row, value = _core.ops.lookup_sparse_table_grad_split(Grad=grad, is_entry=False, tablename="filtered")
    assert value.numpy().sum() == 12
    before = read("filtered", [1])[0]
    attrs = {"is_entry": True, "tablename": "filtered", "value_names": ["Param"]}
    _core.ops.lookup_sparse_table_fuse_sgd(Grad=gradient([5], np.ones((1, 4))), LearningRate=tensor([1.0]), **attrs)
    np.testing.assert_array_equal(read("filtered", [1])[0], before)


def test_tables_with_a_bound(tmp_path) -> None:
    tables = LargeScaleKV()
    make("bounded", f"none:rows=100&spill={tmp_path}")
    before = read("bounded", range(300))[0]
    assert tables.size("bounded") == 300
    held = tables.memory("bounded")
    assert (held["rows"], held["spilled"]) == (300, 200) and held["bytes"] > 0
    np.testing.assert_array_equal(read("bounded", range(300))[0], before)
    assert tables.shrink("bounded") == 0
    read("bounded", range(10))
    assert tables.shrink("bounded") == 290 and tables.size("bounded") == 10
    tables.save("bounded", str(tmp_path / "saved"))
    make("third")
    tables.load_part("third", str(tmp_path / "saved"), 1, 3)
    np.testing.assert_array_equal(read("third", [1, 4, 7], init=False)[0], before[[1, 4, 7]])
    assert tables.size("third") == 3
    make("gone", "none:rows=100")
    attrs = {"is_entry": False, "tablename": "gone", "value_names": ["Param"]}
    read("gone", range(300))
    _core.ops.lookup_sparse_table_fuse_sgd(Grad=gradient([1], np.ones((1, 4))), LearningRate=tensor([1.0]), **attrs)
    assert tables.size("gone") == 100
    with pytest.raises(ValueError, match="must be at least 1"):
        tables.shrink("gone", 0)
    with pytest.raises(ValueError, match='got "rows=none"'):
        make("wrong", "none:rows=none")


@pytest.mark.slow
def test_a_hundred_million_rows_of_8_floats() -> None:
    """OAR_TABLE_ROWS overrides the number of rows."""
    rows, piece = int(os.environ.get("OAR_TABLE_ROWS", 100_000_000)), 100_000
    with open("/proc/meminfo") as f:
        free = next(int(line.split()[1]) >> 10 for line in f if line.startswith("MemAvailable"))
    if free < rows // 12_500:
        pytest.skip(f"{rows} rows and other processes need {rows // 12_500} MiB, {free} are available")
    _core.ops.lookup_sparse_table_init(large_scale_metas=["large:Param:8:0:g:c:fill_constant&0.5:none"])

    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(3):  # memory used by reading itself is allocated by now
        read("large", np.arange(piece))
    before = resident()
    for first in range(piece, rows + piece, piece):
        read("large", np.arange(first, first + piece))
    taken = (resident() - before) / rows
    print(f"{rows} rows: {taken:.2f} bytes each, {taken - 32:.2f} in addition to its floats")
    assert taken <= 32 + 16
    assert LargeScaleKV().size("large") == rows + piece
    ids = np.random.RandomState(0).randint(0, rows // 2, 1000) * 2  # their neighbours are unchanged
    ids = np.unique(np.concatenate([ids, [0, rows]]))
    attrs = {"is_entry": False, "tablename": "large", "value_names": ["Param"]}
    grad = gradient(ids, np.repeat(ids[:, None] % 1000, 8, 1))
    _core.ops.lookup_sparse_table_fuse_sgd(Grad=grad, LearningRate=tensor([1.0]), **attrs)
    found = read("large", np.concatenate([ids, ids + 1]))[0]
    np.testing.assert_array_equal(found[: len(ids)], np.repeat(0.5 - ids[:, None] % 1000, 8, 1))
    np.testing.assert_array_equal(found[len(ids) :], 0.5)
    make("large")
