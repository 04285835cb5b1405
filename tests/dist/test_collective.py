"""Every collective on 2 and 3 processes: element types, reductions, empty Tensors, errors that name both sides."""

from __future__ import annotations

import re

import numpy as np
import paddle
import paddle.distributed as dist
import pytest
from paddle.distributed import ReduceOp

REAL = ["float16", "float32", "float64", "int16", "int32", "int64", "uint8", "int8"]
SHAPES = [(1,), (3, 5), (2, 0, 3), (1000, 7)]
_made: dict[int, object] = {}


def group(n: int):
    """The group of the first n ranks, created once in every process."""
    if n not in _made:
        _made[n] = dist.new_group(list(range(n)))
    return _made[n]


def value(rank: int, shape, dtype: str, salt: int = 0) -> np.ndarray:
    """Small numbers, so that sums and products are exact in every type."""
    numbers = np.random.RandomState(7 * rank + salt).randint(1, 4, size=shape)
    return np.asarray(numbers, dtype=dtype)


tensor = paddle.to_tensor


def reductions(n: int, dtype: str):
    g, me, out = group(n), dist.get_rank(), []
    if me >= n:
        return None
    for shape in SHAPES:
        for op in range(5):
            if op == ReduceOp.AVG and dtype != "float32":
                continue
            data = tensor(value(me, shape, dtype))
            dist.all_reduce(data, op, g)
            late = tensor(value(me, shape, dtype))
            work = dist.all_reduce(late, op, g, sync_op=False)
            work.wait()
            assert work.is_completed() and late.numpy().tobytes() == data.numpy().tobytes()
            root = tensor(value(me, shape, dtype))
            dist.reduce(root, n - 1, op, g)
            part = tensor(np.zeros(shape, dtype))
            dist.reduce_scatter(part, [tensor(value(me, shape, dtype, salt)) for salt in range(n)], op, g)
            out.append((shape, op, data.numpy(), root.numpy(), part.numpy()))
    return out


_COMBINE = {
    ReduceOp.SUM: lambda a: a.sum(0, dtype=a.dtype),
    ReduceOp.MAX: lambda a: a.max(0),
    ReduceOp.MIN: lambda a: a.min(0),
    ReduceOp.PROD: lambda a: a.prod(0, dtype=a.dtype),
    ReduceOp.AVG: lambda a: a.mean(0, dtype=a.dtype),
}


def objects(n: int):
    """What each collective of objects gives on this rank; sizes differ."""
    g, me = group(n), dist.get_rank()
    if me >= n:
        return None
    gathered: list = ["first"]
    dist.all_gather_object(gathered, {"rank": me, "data": "x" * (10 * me), "none": None}, g)
    sent = [("from", me), np.arange(3 * me), ""]
    dist.broadcast_object_list(sent, n - 1, g)
    own = [0, 1]
    dist.scatter_object_list(own, [[rank] * (5 * rank) for rank in range(n)] if me == 1 else None, 1, g)
    return gathered, [sent[0], sent[1].tolist(), sent[2]], own


@pytest.mark.parametrize("n", [2, 3])
def test_objects(three, n):
    for rank, (gathered, sent, own) in enumerate(three.run(objects, n)[:n]):
        assert gathered == ["first", *({"rank": r, "data": "x" * (10 * r), "none": None} for r in range(n))]
        assert sent == [("from", n - 1), list(range(3 * (n - 1))), ""]
        assert own == [[rank] * (5 * rank)]


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("dtype", REAL)
def test_reductions(three, n, dtype):
    found = three.run(reductions, n, dtype)[:n]
    for cases in zip(*found, strict=True):
        shape, op = cases[0][:2]
        want = _COMBINE[op](np.stack([value(r, shape, dtype) for r in range(n)]))
        for rank, (_, _, reduced, root, part) in enumerate(cases):
            np.testing.assert_allclose(reduced, want, rtol=1e-6)
            assert reduced.tobytes() == cases[0][2].tobytes() and reduced.shape == want.shape
            kept = want if rank == n - 1 else value(rank, shape, dtype)
            np.testing.assert_allclose(root, kept, rtol=1e-6)
            mine = _COMBINE[op](np.stack([value(r, shape, dtype, rank) for r in range(n)]))
            np.testing.assert_allclose(part, mine, rtol=1e-6)


