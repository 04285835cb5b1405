"""Values and errors at the edges of operators and of the API."""

import struct
import time

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle.optimizer import lr


@pytest.fixture
def static():
    paddle.enable_static()
    yield
    paddle.disable_static()


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, np.inf, -np.inf])
def test_the_distance_to_itself_has_the_gradient_0(p):
    values = np.random.RandomState(0).rand(2, 3)
    x = paddle.to_tensor(values, stop_gradient=False)
    paddle.dist(x, paddle.to_tensor(values), p).backward()
    np.testing.assert_array_equal(x.gradient(), np.zeros((2, 3)))


@pytest.mark.parametrize("p", [0.5, 2, 3])
def test_the_norm_of_zeros_has_the_gradient_0(p):
    x = paddle.to_tensor(np.zeros((2, 3)), stop_gradient=False)
    paddle.norm(x, p=p, axis=1).sum().backward()
    np.testing.assert_array_equal(x.gradient(), np.zeros((2, 3)))


def test_logsumexp_of_infinite_elements():
    x = paddle.to_tensor([[-np.inf, -np.inf], [np.inf, 0.0], [0.0, 0.0]], stop_gradient=False)
    out = paddle.logsumexp(x, axis=1)
    np.testing.assert_allclose(out.numpy(), [-np.inf, np.inf, np.log(2)], rtol=1e-6)
    out.sum().backward()
    assert np.isfinite(x.gradient()).all()
    np.testing.assert_allclose(x.gradient()[2], [0.5, 0.5], rtol=1e-6)


def test_derivatives_at_zero_are_finite():
    x = paddle.to_tensor(np.full((2, 3), 2.0), stop_gradient=False)
    paddle.std(x, axis=1).sum().backward()
    np.testing.assert_array_equal(x.gradient(), np.zeros((2, 3)))
    x = paddle.to_tensor(np.zeros(3), stop_gradient=False)
    (x**0.0).sum().backward()
    np.testing.assert_array_equal(x.gradient(), np.zeros(3))
    x, y = (paddle.to_tensor(np.zeros(3), stop_gradient=False) for _ in range(2))
    paddle.pow(x, y.detach()).sum().backward()
    np.testing.assert_array_equal(x.gradient(), np.zeros(3))


def test_std_is_the_root_of_var():
    x = paddle.to_tensor(np.random.RandomState(0).rand(3, 4), stop_gradient=False)
    out = paddle.std(x, axis=1)
    np.testing.assert_allclose(out.numpy(), x.numpy().std(1, ddof=1))
    out.sum().backward()
    centred = x.numpy() - x.numpy().mean(1, keepdims=True)
    np.testing.assert_allclose(x.gradient(), centred / (3 * out.numpy()[:, None]), rtol=1e-6)


@pytest.mark.parametrize("padding", [[1, 2, 1, 2], [0, 2, 1, 0], [2, 1, 0, 3]])
def test_averages_over_padding_divide_by_the_window(padding):
    top, bottom, left, right = padding
    x = np.random.RandomState(0).rand(1, 1, 8, 5)
    padded = np.pad(x[0, 0], ((top, bottom), (left, right)))
    rows, columns = (padded.shape[0] - 4) // 2 + 1, (padded.shape[1] - 4) // 2 + 1
    wanted = [[padded[2 * i : 2 * i + 4, 2 * j : 2 * j + 4].mean() for j in range(columns)] for i in range(rows)]
    out = F.avg_pool2d(paddle.to_tensor(x), 4, stride=2, padding=padding, exclusive=False)
    np.testing.assert_allclose(out.numpy()[0, 0], wanted)


def test_ceil_mode_makes_no_windows_without_elements():
    x = paddle.to_tensor(np.random.RandomState(0).rand(1, 1, 15, 20))
    out = F.max_pool2d(x, 3, stride=[5, 6], ceil_mode=True)
    assert out.shape == [1, 1, 3, 4]
    assert out.numpy().min() > 0
    out = F.avg_pool2d(x, 2, stride=2, ceil_mode=True)
    assert out.shape == [1, 1, 8, 10] and np.isfinite(out.numpy()).all()


def test_a_pool_padded_by_its_kernel_is_refused():
    with pytest.raises(ValueError, match="paddings .* must be below ksize"):
        F.max_pool2d(paddle.ones([1, 2, 4, 4]), 2, padding=3)


@pytest.mark.parametrize("reduce", [paddle.max, paddle.min])
def test_an_extreme_of_nothing_is_refused(reduce):
    with pytest.raises(ValueError, match="no elements along the reduced axes"):
        reduce(paddle.zeros([2, 0]), axis=1)
    assert reduce(paddle.zeros([0, 2]), axis=1).shape == [0]


def test_expand_and_tile_above_six_axes():
    values = np.arange(16.0).reshape([1, 2] * 4)
    x = paddle.to_tensor(values, stop_gradient=False)
    out = paddle.expand(x, [2] * 8)
    np.testing.assert_array_equal(out.numpy(), np.broadcast_to(values, [2] * 8))
    out.sum().backward()
    np.testing.assert_array_equal(x.gradient(), np.full_like(values, 16.0))
    np.testing.assert_array_equal(paddle.tile(x, [2] * 8).numpy(), np.tile(values, [2] * 8))


