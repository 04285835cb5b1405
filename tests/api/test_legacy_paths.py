"""Import paths from before 2.0 give the same objects."""

import importlib

import pytest

pytest.importorskip("paddle._core")

PATHS = {
    "paddle.fluid.dataloader": ("paddle.io", "BatchSampler ChainDataset ComposeDataset Dataset IterableDataset"),
    "paddle.fluid.dataloader.dataset": ("paddle.io", "Dataset IterableDataset Subset TensorDataset random_split"),
    "paddle.fluid.dataloader.sampler": ("paddle.io", "Sampler SequenceSampler RandomSampler WeightedRandomSampler"),
    "paddle.fluid.dataloader.batch_sampler": ("paddle.io", "BatchSampler DistributedBatchSampler"),
    "paddle.fluid.dataloader.dataloader_iter": ("paddle.io.worker", "get_worker_info WorkerInfo _worker_loop"),
    "paddle.fluid.dataloader.fetcher": ("paddle.io.fetcher", "_MapDatasetFetcher _IterableDatasetFetcher"),
    "paddle.fluid.reader": ("paddle.io.generator", "GeneratorLoader DygraphGeneratorLoader PyReader use_pinned_memory"),
    "paddle.fluid.initializer": ("paddle.nn.initializer.base", "Xavier MSRA Normal Constant set_global_initializer"),
    "paddle.fluid.regularizer": ("paddle.regularizer", "L1DecayRegularizer L2DecayRegularizer"),
    "paddle.fluid.param_attr": ("paddle.nn.param_attr", "ParamAttr WeightNormParamAttr"),
    "paddle.fluid.clip": ("paddle.nn.clip", "GradientClipByGlobalNorm ErrorClipByValue set_gradient_clip"),
    "paddle.fluid.dygraph.layers": ("paddle.nn.layer.layers", "Layer"),
    "paddle.fluid.dygraph.container": ("paddle.nn.layer.container", "Sequential LayerList ParameterList"),
}


@pytest.mark.parametrize("path", PATHS)
def test_same_objects(path):
    home, names = PATHS[path]
    old, new = importlib.import_module(path), importlib.import_module(home)
    for name in names.split():
        assert getattr(old, name) is getattr(new, name)


def test_modules_are_attributes_of_fluid():
    import paddle.fluid as fluid

    names = "backward clip compiler data_feeder dygraph input io layer_helper layers nets reader regularizer"
    for name in names.split():
        assert getattr(fluid, name) is importlib.import_module(f"paddle.fluid.{name}")
    assert fluid.enable_imperative is fluid.enable_dygraph


def test_guards_restart_name_numbering():
    from paddle import fluid

    def names():
        with fluid.dygraph.guard():
            layer = fluid.dygraph.Linear(2, 2, param_attr=fluid.ParamAttr(name="mine"))
            return [p.name for p in layer.parameters()]

    assert names() == names() == ["mine", "linear_0.b_0"]


def test_switching_to_dygraph_mode_restarts_name_numbering():
    import paddle

    def name():
        paddle.enable_static()
        paddle.disable_static()
        return paddle.nn.Linear(1, 1, weight_attr=paddle.ParamAttr(name="mine")).bias.name

    assert name() == name() == "linear_0.b_0"


def test_group_norm():
    import numpy as np
    import paddle
    from paddle import fluid

    x = np.arange(8, dtype="float32").reshape(1, 4, 2)
    layer = fluid.dygraph.GroupNorm(4, 2, param_attr=fluid.ParamAttr(), act="relu")
    assert layer.bias is None  # only with a bias_attr
    groups = x.reshape(2, 4)
    want = (groups - groups.mean(1, keepdims=True)) / np.sqrt(groups.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(layer(paddle.to_tensor(x)).numpy(), np.maximum(want, 0).reshape(x.shape), rtol=1e-5)


def test_shared_state():
    from paddle._basics import unique_name as names
    from paddle.fluid import initializer, unique_name
    from paddle.nn.initializer import base as home

    assert unique_name is names  # its generator is replaced by a switch
    assert initializer is home


def test_former_argument_names():
    from paddle.fluid import regularizer

    assert str(regularizer.L2Decay(regularization_coeff=0.5)) == "L2Decay, regularization_coeff=0.500000"


def test_seed_of_programs():
    import paddle

    before = paddle.static.default_main_program().random_seed
    try:
        paddle.framework.random._manual_program_seed(7)
        assert paddle.static.default_main_program().random_seed == paddle.static.Program().random_seed == 7
    finally:
        paddle.framework.random._manual_program_seed(before)


def test_transpose_of_fluid_requires_ints():
    import paddle
    from paddle.fluid import layers

    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            flags = paddle.static.data("flags", [2, 3], "bool")
            assert paddle.transpose(flags, [1, 0]).shape == (3, 2)
            with pytest.raises(TypeError, match="transpose"):
                layers.transpose(flags, [1, 0])
    finally:
        paddle.disable_static()