def moves(n: int, dtype: str):
    g, me, out = group(n), dist.get_rank(), []
    if me >= n:
        return None
    for shape in SHAPES:
        sent = tensor(value(me, shape, dtype))
        dist.broadcast(sent, n - 1, g)
        gathered: list = []
        dist.all_gather(gathered, tensor(value(me, shape, dtype)), g)
        later: list = []
        work = dist.all_gather(later, tensor(value(me, shape, dtype)), g, sync_op=False)
        dist.wait(later[0], g)
        assert work.is_completed()
        got = tensor(np.zeros(shape, dtype))
        parts = [tensor(value(9, shape, dtype, r)) for r in range(n)] if me == 0 else None
        dist.scatter(got, parts, 0, g)
        swapped: list = []
        dist.all_to_all([tensor(value(me, shape, dtype, r)) for r in range(n)], swapped, g)
        ring = tensor(np.zeros(shape, dtype))
        if me % 2 == 0:
            dist.send(tensor(value(me, shape, dtype)), (me + 1) % n, g)
            dist.recv(ring, (me - 1) % n, g)
        else:
            dist.recv(ring, (me - 1) % n, g)
            dist.send(tensor(value(me, shape, dtype)), (me + 1) % n, g)
        lists = [[t.numpy() for t in some] for some in (gathered, later, swapped)]
        out.append((shape, sent.numpy(), got.numpy(), ring.numpy(), *lists))
    dist.barrier(g)
    return out


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("dtype", [*REAL, "bool"])
def test_moves(three, n, dtype):
    found = three.run(moves, n, dtype)[:n]
    for cases in zip(*found, strict=True):
        for rank, (shape, sent, got, ring, gathered, later, swapped) in enumerate(cases):
            same = np.testing.assert_array_equal

            def want(r, salt=0, shape=shape):
                return value(r, shape, dtype, salt)

            same(sent, want(n - 1))
            same(got, want(9, rank))
            same(ring, want((rank - 1) % n))
            for r in range(n):
                same(gathered[r], want(r))
                same(later[r], want(r))
                same(swapped[r], want(r, rank))
            assert gathered[0].dtype == np.dtype(dtype) and len(gathered) == len(swapped) == n


def bfloat16():
    data = paddle.to_tensor([1.0, 2.0, 257.0]).astype("bfloat16")
    dist.all_reduce(data)
    return data.astype("float32").numpy()


def test_bfloat16(three):
    for found in three.run(bfloat16):
        np.testing.assert_array_equal(found, [3.0, 6.0, 768.0])


def shares():
    """In-place results reach the aliases of a Tensor (2.0.2's views), and are detected by backward."""
    whole = paddle.to_tensor(np.ones([2, 3], "float32"))
    view = whole.reshape([6])
    before = view.inplace_version
    dist.all_reduce(view)
    assert whole.numpy().tolist() == [[3.0] * 3] * 2
    assert view.numpy().tolist() == [3.0] * 6 and view.inplace_version > before
    w = paddle.to_tensor(np.ones([3], "float32"), stop_gradient=False)
    x = paddle.to_tensor(np.ones([3], "float32"))
    y = w * x
    dist.all_reduce(x)
    try:
        y.sum().backward()
    except RuntimeError as e:
        return str(e)


def test_sharing_and_versions(three):
    assert all("modified by an inplace operation" in text for text in three.run(shares))


def recorded():
    """Gradients flow through all_reduce and all_gather; a leaf that requires one is not written."""
    me = dist.get_rank()
    x = paddle.to_tensor(np.ones([3], "float32"), stop_gradient=False)
    try:
        dist.all_reduce(x)
        raise AssertionError("a leaf was written")
    except ValueError as e:
        assert "cannot be changed in place" in str(e)
    y = x * 2
    dist.all_reduce(y)
    total = y.numpy().tolist()
    (y * (me + 1.0)).sum().backward()
    summed = np.asarray(x.grad).tolist()
    x.clear_grad()
    parts: list = []
    dist.all_gather(parts, x * 2)
    sum((p * (i + 1.0)).sum() for i, p in enumerate(parts)).backward()
    gathered = np.asarray(x.grad).tolist()
    with paddle.no_grad():
        dist.all_reduce(x)
    return total, summed, gathered, x.numpy().tolist()


def test_gradients(three):
    for rank, (total, summed, gathered, plain) in enumerate(three.run(recorded)):
        assert total == [6.0] * 3 and plain == [3.0] * 3
        assert summed == [2.0 * (1 + 2 + 3)] * 3
        assert gathered == [2.0 * 3 * (rank + 1)] * 3  # on all three ranks


class _Exchanges(paddle.nn.Layer):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x):
        y, parts = x * 2, []
        if self.how == "all_gather":
            dist.all_gather(parts, y)
            return parts[0] + 1
        if self.how == "later":
            dist.all_reduce(y, sync_op=False).wait()
        else:
            dist.broadcast(y, 0) if self.how == "broadcast" else dist.all_reduce(y)
        return y + 1


