"""AnalysisConfig and AnalysisPredictor of 1.x: PaddleTensors, ZeroCopyTensors, pass builders."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle.fluid import core


@pytest.fixture
def folder(tmp_path):
    main, startup = paddle.static.Program(), paddle.static.Program()
    exe = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.program_guard(main, startup):
        a = fluid.data("a", [None, 3], "float32")
        b = fluid.data("b", [None, 3], "float32")
        out = fluid.layers.fc(a, 2, act="relu") + fluid.layers.fc(b, 2)
        with paddle.static.scope_guard(core.Scope()):
            exe.run(startup)
            fluid.io.save_inference_model(str(tmp_path), ["a", "b"], [out], exe, main)
    return str(tmp_path)


def tensors(swapped: bool = False) -> list:
    r = np.random.RandomState(0)
    both = [core.PaddleTensor(r.randn(4, 3).astype("float32"), name) for name in ("a", "b")]
    return both[::-1] if swapped else both


def test_run_takes_inputs_in_order_or_by_name(folder):
    config = core.AnalysisConfig(folder)
    predictor = core.create_paddle_predictor(config)
    assert isinstance(predictor, core.AnalysisPredictor) and isinstance(predictor, core.PaddlePredictor)
    assert predictor.get_input_names() == ["a", "b"]
    assert predictor.get_input_tensor_shape() == {"a": [-1, 3], "b": [-1, 3]}
    (want,) = predictor.run(tensors())
    assert want.dtype == core.PaddleDType.FLOAT32 and want.shape == [4, 2] and want.name
    config.switch_specify_input_names(True)
    (got,) = core.create_paddle_predictor(config).run(tensors(swapped=True))
    np.testing.assert_array_equal(got.as_ndarray(), want.as_ndarray())
    (other,) = predictor.run(tensors(swapped=True))
    assert not np.array_equal(other.as_ndarray(), want.as_ndarray())


def test_native_and_analysis_predictors_agree(folder):
    native = core.NativeConfig()
    native.model_dir = folder
    (want,) = core.create_paddle_predictor(native).run(tensors())
    (got,) = core.create_paddle_predictor(core.AnalysisConfig(folder)).run(tensors())
    np.testing.assert_allclose(got.as_ndarray(), want.as_ndarray(), rtol=1e-5)


def test_zero_copy(folder):
    config = core.AnalysisConfig(folder)
    config.switch_use_feed_fetch_ops(False)
    predictor = core.create_paddle_predictor(config)
    (want,) = predictor.run(tensors())
    for tensor in tensors():
        handle = predictor.get_input_tensor(tensor.name)
        handle.copy_from_cpu(tensor.as_ndarray())
    assert predictor.zero_copy_run()
    out = predictor.get_output_tensor(predictor.get_output_names()[0])
    np.testing.assert_array_equal(out.copy_to_cpu(), want.as_ndarray())
    clone = predictor.clone()
    np.testing.assert_array_equal(clone.run(tensors())[0].as_ndarray(), want.as_ndarray())


def test_the_optimised_model_is_saved_and_served(folder, tmp_path):
    predictor = core.create_paddle_predictor(core.AnalysisConfig(folder))
    (want,) = predictor.run(tensors())
    predictor.SaveOptimModel(str(tmp_path / "optimised"))
    again = core.AnalysisConfig(str(tmp_path / "optimised" / "model"), str(tmp_path / "optimised" / "params"))
    (got,) = core.create_paddle_predictor(again).run(tensors())
    np.testing.assert_array_equal(got.as_ndarray(), want.as_ndarray())
    types = [op.type for op in paddle.static.Program.parse_from_string(predictor.get_serialized_program()).block(0).ops]
    assert types.count("fc") == 2 and types[:2] == ["feed", "feed"] and types[-1] == "fetch"


def test_wrong_input(folder):
    predictor = core.create_paddle_predictor(core.AnalysisConfig(folder))
    with pytest.raises(ValueError, match=r"2 inputs \['a', 'b'\], got 1"):
        predictor.run(tensors()[:1])
    with pytest.raises(TypeError, match="PaddleTensors"):
        predictor.run([1, 2])
    bad = tensors()
    bad[0].shape = [5, 3]
    with pytest.raises(ValueError, match="does not fit its 12 elements"):
        predictor.run(bad)
    config = core.AnalysisConfig(folder)
    config.switch_specify_input_names(True)
    named = tensors()
    named[0].name = "c"
    with pytest.raises(ValueError, match="no input 'c'"):
        core.create_paddle_predictor(config).run(named)
    with pytest.raises(TypeError, match="AnalysisConfig"):
        core.create_paddle_predictor(3)


def test_pass_builders():
    builder = core.PaddlePassBuilder(["fc_fuse_pass"])
    builder.append_pass("conv_bn_fuse_pass")
    builder.insert_pass(0, "is_test_pass")
    assert builder.all_passes() == ["is_test_pass", "fc_fuse_pass", "conv_bn_fuse_pass"]
    builder.turn_on_debug()
    assert builder.all_passes()[1::2] == ["graph_viz_pass"] * 3
    builder.set_passes(["fc_fuse_pass", "fc_fuse_pass", "is_test_pass"])
    builder.delete_pass("fc_fuse_pass")
    assert builder.all_passes() == ["is_test_pass"] and "is_test_pass" in builder.debug_string()
    builder.append_analysis_pass("memory_optimize_pass")
    assert builder.analysis_passes()[-1] == "memory_optimize_pass"
    with pytest.raises(IndexError, match="idx"):
        builder.insert_pass(9, "is_test_pass")
    cpu = core.CpuPassStrategy()
    before = len(cpu.all_passes())
    cpu.enable_mkldnn()
    cpu.enable_mkldnn()
    assert len(cpu.all_passes()) > before and not cpu.use_gpu() and core.GpuPassStrategy().use_gpu()
    assert core.CpuPassStrategy(cpu).all_passes() == cpu.all_passes()
    with pytest.raises(NotImplementedError, match="enable_quantizer"):
        cpu.enable_mkldnn_quantizer()


def test_debugging_writes_a_picture_after_each_pass(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = core.AnalysisConfig(folder)
    config.switch_ir_debug()
    core.create_paddle_predictor(config)
    assert "fc" in (tmp_path / sorted(p.name for p in tmp_path.glob("*_ir_fc_fuse_pass.dot"))[0]).read_text()


def test_buffers():
    buffer = core.PaddleBuf(8)
    assert buffer.length() == 8 and not buffer.empty() and buffer.int64_data() == [0]
    buffer.reset(np.array([1.0, 2.0], "float32"))
    assert buffer.float_data() == [1.0, 2.0] and len(buffer.int32_data()) == 2
    buffer.resize(0)
    assert buffer.empty()
    with pytest.raises(ValueError, match="float32, int64 or int32"):
        core.PaddleBuf([1.0]).tolist("float16")
    with pytest.raises(ValueError, match="negative"):
        core.PaddleBuf(-1)
    assert core.paddle_dtype_size(core.PaddleDType.INT64) == 8
    data = core.paddle_tensor_to_bytes(core.PaddleTensor(np.ones((2, 3), "float32"), "x"))
    assert isinstance(data, bytes) and data.endswith(np.ones(6, "float32").tobytes())


def test_a_profiled_predictor_writes_its_report(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = core.AnalysisConfig(folder)
    config.enable_profile()
    predictor = core.create_paddle_predictor(config)
    predictor.run(tensors())
    del predictor
    assert "fc" in capsys.readouterr().out
