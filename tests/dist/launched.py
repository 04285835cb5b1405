"""The script started by the launcher's tests, with a mode for each kind of behaviour."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time


def env(folder: str, *more: str) -> None:
    """Writes the environment of this process, its cores and arguments."""
    role, rank = os.environ.get("TRAINING_ROLE", "TRAINER"), os.environ.get("PADDLE_TRAINER_ID", "")
    name = f"{role}.{rank or os.environ.get('PADDLE_PORT')}.json"
    known = {"environ": dict(os.environ), "cores": sorted(os.sched_getaffinity(0)), "argv": sys.argv[1:]}
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as f:
        json.dump(known, f)
    os.rename(path + ".new", path)
    print("hello of", role, rank)


def fail(how: str, failing: str = "1") -> None:
    """Rank `failing` fails: by an exit code, an exception or a signal. The others wait."""
    if os.environ["PADDLE_TRAINER_ID"] == failing:
        print("about to fail")
        if how == "raise":
            raise ValueError("rank fails on purpose")
        if how.isdigit():
            sys.exit(int(how))
        os.kill(os.getpid(), getattr(signal, how))
    time.sleep(60)


def late(failing: str = "1") -> None:
    """Rank `failing` fails; the others report an error a moment later."""
    rank = os.environ["PADDLE_TRAINER_ID"]
    if rank == failing:
        sys.exit(7)
    time.sleep(0.5)
    print(f"rank {rank} reports its own error")
    sys.exit(9)


def stubborn(folder: str) -> None:
    """Ignores SIGTERM and SIGINT, and has a child that does, too."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    wait = "import signal, time; signal.signal(15, signal.SIG_IGN); signal.signal(2, signal.SIG_IGN); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-S", "-c", wait])
    write_pids(folder, os.getpid(), child.pid)
    time.sleep(60)


def polite(folder: str) -> None:
    """Cleans up on SIGTERM."""
    rank = os.environ["PADDLE_TRAINER_ID"]

    def clean(number, frame):
        with open(os.path.join(folder, f"cleaned.{rank}"), "w") as f:
            f.write(signal.Signals(number).name)
        sys.exit(0)

    signal.signal(signal.SIGINT, clean)
    signal.signal(signal.SIGTERM, clean)
    write_pids(folder, os.getpid())
    time.sleep(60)


def leave(folder: str) -> None:
    """Ends successfully, and leaves a child running."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    write_pids(folder, child.pid)


def report(folder: str) -> None:
    """Rank 1 handles SIGUSR1; rank 0, without a handler, must survive it."""
    rank = os.environ["PADDLE_TRAINER_ID"]
    if rank == "1":
        signal.signal(signal.SIGUSR1, lambda *_: print("rank 1 reports: waiting for rank 0"))
    write_pids(folder, os.getpid())
    limit = time.monotonic() + 60
    while not os.path.exists(os.path.join(folder, "stop")) and time.monotonic() < limit:
        time.sleep(0.02)


def server(folder: str) -> None:
    """Parameter-server mode: servers run until terminated; workers end when all servers have started."""
    env(folder)
    if os.environ["TRAINING_ROLE"] != "TRAINER":
        time.sleep(600)
    for port in (e.split(":")[1] for e in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")):
        while not os.path.exists(os.path.join(folder, f"PSERVER.{port}.json")):
            time.sleep(0.02)


def many(lines: str) -> None:
    for i in range(int(lines)):
        print(f"line {i}")


def await_file(folder: str, failing: str) -> None:
    """Rank `failing` waits for a file; the others end at once."""
    rank = os.environ["PADDLE_TRAINER_ID"]
    write_pids(folder, os.getpid())
    while rank == failing and not os.path.exists(os.path.join(folder, "stop")):
        time.sleep(0.02)


def late_total(folder: str) -> None:
    """Rank 1 joins the others once a file exists."""
    import joining

    while os.environ["PADDLE_TRAINER_ID"] == "1" and not os.path.exists(os.path.join(folder, "stop")):
        time.sleep(0.02)
    print("total", joining.total())


def count(folder: str) -> None:
    """Counts in a file, until another file exists."""
    path = os.path.join(folder, f"count.{os.environ['PADDLE_TRAINER_ID']}")
    write_pids(folder, os.getpid())
    n = 0
    while not os.path.exists(os.path.join(folder, "stop")):
        n += 1
        with open(path, "w") as f:
            f.write(str(n))
        time.sleep(0.02)


def nothing() -> None:
    return


def write_pids(folder: str, *pids: int) -> None:
    path = os.path.join(folder, f"pids.{os.environ['PADDLE_TRAINER_ID']}")
    with open(path + ".new", "w") as f:
        f.write(" ".join(map(str, pids)))
    os.rename(path + ".new", path)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
