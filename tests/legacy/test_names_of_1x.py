"""Names and arguments that programs of 1.x, and packages that were written for it, use."""

from __future__ import annotations

import importlib
import io
import pickle
import pickletools
import socket
import tarfile

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle._basics import internal_reasons
from paddle.dataset import cifar
from paddle.fluid import core


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("paddle.utils.download", "_get_unique_endpoints"),
        ("paddle.utils.cpp_extension.extension_utils", "_jit_compile"),
        ("paddle.utils.cpp_extension.cpp_extension", "CUDA_HOME"),
        ("paddle.nn.layer.transformer", "_convert_param_attr_to_list"),
        ("paddle.nn.layer.transformer", "_convert_attention_mask"),
        ("paddle.fluid.layers", "core"),
        ("paddle.fluid.layer_helper", "in_dygraph_mode"),
        ("paddle.common_ops_import", "LayerHelper"),
        ("paddle.common_ops_import", "in_dygraph_mode"),
        ("paddle.fluid.dygraph.base", "program_desc_tracing_guard"),
        ("paddle.fluid.core_avx", "VarBase"),
        ("paddle.fluid.backward", "_find_loss_op_"),
        ("paddle.fluid.layers.utils", "_is_symmetric_padding"),
        ("paddle.vision.transforms.transforms", "_check_input"),
        ("paddle.hapi.model", "_all_gather"),
        ("paddle.incubate.hapi.model", "Model"),
        ("paddle.fluid.dygraph.backward_strategy", "BackwardStrategy"),
        ("paddle.utils.plot", "Ploter"),
    ],
)
def test_names_that_packages_import(module, name):
    assert hasattr(importlib.import_module(module), name)


def test_internal_names_have_a_reason():
    with pytest.raises(AttributeError, match="internal to Paddle 2.0.2: gradients of Programs are derived"):
        _ = paddle.fluid.backward._is_ancestor_block
    assert internal_reasons.reason("paddle.no_such_module", "x") is None
    assert not hasattr(paddle, "core")


def test_messages_of_program_files():
    pytest.importorskip("google.protobuf")
    from paddle.fluid.proto import framework_pb2

    paddle.enable_static()
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        fluid.layers.fc(fluid.data("x", [None, 3]), 2)
    paddle.disable_static()
    desc = framework_pb2.ProgramDesc.FromString(main.desc.serialize_to_string())
    assert [op.type for op in desc.blocks[0].ops] == ["mul", "elementwise_add"]
    assert framework_pb2.VarType.FP32 == 5 and framework_pb2.BlockDesc().forward_block_idx == -1


def test_backward_strategy():
    with fluid.dygraph.guard():
        strategy = fluid.dygraph.BackwardStrategy()
        strategy.sort_sum_gradient = True
        x = fluid.dygraph.to_variable(np.ones((2, 2), "float32"))
        x.stop_gradient = False
        fluid.layers.reduce_sum(x * x).backward(strategy)
        assert x.gradient().tolist() == [[2.0, 2.0], [2.0, 2.0]]
        (grad,) = fluid.dygraph.grad([x * x], [x], backward_strategy=strategy)
        assert grad.numpy().tolist() == [[2.0, 2.0], [2.0, 2.0]]
        fluid.layers.reduce_sum(x).backward(backward_strategy=strategy)


def test_cifar_archives_of_python_3(tmp_path):
    data = pickle.dumps({b"data": np.zeros((2, 3072), "uint8"), b"labels": [3, 4]}, protocol=2)
    path = tmp_path / "c.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    assert [label for _, label in cifar.reader_creator(str(path), "data_batch")()] == [3, 4]


def test_traced_layers_take_ranges(tmp_path):
    with fluid.dygraph.guard():
        layer = fluid.dygraph.Linear(3, 2)
        _, traced = fluid.dygraph.TracedLayer.trace(layer, [fluid.dygraph.to_variable(np.ones((4, 3), "float32"))])
        traced.save_inference_model(str(tmp_path), feed=range(1), fetch=range(1))
    assert (tmp_path / "__model__").exists()


@pytest.fixture
def endpoint():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_fleet_without_strategy_rewrites_the_default_programs(endpoint):
    from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet

    paddle.enable_static()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 2, [endpoint]))
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(loss)
    paddle.disable_static()
    assert fleet.main_program is main and fleet.startup_program is startup
    types = [op.type for op in main.global_block().ops]
    assert {"send", "send_barrier", "recv", "fetch_barrier"} <= set(types)
    assert "recv" in [op.type for op in startup.global_block().ops]


