"""A pool of joined processes that run functions: one start for many tests."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import traceback
from typing import Any

import paddle
from paddle import _core

_context = multiprocessing.get_context("spawn")


def environment(rank: int, world: int, master: str, token: bytes, **more: str) -> dict[str, str]:
    """The environment that a launcher sets."""
    return {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": str(world),
        "PADDLE_MASTER": master,
        "OAR_JOB_TOKEN": token.hex(),
        "OAR_JOB_NAME": "tests",
        "OAR_INIT_TIMEOUT": "60",
        "OAR_TIMEOUT": "60",
        **more,
    }


def _serve(pipe, env: dict[str, str], join: bool) -> None:
    os.environ.update(env)
    if join:
        paddle.distributed.init_parallel_env()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        if task is None:
            return
        module, name, args = task
        try:
            answer = ("ok", getattr(importlib.import_module(module), name)(*args))
        except Exception as e:  # noqa: BLE001
            answer = ("error", (type(e).__name__, str(e), traceback.format_exc()))
        pipe.send(answer)


class Pool:
    """`world` processes that have joined one job, or join by the functions they run."""

    def __init__(self, world: int, join: bool = True, **more: str) -> None:
        self.world = world
        token = _core.dist.fresh_token()
        self.store = _core.dist.Store.host("127.0.0.1:0", "tests", token)
        self.pipes, self.processes = [], []
        for rank in range(world):
            here, there = _context.Pipe()
            env = environment(rank, world, self.store.address, token, **more)
            process = _context.Process(target=_serve, args=(there, env, join), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def start(self, function, *args: Any) -> None:
        for pipe in self.pipes:
            pipe.send((function.__module__, function.__name__, args))

    def answers(self, ranks=None, timeout: float = 100) -> list[tuple[str, Any]]:
        """("ok", result) or ("error", (type, text, traceback)) of each rank."""
        found = []
        for rank in range(self.world) if ranks is None else ranks:
            assert self.pipes[rank].poll(timeout), f"rank {rank} does not answer"
            found.append(self.pipes[rank].recv())
        return found

    def run(self, function, *args: Any) -> list[Any]:
        """The function's result on every rank."""
        self.start(function, *args)
        found = self.answers()
        wrong = [f"rank {r}: {text[2]}" for r, (kind, text) in enumerate(found) if kind == "error"]
        assert not wrong, "\n".join(wrong)
        return [value for _, value in found]

    def close(self) -> None:
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass
        for process in self.processes:
            process.join(15)
            if process.is_alive():
                process.kill()
                process.join()
