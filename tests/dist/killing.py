"""Jobs with killed and restarted servers and trainers, and the invariants of their results.

    python tests/dist/killing.py --seeds 1 2 3 --kills 20

kills this number of servers and of trainers of a job for each seed, and prints the results.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from ps_killed import LEDGERS, once
from test_parameter_server import LIMIT, Job, endpoints

SCRIPT = Path(__file__).with_name("ps_killed.py")
STEPS = 60


class Forked:
    """As subprocess.Popen, by a fork of this process, which has imported paddle: it starts at once."""

    def __init__(
        self, role: str, index: int, places: str, out: Path, name: str, log: Path, env: dict[str, str]
    ) -> None:
        import paddle

        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            to = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(to, 1)
            os.dup2(to, 2)
            # pytest has replaced these objects
            sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))
            os.environ.update(env)
            paddle.enable_static()
            # the module reads the environment when imported
            importlib.reload(importlib.import_module("ps_killed")).run(role, index, places, str(out), name)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, limit: float = LIMIT) -> int:
        end = time.monotonic() + limit
        while (code := self.poll()) is None:
            assert time.monotonic() < end, f"process {self.pid} does not end"
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Kills:
    """A job of servers and two trainers, whose processes are killed and restarted."""

    def __init__(
        self, folder: Path, name: str, steps: int = STEPS, servers: int = 2, forks: bool = False, **env: str
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.forks = forks
        self.job, self.name, self.places, self.servers = Job(folder, SCRIPT), name, endpoints(servers), servers
        keeps = {"FLAGS_ps_state_folder": str(folder / "state"), "FLAGS_ps_snapshot_steps": "7"}
        self.env = keeps | {"STEPS": str(steps), "OAR_PS_LOST_TRAINER": "wait"} | env
        for role, count in (("server", servers), ("trainer", 2)):
            for i in range(count):
                self.start(role, i)

    def start(self, role: str, index: int) -> None:
        if self.forks:
            out, log = (self.job.folder / f"{role}{index}.{end}" for end in ("npz", "log"))
            self.job.processes[f"{role}{index}"] = Forked(role, index, self.places, out, self.name, log, self.env)
        else:
            self.job.start(role, index, self.places, [self.name], **self.env)

    def done(self, trainer: int) -> int:
        """The number of finished steps of the trainer."""
        path = self.job.folder / f"trainer{trainer}.npz.steps"
        lines = path.read_text().split() if path.exists() else []
        return int(lines[-1]) + 1 if lines else 0

    def until(self, trainer: int, steps: int) -> None:
        end = time.monotonic() + LIMIT
        while self.done(trainer) < steps and time.monotonic() < end:
            codes = {tag: p.poll() for tag, p in self.job.processes.items()}
            assert not any(codes.values()), "\n".join(f"{t}: {c} {self.job.log(t)[-2000:]}" for t, c in codes.items())
            time.sleep(0.001)

    def kill(self, role: str, index: int) -> bool:
        """Kills and restarts it; whether it was still running."""
        process = self.job.processes[f"{role}{index}"]
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT)
        if process.returncode != -signal.SIGKILL:
            return False
        self.start(role, index)
        return True

    def end(self) -> list[dict[str, np.ndarray]]:
        """All parameters of both trainers, after a regular end."""
        try:
            for tag in ["trainer0", "trainer1"] + [f"server{i}" for i in range(self.servers)]:
                assert self.job.wait(tag) == 0, "\n".join(f"{t}: {self.job.log(t)[-2000:]}" for t in self.job.processes)
            return [dict(np.load(self.job.folder / f"trainer{i}.npz")) for i in range(2)]
        finally:
            self.job.end()


def check_history(values: dict[str, np.ndarray], applied=once) -> None:
    """Checks that every gradient of every trainer is applied exactly once."""
    for k in range(LEDGERS):
        times = values[f"ledger{k}"] / applied()
        assert np.isin(times, (0, 1)).all(), f"some count more than once: {times}"
        assert (times == 1).all(), f"lost: {np.argwhere(times == 0).tolist()} (trainer, step)"


def check_same(found: list[dict[str, np.ndarray]], wanted: list[dict[str, np.ndarray]]) -> None:
    for trainer, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=f"{name} of trainer {trainer}")


def campaign(folder: Path, name: str, seed: int, kills: int, bits: bool = False) -> dict[str, int]:
    """A job in which servers and trainers are killed at random times; raises unless every gradient is applied exactly
    once.

    With `bits` only servers are killed, and the result must equal that of an undisturbed job bit for bit. Returns the
    numbers of kills, and of those that left an incomplete record in a log.
    """
    draw, kinds = random.Random(seed), ["server"] if bits else ["server", "trainer"]
    steps = 12 * kills + 40
    every = str(draw.randrange(2, 12))
    job = Kills(folder, name, steps, forks=True, PAUSE="0.002", FLAGS_ps_snapshot_steps=every, OAR_INIT_TIMEOUT="60")
    killed = {"server": 0, "trainer": 0}
    try:
        todo = draw.sample(kinds * kills, len(kinds) * kills)
        moments = sorted(draw.sample(range(1, steps - 30), len(todo)))
        for role, moment in zip(todo, moments, strict=True):
            job.until(draw.randrange(2), moment)
            time.sleep(draw.uniform(0, 0.03))
            killed[role] += job.kill(role, draw.randrange(2))
        found = job.end()
    finally:
        job.job.end()
    if name.startswith("sgd"):
        check_history(found[0], lambda: once(1) if "async" in name else once())
    if bits:
        whole = Kills(folder / "whole", name, steps, forks=True, PAUSE="0", FLAGS_ps_state_folder="")
        check_same(found, whole.end())
    torn = sum(job.job.log(f"server{i}").count("no whole note") for i in range(2))
    return {
        "steps": steps,
        "gradients": 2 * steps,
        "servers": killed["server"],
        "trainers": killed["trainer"],
        "torn": torn,
    }


def main() -> None:
    ask = argparse.ArgumentParser(
        description="kill servers and trainers of a job, and check that every gradient counts once"
    )
    ask.add_argument("--seeds", type=int, nargs="+", default=[1])
    ask.add_argument("--kills", type=int, default=20, help="of servers, and as many of trainers, for each seed")
    ask.add_argument("--name", default="sgd+sparse+slice")
    ask.add_argument("--bits", action="store_true", help="kill servers only, and compare with an undisturbed job")
    given = ask.parse_args()
    for seed in given.seeds:
        since = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = campaign(Path(folder), given.name, seed, given.kills, given.bits)
        print(json.dumps({"seed": seed, **found, "seconds": round(time.monotonic() - since, 1)}), flush=True)


if __name__ == "__main__":
    main()