OPTIMIZERS = ["SGD", "Adam", "Momentum", "AdamW", "RMSProp", "Lamb", "Adagrad", "Adamax", "Adadelta"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_take_plain_tensors(name):
    x = paddle.zeros([1])
    x.stop_gradient = False
    optimizer = getattr(paddle.optimizer, name)(learning_rate=0.1, parameters=[x])
    (x.exp() * 2).sum().backward()
    optimizer.step()
    assert float(x) < 0
    optimizer.clear_grad()
    optimizer.minimize((x.exp() * 2).sum())


def test_beam_search_decoders_keep_their_tensors():
    cell, linear = paddle.nn.GRUCell(4, 4), paddle.nn.Linear(4, 9)
    decoder = paddle.nn.BeamSearchDecoder(cell, 0, 1, 3, paddle.nn.Embedding(9, 4), linear)
    paddle.nn.dynamic_decode(decoder, paddle.zeros([2, 4]), max_step_num=2)
    assert decoder.batch_size.numpy().tolist() == [2] and decoder.vocab_size == 9 and decoder.kinf == 1e9
    assert decoder.start_token_tensor.numpy().tolist() == [0] and decoder.end_token_tensor.numpy().tolist() == [1]
    assert decoder.noend_mask_tensor.shape == [9]
    picked = decoder._gather(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]), paddle.to_tensor([[1, 1, 0], [0, 1, 1]]))
    assert picked.numpy().tolist() == [[2.0, 2.0, 1.0], [3.0, 4.0, 4.0]]


def test_builtins_take_the_numbers_of_outputs():
    x = paddle.arange(12, dtype="float32").reshape([2, 6])
    assert [v.shape for v in core.ops.split(x, 2, "num", 2, "axis", 1)] == [[2, 3], [2, 3]]
    assert [v.shape for v in core.ops.unstack(x, 2, "axis", 0, "num", 2)] == [[6], [6]]
    assert [v.shape for v in core.ops.unbind(x, 2, "axis", 0)] == [[6], [6]]
    assert [v.shape for v in core.ops.meshgrid([x[0], x[1]], 2)] == [[6, 6], [6, 6]]
    rois = paddle.to_tensor(np.float32([[0, 0, 10, 10], [0, 0, 100, 100]]))
    levels = ("min_level", 2, "max_level", 5, "refer_level", 4, "refer_scale", 224, "pixel_offset", True)
    found = core.ops.distribute_fpn_proposals(rois, paddle.to_tensor(np.int32([2])), 4, 4, *levels)
    assert len(found[0]) == len(found[2]) == 4
    outs, fused = core.ops.coalesce_tensor([x, x], 2, "copy_data", True, "dtype", 5)
    assert len(outs) == 2 and fused.shape[0] >= 24
    with pytest.raises(TypeError, match="relu takes 1 inputs, got more"):
        core.ops.relu(x, 2)


def test_builtins_take_the_outputs_that_an_operator_writes():
    x, g, rate = paddle.ones([2]), paddle.ones([2]), paddle.to_tensor([0.5])
    core.ops.sgd(x, rate, g, x)
    assert x.numpy().tolist() == [0.5, 0.5]
    velocity = paddle.zeros([2])
    core.ops.momentum(x, g, velocity, rate, x, velocity, "mu", 0.9, "use_nesterov", False)
    assert x.numpy().tolist() == [0.0, 0.0] and velocity.numpy().tolist() == [1.0, 1.0]
    image, one, zero = paddle.ones([2, 3, 2, 2]), paddle.ones([3]), paddle.zeros([3])
    mean, variance = paddle.zeros([3]), paddle.ones([3])
    core.ops.batch_norm(image, one, zero, mean, variance, mean, variance, "momentum", 0.5, "epsilon", 1e-5)
    assert mean.numpy().tolist() == [0.5, 0.5, 0.5]


def test_a_tensor_that_holds_nothing_is_an_empty_array():
    array = np.array(fluid.Scope().var("x").get_tensor())
    assert array.shape == (0,) and array.dtype == np.float64


