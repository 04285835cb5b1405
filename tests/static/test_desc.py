"""ProgramDesc, BlockDesc, OpDesc and VarDesc of ``paddle._core``."""

from __future__ import annotations

import copy
import gc
import pathlib
import pickle
import weakref

import numpy as np
import pytest
from paddle import _core as core

DATA = pathlib.Path(__file__).parent / "data"
VarType = core.VarDesc.VarType


@pytest.fixture
def program() -> core.ProgramDesc:
    return core.ProgramDesc()


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.glob("*.program")))
def test_a_file_of_paddle_round_trips(name: str) -> None:
    data = (DATA / name).read_bytes()
    program = core.ProgramDesc(data)
    assert program.serialize_to_string() == data
    assert core.ProgramDesc(program).serialize_to_string() == data
    for i in range(program.num_blocks()):
        block = program.block(i)
        for j in range(block.op_size()):
            op = block.op(j)
            for attr in op.attr_names():
                op.attr(attr), op.attr_type(attr)
        for var in block.all_vars():
            assert block.find_var(var.name().encode()) == var


def test_damaged_bytes_raise(program: core.ProgramDesc) -> None:
    for data in (b"\x0a", b"\x0a\x00", b"\xff" * 20, (DATA / "pd26_while.program").read_bytes()[:-3]):
        with pytest.raises(ValueError, match="protobuf|required"):
            core.ProgramDesc(data)
        with pytest.raises(ValueError):
            program.parse_from_string(data)
    assert program.num_blocks() == 1
    with pytest.raises(TypeError):
        core.ProgramDesc(3)


def test_a_copy_is_independent(program: core.ProgramDesc) -> None:
    program.block(0).var(b"x").set_shape([2, 3])
    other = core.ProgramDesc(program)
    other.block(0).var("x").set_shape([4])
    assert program.block(0).find_var("x").shape() == [2, 3]
    assert other._uid != program._uid


def test_version(program: core.ProgramDesc) -> None:
    assert program._version() == 2000002
    program._set_version(7)
    assert core.ProgramDesc(program.serialize_to_string())._version() == 7
    core.save_op_version_info(program)
    assert core.ProgramDesc(program.serialize_to_string())._op_versions()["fill_constant"] == 2


def test_blocks(program: core.ProgramDesc) -> None:
    root = program.block(0)
    assert (root.id, root.parent, root.get_forward_block_idx()) == (0, -1, -1)
    child = program.append_block(root)
    grandchild = program.append_block(child)
    assert (grandchild.id, grandchild.parent, program.num_blocks()) == (2, 1, 3)
    root.var("x")
    assert grandchild.find_var_recursive("x") == root.find_var("x")
    assert not grandchild.has_var("x") and grandchild.has_var_recursive("x")
    assert grandchild.find_var_recursive("@EMPTY@") is None
    forward = program.append_block(root)
    forward.var("y")
    grandchild._set_forward_block_idx(forward.id)
    assert grandchild.find_var_recursive("y") == forward.var("y")
    assert grandchild.var_recursive("z") == grandchild.find_var("z")
    with pytest.raises(RuntimeError):
        grandchild._set_forward_block_idx(0)
    with pytest.raises(IndexError):
        program.block(9)
    with pytest.raises(IndexError):
        child._set_forward_block_idx(99)


def test_ops_stay_valid_when_removed(program: core.ProgramDesc) -> None:
    block = program.block(0)
    a, b = block.append_op(), block.append_op()
    first, middle = block._prepend_op(), block._insert_op(2)
    assert [block.op(i) for i in range(block.op_size())] == [first, a, middle, b]
    a.set_type("a")
    block._remove_op(1, 2)
    assert [block.op(i) for i in range(3)] == [first, middle, b]
    assert a.type() == "a" and a.block() == block
    a.set_input("X", ["x"])
    block._remove_op(2, 9)
    assert block.op_size() == 3
    with pytest.raises(IndexError):
        block.op(3)
    with pytest.raises(IndexError):
        block._insert_op(4)
    del program, block
    gc.collect()
    assert a.block().op_size() == 3


