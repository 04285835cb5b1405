"""Lookup operators of PSLib and BoxPS: shape inference, and errors when they are run."""

from __future__ import annotations

import paddle
import paddle.fluid as fluid
import pytest
from paddle import _core

PULLS = {
    "pull_sparse": ({"EmbeddingDim": 5}, "PSLib", [-1, 5]),
    "pull_sparse_v2": ({"EmbeddingDim": 5}, "PSLib", [-1, 1, 5]),
    "pull_box_sparse": ({"size": 5}, "BoxPS", [-1, 5]),
    "pull_box_extended_sparse": ({"emb_size": 5, "emb_extended_size": 7}, "BoxPS", [-1, 5]),
}


@pytest.fixture
def block():
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        fluid.data("ids", [None, 1], "int64", lod_level=1)
        yield main.global_block()
    paddle.disable_static()


@pytest.mark.operators(
    "push_dense", "push_sparse", "push_sparse_v2", "push_box_sparse", "push_box_extended_sparse", *PULLS
)
@pytest.mark.parametrize("op", PULLS)
def test_pulls(block, op):
    attrs, library, shape = PULLS[op]
    out = block.create_var(name="out", dtype="float32", shape=[0])
    inputs, outputs = {"Ids": [block.var("ids")]}, {"Out": [out]}
    if library == "PSLib":
        inputs["W"] = [block.create_var(name="table", dtype="float32", shape=[5], persistable=True)]
    if op == "pull_box_extended_sparse":
        outputs["OutExtend"] = [block.create_var(name="more", dtype="float32", shape=[0])]
    block.append_op(type=op, inputs=inputs, outputs=outputs, attrs=attrs)
    assert list(out.shape) == shape and out.lod_level == 1
    (push,), _ = _core.get_grad_op_desc(block.ops[-1].desc, set())
    assert push.type() == op.replace("pull", "push") and push.output("Out@GRAD") == ["out@GRAD"]
    assert push.input("Ids") == ["ids"] and push.input("Out@GRAD") == ["out@GRAD"]
    needs = {row["type"]: row["needs"] for row in _core.op_table()}
    assert library in needs[op] and library in needs[push.type()] and needs["relu"] == ""


def test_running_one_names_the_missing_system():
    ids = paddle.to_tensor([[1], [2]])
    with pytest.raises(_core.EnforceNotMet, match="operator pull_box_sparse needs Baidu's BoxPS") as info:
        _core.ops.pull_box_sparse(None, [ids], size=4)
    assert info.value.kind == "Unavailable"
    with pytest.raises(_core.EnforceNotMet, match="PSLib"):
        _core.ops.push_dense([ids], TableId=1)
    with pytest.raises(ValueError, match="last dimension"):
        _core.ops.pull_box_sparse(None, [paddle.to_tensor([[1, 2]])], size=4)
    with pytest.raises(ValueError, match="above 0"):
        _core.ops.pull_sparse([ids], [paddle.to_tensor([1.0])], EmbeddingDim=-3)


WHY = {
    "ascend_trigger": "Ascend",
    "lite_engine": "Paddle Lite",
    "ncclInit": "NCCL",
    "fusion_group": "CUDA code",
    "create_ctr_reader": "no longer has",
}


@pytest.mark.parametrize(("op", "reason"), WHY.items())
def test_missing_operators_give_the_reason(block, op, reason):
    block.desc.append_op().set_type(op)
    block._sync_with_cpp()
    with pytest.raises(RuntimeError, match=reason):
        fluid.Executor().run(block.program)


def test_a_table_that_a_trainer_does_not_hold_cannot_be_saved(block, tmp_path):
    table = block.create_var(name="table", dtype="float32", shape=[4, 2], persistable=True)
    block.append_op(type="fake_init", outputs={"Out": table}, attrs={"shape": [4, 2]})
    block.append_op(type="save", inputs={"X": table}, attrs={"file_path": str(tmp_path / "table")})
    with pytest.raises(_core.EnforceNotMet, match="has no elements in memory") as info:
        fluid.Executor().run(block.program)
    assert info.value.kind == "PreconditionNotMet" and not list(tmp_path.iterdir())
