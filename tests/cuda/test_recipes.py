"""Recipes: the second call of a key runs in Rust by cuLaunchKernel of a fake libcuda, and gives what the first did."""

import gc
import warnings
from collections import Counter

import numpy as np
import paddle
import pytest
from agreement import CASES, UNSPECIFIED, Watch, cast, compare, difference, is_random, related, types_of
from agreement import step as run_case
from paddle import _core, _cuda
from paddle._cuda import recipe
from paddle._cuda.families import FAMILY, RECORDED
from shim import DriverMachine


@pytest.fixture(scope="session")
def driven(built):
    return DriverMachine(built.folder)


@pytest.fixture
def driver(driven):
    """CUDAPlace(0) is the shim with a driver during the test."""
    driven.forget()
    _cuda.use(driven)
    yield driven
    _cuda.use(None)


def on_device(a, **more):
    return paddle.to_tensor(np.asarray(a), place=paddle.CUDAPlace(0), **more)


def test_the_second_call_runs_without_python(driver):
    x, y = on_device([[1.0, 2.0], [3.0, 4.0]]), on_device([[5.0, 6.0], [7.0, 8.0]])
    first, started, launches = x + y, list(driver.started), driver.fake.launches
    second = x + y
    assert len(started) == 1 and driver.started == started and driver.fake.launches == launches + 1
    assert first.numpy().tolist() == second.numpy().tolist() == [[6, 8], [10, 12]]
    # Another shape, and the same tensor twice, are other keys.
    assert (x + x).numpy().tolist() == [[2, 4], [6, 8]] and len(driver.started) == 2
    assert (x + on_device([1.0, 1.0])).numpy().tolist() == [[2, 3], [4, 5]] and len(driver.started) == 3
    assert (y + y).numpy().tolist() == [[10, 12], [14, 16]] and len(driver.started) == 3


def test_results_of_recipes_are_operands_of_launchers(driver):
    x = on_device(np.arange(6.0).reshape(2, 3))
    for _ in range(3):
        h = x * 2.0
        h = paddle.nn.functional.relu(h - 3.0)
        got = paddle.matmul(h, paddle.transpose(h, [1, 0])).numpy()
    want = np.maximum(np.arange(6.0).reshape(2, 3) * 2 - 3, 0)
    assert got.tolist() == (want @ want.T).tolist()


def test_updates_in_place_are_replayed(driver):
    rate = on_device([0.5])
    param, kept = on_device([1.0, 2.0]), []
    for _ in range(4):
        _core.ops.sgd(param, rate, on_device([1.0, 1.0]), ParamOut=param)
        kept.append(_core.device_address(param))
    assert len(set(kept)) == 1 and len(driver.started) == 1 and driver.fake.launches >= 3
    assert param.numpy().tolist() == [-1.0, 0.0]
    # The host has a copy now: the next step writes elsewhere, by the launcher.
    held = param.cpu()
    _core.ops.sgd(param, rate, on_device([1.0, 1.0]), ParamOut=param)
    assert held.numpy().tolist() == [-1.0, 0.0] and param.numpy().tolist() == [-1.5, -0.5]


def test_attributes_are_part_of_the_key(driver):
    x = on_device([1.0, -2.0])
    for slope in (0.1, 0.2, 0.1, 0.2):
        y = paddle.nn.functional.leaky_relu(x, slope)
        np.testing.assert_allclose(y.numpy(), [1, -2 * slope], rtol=1e-6)
    assert len(driver.started) == 2


def test_every_call_draws_its_own_numbers(driver):
    """A replay takes the next number of the generator, as the launcher does."""
    x = on_device(np.ones((40, 5), "float32"))

    def masks() -> list:
        paddle.seed(11)
        return [_core.ops.dropout(x, dropout_prob=0.5)[0].numpy().tolist() for _ in range(4)]

    first = masks()
    started = len(driver.started)
    assert started == 1 and first[0] != first[1] != first[2]
    assert masks() == first and len(driver.started) == started


