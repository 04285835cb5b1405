"""Runs public fluid programs, unmodified, on two Pythons, and prints how far their losses are apart.

    python tests/acceptance/run.py SOURCES --theirs PYTHON_WITH_1.8.5 [--ours PYTHON] [--only TEXT] [--work DIR]

SOURCES has the folders that programs.py names, fetched beforehand; DIR keeps what the programs wrote and printed. A row
compares losses pair by pair (relative to the larger): of the first run of each Program, which has seen no training
(`first`), and of the first twenty (`all`); the parameters where a program trains from a dataset, which has no
losses to see; and what Programs without a loss gave (`outputs`). Where they are too far apart 1.8.5 runs once more from
values that differ in the last digit, which says how far the program itself carries that. Models that the programs saved
are then loaded by the other Python, and fed the same numbers.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import data
from programs import PROGRAMS

HERE = Path(__file__).resolve().parent


class Side:
    """One of the two Pythons, and its copy of the sources."""

    def __init__(self, name, python, work, more_path):
        self.name, self.python, self.folder = name, python, work / name
        paths = [str(self.folder), *more_path]
        self.environment = {
            **os.environ,
            "HOME": str(work / "home"),
            "OMP_NUM_THREADS": "1",
            "CPU_NUM": "1",
            "PYTHONHASHSEED": "0",
            "PATH": os.path.dirname(python) + os.pathsep + os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(paths),
            "GLOG_v": "0",
            "GLOG_minloglevel": "2",
            "PYTHONWARNINGS": "ignore",
        }

    def start(self, program, sources, change=0.0):
        """The running program, and where its losses will be; `change` is that of initial values, relative."""
        folder = self.folder / program.source
        if program.source == "paddlerec":
            if not folder.is_dir():
                shutil.copytree(sources / program.source, folder)
        else:
            folder = self.folder / program.name.replace("/", "-")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(sources / program.source / program.folder, folder, symlinks=True)
        losses = self.folder / (program.name.replace("/", "-") + (".changed" if change else ".losses"))
        words = [word.replace("{home}", self.environment["HOME"]) for word in program.command]
        command = [self.python, str(HERE / "child.py"), str(losses), str(program.losses or 1 << 30), *words]
        log = open(losses.with_suffix(".log"), "w")
        paths = self.environment["PYTHONPATH"] + os.pathsep + str(folder)
        environment = {**self.environment, "CHANGE": str(change), "PYTHONPATH": paths}
        child = subprocess.Popen(
            command,
            cwd=folder / program.inside,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return child, losses


def finish(child, deadline):
    """The exit status, or "late"."""
    try:
        return child.wait(max(1, deadline - time.time()))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        child.wait()
        return "late"


def read(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def apart(ours, theirs):
    """The largest difference of two lists of numbers, relative to what is beyond 1."""
    if len(ours) != len(theirs):
        return float("inf")
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        difference = apart(a, b) if isinstance(a, list) else abs(a - b) / max(1.0, abs(a), abs(b))
        worst = max(worst, float("inf") if difference != difference else difference)
    return worst


def compared(ours, theirs):
    """The columns of a row: how many losses, and the differences."""
    columns = {"first": 0.0, "all": 0.0, "outputs": 0.0}
    known, losses = set(), 0
    for (kind, a), (other, b) in zip(ours, theirs, strict=False):
        if kind != other:
            return {**columns, "losses": losses, "note": f"{kind} here is {other} there"}
        difference = apart(a, b)
        if kind.startswith("loss"):
            losses += 1
            if kind not in known:
                columns["first"] = max(columns["first"], difference)
            known.add(kind)
            if losses <= 20:
                columns["all"] = max(columns["all"], difference)
        elif kind.startswith("parameter"):
            columns["all"] = max(columns["all"], difference)
        else:
            columns["outputs"] = max(columns["outputs"], difference)
    parameters = sum(kind.startswith("parameter") for kind, _ in ours)
    return {**columns, "losses": losses or f"{parameters} p", "note": ""}


def exchange(sides, work):
    """Models that each Python saved, loaded by both."""
    for saver in sides:
        folders = sorted({str(p.parent) for p in saver.folder.rglob("__model__")})
        if not folders:
            continue
        found = []
        for reader in sides:
            out = work / f"{saver.name}-{reader.name}.models"
            command = [reader.python, str(HERE / "exchange.py"), str(out), *folders]
            subprocess.run(command, env=reader.environment, cwd=work, timeout=600, check=False)
            found.append(json.loads(out.read_text()) if out.exists() else {})
        print(f"\nsaved by {saver.name}, outputs there and here:")
        for folder in folders:
            ours, theirs = (f.get(folder, "nothing came") for f in found)
            failed = [t for t in (ours, theirs) if isinstance(t, str)]
            verdict = "; ".join(failed) if failed else f"{apart(ours, theirs):.1e}"
            print(f"  {os.path.relpath(folder, saver.folder):75} {verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--ours", default=sys.executable)
    parser.add_argument("--theirs", required=True)
    parser.add_argument("--only", default="", help="programs whose name has this text; several separated by commas")
    parser.add_argument("--work", type=Path, default=Path("acceptance-work"))
    parser.add_argument("--path", action="append", default=[], help="a folder of modules for our Python")
    parser.add_argument("--theirs-path", action="append", default=[], help="the same for theirs")
    parser.add_argument("--no-models", action="store_true")
    given = parser.parse_args()
    work = given.work.absolute()
    data.make(str(work / "home"))
    theirs = Side("theirs", os.path.expanduser(given.theirs), work, given.theirs_path)
    sides = [Side("ours", given.ours, work, given.path), theirs]
    for side in sides:
        side.folder.mkdir(parents=True, exist_ok=True)
    print(f"{'program':38} {'losses':>6} {'first':>8} {'all':>8} {'outputs':>8}")
    missed = 0
    for program in PROGRAMS:
        if not any(text in program.name for text in given.only.split(",")):
            continue
        if not (given.sources / program.source / program.folder).is_dir():
            print(f"{program.name:38} not fetched")
            continue
        deadline = time.time() + program.seconds
        started = [side.start(program, given.sources.absolute()) for side in sides]
        statuses = [finish(child, deadline) for child, _ in started]
        row = compared(*(read(losses) for _, losses in started))
        counts = [len(read(losses)) for _, losses in started]
        note = row["note"] or ("" if counts[0] == counts[1] else f"{counts[0]} records here, {counts[1]} there")
        note += "" if statuses == [0, 0] else f" ended with {statuses[0]} here, {statuses[1]} there"
        good = row["first"] <= 1e-5 and row["all"] <= 1e-3 and not row["note"] and min(counts) > 0
        missed += not good
        if not good and min(counts) and not row["note"]:
            child, changed = sides[1].start(program, given.sources.absolute(), 1e-7)
            finish(child, time.time() + program.seconds)
            own = compared(read(changed), read(started[1][1]))["all"]
            note += f" (1.8.5, initial values changed by 1e-7: {own:.1e})"
        print(
            f"{program.name:38} {row['losses']:>6} {row['first']:8.1e} {row['all']:8.1e} {row['outputs']:8.1e} "
            f"{'' if good else 'NO '}{note}",
            flush=True,
        )
    if not given.no_models:
        exchange(sides, work)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
