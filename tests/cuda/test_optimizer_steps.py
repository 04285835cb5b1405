"""Steps over all parameters at once: one launch for an optimizer (adam's powers take another), two for clipping by the
global norm; they agree with the CPU."""

import warnings

import numpy as np
import paddle
import pytest

SHAPES = [(3, 7), (5,), (200, 300), (1,), (16385,)]
OPTIMIZERS = {
    "SGD": {},
    "Momentum": {"momentum": 0.9, "use_nesterov": True, "weight_decay": 0.01},
    "Adam": {},
    "AdamW": {"weight_decay": 0.1},
}
LAUNCHES = {
    "SGD": ["update_all<float, Sgd>"],
    "Momentum": ["update_all<float, Momentum>"],
    "Adam": ["update_all<float, Adam>", "powers<float>"],
    "AdamW": ["update_all<float, Adam>", "powers<float>"],
}


@pytest.fixture(autouse=True)
def no_fallback():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    paddle.set_device("cpu")


def trained(name, device, clip, record=None):
    paddle.set_device(device)
    parameters = []
    for i, shape in enumerate(SHAPES):
        p = paddle.create_parameter(list(shape), "float32")
        p.set_value(np.random.default_rng(i).normal(size=shape).astype("float32"))
        parameters.append(p)
    parameters[1].optimize_attr = {"learning_rate": 0.5}
    bound = paddle.nn.ClipGradByGlobalNorm(0.7) if clip else None
    optimizer = getattr(paddle.optimizer, name)(0.01, parameters=parameters, grad_clip=bound, **OPTIMIZERS[name])
    for _ in range(3):
        loss = sum((p * p * (1 + 0.1 * i)).sum() for i, p in enumerate(parameters))
        loss.backward()
        if record is not None:
            record.forget()
        optimizer.step()
        started = None if record is None else (list(record.started), list(record.downloads))
        optimizer.clear_grad()
    return [p.numpy() for p in parameters], started


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_one_launch(name, clip, shim):
    got, (started, downloads) = trained(name, "gpu", clip, shim)
    # The scaled rate of one parameter is computed once a step; the decay of Momentum's parameters is an operator's.
    started = [kernel for kernel in started if not kernel.startswith(("row_scale", "binary"))]
    assert started == (["squares_all<float>", "pack_all<float, true>"] if clip else []) + LAUNCHES[name]
    assert downloads == []
    want, _ = trained(name, "cpu", clip)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def test_a_parameter_with_another_reference_is_updated_by_its_operator(shim):
    paddle.set_device("gpu")
    parameters = [paddle.create_parameter([4], "float32") for _ in range(3)]
    kept = [p.cpu().numpy() for p in parameters]  # the host has copies
    sum(p.sum() for p in parameters).backward()
    shim.forget()
    paddle.optimizer.SGD(0.5, parameters=parameters).step()
    assert [k for k in shim.started if k.startswith("update")] == ["update<float, Sgd>"] * 3
    for p, before in zip(parameters, kept, strict=True):
        np.testing.assert_allclose(p.numpy(), before - 0.5, rtol=1e-6)


def test_a_sparse_gradient_is_updated_by_its_operator(shim):
    paddle.set_device("gpu")
    table = paddle.nn.Embedding(6, 3, sparse=True)
    dense = paddle.create_parameter([3], "float32")
    before = table.weight.cpu().numpy()
    (table(paddle.to_tensor([1, 4, 1])) * dense.detach().clip(1, 1)).sum().backward()
    dense.sum().backward()
    paddle.optimizer.SGD(1.0, parameters=[table.weight, dense]).step()
    want = before.copy()
    np.subtract.at(want, [1, 4, 1], 1.0)
    np.testing.assert_allclose(table.weight.numpy(), want, rtol=1e-6)


def test_an_update_counts_as_a_write_in_place(shim):
    paddle.set_device("gpu")
    parameters = [paddle.create_parameter([2], "float32") for _ in range(2)]
    sum(p.sum() for p in parameters).backward()
    versions = [p.inplace_version for p in parameters]
    paddle.optimizer.SGD(0.5, parameters=parameters).step()
    assert [p.inplace_version for p in parameters] == [v + 1 for v in versions]