def test_slots(program: core.ProgramDesc) -> None:
    op = program.block(0).append_op()
    op.set_type("sum")
    op.set_input("Y", ("c",))
    op.set_input(b"X", [b"a", "b"])
    op.set_output("Out", ["a"])
    assert op.input_names() == ["X", "Y"] and op.input("X") == ["a", "b"]
    assert op.input_arg_names() == ["a", "b", "c"] and op.output_arg_names() == ["a"]
    assert op.inputs() == {"X": ["a", "b"], "Y": ["c"]} and op.outputs() == {"Out": ["a"]}
    op._set_attr("op_role_var", ["a", "b"])
    op._rename_input("a", "z")
    assert op.input("X") == ["z", "b"] and op.output("Out") == ["a"] and op.attr("op_role_var") == ["z", "b"]
    op._rename_output("a", "q")
    assert op.output_arg_names() == ["q"]
    with pytest.raises(RuntimeError, match="Input Z cannot be found in operator sum"):
        op.input("Z")
    with pytest.raises(TypeError):
        op.set_input("X", "ab")


@pytest.mark.parametrize(
    ("value", "kind", "back"),
    [
        (1, "INT", 1),
        (True, "INT", 1),
        (np.int64(3), "INT", 3),
        (np.bool_(True), "INT", 1),
        (VarType.FP32, "INT", 5),
        (2**40, "LONG", 2**40),
        (0.5, "FLOAT", 0.5),
        (np.float32(1.5), "FLOAT", 1.5),
        ("abc", "STRING", "abc"),
        (b"abc", "STRING", "abc"),
        ([1, 2], "INTS", [1, 2]),
        ((True, False), "INTS", [1, 0]),
        (np.array([1, 2]), "INTS", [1, 2]),
        ([1, 2**40], "LONGS", [1, 2**40]),
        ([1, 0.5], "FLOATS", [1.0, 0.5]),
        (["a", "b"], "STRINGS", ["a", "b"]),
        ([], "INTS", []),
    ],
)
def test_attribute_types(program: core.ProgramDesc, value: object, kind: str, back: object) -> None:
    op = program.block(0).append_op()
    op.set_type("no_such_op")
    op._set_attr("a", value)
    assert op.attr_type("a") == getattr(core.AttrType, kind) and op.attr("a") == back
    assert type(op.attr("a")) is type(back)


def test_attributes(program: core.ProgramDesc) -> None:
    op = program.block(0).append_op()
    for value in (None, {}, object(), [1, "a"]):
        with pytest.raises(TypeError, match="attribute `a`"):
            op._set_attr("a", value)
    op._set_attr("b", 1)
    assert op.has_attr("b") and not op.has_attr("a") and op.attr_names() == ["b"]
    op.remove_attr("b")
    assert not op.has_attr("b")
    for read in (op.attr, op.attr_type, op._block_attr_id):
        with pytest.raises(RuntimeError, match="has no attribute `b`"):
            read("b")
    op.set_serialized_attr("s", b"\xff\x00")
    assert op.attr("s") == b"\xff\x00"
    with pytest.raises(ValueError):
        op._block_attr_id("s")


def test_block_attributes(program: core.ProgramDesc) -> None:
    root = program.block(0)
    inner = program.append_block(root)
    op = root.append_op()
    op.set_type("while")
    op.set_block_attr("sub_block", inner)
    op.set_blocks_attr("all", [root, inner])
    assert op.attr("sub_block") == inner and op._block_attr_id("sub_block") == 1
    assert op.attr("all") == [root, inner] and op._blocks_attr_ids("all") == [0, 1]
    other = core.ProgramDesc(program)
    assert other.block(0).op(0).attr("sub_block") == other.block(1) != inner
    alone = core.OpDesc()
    alone.copy_from(op)
    assert alone.attr("sub_block") == inner and alone.type() == "while"


