"""Helpers of fluid.core and fluid.framework used by 1.x scripts."""

import copy
import types

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle._basics import place
from paddle.fluid import core


@pytest.fixture(autouse=True)
def dygraph():
    paddle.disable_static()
    yield
    paddle.disable_static()


def test_globals():
    flags = core.globals()
    assert flags["FLAGS_use_mkldnn"] is False and "FLAGS_use_mkldnn" in flags.keys()
    assert flags.get("no such flag", -1) == -1
    former = flags["FLAGS_eager_delete_tensor_gb"]
    try:
        flags["FLAGS_eager_delete_tensor_gb"] = -1
        assert fluid.get_flags("FLAGS_eager_delete_tensor_gb") == {"FLAGS_eager_delete_tensor_gb": -1.0}
        core._set_eager_deletion_mode(0.5, 0.25, False)
        assert flags["FLAGS_memory_fraction_of_eager_deletion"] == 0.25
    finally:
        core._set_eager_deletion_mode(former, 1.0, True)
    core._set_fuse_parameter_group_size(3)
    core._set_fuse_parameter_memory_size(131072)
    fused = [flags[f"FLAGS_fuse_parameter_{name}_size"] for name in ("groups", "memory")]
    flags["FLAGS_fuse_parameter_groups_size"], flags["FLAGS_fuse_parameter_memory_size"] = 1, -1.0
    assert fused == [3, 131072.0]
    assert flags.is_public("FLAGS_benchmark") and not flags.is_public("FLAGS_free_idle_chunk")
    with pytest.raises(RuntimeError, match="read-only"):
        flags["FLAGS_free_idle_chunk"] = True
    with pytest.raises(KeyError):
        _ = flags["no such flag"]
    with pytest.raises(ValueError, match="no such flag"):
        flags["no such flag"] = 1


def test_feed_and_fetch_variables():
    scope = core.Scope()
    tensor = fluid.LoDTensor()
    tensor.set(np.float32([[1, 2], [3, 4]]), fluid.CPUPlace())
    tensor.set_recursive_sequence_lengths([[1, 1]])
    core.set_feed_variable(scope, tensor, "feed", 1)
    fed = core.get_fetch_variable(scope, "feed", 1)
    np.testing.assert_array_equal(np.array(fed), [[1, 2], [3, 4]])
    assert fed.recursive_sequence_lengths() == [[1, 1]]
    scope.var("fetch").get_fetch_list().append(tensor)
    assert core.get_fetch_variable(scope, "fetch", 0).shape() == [2, 2]
    with pytest.raises(ValueError, match="index 2"):
        core.get_fetch_variable(scope, "fetch", 2)
    with pytest.raises(ValueError, match="not found"):
        core.get_fetch_variable(scope, "nothing", 0)
    with pytest.raises(ValueError, match="negative"):
        core.set_feed_variable(scope, tensor, "feed", -1)


def test_no_need_buffer_slots():
    assert core.infer_no_need_buffer_slots("elementwise_add_grad", {}, {}, {}) == {"X", "Y"}
    assert core.infer_no_need_buffer_slots("fill_constant", {}, {}, {}) == set()
    with pytest.raises(ValueError, match="no_such_op"):
        core.infer_no_need_buffer_slots("no_such_op", {}, {}, {})


def test_create_loaded_parameter():
    block = fluid.Program().global_block()
    with fluid.program_guard(block.program, fluid.Program()):
        w = block.create_parameter([2, 3], "float64", name="w")
    scope = core.Scope()
    with pytest.raises(ValueError, match="executor"):
        core._create_loaded_parameter([w], scope)
    core._create_loaded_parameter([w], scope, fluid.Executor(fluid.CPUPlace())._default_executor)
    tensor = scope.find_var("w").get_tensor()
    assert np.array(tensor).shape == (2, 3) and np.array(tensor).dtype == np.float64
    tensor.set(np.ones([2, 3]), fluid.CPUPlace())
    core._create_loaded_parameter([w], scope, None)  # it exists: unchanged
    assert np.array(scope.find_var("w").get_tensor()).sum() == 6


