"""fluid.contrib.Compressor: distillation and quantization, with the losses of PaddlePaddle 1.8.5."""

from __future__ import annotations

import zlib

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.fluid.contrib import Compressor, slim
from paddle.fluid.contrib.slim.core import ConfigFactory

DISTILLATION = """
version: 1.0
distillers:
    fsp: {class: FSPDistiller, teacher_pairs: [[tc1.tmp_1, tc2.tmp_1]], student_pairs: [[sc1.tmp_1, sc2.tmp_1]],
          distillation_loss_weight: 0.5}
    l2: {class: L2Distiller, teacher_feature_map: tfc.tmp_1, student_feature_map: sfc.tmp_1}
    soft: {class: SoftLabelDistiller, teacher_temperature: 2.0, teacher_feature_map: tfc.tmp_1,
           student_feature_map: sfc.tmp_1, distillation_loss_weight: 0.1}
strategies:
    teach: {class: DistillationStrategy, distillers: [fsp, l2, soft], start_epoch: 0, end_epoch: 1}
compressor: {epoch: 2, strategies: [teach], checkpoint_path: FOLDER/checkpoints}
"""
QUANTIZATION = """
strategies:
    quantize: {class: QuantizationStrategy, end_epoch: 1, int8_model_save_path: FOLDER/int8,
               activation_quantize_type: moving_average_abs_max, save_in_nodes: [image]}
compressor: {epoch: 2, strategies: [quantize], checkpoint_path: FOLDER/checkpoints}
"""
#: The losses of 1.8.5 for these programs.
LOSSES = {
    "distillation": [6.60434, 6.07337, 5.58186, 6.10594, 60.0765, 70.8411]
    + [1.02044, 1.1557, 1.00302, 1.172432, 1.249635, 1.002306],
    "quantization": [1.678407, 1.069141, 1.047924, 1.288162, 1.066637, 1.310839]
    + [0.705967, 1.043609, 0.922227, 0.888028, 0.784364, 0.885831],
}


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    yield
    paddle.disable_static()


def net(image, prefix):
    def attr(name):
        return fluid.ParamAttr(prefix + name, fluid.initializer.Constant(0.0))

    x = fluid.layers.conv2d(image, 4, 3, padding=1, param_attr=attr("c1w"), bias_attr=attr("c1b"), name=prefix + "c1")
    x = fluid.layers.relu(x)
    x = fluid.layers.conv2d(x, 4, 3, padding=1, param_attr=attr("c2w"), bias_attr=attr("c2b"), name=prefix + "c2")
    x = fluid.layers.pool2d(fluid.layers.relu(x), 4, "max", 4)
    return fluid.layers.fc(x, 3, param_attr=attr("fw"), bias_attr=attr("fb"), name=prefix + "fc")


def batches(seed, count):
    def read():
        draw = np.random.RandomState(seed)
        for _ in range(count):
            labels = draw.randint(0, 3, 8)
            images = draw.randn(8, 1, 8, 8).astype("float32") + labels[:, None, None, None]
            yield [(images[i], np.int64([labels[i]])) for i in range(8)]

    return read


def compressor(folder, text, teacher=False):
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    teachers, starts = fluid.Program(), fluid.Program()
    with fluid.scope_guard(scope), fluid.unique_name.guard():
        with fluid.program_guard(main, startup):
            image, label = fluid.data("image", [None, 1, 8, 8]), fluid.data("label", [None, 1], "int64")
            out = net(image, "s")
            accuracy = fluid.layers.accuracy(fluid.layers.softmax(out), label)
            test = main.clone(for_test=True)
            loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(out, label))
        with fluid.program_guard(teachers, starts):
            net(teachers.global_block()._clone_variable(image, force_persistable=False), "t")
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        exe.run(starts)
        for p in main.all_parameters() + teachers.all_parameters():
            value = np.random.RandomState(zlib.crc32(p.name.encode()) % 1000).randn(*p.shape) * 0.3
            scope.find_var(p.name).get_tensor().set(value.astype("float32"), fluid.CPUPlace())
        feeds = [("img", "image"), ("label", "label")]
        made = Compressor(
            fluid.CPUPlace(),
            scope,
            main,
            batches(1, 6),
            feeds,
            [("loss", loss.name)],
            test,
            batches(2, 3),
            feeds,
            [("acc", accuracy.name)],
            teacher_programs=[teachers.clone(for_test=True)] if teacher else [],
            train_optimizer=fluid.optimizer.Momentum(0.05, 0.9),
            distiller_optimizer=fluid.optimizer.Momentum(0.05, 0.9) if teacher else None,
            log_period=1,
        )
        config = folder / "compress.yaml"
        config.write_text(text.replace("FOLDER", str(folder)))
        made.config(str(config))
    return made


