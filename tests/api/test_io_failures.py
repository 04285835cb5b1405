"""DataLoader failures: a raising or killed worker, a killed parent, Ctrl-C, an early end."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

pytest.importorskip("paddle._core")

from paddle.io import DataLoader, Dataset, IterableDataset  # noqa: E402


class Behaves(Dataset):
    def __init__(self, act):
        self.act = act

    def __getitem__(self, idx):
        return self.act(idx)

    def __len__(self):
        return 12


class Custom(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")


def raising(error):
    def act(idx):
        if idx == 5:
            raise error
        return np.float32([idx])

    return act


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("bad sample"), ValueError),
        (KeyError("missing"), KeyError),
        (Custom(3, "own constructor"), RuntimeError),
        (type("Local", (Exception,), {})("of no module"), RuntimeError),
        (StopIteration("in a map dataset"), RuntimeError),
        (UnicodeDecodeError("utf8", b"x", 0, 1, "five arguments"), RuntimeError),
    ],
)
def test_raising_worker(error, kind):
    seen = []
    with pytest.raises(kind) as caught:
        for (x,) in DataLoader(Behaves(raising(error)), batch_size=2, num_workers=2):
            seen.append(x.numpy().ravel().tolist())
    text = str(caught.value)
    assert seen == [[0.0, 1.0], [2.0, 3.0]]  # all batches before the failing one
    assert f"DataLoader worker(0) caught {type(error).__name__}" in text
    assert "Traceback" in text and "in act" in text and "\n" in text
    assert str(error).strip("'") in text


def test_raising_in_this_process():
    with pytest.raises(ValueError, match="bad sample"):
        list(DataLoader(Behaves(raising(ValueError("bad sample"))), batch_size=2))


def test_raising_init_fn_and_iter():
    def init(worker_id):
        raise OSError("no such disk")

    with pytest.raises(OSError, match="no such disk"):
        list(DataLoader(Behaves(lambda i: np.float32([i])), num_workers=2, worker_init_fn=init))

    class NoIter(IterableDataset):
        pass

    with pytest.raises(NotImplementedError, match="__iter__"):
        list(DataLoader(NoIter(), num_workers=1))


def test_unpicklable_batch():
    loader = DataLoader(Behaves(lambda i: lambda: i), num_workers=1, collate_fn=lambda batch: batch)
    with pytest.raises((AttributeError, TypeError, RuntimeError), match="(?i)pickle|lambda"):
        list(loader)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killed_worker(how):
    def act(idx):
        if idx == 6:
            os.kill(os.getpid(), how)
        return np.float32([idx])

    start = time.monotonic()
    with pytest.raises(RuntimeError, match=f"workers exit unexpectedly, pids: .*{how.name}"):
        list(DataLoader(Behaves(act), batch_size=2, num_workers=2))
    assert time.monotonic() - start < 30  # not the loader's own timeout
    assert not multiprocessing.active_children()


def test_exiting_worker():
    with pytest.raises(RuntimeError, match="exited with code 7"):
        list(DataLoader(Behaves(lambda i: os._exit(7)), num_workers=1))


def test_killed_while_idle():
    iterator = iter(DataLoader(Behaves(lambda i: np.float32([i])), num_workers=1))
    next(iterator)
    os.kill(iterator._pool._processes[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(iterator)


def test_killed_while_a_grandchild_keeps_the_channel_open():
    def act(idx):
        if idx == 3:
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return np.float32([idx])

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(DataLoader(Behaves(act), num_workers=1))
    assert time.monotonic() - start < 15  # does not wait for the grandchild


@pytest.mark.parametrize("workers", [0, 1])
def test_stop_iteration_ends_no_pass(workers):
    def stop(batch):
        raise StopIteration

    class Stops(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return i if i < 2 else next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Stops(), num_workers=workers))
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Behaves(lambda i: i), collate_fn=stop, num_workers=workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_threads_share_a_pass(workers):
    pass_, got, errors = iter(DataLoader(Behaves(lambda i: i), num_workers=workers)), [], []

    def work():
        try:
            got.extend(int(batch[0]) for batch in pass_)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors and sorted(got) == list(range(12))


def test_early_end_leaves_no_process():
    for _ in DataLoader(Behaves(lambda i: np.zeros(100_000)), num_workers=2):
        break
    assert not multiprocessing.active_children()
    start = time.monotonic()
    iterator = iter(DataLoader(Behaves(lambda i: time.sleep(60)), num_workers=2))
    del iterator
    assert not multiprocessing.active_children() and time.monotonic() - start < 40


def test_a_forked_process_that_exits_does_not_end_the_workers():
    code = """
        import os, sys
        import numpy as np
        import paddle

        class Some(paddle.io.Dataset):
            def __len__(self):
                return 30

            def __getitem__(self, i):
                return np.ones(2)

        loader = iter(paddle.io.DataLoader(Some(), num_workers=2))
        next(loader)
        if os.fork() == 0:
            sys.exit(0)
        assert os.wait()[1] == 0
        assert len(list(loader)) == 29
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)


def test_two_loaders_at_once():
    make = lambda: DataLoader(Behaves(lambda i: np.float32([i])), num_workers=2)  # noqa: E731
    for (a,), (b,) in zip(make(), make(), strict=True):
        assert a.numpy() == b.numpy()
    assert not multiprocessing.active_children()


def test_the_wait_for_a_slow_worker_ends_after_the_timeout():
    def act(idx):
        time.sleep(60 if idx == 3 else 0)
        return np.float32([idx])

    start = time.monotonic()
    read = []
    with pytest.raises(RuntimeError, match=r"worker 1 \(pid \d+\) has not delivered a batch .*timeout=1"):
        for x in DataLoader(Behaves(act), batch_size=1, num_workers=2, timeout=1):
            read.append(float(x[0].numpy().ravel()[0]))
    assert read == [0, 1, 2] and time.monotonic() - start < 30
    assert not multiprocessing.active_children()


SCRIPT = textwrap.dedent(
    """
    import os, sys, time
    import numpy as np
    import paddle
    from paddle.io import DataLoader, Dataset

    class Slow(Dataset):
        def __getitem__(self, idx):
            if idx > 3:
                time.sleep(60)
            return np.zeros(100_000), np.int64([os.getpid()])
        def __len__(self):
            return 100

    for x, pid in DataLoader(Slow(), num_workers=2):
        print(int(pid.numpy().ravel()[0]), flush=True)
    """
)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_parent_leaves_nothing(how):
    before = set(os.listdir("/dev/shm"))
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids = {int(process.stdout.readline()) for _ in range(4)}
    assert len(pids) == 2 and all(alive(pid) for pid in pids)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # like a terminal
    else:
        process.send_signal(how)
    process.wait(8)
    deadline = time.monotonic() + 5
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)
    errors = process.stderr.read()
    if how == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1 and errors.count("Traceback") == 1
    assert set(os.listdir("/dev/shm")) <= before
