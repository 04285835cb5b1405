"""fluid.contrib.slim.quantization: quantization-aware training, freezing for inference, and post-training
quantization.
"""

from __future__ import annotations

import math

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle.fluid import core
from paddle.fluid.contrib.slim.quantization import (
    AddQuantDequantPass,
    ConvertToInt8Pass,
    OutScaleForInferencePass,
    OutScaleForTrainingPass,
    PostTrainingQuantization,
    Quant2Int8MkldnnPass,
    QuantInt8MkldnnPass,
    QuantizationFreezePass,
    QuantizationTransformPass,
    TransformForMobilePass,
    WeightQuantization,
)
from paddle.fluid.contrib.slim.quantization.thresholds import kl_threshold
from paddle.fluid.framework import IrGraph

PLACE = fluid.CPUPlace()


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    with fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


def net():
    x, label = fluid.data("x", [None, 1, 8, 8]), fluid.data("label", [None, 1], "int64")
    h = fluid.layers.conv2d(x, 4, 3, act="relu", bias_attr=False)
    with fluid.name_scope("skip_quant"):
        h = fluid.layers.conv2d(h, 4, 3, bias_attr=False)
    h = fluid.layers.pool2d(h, 2, pool_stride=2)
    logits = fluid.layers.fc(h, 3)
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))
    return logits, loss


def programs():
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup):
        logits, loss = net()
        test = main.clone(for_test=True)
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup, test, logits.name, loss.name


def feed():
    r = np.random.RandomState(0)
    return {"x": r.rand(12, 1, 8, 8).astype("float32") - 0.3, "label": r.randint(0, 3, (12, 1))}


def value(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor())


def graph_of(program, for_test):
    return IrGraph(core.Graph(program.desc), for_test=for_test)


def types(program):
    return [op.type for op in program.global_block().ops]


@pytest.mark.parametrize("weights", ["abs_max", "channel_wise_abs_max"])
@pytest.mark.parametrize("activations", ["abs_max", "range_abs_max", "moving_average_abs_max"])
def test_trained_frozen_and_int8(activations, weights, tmp_path):
    main, startup, test, logits, loss = programs()
    exe = fluid.Executor(PLACE)
    exe.run(startup)
    scope = fluid.global_scope()
    kinds = {"activation_quantize_type": activations, "weight_quantize_type": weights, "window_size": 4}
    graphs = graph_of(main, False), graph_of(test, True)
    for graph in graphs:
        assert QuantizationTransformPass(scope, PLACE, **kinds).apply(graph) is graph
        AddQuantDequantPass(scope, PLACE).apply(graph)
    train, test = (g.to_program() for g in graphs)
    losses = [float(exe.run(train, feed=feed(), fetch_list=[loss])[0][0]) for _ in range(25)]
    assert losses[-1] < 0.9 * losses[0]
    (before,) = exe.run(test, feed=feed(), fetch_list=[logits])
    skipped = value("conv2d_1.w_0")
    QuantizationFreezePass(scope, PLACE, weight_quantize_type=weights).apply(graphs[1])
    frozen = graphs[1].to_program()
    assert types(frozen).count("fake_channel_wise_quantize_abs_max") == 0
    weight = value("conv2d_0.w_0")
    assert np.array_equal(weight, np.round(weight)) and np.abs(weight).max() == 127
    np.testing.assert_array_equal(value("conv2d_1.w_0"), skipped)
    # equal except for the order of scaling: one level apart at rounding ties
    (after,) = exe.run(frozen, feed=feed(), fetch_list=[logits])
    np.testing.assert_allclose(after, before, atol=2e-2 * np.abs(before).max())
    ConvertToInt8Pass(scope, PLACE).apply(graphs[1])
    int8 = graphs[1].to_program()
    assert int8.global_block().var("conv2d_0.w_0.int8").dtype == core.VarDesc.VarType.INT8
    assert value("conv2d_0.w_0.int8").dtype == np.int8
    np.testing.assert_array_equal(value("conv2d_0.w_0.int8"), weight)
    out = int8.global_block().var(logits)
    fluid.io.save_inference_model(str(tmp_path), ["x"], [out], exe, int8)
    assert (tmp_path / "conv2d_0.w_0.int8").stat().st_size < 200
    TransformForMobilePass().apply(graphs[1])
    mobile = types(graphs[1].to_program())
    assert {"quantize", "dequantize"} <= set(mobile) and "fake_quantize_abs_max" not in mobile