def losses(made, monkeypatch):
    """The losses of the batches, as the log has them."""
    found = []

    def record(text, *values):
        if text.startswith("epoch"):
            found.append(float(values[2].split(",")[0].split(" = ")[1]))

    monkeypatch.setattr("paddle.fluid.contrib.slim.core.compressor._logger.info", record)
    with fluid.scope_guard(made.scope), fluid.unique_name.guard():
        made.run()
    return found


@pytest.mark.parametrize(("kind", "text"), [("distillation", DISTILLATION), ("quantization", QUANTIZATION)])
def test_losses_of_185(kind, text, tmp_path, monkeypatch):
    pytest.importorskip("yaml")
    made = compressor(tmp_path, text, teacher=kind == "distillation")
    np.testing.assert_allclose(losses(made, monkeypatch), LOSSES[kind], rtol=1e-4)
    assert made.context.eval_results["acc"] == pytest.approx([0.2916667] * 2 if kind == "distillation" else [0.375] * 2)
    saved = tmp_path / "checkpoints" / "1"
    assert {p.name for p in saved.iterdir()} == {"context", "eval_model", "model", "strategies"}
    if kind == "quantization":
        assert {p.name for p in (tmp_path / "int8").iterdir()} == {"model", "weights"}
        weight = np.array(made.scope.find_var("sc1w").get_tensor())
        assert np.abs(weight).sum() == 1689


def test_training_goes_on_after_a_checkpoint(tmp_path, monkeypatch):
    pytest.importorskip("yaml")
    made = compressor(tmp_path, DISTILLATION.replace("epoch: 2", "epoch: 1"), teacher=True)
    assert len(losses(made, monkeypatch)) == 6
    made = compressor(tmp_path, DISTILLATION, teacher=True)
    assert len(losses(made, monkeypatch)) == 6
    assert made.context.epoch_id == 1 and len(made.context.eval_results["acc"]) == 2


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("strategies: {s: {class: SensitivePruneStrategy}}", NotImplementedError, "use paddleslim.prune.sensitivity"),
        ("strategies: {s: {class: LightNASStrategy}}", NotImplementedError, "use paddleslim.nas.SANAS"),
        ("strategies: {s: {class: NoSuch}}", ValueError, "s: class must be one of"),
        ("compressor: {epoch: 1, strategies: [a]}", ValueError, r"strategies \['a'\] are not defined above"),
        ("compressor: {strategies: []}", ValueError, "epoch is missing"),
    ],
)
def test_configurations_that_are_wrong(text, kind, says, tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(kind, match=says):
        ConfigFactory(str(tmp_path / "c.yaml"))


def test_arguments_that_are_wrong():
    with pytest.raises(TypeError, match="in_nodes must be pairs"):
        Compressor(None, fluid.Scope(), fluid.Program(), train_feed_list=["x"])
    with pytest.raises(ValueError, match="log_period must be positive, got 0"):
        Compressor(None, fluid.Scope(), fluid.Program(), log_period=0)


def test_graphs():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        net(fluid.data("image", [None, 1, 8, 8]), "s")
    graph = slim.graph.GraphWrapper(main, {"image": "image"}, {"out": "sfc.tmp_1"})
    assert graph.numel_params() == 36 + 4 + 144 + 4 + 48 + 3
    assert graph.flops(only_conv=True) == 2 * 64 * 4 * 9 + 2 * 64 * 4 * 36
    first = graph.ops()[0]
    assert first.type() == "conv2d" and [op.type() for op in graph.next_ops(first)] == ["elementwise_add"]
    assert graph.pre_ops(graph.ops()[1]) == [first] and [p.name() for p in graph.get_param_by_op(first)] == ["sc1w"]
    assert graph.var("sc1w").inputs() == [first] and not first.is_bwd_op() and not first.is_opt_op()
    with pytest.raises(ValueError, match="operator relu reads no parameter"):
        graph.get_param_by_op(graph.ops()[2])