DRAWING = {
    "bernoulli": lambda x: _core.ops.bernoulli(x),
    "multinomial": lambda x: _core.ops.multinomial(x, num_samples=2, replacement=True),
    "sampling_id": lambda x: _core.ops.sampling_id(x, min=0.0, max=1.0),
    "randperm": lambda x: _core.ops.randperm(n=50, dtype=3),
    "uniform_random": lambda x: _core.ops.uniform_random(shape=[30]),
    "randint": lambda x: _core.ops.randint(shape=[30], low=0, high=1000),
}


TREE = {"neg_samples_num_list": [1, 3], "layer_offset_lod": [0, 2, 10], "output_positive": False, "dtype": 3}
DRAWING["tdm_sampler"] = lambda x: _core.ops.tdm_sampler(
    on_device(np.arange(8).reshape(8, 1)),
    on_device([[1 + i // 4, 3 + i] for i in range(8)]),
    on_device(np.arange(1, 11).reshape(10, 1)),
    **TREE,
)[0]


@pytest.mark.parametrize("name", DRAWING)
def test_random_operators_draw_in_replays(name, driver):
    paddle.set_device("gpu")
    try:
        x = on_device(np.full((40, 6), 0.5, "float32"))

        def drawn() -> list:
            paddle.seed(3)
            return [DRAWING[name](x).numpy().tolist() for _ in range(3)]

        first = drawn()
        assert first[0] != first[1] != first[2] and drawn() == first
    finally:
        paddle.set_device("cpu")


def test_values_that_are_passed_on_share_memory(driver):
    """The gradient of an addition is that of its result, without a copy; an update in place copies it first."""
    x, y, d = (on_device(np.full((3, 2), v, "float32")) for v in (1, 2, 3))
    for _ in range(2):
        dx, dy = _core.ops.elementwise_add_grad(x, y, d)
    assert driver.started == [] and _core.device_address(dx) == _core.device_address(dy) == _core.device_address(d)
    rate = on_device(np.ones(1, "float32"))
    _core.ops.sgd(dx, rate, y, ParamOut=dx)
    assert dx.numpy().tolist() == [[1, 1]] * 3 and d.numpy().tolist() == dy.numpy().tolist() == [[3, 3]] * 3


def test_duplicable_results_are_replayed(driver):
    x = on_device(np.arange(12.0).reshape(2, 6))
    for _ in range(3):
        a, b = paddle.split(x, [2, 4], axis=1)
        assert a.numpy().tolist() == [[0, 1], [6, 7]] and b.numpy().tolist() == [[2, 3, 4, 5], [8, 9, 10, 11]]
    assert len(driver.started) == 2
    # Of another number of parts it is another call.
    assert [p.numpy().tolist() for p in paddle.split(x, 3, axis=1)][2] == [[4, 5], [10, 11]]


def test_a_level_of_detail_is_part_of_the_key(driver):
    from agreement import tensor

    for _ in range(2):
        for lod in ([[0, 1, 4]], [[0, 2, 4]], None):
            y = paddle.nn.functional.relu(tensor(np.arange(-2.0, 2.0).reshape(4, 1), lod, True))
            assert y.numpy().tolist() == [[0], [0], [0], [1]]
            assert y.value().get_tensor().lod() == (lod or [])


def test_addresses_that_are_not_aligned_are_another_key(driver):
    """Words of 16 bytes are moved only from and to multiples of 16."""
    flat = on_device(np.arange(36, dtype="float32"))
    for _ in range(2):
        parts = _core.device_parts(flat, [[2], [4, 4], [2, 8]])
        for part, first in zip(parts[1:], (2, 18), strict=True):
            got = paddle.concat([part, part], axis=0).numpy()
            want = np.arange(first, first + 16).reshape(part.shape)
            assert got.tolist() == np.concatenate([want, want]).tolist()


def test_an_id_out_of_range_is_found_in_a_replay(driver):
    table = on_device(np.ones((3, 2), "float32"))
    for ids in ([0, 1], [2, 0]):
        assert _core.ops.lookup_table_v2(table, on_device(ids)).numpy().tolist() == [[1, 1]] * 2
    with pytest.raises(IndexError, match="lookup_table_v2: .*expected 0 <= id < 3, got 7"):
        _core.ops.lookup_table_v2(table, on_device([1, 7])).numpy()
    assert _core.ops.lookup_table_v2(table, on_device([1, 1])).numpy().tolist() == [[1, 1]] * 2
    assert len(driver.started) == 1


@pytest.mark.parametrize("name", ["SGD", "Momentum", "AdamW"])
def test_a_step_over_all_parameters_runs_without_python(name, driver):
    """The table is written where an address changed."""
    paddle.set_device("gpu")
    try:
        params = [paddle.create_parameter([n], "float32") for n in (3, 40, 1)]
        scheduler = paddle.optimizer.lr.ExponentialDecay(0.1, 0.5)
        optimizer = getattr(paddle.optimizer, name)(scheduler, parameters=params)
        mirrors = [p.numpy().copy() for p in params]
        for p, m in zip(params, mirrors, strict=True):
            p.set_value(m)
        for _ in range(4):
            for i, p in enumerate(params):
                p._set_grad_ivar(on_device(np.full(p.shape, i + 1.0, "float32")))
            driver.forget()
            optimizer.step()
            scheduler.step()
            assert not [k for k in driver.started if "_all" in k]
        optimizer.step()
        uploads = driver.fake.uploads
        optimizer.step()
        assert driver.fake.uploads == uploads
        found = [p.numpy() for p in params]
    finally:
        paddle.set_device("cpu")
    cpu = [paddle.create_parameter([n], "float32") for n in (3, 40, 1)]
    for p, m in zip(cpu, mirrors, strict=True):
        p.set_value(m)
    scheduler = paddle.optimizer.lr.ExponentialDecay(0.1, 0.5)
    optimizer = getattr(paddle.optimizer, name)(scheduler, parameters=cpu)
    for step in range(6):
        for i, p in enumerate(cpu):
            p._set_grad_ivar(paddle.to_tensor(np.full(p.shape, i + 1.0, "float32")))
        optimizer.step()
        if step < 4:
            scheduler.step()
    for got, want in zip(found, cpu, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5)


def test_memory_of_the_pool_is_freed(driver):
    x = on_device(np.ones(1000))
    x + x
    held = driver.fake.blocks
    for _ in range(50):
        paddle.nn.functional.relu(x + x).numpy()
    gc.collect()
    _core.drain_device()
    assert driver.fake.blocks <= held + 1


def test_errors_of_the_driver_are_named(driver, monkeypatch):
    monkeypatch.setattr(driver, "driver", lambda: ("no/such/libcuda.so", 11, 7))
    _cuda.use(driver)
    x = on_device([1.0])
    with pytest.raises(RuntimeError, match="no/such/libcuda.so cannot be loaded"):
        x + x
    monkeypatch.setattr(driver, "driver", lambda: (str(driver.fake.path), 12, 7))
    _cuda.use(driver)
    x = on_device([1.0])
    x + x
    with pytest.raises(OSError, match="cuCtxPushCurrent failed with the CUDA error 201"):
        x + x


def test_temporary_values_share_memory():
    """Those whose last use is before the first use of another one; results have memory of their own."""
    use = lambda *buffers: (1, None, (1, 1, 1), 32, 0, [(0, 0, 0), *((1, b, 4) for b in buffers)])  # noqa: E731
    steps = [use(0), use(0, 1), use(1, 2), use(2, 3), use(3, 5)]
    result = (0, 0, 0, 5, "float32", [2])
    made, sizes, results = recipe._sharing(steps, [64, 32, 100, 16, 77, 8], [result])
    assert sizes == [8, 100, 32] and results == [(0, 0, 0, 0, "float32", [2])]
    assert [[b for kind, b, _ in s[-1] if kind] for s in made] == [[1], [1, 2], [2, 1], [1, 2], [2, 0]]
    assert all(s[-1][0] == (0, 0, 0) and s[-1][1][2] == 4 for s in made)


def test_a_recording_that_holds_too_much_is_given_up(driver, monkeypatch):
    from paddle._cuda.arrays import call

    monkeypatch.setattr(call, "_MOST", -(1 << 20))
    x = on_device(np.ones((2, 3), "float32"))
    for _ in range(2):
        assert (x > x).numpy().tolist() == [[False] * 3] * 2
    assert driver.started == []


REPLAYED = sorted(op for op in CASES if related(op) & RECORDED)


def sampled() -> list:
    """All operators; those after the second one of a family are slow."""
    seen: Counter = Counter()
    found = []
    for op in REPLAYED:
        family = FAMILY.get(op, op)
        seen[family] += 1
        found.append(pytest.param(op, marks=[pytest.mark.slow] if seen[family] > 2 else []))
    return found


def wrong_when_replayed(op: str) -> list[str]:
    """What differs from the CPU in two runs of all case rows: the second time known keys are replayed."""
    watch = Watch(_cuda.runtime())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            for c in CASES[op]:
                compare(c, watch)
    return watch.report.wrong


@pytest.mark.parametrize("op", sampled())
def test_replays_agree_with_the_cpu(op, driver):
    wrong = wrong_when_replayed(op)
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.gpu
@pytest.mark.parametrize("op", REPLAYED)
def test_replays_agree_on_a_gpu(op, gpu):
    wrong = wrong_when_replayed(op)
    assert not wrong, "\n".join(wrong[:5])


def reversed_values(value):
    """The elements in reverse order, which keeps them in the domain of an operator."""
    if isinstance(value, list):
        return [reversed_values(v) for v in value]
    return np.ascontiguousarray(np.flip(value.reshape(-1))).reshape(value.shape) if hasattr(value, "reshape") else value


def smaller_integers(value):
    if isinstance(value, list):
        return [smaller_integers(v) for v in value]
    if getattr(value, "dtype", np.dtype(object)).kind in "iu":
        return np.maximum(value.astype("int64") - 1, 0).astype(value.dtype)
    return value


def wrong_with_other_values(op: str, machine: DriverMachine) -> list[str]:
    """What differs between replays with other values of the operands and launchers with these."""
    found = []
    for c in CASES[op]:
        if is_random(c):
            continue
        dtype = next((t for t in types_of(c, c.inputs) if t in ("float32", "")), "float64")
        first = {k: cast(v, dtype) for k, v in c.inputs.items()}
        for change in (reversed_values, smaller_integers):
            inputs = {k: change(v) for k, v in first.items()}
            try:
                run_case(c, inputs, dtype, False, False)
            except Exception:  # the operator refuses these values
                continue
            _cuda.use(machine)
            want = run_case(c, inputs, dtype, True, False)
            _cuda.use(machine)
            for _ in range(2):
                run_case(c, first, dtype, True, False)
            got = run_case(c, inputs, dtype, True, False)
            differ = {k: difference(w, got[k], dtype, k in UNSPECIFIED) for k, w in want.items()}
            found += [f"{c.name()}, {change.__name__}, {k}: {text}" for k, text in differ.items() if text]
    return found


@pytest.mark.parametrize("op", sampled())
def test_replays_read_the_values_of_their_operands(op, driver):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = wrong_with_other_values(op, driver)
    assert not wrong, "\n".join(wrong[:5])


RESIZED = {
    "linear_interp_v2": (1, 2, 3),
    "trilinear_interp_v2": (1, 2, 3, 4, 3),
    **{f"{kind}_interp{v}": (1, 2, 3, 4) for kind in ("bilinear", "nearest", "bicubic") for v in ("", "_v2")},
}
RANDOM = {"uniform_random": {}, "gaussian_random": {}, "randint": {"low": 0, "high": 9}}


@pytest.mark.parametrize("op", [*RESIZED, *RANDOM])
@pytest.mark.parametrize("listed", [False, True], ids=["tensor", "list"])
def test_sizes_that_operands_give_are_read_by_every_call(op, listed, driver):
    rank = len(RESIZED.get(op, (0,) * 4)) - 2
    slots = ("OutSize", "SizeTensor") if op in RESIZED else ("ShapeTensor", "ShapeTensorList")
    given = {"X": on_device(np.ones(RESIZED[op], "float32"))} if op in RESIZED else {}
    attrs = {"interp_method": op.split("_")[0]} if op in RESIZED else RANDOM[op]
    for n in (3, 3, 3, 5, 2):
        sizes = [on_device(np.array([n], "int32"))] * rank if listed else on_device(np.full(rank, n, "int32"))
        assert getattr(_core.ops, op)(**given, **{slots[listed]: sizes}, **attrs).shape[-1] == n


@pytest.mark.parametrize(
    "mode, layers, direction, lengths",
    [
        ("LSTM", 2, "forward", None),
        ("GRU", 1, "bidirect", None),
        ("SimpleRNN", 2, "bidirect", None),
        ("LSTM", 2, "bidirect", [5, 2, 0]),
        ("GRU", 2, "forward", [1, 5, 3]),
    ],
)
def test_steps_of_a_recurrent_network_run_without_python(mode, layers, direction, lengths, driver):
    """All steps of all layers are one recipe, forward and backward."""
    x = np.random.default_rng(2).normal(size=(3, 5, 4)).astype("float32")
    network = getattr(paddle.nn, mode)(4, 6, layers, direction)
    values = [
        np.random.default_rng(i).normal(size=p.shape).astype("float32") for i, p in enumerate(network.parameters())
    ]

    def step(place):
        paddle.set_device(place)
        for p, value in zip(network.parameters(), values, strict=True):
            p.set_value(value)
            p.clear_gradient()
        given = paddle.to_tensor(x, stop_gradient=False)
        out, _ = network(given, sequence_length=None if lengths is None else paddle.to_tensor(lengths, "int32"))
        (out * out).sum().backward()
        return [out.numpy(), given.grad, *(p.grad for p in network.parameters())]

    try:
        want = step("cpu")
        network = getattr(paddle.nn, mode)(4, 6, layers, direction)
        found = [step("gpu"), step("gpu")]
        driver.forget()
        found.append(step("gpu"))
    finally:
        paddle.set_device("cpu")
    assert not [kernel for kernel in driver.started if kernel.startswith("rnn")]
    for got in found:
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-5)


def test_dropout_between_layers_is_drawn_by_every_replay(driver):
    paddle.set_device("gpu")
    try:
        network, x = paddle.nn.LSTM(4, 6, 3, dropout=0.5), on_device(np.ones((3, 5, 4), "float32"))

        def outs(seed: int) -> list:
            paddle.seed(seed)
            return [network(x)[0].numpy().tolist() for _ in range(4)]

        first = outs(7)
        driver.forget()
        assert outs(7) == first and first[0] != first[1] != first[2]
        assert driver.started == []
        network.eval()
        assert network(x)[0].numpy().tolist() == network(x)[0].numpy().tolist()
    finally:
        paddle.set_device("cpu")


def test_a_length_over_the_steps_is_found(driver):
    paddle.set_device("gpu")
    try:
        network, x = paddle.nn.GRU(4, 6), on_device(np.ones((2, 5, 4), "float32"))
        for _ in range(2):
            out, _ = network(x, sequence_length=paddle.to_tensor([5, 1], "int32"))
            out.numpy()
        with pytest.raises(IndexError, match="expected 0 <= id < 6, got 9"):
            network(x, sequence_length=paddle.to_tensor([5, 9], "int32"))[0].numpy()
    finally:
        paddle.set_device("cpu")


def test_shapes_that_always_change_are_not_recorded_for_ever(driver):
    """The calls of an operator with ever new shapes end as plain launches."""
    from agreement import tensor

    runtime = _cuda.runtime()
    for n in range(1, 70):
        lod = [[0, n]]
        y = paddle.nn.functional.relu(tensor(np.ones((n, 1)), lod, True))
        assert y.shape == [n, 1]
    assert runtime._keys["relu", True] == 69
    driver.forget()
    for n in (3, 69):
        paddle.nn.functional.relu(tensor(np.ones((n, 1)), [[0, n]], True))
    assert [k for k in driver.started if "relu" in k] == ["row_relu<double>"]