def test_var(program: core.ProgramDesc) -> None:
    var = program.block(0).var(b"x")
    assert var.type() == VarType.LOD_TENSOR and var.shape() == [] and var.lod_level() == 0
    assert not var.persistable() and not var.need_check_feed()
    before = program._revision
    var.set_shape([-1, 3])
    var.set_dtype(VarType.FP32)
    var.set_lod_level(2)
    var.set_persistable(True)
    var.set_need_check_feed(True)
    assert program._revision > before
    again = core.ProgramDesc(program.serialize_to_string()).block(0).find_var("x")
    assert (again.shape(), again.dtype(), again.lod_level()) == ([-1, 3], VarType.FP32, 2)
    assert again.persistable() and again.need_check_feed()
    var.set_type(VarType.SELECTED_ROWS)
    var.set_shape([3])
    assert var.shape() == [3]
    for use in (var.lod_level, var.shapes, lambda: var.set_lod_level(1)):
        with pytest.raises(RuntimeError, match="SELECTED_ROWS"):
            use()
    var.set_type(VarType.STEP_SCOPES)
    with pytest.raises(RuntimeError, match="STEP_SCOPES"):
        var.shape()
    with pytest.raises(TypeError):
        var.set_dtype("float32")


def test_reader_var(program: core.ProgramDesc) -> None:
    var = program.block(0).var("r")
    var.set_type(VarType.READER)
    var.set_shapes([[1], [2, 3]])
    var.set_dtypes([VarType.INT64, VarType.FP64])
    var.set_lod_levels([0, 1])
    assert (var.shapes(), var.dtypes(), var.lod_levels()) == ([[1], [2, 3]], [VarType.INT64, VarType.FP64], [0, 1])


def test_rename_and_remove_var(program: core.ProgramDesc) -> None:
    block = program.block(0)
    old = block.var("a")
    old.set_shape([5])
    block.var("b")
    op = block.append_op()
    op.set_input("X", ["a", "b"])
    op.set_output("Out", ["a"])
    block._rename_var(b"a", b"c")
    assert [v.name() for v in block.all_vars()] == ["c", "b"]
    assert op.input("X") == ["c", "b"] and op.output("Out") == ["c"]
    assert block.find_var("c").shape() == [5] and block.find_var("a") is None and old.name() == "a"
    block._rename_var("c", "b")
    assert [v.name() for v in block.all_vars()] == ["b"]
    block._remove_var("b")
    assert not block.has_var("b") and block.all_vars() == []


def test_handles_are_equal_by_what_they_point_to(program: core.ProgramDesc) -> None:
    block = program.block(0)
    assert block == program.block(0) and hash(block) == hash(program.block(0))
    a, b = block.var("a"), block.var("b")
    assert {a, b} == set(block.all_vars()) and a != b and a != 3
    assert weakref.ref(a)() is a
    assert core.ProgramDesc() != core.ProgramDesc()


def test_feed_and_fetch_targets(program: core.ProgramDesc) -> None:
    block = program.block(0)
    for col, name in ((1, "y"), (0, "x")):
        op = block._prepend_op()
        op.set_type("feed")
        op.set_output("Out", [name])
        op._set_attr("col", col)
    op = block.append_op()
    op.set_type("fetch")
    op.set_input("X", ["z"])
    with pytest.raises(RuntimeError, match="col"):
        program.get_fetch_target_names()
    op._set_attr("col", 0)
    assert program.get_feed_target_names() == ["x", "y"] and program.get_fetch_target_names() == ["z"]


def test_var_type_behaves_as_an_enumeration() -> None:
    fp32 = VarType.FP32
    assert repr(fp32) == str(fp32) == f"{fp32}" == "VarType.FP32" and fp32.name == "FP32"
    assert int(fp32) == 5 and fp32 == 5 and fp32 != 6 and fp32 != VarType.FP64 and fp32 != "FP32" and fp32 != None  # noqa: E711
    assert VarType(5) == fp32 and hash(VarType(5)) == hash(fp32) and {fp32: 1}[VarType(5)] == 1
    assert [10, 11, 12, 13, 14, 15][fp32] == 15
    assert VarType.__members__["BF16"] == VarType.BF16 and repr(VarType(99)) == "VarType.???"
    assert pickle.loads(pickle.dumps(fp32)) == fp32 and copy.deepcopy(fp32) == fp32
    assert core.VarDesc("x").type() is VarType.LOD_TENSOR
    assert repr(core.AttrType.BOOLS) == "AttrType.BOOLS" and core.AttrType.BOOLS != core.AttrType.INT
    with pytest.raises(AttributeError):
        fp32.value2 = 1


