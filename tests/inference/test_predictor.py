"""Config, Predictor, Tensor, PredictorPool: what they return, and the errors for wrong input."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle.inference import (
    Config,
    DataType,
    PlaceType,
    PrecisionType,
    PredictorPool,
    create_predictor,
    get_num_bytes_of_data_type,
    get_version,
)
from paddle.inference.passes.bfloat16 import rounded, supported
from paddle.static.nn import fc
from served import in_threads, outputs_of, predictor_of

ROWS = ([None, 6], "float32")


@pytest.fixture
def prefix(export):
    return export(lambda x: fc(x, 4, activation="relu"), ROWS)


def test_the_outputs_are_those_of_the_executor(prefix):
    x = np.random.RandomState(0).randn(3, 6).astype("float32")
    exe = paddle.static.Executor(paddle.CPUPlace())
    program, feeds, fetches = paddle.static.load_inference_model(prefix, exe)
    (want,) = exe.run(program, feed={feeds[0]: x}, fetch_list=fetches)
    predictor = predictor_of(prefix)
    assert predictor.get_input_names() == feeds == ["x0"]
    assert predictor.get_output_names() == [fetches[0].name]
    np.testing.assert_allclose(outputs_of(predictor, x)[0], want, rtol=1e-5, atol=1e-6)


def test_sizes_may_change_between_runs(prefix):
    predictor = predictor_of(prefix)
    for rows in (1, 5, 2):
        assert outputs_of(predictor, np.ones((rows, 6), "float32"))[0].shape == (rows, 4)


def test_a_copied_output_does_not_change_with_the_next_run(prefix):
    predictor = predictor_of(prefix)
    first = outputs_of(predictor, np.ones((2, 6), "float32"))[0]
    kept = first.copy()
    outputs_of(predictor, np.full((2, 6), 3.0, "float32"))
    np.testing.assert_array_equal(first, kept)


def test_an_input_is_copied(prefix):
    predictor = predictor_of(prefix)
    x = np.ones((2, 6), "float32")
    predictor.get_input_handle("x0").copy_from_cpu(x)
    x[:] = 100
    predictor.run()
    got = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
    np.testing.assert_array_equal(got, outputs_of(predictor, np.ones((2, 6), "float32"))[0])


def test_a_model_from_memory(prefix):
    with open(prefix + ".pdmodel", "rb") as model, open(prefix + ".pdiparams", "rb") as params:
        content, values = model.read(), params.read()
    config = Config()
    config.set_model_buffer(content, len(content), values, len(values))
    assert config.model_from_memory()
    x = np.ones((2, 6), "float32")
    np.testing.assert_array_equal(outputs_of(create_predictor(config), x)[0], outputs_of(predictor_of(prefix), x)[0])
    with pytest.raises(ValueError, match="prog_buffer has"):
        config.set_model_buffer(content, len(content) + 1, values, len(values))


def test_clones_share_parameters_and_run_at_once(prefix):
    first = predictor_of(prefix)
    clones = [first.clone() for _ in range(4)]
    assert all(c._session.model is first._session.model for c in clones)
    wrong = []

    def serve(predictor, seed):
        r = np.random.RandomState(seed)
        for _ in range(50):
            x = r.randn(r.randint(1, 9), 6).astype("float32")
            if not np.array_equal(outputs_of(predictor, x)[0], outputs_of(reference[seed], x)[0]):
                wrong.append(seed)

    reference = [predictor_of(prefix) for _ in clones]
    in_threads(serve, [(c, i) for i, c in enumerate(clones)])
    assert not wrong


def test_a_pool(prefix):
    pool = PredictorPool(Config(prefix + ".pdmodel", prefix + ".pdiparams"), 3)
    x = np.ones((2, 6), "float32")
    outs = [outputs_of(pool.retrive(i), x)[0] for i in range(3)]
    assert all(np.array_equal(outs[0], out) for out in outs)
    with pytest.raises(IndexError, match="3 predictors"):
        pool.retrive(3)
    with pytest.raises(ValueError, match="size"):
        PredictorPool(Config(prefix + ".pdmodel", prefix + ".pdiparams"), 0)


def test_the_number_of_threads_is_that_of_the_predictor(prefix):
    x = np.random.RandomState(0).randn(64, 6).astype("float32")
    outs = [
        outputs_of(predictor_of(prefix, lambda c, n=n: c.set_cpu_math_library_num_threads(n)), x)[0] for n in (1, 2, 3)
    ]
    assert all(np.array_equal(outs[0], out) for out in outs)
    with pytest.raises(ValueError, match="positive"):
        Config().set_cpu_math_library_num_threads(0)
    with pytest.raises(TypeError, match="int"):
        Config().set_cpu_math_library_num_threads("2")


def test_an_unknown_name_lists_the_names(prefix):
    predictor = predictor_of(prefix)
    with pytest.raises(ValueError, match=r"no input 'y'; the inputs are \['x0'\]"):
        predictor.get_input_handle("y")
    with pytest.raises(ValueError, match=r"no output 'y'; the outputs are \["):
        predictor.get_output_handle("y")


def test_an_input_that_is_not_set(prefix):
    with pytest.raises(RuntimeError, match="input 'x0' is not set"):
        predictor_of(prefix).run()


@pytest.mark.parametrize(
    "array, text",
    [
        (np.ones((2, 6), "float64"), "input 'x0', which operator fc reads, must be float32, got float64"),
        (np.ones((2, 6), "int64"), "must be float32, got int64"),
        (np.ones((2, 5), "float32"), r"must have shape \[-1, 6\] \(-1: any size\), got \[2, 5\]"),
        (np.ones((2, 6, 1), "float32"), r"must have shape \[-1, 6\]"),
        (np.ones(6, "float32"), r"must have shape \[-1, 6\]"),
    ],
)
def test_a_wrong_type_or_shape(prefix, array, text):
    predictor = predictor_of(prefix)
    predictor.get_input_handle("x0").copy_from_cpu(array)
    with pytest.raises(ValueError, match=text):
        predictor.run()
    # the predictor still serves
    assert outputs_of(predictor, np.ones((2, 6), "float32"))[0].shape == (2, 4)


def test_other_sizes_than_declared_that_the_operators_take(tmp_path):
    path = str(tmp_path / "linear")
    with paddle.fluid.dygraph.guard():
        net, x = paddle.nn.Linear(3, 2), np.arange(6, dtype="float32").reshape(2, 3)
        want = net(paddle.to_tensor(x)).numpy()
        paddle.jit.save(net, path, [paddle.static.InputSpec([4, 3], "float32", "x")])
    np.testing.assert_allclose(outputs_of(predictor_of(path), x)[0], want, rtol=1e-6)


def test_wrong_calls_of_tensors(prefix):
    predictor = predictor_of(prefix)
    handle = predictor.get_input_handle("x0")
    with pytest.raises(TypeError, match="array of numbers"):
        handle.copy_from_cpu(np.array(["a"]))
    with pytest.raises(TypeError, match="list of int"):
        handle.reshape("3")
    with pytest.raises(ValueError, match="negative"):
        handle.reshape([-1, 6])
    with pytest.raises(RuntimeError, match="no value yet"):
        handle.set_lod([[0, 2]])
    output = predictor.get_output_handle(predictor.get_output_names()[0])
    with pytest.raises(RuntimeError, match="before the first run"):
        output.copy_to_cpu()
    with pytest.raises(RuntimeError, match="read only"):
        output.copy_from_cpu(np.ones((1, 4), "float32"))
    handle.reshape([2, 6])
    assert handle.shape() == [2, 6]
    handle.copy_from_cpu(np.ones((3, 6), "float32"))
    assert handle.shape() == [3, 6] and handle.type() == DataType.FLOAT32 and handle.lod() == []


def test_lod_in_and_out(tmp_path):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.fluid.data("x", [None, 1], "float32", lod_level=1)
        y = paddle.fluid.layers.sequence_softmax(x)
    prefix = str(tmp_path / "lod")
    paddle.static.save_inference_model(prefix, [x], [y], paddle.static.Executor(paddle.CPUPlace()), program=main)
    predictor = predictor_of(prefix)
    handle = predictor.get_input_handle("x")
    handle.copy_from_cpu(np.zeros((5, 1), "float32"))
    handle.set_lod([[0, 2, 5]])
    predictor.run()
    out = predictor.get_output_handle(predictor.get_output_names()[0])
    assert out.lod() == [[0, 2, 5]]
    np.testing.assert_allclose(out.copy_to_cpu().ravel(), [0.5, 0.5, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)


def test_missing_truncated_and_foreign_files(prefix, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file 'nowhere.pdmodel'"):
        create_predictor(Config("nowhere.pdmodel", "nowhere.pdiparams"))
    with pytest.raises(FileNotFoundError, match="no file 'nowhere.pdiparams'"):
        create_predictor(Config(prefix + ".pdmodel", "nowhere.pdiparams"))
    with pytest.raises(ValueError, match="names no model"):
        create_predictor(Config())
    with open(prefix + ".pdmodel", "rb") as file:
        content = file.read()
    with open(prefix + ".pdiparams", "rb") as file:
        values = file.read()
    short, foreign = tmp_path / "short.pdmodel", tmp_path / "foreign.pdmodel"
    short.write_bytes(content[: len(content) // 2])
    foreign.write_bytes(b"\x89PNG\r\n\x1a\n" * 20)
    for path in (short, foreign):
        with pytest.raises(ValueError, match=f"the model '{path}'"):
            create_predictor(Config(str(path), prefix + ".pdiparams"))
    cut = tmp_path / "cut.pdiparams"
    cut.write_bytes(values[:-7])
    with pytest.raises(RuntimeError, match=f"cannot be read from '{cut}'"):
        create_predictor(Config(prefix + ".pdmodel", str(cut)))


@pytest.mark.parametrize(
    "method, args",
    [
        ("enable_use_gpu", (100, 0)),
        ("enable_xpu", (1,)),
        ("enable_tensorrt_engine", ()),
        ("set_trt_dynamic_shape_info", ()),
        ("enable_tensorrt_oss", ()),
        ("enable_tensorrt_dla", ()),
        ("enable_lite_engine", ()),
        ("enable_quantizer", ()),
    ],
)
def test_what_is_not_there_is_refused_by_name(method, args):
    with pytest.raises(NotImplementedError, match=method):
        getattr(Config(), method)(*args)


def test_a_config_returns_what_was_set():
    config = Config("folder")
    assert config.model_dir() == "folder" and not config.prog_file()
    config.set_model("a.pdmodel", "a.pdiparams")
    assert (config.prog_file(), config.params_file()) == ("a.pdmodel", "a.pdiparams")
    config.set_prog_file("b")
    config.set_params_file("c")
    assert (config.prog_file(), config.params_file()) == ("b", "c")
    assert config.ir_optim() and config.use_feed_fetch_ops_enabled() and not config.specify_input_name()
    config.switch_ir_optim(False)
    config.switch_use_feed_fetch_ops(False)
    config.switch_specify_input_names()
    config.disable_glog_info()
    assert not config.ir_optim() and not config.use_feed_fetch_ops_enabled() and config.specify_input_name()
    assert config.glog_info_disabled() and not config.use_gpu() and not config.mkldnn_enabled()
    copy = Config(config)
    copy.delete_pass("fc_fuse_pass")
    assert "fc_fuse_pass" in config.pass_builder().all_passes() and not copy.ir_optim()
    native = config.to_native_config()
    assert (native.prog_file, native.param_file, native.specify_input_name) == ("b", "c", True)
    with pytest.raises(TypeError, match="as str"):
        Config(3)
    with pytest.raises(ValueError, match="no pass 'no_such_pass'"):
        config.pass_builder().append_pass("no_such_pass")


def test_oneDNN_is_accepted_and_changes_nothing(prefix):  # noqa: N802
    x = np.random.RandomState(0).randn(4, 6).astype("float32")
    with_it = predictor_of(
        prefix, lambda c: (c.enable_mkldnn(), c.set_mkldnn_cache_capacity(3), c.set_mkldnn_op({"fc"}))
    )
    np.testing.assert_array_equal(outputs_of(with_it, x)[0], outputs_of(predictor_of(prefix), x)[0])


def test_bfloat16_products_are_near(export):
    prefix = export(lambda x: fc(fc(x, 256, activation="relu"), 64), ([None, 128], "float32"))
    x = np.random.RandomState(0).randn(64, 128).astype("float32")
    want = outputs_of(predictor_of(prefix), x)[0]
    got = outputs_of(predictor_of(prefix, lambda c: c.enable_mkldnn_bfloat16()), x)[0]
    assert np.abs(got - want).max() < 0.03 * np.abs(want).max()
    assert np.array_equal(got, want) != supported()
    other = predictor_of(prefix, lambda c: (c.enable_mkldnn_bfloat16(), c.set_bfloat16_op({"conv2d"})))
    np.testing.assert_array_equal(outputs_of(other, x)[0], want)


def test_rounding_to_bfloat16_is_that_of_cast():
    paddle.disable_static()
    x = np.concatenate([np.random.RandomState(0).randn(1000), [0, 1e-40, 3e38, np.inf, -np.inf, 1 + 2**-8]])
    x = x.astype("float32")
    want = paddle.cast(paddle.cast(paddle.to_tensor(x), "bfloat16"), "float32").numpy()
    np.testing.assert_array_equal(rounded(x), want)


def test_enums_and_versions():
    assert [get_num_bytes_of_data_type(t) for t in (DataType.FLOAT32, DataType.INT64, DataType.INT32)] == [4, 8, 4]
    assert PlaceType.CPU.value == 0 and PrecisionType.Float32.value == 0 and "2.0.2" in get_version()
    with pytest.raises(TypeError, match="DataType"):
        get_num_bytes_of_data_type("float32")


def test_memory_stays_flat_over_random_sizes(prefix):
    predictor, r = predictor_of(prefix, lambda c: c.enable_memory_optim()), np.random.RandomState(0)
    for _ in range(300):
        outputs_of(predictor, np.zeros((r.randint(1, 500), 6), "float32"))
    predictor.try_shrink_memory()
    predictor.clear_intermediate_tensor()
    with pytest.raises(RuntimeError, match="before the first run"):
        predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


def test_a_changed_shape_is_checked_again(export):
    prefix = export(lambda x: fc(x, 5), ([None, 8], "float32"))
    predictor = predictor_of(prefix)
    handle = predictor.get_input_handle(predictor.get_input_names()[0])
    for rows in (1, 1, 2):
        handle.copy_from_cpu(np.ones((rows, 8), "float32"))
        assert predictor.run()
    for wrong in (np.ones((1, 8), "float64"), np.ones((1, 7), "float32"), np.ones((1, 8, 1), "float32")):
        for _ in range(2):
            handle.copy_from_cpu(wrong)
            with pytest.raises(ValueError, match="input"):
                predictor.run()
    handle.copy_from_cpu(np.ones((2, 8), "float32"))
    assert predictor.run()