def test_linear_warmup_get_lr_changes_nothing():
    def make():
        return lr.LinearWarmup(lr.StepDecay(0.5, 3, 0.8), 4, 0.1, 0.5)

    a, b, rates = make(), make(), []
    for _ in range(20):
        rates.append(a())
        assert [b.get_lr() for _ in range(3)] == [b()] * 3 == [a()] * 3
        a.step()
        b.step()
    for cut in (2, 5, 11):
        c, d = make(), make()
        for _ in range(cut):
            c.step()
        d.set_state_dict(c.state_dict())
        for k in range(6):
            assert c() == d() == rates[cut + k]
            c.step()
            d.step()


def test_cosine_annealing_refuses_a_period_of_0():
    with pytest.raises(ValueError, match="T_max"):
        lr.CosineAnnealingDecay(0.1, T_max=0)


def test_to_tensor_of_a_memoryview():
    assert paddle.to_tensor(memoryview(np.zeros((2, 3), "float32"))).shape == [2, 3]


class _Stream(paddle.io.IterableDataset):
    def __iter__(self):
        for i in range(22):
            yield np.full(4, i / 22, "float32"), np.array([i % 3], "int64")


def test_model_fits_an_iterable_dataset():
    model = paddle.Model(paddle.nn.Linear(4, 3))
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    model.prepare(optimizer, paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    model.fit(_Stream(), batch_size=5, epochs=2, verbose=0)
    assert set(model.evaluate(_Stream(), batch_size=5, verbose=0)) == {"loss", "acc"}
    assert [len(part) for part in model.predict(_Stream(), batch_size=5)[0]] == [5, 5, 5, 5, 2]


def test_nested_fetch_lists_are_flattened(static):
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [2], "float32")
        a, b = x * 2.0, x * 3.0
    exe = paddle.static.Executor()
    got = exe.run(main, feed={"x": np.ones(2, "float32")}, fetch_list=[(a, b), [a.name, [b]], x])
    np.testing.assert_array_equal(np.stack(got)[:, 0], [2, 3, 2, 3, 1])


def test_batches_below_the_number_of_places(static):
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, 4], "float32")
        loss = paddle.mean(paddle.static.nn.fc(x, 3))
        paddle.optimizer.SGD(0.1).minimize(loss)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)
    program = paddle.static.CompiledProgram(main)
    program.with_data_parallel(loss_name=loss.name, places=[paddle.CPUPlace()] * 2)
    with np.errstate(all="ignore"):
        assert np.isnan(exe.run(program, feed={"x": np.ones((0, 4), "float32")}, fetch_list=[loss])[0]).all()
    with pytest.raises(paddle.fluid.core.EnforceNotMet, match="batch of 'x' makes 1 parts, but there are 2 CPU places"):
        exe.run(program, feed={"x": np.ones((1, 4), "float32")}, fetch_list=[loss])


def test_a_program_is_built_twice_under_one_guard_of_names(static):
    main = paddle.static.Program()
    for _ in range(2):
        with paddle.static.program_guard(main), paddle.utils.unique_name.guard():
            out = paddle.normal(shape=[2, 3], mean=paddle.full([2, 3], 2.0))
    assert paddle.static.Executor().run(main, fetch_list=[out])[0].shape == (2, 3)


def test_an_unfed_variable_is_named(static):
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.fluid.layers.data("image", [3], dtype="float32")
        out = x + 1.0
    with pytest.raises(Exception, match="no data was fed for image"):
        paddle.static.Executor().run(main, fetch_list=[out])


@pytest.mark.parametrize("token", ["#", "# ", "\n", "#\n", " #", "\t", '"', "a", "{", "0", "-", "\\"])
def test_text_formats_are_read_in_linear_time(token):
    text = token * (100_000 // len(token))
    begin = time.process_time()
    for read in (
        lambda: paddle.distributed.fleet.DistributedStrategy().strategy.merge_text(text),
        lambda: paddle.static.Program.parse_from_string(text),
    ):
        try:
            read()
        except Exception as error:
            assert str(error)
    assert time.process_time() - begin < 5


def test_a_datetime_without_its_unit_in_a_file(tmp_path):
    dtype = b"cnumpy\ndtype\n(X\x06\x00\x00\x00M8[ns]K\x00K\x01tR(K\x03X\x01\x00\x00\x00<NNN"
    dtype += b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
    head = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tC\x01btR(K\x01(K\x03t"
    path = tmp_path / "dates.pdparams"
    path.write_bytes(head + dtype + b"\x89B" + struct.pack("<I", 24) + struct.pack("<3q", 1, 2, 3) + b"tb.")
    found = paddle.load(str(path))
    assert found.dtype == "datetime64[ns]" and found.astype("int64").tolist() == [1, 2, 3]