@pytest.mark.parametrize("peephole", [True, False])
def test_the_gradient_of_cells(peephole):
    paddle.enable_static()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.layers.data("x", [20], dtype="float64", lod_level=1)
        x.stop_gradient = False
        hidden, cell = fluid.layers.dynamic_lstm(x, 20, dtype="float64", use_peepholes=peephole)
        loss = fluid.layers.reduce_sum(hidden) * 0.5 + fluid.layers.reduce_sum(cell)
        fluid.backward.append_backward(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    value = np.random.RandomState(0).uniform(-1, 1, (4, 20))

    def run(array, fetch):
        feed = {"x": fluid.create_lod_tensor(array, [[3, 1]], fluid.CPUPlace())}
        return np.array(exe.run(main, feed=feed, fetch_list=[fetch], return_numpy=False)[0])

    grad = run(value, "x@GRAD")
    for at in ((0, 0), (1, 7), (3, 19)):
        more, less = value.copy(), value.copy()
        more[at] += 1e-6
        less[at] -= 1e-6
        numeric = (run(more, loss) - run(less, loss)).item() / 2e-6
        assert abs(grad[at] - numeric) < 1e-6, at
    paddle.disable_static()


def names_in(path) -> set[str]:
    return {arg.partition(" ")[0] for op, arg, _ in pickletools.genops(path.read_bytes()) if op.name == "GLOBAL"}


def test_files_name_modules_of_numpy_1(tmp_path):
    layer = paddle.nn.Linear(2, 3)
    optimizer = paddle.optimizer.Adam(parameters=layer.parameters())
    layer(paddle.ones([1, 2])).sum().backward()
    optimizer.step()
    paddle.save(layer.state_dict(), str(tmp_path / "a.pdparams"))
    paddle.save(optimizer.state_dict(), str(tmp_path / "a.pdopt"))
    paddle.save({"x": np.arange(3), "s": np.float32(1)}, str(tmp_path / "b.pdparams"))
    for path in tmp_path.iterdir():
        assert not [name for name in names_in(path) if "_core" in name]
    found = paddle.load(str(tmp_path / "b.pdparams"))
    assert found["x"].tolist() == [0, 1, 2] and found["s"] == 1.0


def test_rows_convert_to_numbers():
    column = paddle.to_tensor(np.float32([[1], [2], [3]])).numpy()
    assert ["%.2f" % row for row in column] == ["1.00", "2.00", "3.00"] and float(column[1]) == 2.0
    assert [float(row) for row in column[1:] * 2] == [4.0, 6.0] and column.sum() == 6.0
    assert type(pickle.loads(pickle.dumps(column))) is np.ndarray and type(column.T) is not None
    assert type(column.reshape(-1)[0]) is np.float32 and repr(column).startswith("array([[1.]")


def test_modules_that_are_internal_have_a_reason():
    with pytest.raises(
        ModuleNotFoundError, match="paddle.fluid.graphviz'; it is internal to Paddle 2.0.2: fluid.debug"
    ):
        importlib.import_module("paddle.fluid.graphviz")
    with pytest.raises(ModuleNotFoundError, match="No module named 'paddle.fluid.no_such_module'$"):
        importlib.import_module("paddle.fluid.no_such_module")


INTERNAL = sorted(internal_reasons._reasons())


def test_internal_names_are_those_that_are_missing():
    """The table has no name that is here: such a row would be stale."""
    here = [f"{module}.{name}" for module, name in INTERNAL if hasattr(importlib.import_module(module), name)]
    assert not here


def test_functions_of_complex_variables():
    import paddle.complex as cpx

    draw = np.random.RandomState(0)
    a, b = (draw.rand(2, 2) + 1j * draw.rand(2, 2) for _ in range(2))
    real = draw.rand(2, 2)

    def variable(value):
        return fluid.ComplexVariable(paddle.to_tensor(value.real), paddle.to_tensor(value.imag))

    x, y, r = variable(a), variable(b), paddle.to_tensor(real)
    for name, expected in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
        function = getattr(cpx, f"elementwise_{name}")
        for left, right, values in ((x, y, (a, b)), (x, r, (a, real)), (r, y, (real, b))):
            np.testing.assert_allclose(function(left, right).numpy(), expected(*values), rtol=1e-6)
        np.testing.assert_allclose(function(paddle.to_tensor(a), y).numpy(), expected(a, b), rtol=1e-6)
    np.testing.assert_allclose(cpx.elementwise_sub(r, variable(b[0])).numpy(), real - b[0], rtol=1e-6)
    np.testing.assert_allclose(cpx.matmul(x, y, transpose_y=True, alpha=2.0).numpy(), 2 * a @ b.T, rtol=1e-6)
    np.testing.assert_allclose(cpx.kron(x, r).numpy(), np.kron(a, real), rtol=1e-6)
    np.testing.assert_allclose(cpx.tensor.math.trace(x, 1).numpy().ravel(), [np.trace(a, 1)], rtol=1e-6)
    np.testing.assert_allclose(cpx.sum(x, 1, True).numpy(), a.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(
        cpx.tensor.manipulation.transpose(cpx.reshape(x, [4, 1]), [1, 0]).numpy(), a.reshape(1, 4)
    )
    with pytest.raises(TypeError, match=r"paddle.complex.matmul: y must be a ComplexVariable or a Tensor, got float"):
        cpx.matmul(x, 2.0)


def test_names_that_star_imports_have():
    from paddle.fluid.contrib.slim.quantization import QatInt8MkldnnPass, QuantInt8MkldnnPass
    from paddle.incubate.hapi.distributed import DistributedBatchSampler

    assert fluid.io.Dataset is paddle.io.Dataset and fluid.io.BatchSampler is paddle.io.BatchSampler
    assert QatInt8MkldnnPass is QuantInt8MkldnnPass and DistributedBatchSampler is paddle.io.DistributedBatchSampler
