"""The main function of the launcher."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence

from . import cause, collective, guard, nodes, ps, store
from .args import LaunchError, parse
from .job import Job
from .logs import Log, Terminal, folder
from .process import Child, command, environment
from .supervise import Supervisor


def plan(args: argparse.Namespace) -> Job:
    """The job of this launcher."""
    if args.ps:
        return ps.plan(args)
    if ps.by_cloud(os.environ):
        return ps.plan_cloud(os.environ)
    return collective.plan(args)


def _announce(args: argparse.Namespace, job: Job, address: str, terminal: Terminal) -> None:
    names = [p.name for p in job.processes]
    shown = ", ".join(names) if len(names) <= 8 else f"{names[0]} to {names[-1]}"
    where = f"node {job.index} of {job.nodes}: " if job.nodes > 1 else ""
    logs = f"; logs in {args.log_dir}" if args.log_dir else ""
    terminal.say(f"launch: {where}{shown}; {len(job.endpoints)} trainers in all; rendezvous at {address}{logs}")


def _logs(args: argparse.Namespace, job: Job) -> list[Log | None]:
    if not args.log_dir:
        return [None] * len(job.processes)
    path = folder(args.log_dir)
    with open(os.path.join(path, "endpoints.log"), "w") as f:
        f.write("PADDLE_TRAINER_ENDPOINTS:\n" + "\n".join(job.endpoints) + "\n")
    return [Log(path, p.log, append=not job.ps) for p in job.processes]


def start(args: argparse.Namespace, terminal: Terminal) -> int:
    """Runs the job; returns the launcher's exit status."""
    if not os.path.exists(args.training_script):
        raise LaunchError(f"there is no script {args.training_script}")
    job = plan(args)
    lost = ps.Losses(os.environ) if job.ps else None
    held, address = store.host(job)
    store.settle(job, held, address)
    job.rendezvous(address)
    logs = _logs(args, job)
    watcher = guard.Guard()
    scratch = tempfile.mkdtemp(prefix="paddle-launch-")
    watcher.folder(scratch)
    shared = environment(os.environ)
    # 2.0.2's variables for Gloo. Our processes use PADDLE_MASTER instead.
    shared |= {
        "PADDLE_WITH_GLOO": os.environ.get("PADDLE_WITH_GLOO", "0"),
        "PADDLE_GLOO_RENDEZVOUS": "3",
        "PADDLE_GLOO_FS_PATH": scratch,
    }
    line = command(args.training_script, args.training_script_args, args.legacy)

    def everybody(supervisor: Supervisor) -> None:
        for process, log in zip(job.processes, logs, strict=True):
            if supervisor.stopping:
                return
            supervisor.add(Child(process, line, shared, log))

    def again(child: Child) -> Child:
        return Child(child.spec, line, shared, child.log)

    def connect(changed: Callable[[], None]) -> nodes.Nodes:
        return nodes.Nodes(job, held, address, store.limit(), changed)

    try:
        if args.print_config:
            _announce(args, job, address, terminal)
        # a server of a parameter-server job cannot detect the end of the others
        several = job.nodes > 1 and not job.ps
        return Supervisor(
            job,
            watcher,
            terminal,
            lambda: cause.reported(held),
            connect if several else None,
            (lost, again) if lost else None,
        ).run(everybody)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        watcher.close()


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the launcher with these arguments (default: the command line's); returns its exit status."""
    args = parse(argv)
    terminal = Terminal()
    try:
        return start(args, terminal)
    except LaunchError as e:
        terminal.say(f"launch: {e}")
        return 2
    except KeyboardInterrupt:
        return 130