def traced(how: str):
    try:
        paddle.jit.TracedLayer.trace(_Exchanges(how), [paddle.ones([2, 3])])
    except RuntimeError as e:
        return str(e)


@pytest.mark.parametrize("how", ["all_reduce", "broadcast", "all_gather", "later"])
def test_a_traced_layer_with_collectives_is_refused(three, how):
    assert all("from another process while the layer ran" in text for text in three.run(traced, how))


def disagree(how: str):
    g = dist.new_group([0, 1, 2])
    me = dist.get_rank()
    if how == "shape":
        dist.all_reduce(paddle.zeros([2 + (me == 1)]), group=g)
    elif how == "dtype":
        dist.all_reduce(paddle.zeros([4], "int64" if me == 1 else "float32"), group=g)
    elif how == "op":
        dist.all_reduce(paddle.zeros([4]), ReduceOp.MAX if me == 1 else ReduceOp.SUM, g)
    elif how == "operation":
        (dist.broadcast if me == 1 else dist.reduce)(paddle.zeros([4]), 0, group=g)
    elif how == "root":
        dist.broadcast(paddle.zeros([4]), int(me == 1), g)


@pytest.mark.parametrize(
    "how, sides",
    [
        ("shape", ["[2]", "[3]"]),
        ("dtype", ["float32", "int64"]),
        ("op", ["sum", "max"]),
        ("operation", ["reduce", "broadcast"]),
        ("root", ["0", "1"]),
    ],
)
def test_disagreement_raises_everywhere(three, how, sides):
    three.start(disagree, how)
    for kind, answer in three.answers():
        assert kind == "error"
        assert answer[0] == "ValueError", answer
        assert "ranks disagree" in answer[1] and "rank 1 on" in answer[1], answer[1]
        for side in sides:
            assert side in answer[1], answer[1]
    # only the test's own group is broken
    assert three.run(bfloat16)[0].tolist() == [3.0, 6.0, 768.0]