def test_deepcopy_of_rows():
    kind = core.VarDesc.VarType
    x = core.VarBase(kind.FP32, [3, 4], "rows", kind.SELECTED_ROWS, True)
    rows = x.value().get_selected_rows()
    rows.get_tensor().set(np.arange(12.0).reshape(3, 4), fluid.CPUPlace())
    rows.set_height(10)
    rows.set_rows([3, 5, 7])
    copied = copy.deepcopy(x)
    got = copied.value().get_selected_rows()
    assert (copied.type, copied.dtype, copied.persistable) == (x.type, x.dtype, True)
    assert (got.height(), list(got.rows())) == (10, [3, 5, 7])
    np.testing.assert_array_equal(np.array(got.get_tensor()), np.arange(12.0).reshape(3, 4))
    got.get_tensor().set(np.zeros([3, 4]), fluid.CPUPlace())
    assert np.array(rows.get_tensor()).sum() == 66


def test_to_static_var():
    x = paddle.ones([2, 3])
    static = x._to_static_var()
    assert type(static) is fluid.framework.Variable
    assert (static.name, tuple(static.shape), static.dtype) == (x.name, (2, 3), x.dtype)
    assert static.block is x.block
    other = paddle.ones([2])
    assert type(other._to_static_var(to_parameter=True)) is fluid.framework.Parameter
    weight = fluid.dygraph.Linear(
        2, 3, param_attr=fluid.ParamAttr(learning_rate=0.5, trainable=False, regularizer=fluid.regularizer.L1Decay())
    ).weight
    static = weight._to_static_var(name="renamed")
    assert type(static) is fluid.framework.Parameter and static.name == "renamed" and static.persistable
    assert static.optimize_attr["learning_rate"] == 0.5 and not static.trainable
    assert static.regularizer is weight.regularizer


def test_var_base_to_np():
    x = paddle.ones([2])
    with pytest.warns(UserWarning, match="numpy"):
        np.testing.assert_array_equal(fluid.framework._var_base_to_np(x), [1, 1])


def test_tensors_are_grouped_by_size():
    paddle.disable_static()
    floats = [paddle.zeros([1, n]) for n in (50, 100, 50, 25)]
    mixed = [paddle.zeros([1, 50], kind) for kind in ("float32", "float64") * 2]
    groups = core.assign_group_by_size
    assert groups(floats, [False] * 4, [200]) == [[0], [1], [2], [3]]
    assert groups(floats, [False] * 4, [200, 10000]) == [[0], [1, 2, 3]]
    assert groups(floats, [False, True, False, False], [300]) == [[0, 2], [1], [3]]
    assert groups(mixed, [False] * 4, [400]) == [[0, 2], [1], [3]]
    assert groups(floats, [False] * 4, [600], [3, 2, 1, 0]) == [[3, 2], [1, 0]]
    with pytest.raises(ValueError, match="4 Tensors, but is_sparse_gradient of 1"):
        groups(floats, [False], [1])
    with pytest.raises(ValueError, match="the numbers below 4"):
        groups(floats, [False] * 4, [1], [0, 0, 1, 2])
    with pytest.raises(ValueError, match="one limit"):
        groups(floats, [False] * 4, [])


def test_waiting_for_a_device(monkeypatch):
    with pytest.raises(TypeError, match="CUDAPlace"):
        fluid._cuda_synchronize(fluid.CPUPlace())
    done = []
    runtime = types.SimpleNamespace(wait=lambda device: done.append("waited"))
    cuda = types.SimpleNamespace(require=done.append, runtime=lambda: runtime)
    monkeypatch.setattr(place, "_cuda", lambda: cuda)
    fluid._cuda_synchronize(fluid.CUDAPlace(1))
    assert done[-2:] == [1, "waited"]
