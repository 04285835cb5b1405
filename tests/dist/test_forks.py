"""Forked children of ranks, such as the workers of a DataLoader: they hold no connections of their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time

import numpy as np
import paddle
import paddle.distributed as dist
import pytest
from paddle.io import DataLoader, Dataset
from pool import Pool


def fork_and_wait():
    """Rank 1 has a child that keeps running; all others wait for rank 1."""
    if dist.get_rank() == 1:
        child = os.fork()
        if child == 0:
            signal.sigtimedwait([], 60)
            os._exit(0)
        return child
    return None


def wait_for_rank_one():
    if dist.get_rank() == 1:
        time.sleep(60)
    start = time.monotonic()
    try:
        dist.all_reduce(paddle.zeros([4]))
    except RuntimeError as e:
        return str(e), time.monotonic() - start


@pytest.mark.parametrize("shared", ["1", "0"])
def test_a_killed_rank_is_noticed_although_its_child_lives(shared):
    pool = Pool(3, OAR_HEARTBEAT_LIMIT="30", OAR_SHARED_MEMORY=shared)
    child = None
    try:
        child = pool.run(fork_and_wait)[1]
        pool.start(wait_for_rank_one)
        time.sleep(0.5)
        os.kill(pool.processes[1].pid, signal.SIGKILL)
        for kind, (text, _) in pool.answers([0, 2], 20):  # missed heartbeats would take 30 s
            assert kind == "ok" and f"rank 1 on {socket.gethostname()} died" in text, text
        os.kill(child, 0)
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
        pool.close()


class Numbers(Dataset):
    def __getitem__(self, i):
        return np.full([2], i, "float32")

    def __len__(self):
        return 8


def child_says(group, work):
    texts = []
    for call in (
        lambda: dist.all_reduce(paddle.ones([2]), group=group),
        lambda: dist.barrier(),
        lambda: dist.all_reduce(paddle.ones([2]), sync_op=False),
        lambda: work.wait(),
        lambda: dist.new_group([0, 1]),
        lambda: paddle._core.dist.abort("a child's reason is not its parent's"),
        lambda: paddle._core.dist.leave(),
        lambda: dist.is_initialized(),
    ):
        try:
            texts.append(str(call()))
        except (RuntimeError, ValueError) as e:
            texts.append(f"{type(e).__name__} {e}")
    return texts


def in_a_child():
    """A forked child cannot operate in its parent's groups, and ends regularly."""
    group = dist.new_group([0, 1, 2])
    work = dist.all_reduce(paddle.ones([2]), group=group, sync_op=False)
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(there, "\n".join(t.strip().split("\n")[-1] for t in child_says(group, work)).encode())
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here) as f:
        said = f.read().split("\n")
    os.waitpid(child, 0)
    work.wait()
    # a daemonic process may not have children of multiprocessing
    multiprocessing.current_process()._config["daemon"] = False
    loaded = sum(float(batch[0].sum()) for batch in DataLoader(Numbers(), batch_size=2, num_workers=2))
    x = paddle.to_tensor([1.0])
    dist.all_reduce(x, group=group)
    dist.all_reduce(x)
    return said, loaded, x.numpy().item()


def test_a_child_is_in_no_group(three):
    for said, loaded, total in three.run(in_a_child):
        assert loaded == 56.0 and total == 9.0
        assert all("forked from" in said[i] for i in (0, 3)), said
        # group 0 is that of the parent, if it was created there
        assert all("forked from" in said[i] or "init_parallel_env" in said[i] for i in (1, 2, 4)), said
        assert said[5:] == ["None", "None", "False"], said


def writes_to_gradients():
    """A child and its child write to gradients, which are in shared memory of the ranks."""
    model = paddle.DataParallel(paddle.nn.Linear(64, 300), group=dist.new_group([0, 1, 2]))
    model(paddle.ones([1, 64])).sum().backward()
    weight, bias = model.parameters()
    child = os.fork()
    if child == 0:
        try:
            same = weight.grad.tolist() == np.ones([64, 300]).tolist()
            weight._grad_ivar()[:] = 7.0
            bias._grad_ivar()[:] = 7.0
            grandchild = os.fork()
            if grandchild == 0:
                seven = float(bias.grad.sum()) == 7.0 * 300
                bias._grad_ivar()[:] = 8.0
                os._exit(0 if seven else 2)
            code = os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1])
            seven = float(weight.grad.sum()) == 7.0 * 64 * 300 and float(bias.grad.sum()) == 7.0 * 300
            os._exit(code if same and seven else 1)
        finally:
            os._exit(99)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    first = [float(p.grad.sum()) for p in (weight, bias)]
    model.clear_gradients()
    model(paddle.ones([1, 64])).sum().backward()
    return code, first, [float(p.grad.sum()) for p in (weight, bias)]


def test_what_a_child_writes_stays_with_it(three):
    assert three.run(writes_to_gradients) == [(0, [19200.0, 300.0], [19200.0, 300.0])] * 3


def joins_by_itself():
    """A child that joins another job."""
    store = paddle._core.dist.Store.host("127.0.0.1:0", "children", b"x")
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            try:
                os._exit(join_children(store.address, rank))
            finally:
                os._exit(99)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children]


def join_children(address, rank):
    os.environ.update(
        PADDLE_TRAINER_ID=str(rank),
        PADDLE_TRAINERS_NUM="2",
        PADDLE_MASTER=address,
        OAR_JOB_NAME="children",
        OAR_JOB_TOKEN=b"x".hex(),
    )
    dist.init_parallel_env()
    x = paddle.to_tensor([rank + 1.0])
    dist.all_reduce(x)
    paddle._core.dist.leave()  # without exit handlers the other rank would see a lost rank
    return int(x.numpy().item())


def test_children_that_join_a_job_of_their_own(three):
    assert three.run(joins_by_itself) == [[3, 3]] * 3