# Calls with x (a Tensor), g (the group of three) and pair (that of ranks 0 and 1); the exception; its text.
WRONG = [
    ("all_reduce({no}, group=g)", TypeError, "'tensor' in all_reduce"),
    ("reduce({no}, 0, group=g)", TypeError, "'tensor' in reduce"),
    ("broadcast({no}, 0, g)", TypeError, "'tensor' in broadcast"),
    ("all_gather([], {no}, g)", TypeError, "'tensor' in all_gather"),
    ("scatter({no}, [x, x, x], 0, g)", TypeError, "'tensor' in scatter"),
    ("scatter(x, [x, {no}, x], dist.get_rank(), g)", TypeError, r"'tensor_list\[1\]' in scatter"),
    ("reduce_scatter({no}, [x, x, x], group=g)", TypeError, "'tensor' in reduce_scatter"),
    ("reduce_scatter(x, [x, x, {no}], group=g)", TypeError, r"'tensor_list\[2\]' in reduce_scatter"),
    ("all_to_all([{no}, x, x], [], g)", TypeError, r"'in_tensor_list\[0\]' in all_to_all"),
    ("send({no}, 0, g)", TypeError, "'tensor' in send"),
    ("recv({no}, 0, g)", TypeError, "'tensor' in recv"),
    ("wait({no}, g)", TypeError, "'tensor' in wait"),
    ("split({no}, (3, 2), 'linear')", TypeError, "'x' in split"),
    ("all_gather((), x, g)", ValueError, "'tensor_list' for all_gather should be list"),
    ("scatter(x, x, dist.get_rank(), g)", ValueError, "'tensor_list' for scatter should be list"),
    ("reduce_scatter(x, 3, group=g)", ValueError, "'tensor_list' for reduce_scatter should be list"),
    ("all_to_all(None, [], g)", ValueError, "'in_tensor_list' for all_to_all should be list"),
    ("all_to_all([x, x, x], (), g)", ValueError, "'out_tensor_list' for all_to_all should be list"),
    ("scatter(x, [x], dist.get_rank(), g)", ValueError, "expected a list of 3 Tensors"),
    ("scatter(x, None, dist.get_rank(), g)", ValueError, r"Tensors \(one per rank\), got 0"),
    ("reduce_scatter(x, [x, x], group=g)", ValueError, r"Tensors \(one per rank\), got 2"),
    ("reduce_scatter(x, [x, x, paddle.zeros([3])], group=g)", ValueError, "Tensor 2 of the list"),
    ("all_to_all([x, x, x.astype('int32')], [], g)", ValueError, "Tensor 2 of the list is int32"),
    ("reduce(x, {rank}, group=g)", ValueError, "'dst' for reduce should be int"),
    ("broadcast(x, {rank}, g)", ValueError, "'src' for broadcast should be int"),
    ("scatter(x, [x, x, x], {rank}, g)", ValueError, "'src' for scatter should be int"),
    ("send(x, {rank}, g)", ValueError, "'dst' for send should be int"),
    ("recv(x, {rank}, g)", ValueError, "'src' for recv should be int"),
    ("reduce(x, {far}, group=g)", ValueError, "rank .* is not in group"),
    ("broadcast(x, {far}, g)", ValueError, "rank .* is not in group"),
    ("scatter(x, [x, x, x], {far}, g)", ValueError, "rank .* is not in group"),
    ("send(x, {far}, g)", ValueError, "rank .* is not in group"),
    ("recv(x, {far}, g)", ValueError, "rank .* is not in group"),
    ("broadcast(x, 2, pair)", ValueError, "rank 2 is not in group|not a member of group"),
    ("send(x, dist.get_rank(), g)", ValueError, ""),
    ("recv(x, dist.get_rank(), g)", ValueError, ""),
    ("all_reduce(x, {op}, g)", ValueError, "op must be one of"),
    ("reduce(x, 0, {op}, g)", ValueError, "op must be one of"),
    ("reduce_scatter(x, [x, x, x], {op}, g)", ValueError, "op must be one of"),
    ("all_reduce(x, group={group})", ValueError, "group"),
    ("reduce(x, 0, group={group})", ValueError, "group"),
    ("broadcast(x, 0, {group})", ValueError, "group"),
    ("all_gather([], x, {group})", ValueError, "group"),
    ("scatter(x, [x], 0, {group})", ValueError, "group"),
    ("reduce_scatter(x, [x], group={group})", ValueError, "group"),
    ("all_to_all([x], [], {group})", ValueError, "group"),
    ("send(x, 0, {group})", ValueError, "group"),
    ("recv(x, 0, {group})", ValueError, "group"),
    ("wait(x, {group})", ValueError, "group"),
    ("barrier({group})", ValueError, "group"),
    ("all_reduce(x.astype('complex64'), group=g)", ValueError, "complex64"),
    ("all_reduce(paddle.zeros([2], 'bool'), ReduceOp.AVG, g)", ValueError, ""),
    ("new_group([0, 0])", ValueError, "distinct"),
    ("new_group([5])", ValueError, "5"),
    ("new_group([-1])", ValueError, "-1"),
]
VALUES = {
    "no": ["None", "3.0", "np.zeros([2])", "[x]", "'x'"],
    "rank": ["None", "1.5", "'0'", "True", "x"],
    "far": ["3", "-1", "2 ** 40"],
    "op": ["9", "-1", "'sum'", "None", "[0]", "True", "1000"],
    "group": ["99", "-1", "None", "'0'", "[0]", "True", "1.0"],
}


def wrong_arguments():
    """For each call of WRONG with each of the values: the exception."""
    x, g, pair = paddle.zeros([2]), dist.new_group([0, 1, 2]), dist.new_group([0, 1])
    known = {**vars(dist), "x": x, "g": g, "pair": pair, "paddle": paddle, "np": np, "dist": dist, "ReduceOp": ReduceOp}
    found = []
    for call, kind, said in WRONG:
        name = next((n for n in VALUES if f"{{{n}}}" in call), None)
        for given in VALUES[name] if name else [""]:
            text = call.format(**{name: given}) if name else call
            try:
                eval(text, known)
                found.append((text, "nothing was raised"))
            except Exception as e:  # noqa: BLE001
                if type(e) is not kind or not re.search(said, str(e)):
                    found.append((text, f"{type(e).__name__}: {e}"))
    dist.barrier(g)
    return found


def test_wrong_arguments_change_nothing(three):
    assert three.run(wrong_arguments) == [[], [], []]


def not_a_member():
    pair = dist.new_group([0, 1])
    try:
        dist.all_reduce(paddle.zeros([2]), group=pair)
    except ValueError as e:
        return str(e)


def test_operating_outside_of_a_group(three):
    found = three.run(not_a_member)
    assert found[:2] == [None, None] and "not a member" in found[2]


def speaks():
    return dist.report()


def test_report(three):
    for rank, text in enumerate(three.run(speaks)):
        assert all(f"rank {r} on" in text for r in range(3)), (rank, text)