def _last(program):
    """The output of the last layer."""
    return program.global_block().ops[-1].output("Out")[0]


def test_frozen_values():
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup):
        out = fluid.layers.fc(fluid.data("x", [None, 4]), 3, bias_attr=False)
    scope, exe = fluid.global_scope(), fluid.Executor(PLACE)
    exe.run(startup)
    r = np.random.RandomState(1)
    x, w = r.randn(5, 4).astype("float32"), r.randn(4, 3).astype("float32")
    scope.find_var("fc_0.w_0").get_tensor().set(w, PLACE)
    graph = graph_of(program, True)
    QuantizationTransformPass(scope, PLACE).apply(graph)
    (rounded,) = exe.run(graph.to_program(), feed={"x": x}, fetch_list=[out.name])
    QuantizationFreezePass(scope, PLACE).apply(graph)
    frozen = graph.to_program()
    assert types(frozen) == ["fake_quantize_abs_max", "mul", "fake_dequantize_max_abs"]
    (got,) = exe.run(frozen, feed={"x": x}, fetch_list=[_last(frozen)])
    levels = [np.round(a / np.abs(a).max() * 127) for a in (x, w)]
    expected = levels[0] @ levels[1] * np.abs(x).max() * np.abs(w).max() / 127**2
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rounded, expected, rtol=1e-4, atol=1e-5)


def test_measured_outputs():
    main, startup, test, _, loss = programs()
    exe, scope = fluid.Executor(PLACE), fluid.global_scope()
    exe.run(startup)
    train = OutScaleForTrainingPass(scope, PLACE).apply(graph_of(main, False)).to_program()
    name = next(op.output("Out")[0] for op in main.global_block().ops if op.type == "relu")
    state = accum = 1.0
    for _ in range(3):
        _, seen = exe.run(train, feed=feed(), fetch_list=[loss, name])
        state, accum = 0.9 * state + 1, 0.9 * accum + np.abs(seen).max()
    graph = OutScaleForInferencePass(scope).apply(graph_of(test, True))
    relu = next(op for op in graph.all_op_nodes() if op.name() == "relu").op()
    assert relu.attr("out_threshold") == pytest.approx(accum / state, rel=1e-5)
    assert relu.attr("Out0_threshold") == relu.attr("out_threshold")


def test_functions_of_the_user():
    """A clipping with a learnt limit, before weights and activations."""
    main, startup, test, logits, loss = programs()
    exe, scope = fluid.Executor(PLACE), fluid.global_scope()
    exe.run(startup)

    def clipped(x):
        limit = fluid.layers.create_parameter(
            [1], "float32", name=x.name + "_limit", default_initializer=fluid.initializer.Constant(0.4)
        )
        return fluid.layers.elementwise_min(fluid.layers.elementwise_max(x, -1.0 * limit), limit)

    graphs = graph_of(main, False), graph_of(test, True)
    how = {"optimizer_func": lambda: fluid.optimizer.SGD(0.01), "executor": exe}
    for graph in graphs:
        QuantizationTransformPass(
            scope, PLACE, act_preprocess_func=clipped, weight_preprocess_func=clipped, **how
        ).apply(graph)
    train, test = (g.to_program() for g in graphs)
    limits = [v.name for v in train.list_vars() if v.name.endswith("_limit")]
    assert len(limits) == 4  # input and weight of conv2d_0 and fc_0
    losses = [float(exe.run(train, feed=feed(), fetch_list=[loss])[0][0]) for _ in range(20)]
    assert losses[-1] < losses[0]
    changed = [name for name in limits if abs(value(name)[0] - 0.4) > 1e-6]
    # the limit of the first convolution's input is learnt although the input has no gradient
    assert "x_tmp_input_limit" in changed and len(changed) >= 2
    (before,) = exe.run(test, feed=feed(), fetch_list=[logits])
    QuantizationFreezePass(scope, PLACE).apply(graphs[1])
    assert np.isfinite(before).all() and "fake_dequantize_max_abs" in types(graphs[1].to_program())
    with pytest.raises(AssertionError, match="optimizer_func"):
        QuantizationTransformPass(scope, PLACE, act_preprocess_func=clipped, executor=exe).apply(graph_of(main, False))


