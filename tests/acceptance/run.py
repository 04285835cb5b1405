"""Runs public fluid programs, unmodified, here and on PaddlePaddle 1.8.5, and prints how far their losses are apart.

    python tests/acceptance/run.py SOURCES --theirs PYTHON_WITH_1.8.5 [--ours PYTHON ...] [--legacy] [--as 1.8]
        [--only TEXT] [--work DIR] [--json FILE]

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

    def __init__(self, name, python, work, more_path, **environment):
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
            **environment,
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


def numpy_of(python, environment):
    """The release of numpy that a Python has."""
    command = [python, "-c", "import numpy; print(numpy.__version__)"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def judged(row, records, statuses):
    """Whether a row is good, and what is to be said of it."""
    note = row["note"] or ("" if records[0] == records[1] else f"{records[0]} records here, {records[1]} there")
    note += "" if statuses == [0, 0] else f" ended with {statuses[0]} here, {statuses[1]} there"
    return row["first"] <= 1e-5 and row["all"] <= 1e-3 and not row["note"] and min(records) > 0, note


def shown(records):
    """The last of the first twenty losses, or the mean magnitude of the parameters."""
    losses = [values for kind, values in records if kind.startswith("loss")][:20]
    others = [values for kind, values in records if kind.startswith("parameter")]
    if losses:
        return losses[-1][0]
    return sum(values[1] for values in others) / len(others) if others else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--ours", action="append", help="a Python that has this package; several give a row each")
    parser.add_argument("--theirs", required=True)
    parser.add_argument("--legacy", action="store_true", help="start programs here by paddle.legacy")
    parser.add_argument("--as", dest="release", choices=["1.8", "2.0"], default="2.0", help="the arithmetic here")
    parser.add_argument("--only", default="", help="programs whose name has this text; several separated by commas")
    parser.add_argument("--work", type=Path, default=Path("acceptance-work"))
    parser.add_argument("--path", action="append", default=[], help="a folder of modules for our Python")
    parser.add_argument("--theirs-path", action="append", default=[], help="the same for theirs")
    parser.add_argument("--json", type=Path, help="a file that gets a line of JSON for each row")
    parser.add_argument("--no-models", action="store_true")
    given = parser.parse_args()
    work = given.work.absolute()
    data.make(str(work / "home"))
    theirs = Side("theirs", os.path.expanduser(given.theirs), work, given.theirs_path)
    chosen = {"FLAGS_compat": given.release, **({"LEGACY": "1"} if given.legacy else {})}
    pythons = given.ours or [sys.executable]
    ours = [Side(f"ours{i or ''}", python, work, given.path, **chosen) for i, python in enumerate(pythons)]
    for side in (*ours, theirs):
        side.folder.mkdir(parents=True, exist_ok=True)
        side.numpy = numpy_of(side.python, side.environment)
    print(f"{'program':38} {'numpy':>7} {'losses':>6} {'first':>8} {'all':>8} {'outputs':>8}")
    missed = 0
    for program in PROGRAMS:
        if not any(text in program.name for text in given.only.split(",")):
            continue
        if not (given.sources / program.source / program.folder).is_dir():
            print(f"{program.name:38} not fetched")
            continue
        started = [side.start(program, given.sources.absolute()) for side in (theirs, *ours)]
        deadline = time.time() + program.seconds
        statuses = [finish(child, deadline) for child, _ in started]
        expected, *found = (read(losses) for _, losses in started)
        own = None
        for side, records, status in zip(ours, found, statuses[1:], strict=True):
            row = compared(records, expected)
            counts = [len(records), len(expected)]
            good, note = judged(row, counts, [status, statuses[0]])
            missed += not good
            if not good and min(counts) and not row["note"]:
                if own is None:
                    child, changed = theirs.start(program, given.sources.absolute(), 1e-7)
                    finish(child, time.time() + program.seconds)
                    own = compared(read(changed), expected)["all"]
                note += f" (1.8.5, initial values changed by 1e-7: {own:.1e})"
            print(
                f"{program.name:38} {side.numpy:>7} {row['losses']:>6} {row['first']:8.1e} {row['all']:8.1e} "
                f"{row['outputs']:8.1e} {'' if good else 'NO '}{note}",
                flush=True,
            )
            if given.json:
                last = {"ours": shown(records), "theirs": shown(expected)}
                with given.json.open("a") as file:
                    name = {"program": program.name, "numpy": side.numpy, "good": good, "note": note, "own": own}
                    file.write(json.dumps({**name, **row, "note": note, **last}) + "\n")
    if not given.no_models:
        for side in ours:
            exchange((side, theirs), work)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
