"""DataParallel on 2 and 3 processes equals training by one process on the whole batch; replicas stay equal."""

from __future__ import annotations

import hashlib
import warnings

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn as nn
import paddle.nn.functional as F
import pytest
from test_collective import group

BATCH, STEPS = 12, 20


class Mlp(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 4))

    def forward(self, x):
        return self.body(x)


class Conv(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(1, 4, 3, padding=1)
        self.pool = nn.MaxPool2D(2, 2)
        self.fc = nn.Linear(4 * 2 * 2, 4)

    def forward(self, x):
        x = self.pool(F.relu(self.conv(x[:, :16].reshape([-1, 1, 4, 4]))))
        return self.fc(paddle.flatten(x, 1))


class Shared(nn.Layer):
    """A layer that is used three times, and an unused one."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 20)
        self.never = nn.Linear(3, 3)
        self.last = nn.Linear(20, 4)

    def forward(self, x):
        for _ in range(3):
            x = paddle.tanh(self.first(x))
        return self.last(x)


class Rows(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 6, sparse=True)
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        ids = paddle.cast(x[:, :5] * 7 + 15, "int64")
        return self.fc(self.table(ids).sum(1))


class Wide(nn.Layer):
    """A gradient with a bucket of its own."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 4000)
        self.last = nn.Linear(4000, 4)

    def forward(self, x):
        return self.last(paddle.tanh(self.first(x)))


MODELS = {"mlp": Mlp, "conv": Conv, "shared": Shared, "rows": Rows, "wide": Wide}


def data(step: int):
    state = np.random.RandomState(step)
    return state.uniform(-1, 1, [BATCH, 20]).astype("float32"), state.randint(0, 4, [BATCH, 1]).astype("int64")


def digest(layer) -> str:
    found = hashlib.sha256()
    for p in layer.parameters():
        found.update(p.numpy().tobytes())
    return found.hexdigest()


def fit(model, me: int, n: int, steps: int = STEPS, adam: bool = False):
    kind = paddle.optimizer.Adam if adam else paddle.optimizer.SGD
    optimizer = kind(learning_rate=0.1 if not adam else 0.01, parameters=model.parameters())
    losses, marks = [], []
    for step in range(steps):
        x, y = (a[me * BATCH // n : (me + 1) * BATCH // n] for a in data(step))
        loss = F.cross_entropy(model(paddle.to_tensor(x)), paddle.to_tensor(y))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        marks.append(digest(model))
    return losses, marks


def parallel(n: int, kind: str, options: dict, adam: bool = False):
    me = dist.get_rank()
    if me >= n:
        return None
    paddle.seed(5 + me)  # the ranks start differently: rank 0's parameters count
    g = group(n)
    overlap = options.pop("overlap", False)
    model = paddle.DataParallel(MODELS[kind](), group=g, **options)
    model._reducer.overlap = overlap
    found = fit(model, me, n, adam=adam)
    return (*found, [p.grad is None for p in model.parameters()], model._reducer.layout())


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("buckets", ["one", "many", "overlapping"])
def test_training_is_that_of_one_process(three, n, kind, buckets):
    small = {"comm_buffer_size": 0.0005, "last_comm_buffer_size": 0.00005}
    options = {"one": {}, "many": small, "overlapping": {**small, "overlap": True}}[buckets]
    found = three.run(parallel, n, kind, options)[:n]
    for marks in zip(*[f[1] for f in found], strict=True):
        assert len(set(marks)) == 1
    paddle.seed(5)
    losses, _ = fit(MODELS[kind](), 0, 1)
    mean = np.mean([f[0] for f in found], axis=0)
    np.testing.assert_allclose(mean[0], losses[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(mean, losses, rtol=0, atol=1e-5)
    layout = found[0][3]
    assert (len(layout) > 1) == (buckets != "one" or kind == "wide") and layout == found[-1][3]
    assert layout == sorted(layout, reverse=True)


def test_adam_leaves_unused_parameters_alone(three):
    found = three.run(parallel, 2, "shared", {}, True)[:2]
    assert found[0][1] == found[1][1]


class Branch(nn.Layer):
    """Rank 1 takes another branch than the others."""

    def __init__(self):
        super().__init__()
        self.left = nn.Linear(3, 1, bias_attr=False)
        self.right = nn.Linear(3, 1, bias_attr=False)
        self.never = nn.Linear(3, 1, bias_attr=False)

    def forward(self, x):
        return (self.right if dist.get_rank() == 1 else self.left)(x)


def branches(find_unused: bool):
    paddle.seed(1)
    model = paddle.DataParallel(Branch(), group=group(3), find_unused_parameters=find_unused)
    x = paddle.to_tensor(np.full([1, 3], 1.0 + dist.get_rank(), "float32"))
    try:
        model(x).sum().backward()
    except RuntimeError as e:
        return str(e)
    return [None if p.grad is None else np.asarray(p.grad).ravel().tolist() for p in model.parameters()]


def test_a_parameter_that_only_some_ranks_use(three):
    for left, right, never in three.run(branches, True):
        np.testing.assert_allclose(left, [4 / 3] * 3, rtol=1e-6)  # (1 + 0 + 3) / 3
        np.testing.assert_allclose(right, [2 / 3] * 3, rtol=1e-6)
        assert never is None
    assert all("find_unused_parameters=True" in text for text in three.run(branches, False))


def accumulated():
    me = dist.get_rank()
    paddle.seed(1)
    model = paddle.DataParallel(nn.Linear(2, 1, bias_attr=False), group=group(3))
    x = paddle.to_tensor(np.full([1, 2], me + 1.0, "float32"))
    out = []
    with model.no_sync():
        model(x).sum().backward()
        out.append(np.asarray(model.parameters()[0].grad).ravel().tolist())
    model(x).sum().backward()
    out.append(np.asarray(model.parameters()[0].grad).ravel().tolist())
    # paddle.grad does not average
    w = model.parameters()[0]
    out.append(paddle.grad([model(x).sum()], [w])[0].numpy().ravel().tolist())
    return out


def test_no_sync_and_partial_gradients(three):
    for rank, (first, second, own) in enumerate(three.run(accumulated)):
        assert first == [rank + 1.0] * 2 and second == [4.0] * 2 and own == [rank + 1.0] * 2


def kept():
    """References to earlier gradients: Tensors, and numpy views."""
    n = dist.get_world_size()
    paddle.seed(1)
    model = paddle.DataParallel(nn.Linear(40, 300), group=group(n))
    weight, bias = model.parameters()
    seen = []
    mine = dist.get_rank() + 1.0

    def steps(of, clear=True):
        for step in of:
            (model(paddle.full([1, 40], mine)).sum() * float(step)).backward()
            seen.append((step, weight._grad_ivar(), bias.grad))
            if clear:
                model.clear_gradients()

    steps([1, 2, 3])
    steps([7, 8], clear=False)
    return [(step, np.unique(w.numpy()).tolist(), np.unique(b).tolist()) for step, w, b in seen]


def test_gradients_that_are_kept_stay_as_they_were(three):
    for found in three.run(kept):
        for step, w, b in found[:-1]:
            assert (w, b) == ([2.0 * step], [step]), step  # the ranks' inputs are 1, 2 and 3
        assert found[-1][1:] == ([2.0 * 15], [15.0])


def saved():
    model = paddle.DataParallel(Mlp(), group=group(3))
    state = model.state_dict()
    keys = sorted(state)
    zeros = {k: np.zeros(v.shape, "float32") for k, v in state.items()}
    model.set_state_dict(zeros)
    loss = model(paddle.ones([1, 20])).sum()
    assert model.scale_loss(loss) is loss and model.apply_collective_grads() is None
    return keys, float(loss)


def test_the_model_behind_the_wrapper_is_saved(three):
    for keys, loss in three.run(saved):
        assert keys == sorted(Mlp().state_dict()) and loss == 0.0


def two_models():
    """Two models in one job, as of a generator and its critic; gradients come in different orders."""
    paddle.seed(dist.get_rank())
    a, b = (paddle.DataParallel(nn.Linear(3, 3), group=group(3)) for _ in range(2))
    x = paddle.ones([2, 3])
    b(a(x)).mean().backward()
    a(x).mean().backward()
    both = [*a.parameters(), *b.parameters()]
    return [np.asarray(p.grad).tobytes() for p in both], digest(a) + digest(b)


def test_two_models(three):
    found = three.run(two_models)
    assert found[0] == found[1] == found[2]


def test_one_process_trains_as_ever():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = paddle.DataParallel(Mlp())
    assert "single rank" in str(seen[0].message)
    paddle.seed(5)
    assert fit(model, 0, 1, 3)[0][0] > 0
    with pytest.raises(RuntimeError, match="init_parallel_env"):
        strategy = dist.parallel.ParallelStrategy()
        strategy.nranks = 2
        paddle.DataParallel(Mlp(), strategy)