def test_wrong_arguments():
    scope = fluid.global_scope()
    with pytest.raises(ValueError, match="weight_quantize_type"):
        QuantizationTransformPass(scope, PLACE, weight_quantize_type="no_such")
    with pytest.raises(AssertionError, match="one scale"):
        QuantizationTransformPass(scope, PLACE, activation_quantize_type="channel_wise_abs_max")
    with pytest.raises(AssertionError, match="relu is not supported"):
        QuantizationTransformPass(scope, PLACE, quantizable_op_type=["relu"])
    with pytest.raises(AssertionError, match="scope"):
        QuantizationFreezePass(None, PLACE)
    with pytest.raises(AssertionError, match="IrGraph"):
        QuantizationTransformPass(scope, PLACE).apply(fluid.Program())
    for kind, args in ((QuantInt8MkldnnPass, ()), (Quant2Int8MkldnnPass, ({"conv2d"},))):
        with pytest.raises(NotImplementedError, match="oneDNN"):
            kind(*args)


def saved(folder):
    main, startup, test, logits, _ = programs()
    exe = fluid.Executor(PLACE)
    exe.run(startup)
    fluid.io.save_inference_model(str(folder), ["x"], [test.global_block().var(logits)], exe, test)
    return exe, exe.run(test, feed=feed(), fetch_list=[logits])[0]


def samples():
    yield from ([x] for x in feed()["x"])


@pytest.mark.parametrize("algo", ["KL", "abs_max", "min_max"])
@pytest.mark.parametrize("weights", ["abs_max", "channel_wise_abs_max"])
def test_after_training(algo, weights, tmp_path):
    exe, expected = saved(tmp_path / "model")
    quantization = PostTrainingQuantization(
        executor=exe,
        model_dir=str(tmp_path / "model"),
        sample_generator=samples,
        batch_size=4,
        algo=algo,
        weight_quantize_type=weights,
        quantizable_op_type=["conv2d", "mul", "pool2d"],
    )
    program = quantization.quantize()
    conv = next(op for op in program.global_block().ops if op.type == "conv2d")
    if algo == "min_max":
        assert conv.attr("x.max") == pytest.approx(feed()["x"].max()) and conv.attr("out_min") < 0
        assert len(np.ravel(conv.attr("conv2d_0.w_0.min"))) == (1 if weights == "abs_max" else 4)
    else:
        assert "fake_quantize_range_abs_max" in types(program)
        assert conv.attr("out_threshold") == conv.attr("Output0_threshold") > 0
        limit = np.abs(feed()["x"]).max()
        assert value("x.scale")[0] == (pytest.approx(limit) if algo == "abs_max" else pytest.approx(limit, rel=0.3))
    quantization.save_quantized_model(str(tmp_path / "rounded"))
    with fluid.scope_guard(fluid.Scope()):
        loaded, feeds, fetches = fluid.io.load_inference_model(str(tmp_path / "rounded"), exe)
        (got,) = exe.run(loaded, feed={feeds[0]: feed()["x"]}, fetch_list=fetches)
    np.testing.assert_allclose(got, expected, atol=0.1 * np.abs(expected).max())


