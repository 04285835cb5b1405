"""LoD of operands on a device: launchers read it and set that of results; maps made of it are uploaded once."""

import warnings

import numpy as np
import paddle
import pytest
from agreement import tensor
from paddle import _core, _cuda


def on_device(a, lod):
    return tensor(np.asarray(a), lod, True)


@pytest.fixture(autouse=True)
def no_fallback():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def lod_of(t):
    return t.value().get_tensor().lod()


def test_a_launcher_sees_the_levels_of_every_value(shim, monkeypatch):
    seen = []
    launcher = _cuda.LAUNCHERS["sequence_concat"]

    def watched(call):
        seen.append((call.lod("X"), call.lod("X", 1), call.lod("Out")))
        return launcher(call)

    monkeypatch.setitem(_cuda.LAUNCHERS, "sequence_concat", watched)
    _cuda.use(shim)
    x, y = on_device(np.arange(6.0).reshape(3, 2), [[0, 1, 3]]), on_device(np.arange(4.0).reshape(2, 2), [[0, 2, 2]])
    out = _core.ops.sequence_concat([x, y])
    assert seen == [([[0, 1, 3]], [[0, 2, 2]], [])]
    assert lod_of(out) == [[0, 3, 5]] and out.numpy()[:, 0].tolist() == [0, 0, 2, 2, 4]


def test_a_launcher_sets_a_lod_that_depends_on_values(shim):
    out = _core.ops.sequence_erase(on_device([[3], [1], [3], [2]], [[0, 2, 4]]), tokens=[3])
    assert out.place == paddle.CUDAPlace(0)
    assert lod_of(out) == [[0, 1, 2]] and out.numpy().tolist() == [[1], [2]]


def test_a_result_without_levels_has_no_lod(shim):
    x, y = on_device(np.ones((2, 3)), None), on_device(np.ones((4, 1)), [[0, 1, 4]])
    assert lod_of(_core.ops.sequence_expand(x, y)) == []


def test_maps_of_equal_offsets_are_uploaded_once(shim):
    x = on_device(np.arange(12.0).reshape(6, 2), [[0, 1, 4, 6]])
    _core.ops.sequence_reverse(x)
    shim.forget()
    for _ in range(3):
        _core.ops.sequence_reverse(x)
    assert shim.uploads == []
    _core.ops.sequence_reverse(on_device(np.arange(12.0).reshape(6, 2), [[0, 2, 4, 6]]))
    assert shim.uploads == [96, 48]  # the elements and the map of other offsets


@pytest.mark.parametrize("op", ["sequence_pool", "sequence_softmax", "sequence_reverse"])
def test_a_missing_lod_is_the_error_of_the_cpu(op, shim):
    errors = []
    for device in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=f"{op}.* LoD") as error:
                getattr(_core.ops, op)(tensor(np.ones((3, 1)), None, device))
            errors.append(str(error.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("activation", ["identity", "sigmoid", "tanh", "relu"])
def test_expansion_with_a_product_agrees_with_the_cpu(activation, shim):
    rng = np.random.default_rng(3)
    sizes = [((6, 3), [[0, 1, 4, 6]]), ((3, 2), None), ((3, 4), None)]
    values = [(rng.normal(size=shape), lod) for shape, lod in sizes]
    w, bias = rng.normal(size=(9, 5)), rng.normal(size=(1, 5))
    results = []
    for device in (True, False):
        parts = [tensor(a, lod, device) for a, lod in values]
        given = [tensor(a, None, device) for a in (w, bias)]
        results.append(_core.ops.fusion_seqexpand_concat_fc(parts, *given, fc_activation=activation))
    assert results[0].place == paddle.CUDAPlace(0) and lod_of(results[0]) == lod_of(results[1])
    np.testing.assert_allclose(results[0].numpy(), results[1].numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lengths", [[2, 0, 3], [1, 1, 1]])
def test_the_gradient_of_sequence_unpad(lengths, shim):
    found = []
    for device in (True, False):
        x, total = tensor(np.ones((3, 3, 2)), None, device), sum(lengths)
        d = tensor(np.arange(total * 2.0).reshape(total, 2), [np.cumsum([0, *lengths]).tolist()], device)
        grad = _core.ops.sequence_unpad_grad(x, d)
        assert grad.place == (paddle.CUDAPlace(0) if device else paddle.CPUPlace())
        found.append(grad.numpy().tolist())
    assert found[0] == found[1]
