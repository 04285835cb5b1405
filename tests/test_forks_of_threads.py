"""Forks of a process whose other threads compute: the child finds every lock of the process free."""

import os
import subprocess
import sys

import pytest

CHILD = """
import os, signal, sys, threading
import numpy as np
import paddle

kind, forks = sys.argv[1], int(sys.argv[2])
if kind == "alloc":
    def work():
        (paddle.zeros([100_000]).reshape([10, 10_000]) + 1.0).sum()
if kind == "random":
    def work():
        paddle.rand([80_000])
if kind == "backward":
    layer, x = paddle.nn.Linear(300, 300), paddle.ones([300, 300])
    def work():
        (layer(x) ** 2).sum().backward()
        layer.clear_gradients()
if kind == "program":
    paddle.enable_static()
    x = paddle.static.data("x", [None, 64], "float32")
    loss = paddle.mean(paddle.static.nn.fc(x, 500))
    paddle.optimizer.Adam(0.1).minimize(loss)
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    data = np.ones((40, 64), "float32")
    def work():
        exe.run(feed={"x": data}, fetch_list=[loss])

def run():
    while True:
        try:
            work()
        except Exception:
            pass  # threads share parameters

work()
for _ in range(int(sys.argv[3])):
    threading.Thread(target=run, daemon=True).start()
sys.setswitchinterval(1e-5)
hung = 0
for _ in range(forks):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            work()
        except Exception:
            pass
        os._exit(0)
    hung += os.waitpid(pid, 0)[1] != 0
print(hung, flush=True)
os._exit(0)
"""


def hung(kind: str, forks: int, threads: int) -> int:
    command = [sys.executable, "-W", "ignore", "-c", CHILD, kind, str(forks), str(threads)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("kind", ["alloc", "random", "backward", "program"])
def test_a_forked_child_waits_for_no_thread_of_its_parent(kind):
    assert hung(kind, 20, 3) == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("kind", ["alloc", "random", "backward", "program"])
def test_ten_thousand_forks(kind, part):
    """`OAR_FORKS` sets the number of each kind; a part of them ends within the time limit of a test."""
    assert hung(kind, int(os.environ.get("OAR_FORKS", "2500")) // 10, 8) == 0