def test_refusals_after_training(tmp_path):
    exe = fluid.Executor(PLACE)
    with pytest.raises(NotImplementedError, match="optimize_model"):
        PostTrainingQuantization(exe, model_dir=str(tmp_path), sample_generator=samples, optimize_model=True)
    with pytest.raises(AssertionError, match="algo must be one of KL"):
        PostTrainingQuantization(exe, model_dir=str(tmp_path), sample_generator=samples, algo="mse")


def slow_kl(hist, edges):
    """The reference algorithm, bin by bin."""
    best = None
    for i in range(int(0.7 * (len(hist) - 1)), len(hist)):
        if not hist[i - 1]:
            continue
        p = [float(c) for c in hist[:i]]
        p[-1] += sum(hist[i:])
        width = i // 255
        q = [0.0] * i
        for group in range(255):
            at = range(group * width, (group + 1) * width if group < 254 else i)
            filled = [j for j in at if p[j]]
            for j in filled:
                q[j] = sum(hist[j] for j in at) / len(filled)
        divergence = sum(a * math.log(sum(q) * a / (sum(hist) * b)) for a, b in zip(p, q, strict=True) if a) / sum(hist)
        if best is None or divergence < best[0]:
            best = divergence, i
    return (best[1] + 0.5) * (edges[1] - edges[0])


@pytest.mark.parametrize("bins", [600, 2048])
def test_minimal_divergence(bins):
    data = np.abs(np.random.RandomState(bins).standard_t(3, 20000))
    hist, edges = np.histogram(data, bins=bins)
    if bins == 600:
        assert kl_threshold(hist, edges) == pytest.approx(slow_kl(hist, edges))
    assert 0.69 * data.max() < kl_threshold(hist, edges) <= data.max() * 1.01
    assert kl_threshold(np.array([5] + [0] * 2047), np.arange(2049.0)) == 0.5


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(("kind", "rate"), [("abs_max", 0.0), ("abs_max", 0.01), ("channel_wise_abs_max", 0.0)])
def test_weights_only(bits, kind, rate, tmp_path):
    exe, expected = saved(tmp_path / "model")
    weight = value("conv2d_0.w_0")
    how = {"weight_bits": bits, "weight_quantize_type": kind, "threshold_rate": rate}
    quantization = WeightQuantization(str(tmp_path / "model"))
    with fluid.scope_guard(fluid.Scope()):
        quantization.quantize_weight_to_int(str(tmp_path / "small"), **how)
        levels = value("conv2d_0.w_0")
    size, old = ((tmp_path / f / "conv2d_0.w_0").stat().st_size for f in ("small/quantized_model", "model"))
    assert levels.dtype == (np.int8 if bits == 8 else np.int16) and old - size == levels.size * (4 - bits // 8)
    quantization.quantize_weight_to_int(str(tmp_path / "small"), generate_test_model=True, **how)
    program = fluid.Program.parse_from_string((tmp_path / "small" / "quantized_model" / "__model__").read_bytes())
    conv = next(op for op in program.global_block().ops if op.type == "conv2d")
    scales = np.array(conv.attr("conv2d_0.w_0_quant_scale"))
    assert conv.attr("quantize_weight_bits") == bits and conv.attr("quantization_type") == f"post_weight_{kind}"
    error = np.abs(levels * scales.reshape(-1, 1, 1, 1) - weight)
    assert error.max() <= (0.51 * scales.max() if not rate else 0.1 * np.abs(weight).max())
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path / "small" / "test_model"), exe)
        (got,) = exe.run(program, feed={feeds[0]: feed()["x"]}, fetch_list=fetches)
    np.testing.assert_allclose(got, expected, atol=0.05 * np.abs(expected).max())
