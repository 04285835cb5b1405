"""Splitting of values for servers, and merging them again."""

import numpy as np
import paddle
import pytest
from case import Rows, case, covers, ints, real, table
from paddle import _core

test_split_byref = table(
    case(
        "split_byref",
        [real(6, 4)],
        {"sections": [1, 3, 2]},
        expected=lambda x, **_: [x[:1], x[1:4], x[4:]],
        grad="X",
        grad_of="Out",
        second=True,
        dtypes="float32 int64",
        static=False,
    ),
    case("split_byref", [real(6)], {"num": 3}, expected=lambda x, **_: [x[:2], x[2:4], x[4:]], static=False),
    case("split_byref", [real(3, 2)], {"sections": [0, 3]}, expected=lambda x, **_: [x[:0], x], static=False),
    case("split_byref", [real(6, 4)], {"sections": [1, 3]}, raises=ValueError, match="do not add up"),
    case("split_byref", [real(6, 4)], {"sections": [7, -1]}, raises=ValueError, match="do not add up"),
    case("split_byref", [real(6, 4)], {"num": 4}, raises=ValueError, match="evenly"),
    case("split_byref", [real(6, 4)], {}, raises=ValueError, match="num or sections"),
)

test_ref_by_trainer_id = table(
    case(
        "ref_by_trainer_id",
        [[real(2, 3, seed=1), real(2, 3, seed=2)], np.array([1])],
        expected=lambda x, i: x[1],
        dtypes="float32",
    ),
    case("ref_by_trainer_id", [[real(2, 3)], np.array([1])], raises=ValueError, match="no trainer 1"),
    case("ref_by_trainer_id", [[real(2, 3)], np.array([-1])], raises=ValueError, match="no trainer -1"),
)

IDS = [np.array([[5], [2], [7], [2]]), np.array([[3], [5]])]
test_merge_ids = table(
    case(
        "merge_ids",
        [IDS, [np.array([[2]]), np.array([[3], [5], [7]])], [real(1, 4, seed=1), real(3, 4, seed=2)]],
        expected=lambda ids, rows, x: [np.stack([x[1][1], x[0][0], x[1][2], x[0][0]]), x[1][:2]],
        out_dtype="float64",
    ),
    case("merge_ids", [IDS, [np.array([[2]])], [real(1, 4)]], raises=RuntimeError, match="not in any of"),
    case("merge_ids", [IDS, [np.array([[2]])], [real(2, 4)]], raises=ValueError, match="does not hold 1 rows"),
    case("merge_ids", [IDS, [np.array([[2], [2]])], [real(2, 4)]], raises=ValueError, match="twice"),
)


def run(kind: str, ins: dict, outs: int, attrs: dict | None = None, rows: bool = False):
    """The outputs of the operator in a Program."""
    paddle.enable_static()
    try:
        program, scope = paddle.static.Program(), paddle.static.Scope()
        block, names = program.global_block(), {}
        for slot, list_ in ins.items():
            names[slot] = []
            for i, value in enumerate(list_):
                name = f"{slot}_{i}"
                names[slot].append(name)
                if isinstance(value, Rows):
                    shape = [value.height, *value.values.shape[1:]]
                    block.create_var(
                        name=name,
                        type=_core.VarDesc.VarType.SELECTED_ROWS,
                        shape=shape,
                        dtype=str(value.values.dtype),
                        persistable=True,
                    )
                    found = scope.var(name).get_selected_rows()
                    found.set_rows(list(value.rows))
                    found.set_height(value.height)
                    found.get_tensor().set(value.values, paddle.CPUPlace())
                else:
                    block.create_var(name=name, shape=value.shape, dtype=str(value.dtype), persistable=True)
                    scope.var(name).get_tensor().set(value, paddle.CPUPlace())
        kind_of_out = _core.VarDesc.VarType.SELECTED_ROWS if rows else _core.VarDesc.VarType.LOD_TENSOR
        found = [f"out_{i}" for i in range(outs)]
        for name in found:
            block.create_var(name=name, type=kind_of_out, persistable=True)
        block.append_op(type=kind, inputs=names, outputs={"Out": found}, attrs=attrs or {})
        with paddle.static.scope_guard(scope):
            paddle.static.Executor(paddle.CPUPlace()).run(program)
        if not rows:
            return [np.asarray(scope.find_var(n).get_tensor()) for n in found]
        values = [scope.find_var(n).get_selected_rows() for n in found]
        return [(list(v.rows()), v.height(), np.asarray(v.get_tensor())) for v in values]
    finally:
        paddle.disable_static()


def test_split_byref_in_a_program() -> None:
    x = real(6, 4)
    parts = run("split_byref", {"X": [x]}, 3, {"sections": [1, 3, 2]})
    assert all(np.array_equal(p, want) for p, want in zip(parts, [x[:1], x[1:4], x[4:]], strict=True))


@covers("split_ids")
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_split_ids(dtype) -> None:
    parts = run("split_ids", {"Ids": [ids.astype(dtype) for ids in IDS]}, 3)
    assert [p.ravel().tolist() for p in parts] == [[3], [7], [2, 5]]
    assert all(p.dtype == dtype and p.shape[1] == 1 for p in parts)


def test_split_ids_of_rows() -> None:
    values = real(4, 2).astype("float32")
    found = run("split_ids", {"Ids": [Rows([7, 4, 1, 0], 9, values)]}, 2, rows=True)
    assert [(rows, height) for rows, height, _ in found] == [([4, 0], 9), ([7, 1], 9)]
    np.testing.assert_array_equal(found[0][2], values[[1, 3]])
    np.testing.assert_array_equal(found[1][2], values[[0, 2]])


def test_split_ids_needs_a_column() -> None:
    with pytest.raises(ValueError, match=r"\[n, 1\]"):
        run("split_ids", {"Ids": [ints(4)]}, 2)


@covers("split_selected_rows")
def test_split_selected_rows() -> None:
    values = real(5, 3).astype("float32")
    sections = {"height_sections": [4, 0, 3, 5]}
    found = run("split_selected_rows", {"X": [Rows([7, 3, 6, 4, 4], 12, values)]}, 4, sections, rows=True)
    assert [(rows, height) for rows, height, _ in found] == [([3], 4), ([], 0), ([2, 0, 0], 3), ([0], 5)]
    np.testing.assert_array_equal(found[2][2], values[[2, 3, 4]])


def test_split_selected_rows_refuses_rows_beyond_the_sections() -> None:
    with pytest.raises(IndexError, match="beyond"):
        run("split_selected_rows", {"X": [Rows([7], 8, real(1, 3))]}, 2, {"height_sections": [3, 4]}, rows=True)
