"""Processes that are killed, stopped, interrupted or raise: the others get an error that names them, and none hangs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import paddle
import paddle.distributed as dist
import pytest
from pool import Pool, environment


def wait_for_rank_one():
    if dist.get_rank() == 1:
        time.sleep(60)
    dist.all_reduce(paddle.zeros([4]))


def kind_and_text(pool: Pool, ranks) -> list[tuple[str, str]]:
    found = pool.answers(ranks, 30)
    assert all(kind == "error" for kind, _ in found), found
    return [(answer[0], answer[1]) for _, answer in found]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank_is_named_by_all_others(how):
    pool = Pool(3, OAR_HEARTBEAT_LIMIT="2")
    try:
        pool.run(dist.get_rank)  # all have joined
        pool.start(wait_for_rank_one)
        time.sleep(0.5)
        os.kill(pool.processes[1].pid, how)
        for kind, text in kind_and_text(pool, [0, 2]):
            assert kind == "EnforceNotMet"
            assert f"rank 1 on {socket.gethostname()}" in text and "all_reduce" in text, text
            assert ("died" if how == signal.SIGKILL else "silent") in text, text
    finally:
        pool.processes[1].kill()
        pool.close()


SCRIPT = """
import os, signal, sys, threading, time
import paddle, paddle.distributed as dist
dist.init_parallel_env()
rank = dist.get_rank()
dist.barrier()
"""


def launch(body: str, world: int = 2, env=None) -> list[subprocess.Popen]:
    """Starts ranks that run SCRIPT and `body`; the store lives as long as the process object of rank 0."""
    token = paddle._core.dist.fresh_token()
    store = paddle._core.dist.Store.host("127.0.0.1:0", "tests", token)
    text = SCRIPT + textwrap.dedent(body)
    made = []
    for rank in range(world):
        variables = environment(rank, world, store.address, token) if env is None else env(rank)
        made.append(
            subprocess.Popen(
                [sys.executable, "-c", text],
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    made[0].store = store  # type: ignore[attr-defined]
    return made


def ends(processes) -> list[tuple[int, str, str]]:
    found = []
    for p in processes:
        try:
            out, err = p.communicate(timeout=60)
        finally:
            p.kill()
        found.append((p.returncode, out, err))
    return found


def test_control_c_ends_a_wait():
    processes = launch(
        """
        if rank == 0:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                dist.all_reduce(paddle.zeros([4]))
            except KeyboardInterrupt:
                print("interrupted")
                raise
        else:
            try:
                dist.recv(paddle.zeros([4]), 0)
            except RuntimeError as e:
                print(e)
        """
    )
    (zero, out, _), (one, text, err) = ends(processes)
    assert zero != 0 and "interrupted" in out
    assert one == 0 and "rank 0 on" in text, (text, err)


def test_an_exception_is_reported_to_the_others():
    processes = launch(
        """
        if rank == 1:
            raise ValueError("the data are gone")
        dist.all_reduce(paddle.zeros([4]))
        """
    )
    (zero, _, err), (one, _, _) = ends(processes)
    assert zero == 1 and one == 1
    assert "rank 1 on" in err and "ValueError: the data are gone" in err, err


def test_sigusr1_prints_waits():
    processes = launch(
        """
        if rank == 0:
            threading.Timer(1.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            dist.barrier()
        else:
            time.sleep(2.5)
            dist.barrier()
        """
    )
    (zero, _, err), (one, _, _) = ends(processes)
    assert zero == one == 0
    assert "barrier" in err and "waiting for rank 1 on" in err, err


@pytest.mark.parametrize("master", [False, True])
def test_variables_set_by_hand(master):
    """No launcher: as in 2.0.2 rank 0 listens at the first endpoint, as in later versions at PADDLE_MASTER."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    endpoints = [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]

    def env(rank: int) -> dict[str, str]:
        return {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
            **({"PADDLE_MASTER": endpoints[1]} if master else {}),
        }

    processes = launch(
        """
        x = paddle.to_tensor([rank + 1.0])
        dist.all_reduce(x)
        env = dist.ParallelEnv()
        print(x.numpy()[0], env.rank, env.nranks, env.current_endpoint == env.trainer_endpoints[rank])
        """,
        env=env,
    )
    for rank, (code, out, err) in enumerate(ends(processes)):
        assert code == 0, err
        assert out.split() == ["3.0", str(rank), "2", "True"]


def test_a_missing_variable_is_named(monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    for name in ("PADDLE_TRAINER_ID", "PADDLE_MASTER"):
        monkeypatch.delenv(name, raising=False)
    try:
        with pytest.raises(ValueError, match="PADDLE_TRAINER_ID is needed"):
            dist.init_parallel_env()
        with pytest.raises(ValueError, match="init_parallel_env"):
            paddle._core.dist.get_group(3)
    finally:
        dist.parallel._global_parallel_env = None


def test_missing_ranks(monkeypatch):
    """A rank without others names the missing ranks."""
    token = paddle._core.dist.fresh_token()
    store = paddle._core.dist.Store.host("127.0.0.1:0", "tests", token)
    env = environment(0, 2, store.address, token, OAR_INIT_TIMEOUT="1")
    done = subprocess.run(
        [sys.executable, "-c", "import paddle; paddle.distributed.init_parallel_env()"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and "rank 1 of 2" in done.stderr, done.stderr


def test_the_store():
    d = paddle._core.dist
    token = d.fresh_token()
    assert len(token) == 32 and token != d.fresh_token()
    store = d.Store.host("127.0.0.1:0", "job", token)
    other = d.Store.connect(store.address, "job", token)
    store.set("a", b"1")
    assert other.get("a") == b"1" and other.peek("b") is None
    assert [store.add("n", 2), other.add("n", 3)] == [2, 5]
    assert store.compare_and_set("a", b"1", b"2") == b"2" and store.compare_and_set("a", b"1", b"3") == b"2"
    other.wait(["a"])
    other.barrier("alone", 1)
    assert other.delete("a") and not other.delete("a")
    with pytest.raises(RuntimeError, match="store get"):
        store.get("never", timeout=0.2)
    with pytest.raises(RuntimeError):
        d.Store.connect(store.address, "job", b"wrong", timeout=1.0)
    with pytest.raises(ValueError):
        store.get("a", timeout=-1.0)
