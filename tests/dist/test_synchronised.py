"""sync_batch_norm over three processes equals batch_norm over the joined batches."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.distributed as dist
import pytest
from paddle import _core

N, C = 3, 4
SCALE, BIAS = np.linspace(0.5, 1.5, C), np.linspace(-1, 1, C)


def part(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Parts of different sizes, with distant means."""
    random = np.random.RandomState(rank)
    shape = (rank + 1, C, 2, 3)
    return random.normal(100.0 * rank, 1 + rank, shape), random.normal(size=shape)


def normalised(op: str, x: np.ndarray, dy: np.ndarray, **attrs) -> dict[str, np.ndarray]:
    ins = [paddle.to_tensor(a, stop_gradient=False) for a in (x, SCALE, BIAS)]
    running = [paddle.to_tensor(np.zeros(C)), paddle.to_tensor(np.ones(C))]
    out = getattr(_core.ops, op)(*ins, *running, momentum=0.8, **attrs)
    grads = paddle.grad([out[0]], ins, [paddle.to_tensor(dy)])
    names = ["y", "mean", "variance", "dx", "dscale", "dbias"]
    return {n: t.numpy() for n, t in zip(names, [*out[:3], *grads], strict=True)}


def sync():
    return normalised("sync_batch_norm", *part(dist.get_rank()))


def abn():
    return normalised("inplace_abn", *part(dist.get_rank()), use_sync_bn=True)


def layer():
    x = part(dist.get_rank())[0]
    net = paddle.nn.SyncBatchNorm.convert_sync_batchnorm(paddle.nn.BatchNorm2D(C))
    return {"y": net(paddle.to_tensor(x.astype("float32"))).numpy(), "mean": net._mean.numpy()}


@pytest.mark.operators("sync_batch_norm", "inplace_abn")
@pytest.mark.parametrize("how", [sync, abn])
def test_whole_batch(three, how) -> None:
    parts = [part(r) for r in range(N)]
    want = normalised("batch_norm", *(np.concatenate(p) for p in zip(*parts, strict=True)))
    found = three.run(how)
    for key in ("y", "dx"):
        np.testing.assert_allclose(np.concatenate([f[key] for f in found]), want[key], rtol=1e-6, atol=1e-8)
    for key in ("mean", "variance"):
        for f in found:
            np.testing.assert_allclose(f[key], want[key], rtol=1e-6)
    for key in ("dscale", "dbias"):
        np.testing.assert_allclose(sum(f[key] for f in found), want[key], rtol=1e-6, atol=1e-8)


def test_layer(three) -> None:
    xs = np.concatenate([part(r)[0] for r in range(N)])
    want = (xs - xs.mean((0, 2, 3), keepdims=True)) / np.sqrt(xs.var((0, 2, 3), keepdims=True) + 1e-5)
    found = three.run(layer)
    np.testing.assert_allclose(np.concatenate([f["y"] for f in found]), want, rtol=1e-3, atol=1e-4)
    for f in found:
        np.testing.assert_allclose(f["mean"], 0.1 * xs.mean((0, 2, 3)), rtol=1e-5)