def add_op(block: core.BlockDesc, kind: str, x: list[str], out: list[str], role: int = 0) -> core.OpDesc:
    op = block.append_op()
    op.set_type(kind)
    op.set_input("X", x)
    op.set_output("Out", out)
    op._set_attr("op_role", role)
    for name in x + out:
        block.var(name)
    return op


def ops_of(block: core.BlockDesc) -> list[str]:
    return [block.op(i).type() for i in range(block.op_size())]


def test_prune(program: core.ProgramDesc) -> None:
    root = program.block(0)
    unused, inner = program.append_block(root), program.append_block(root)
    add_op(unused, "relu", ["x"], ["u"])
    add_op(inner, "tanh", ["h"], ["y"])
    add_op(inner, "relu", ["h"], ["absent"])
    add_op(root, "scale", ["x"], ["h"])
    add_op(root, "conditional", ["x"], ["u"]).set_block_attr("sub_block", unused)
    add_op(root, "while", ["h"], ["y"]).set_block_attr("sub_block", inner)
    add_op(root, "sgd", ["y"], ["y"], role=2)
    add_op(root, "mean", ["y"], ["loss"])
    part, blocks = core.prune(program, set(), [[0, 4]])
    assert ops_of(part.block(0)) == ["scale", "while", "mean"] and blocks == {0: 0, 1: 2}
    assert ops_of(part.block(1)) == ["tanh"] and part.block(1).parent == 0
    assert part.block(0).op(1)._block_attr_id("sub_block") == 1
    assert [v.name() for v in part.block(0).all_vars()] == ["h", "loss", "x", "y"]
    assert ops_of(root) == ["scale", "conditional", "while", "sgd", "mean"]
    part, _ = core.prune(program, {"h"}, [[0, 4]])
    assert ops_of(part.block(0)) == ["while", "mean"]
    with pytest.raises(IndexError):
        core.prune(program, set(), [[0, 9]])
    add_op(root, "feed", [], ["x"])
    with pytest.raises(RuntimeError, match="feed"):
        core.prune(program, set(), [[0, 4]])


def test_prune_backward(program: core.ProgramDesc) -> None:
    root = program.block(0)
    inner = program.append_block(root)
    backward, last = program.append_block(root), program.append_block(root)
    add_op(inner, "tanh", ["x"], ["y"])
    add_op(backward, "tanh_grad", ["y"], ["x@GRAD"], role=1)
    add_op(last, "relu", ["y"], ["z"])
    add_op(root, "while", ["x"], ["y"]).set_block_attr("sub_block", inner)
    add_op(root, "conditional", ["y"], ["z"]).set_block_attr("sub_block", last)
    copy_, blocks = core.prune_backward(program)
    assert copy_.serialize_to_string() == program.serialize_to_string() and blocks == {}
    add_op(root, "fill_constant", [], ["z@GRAD"], role=257)
    add_op(root, "while_grad", ["y@GRAD"], ["x@GRAD"], role=1).set_block_attr("sub_block", backward)
    add_op(root, "increment", ["step"], ["step"], role=16)
    add_op(root, "sgd", ["w"], ["w"], role=2)
    part, blocks = core.prune_backward(program)
    assert ops_of(part.block(0)) == ["while", "conditional"] and blocks == {0: 0, 1: 1, 2: 3}
    assert part.block(0).op(1)._block_attr_id("sub_block") == 2
    assert [v.name() for v in part.block(0).all_vars()] == ["x", "y", "z"]
    assert root.op_size() == 6


def test_pruning_ends_on_cyclic_blocks(program: core.ProgramDesc) -> None:
    root = program.block(0)
    a = program.append_block(root)
    for _ in range(2):
        add_op(a, "while", ["x"], ["x"]).set_block_attr("sub_block", a)
    add_op(root, "while", ["x"], ["x"]).set_block_attr("sub_block", a)
    part, _ = core.prune(program, set(), [[0, 0]])
    assert part.num_blocks() == 2
    for _ in range(400):
        b = program.append_block(a)
        add_op(a, "while", ["x"], ["x"]).set_block_attr("sub_block", b)
        a = b
    with pytest.raises(ValueError, match="nested"):
        core.prune(program, set(), [[0, 0]])
