"""Trains LeNet by the dygraph, static and fluid examples, compares their losses and loads their models; then trains
with two processes, each with half of every batch.

    python examples/demo.py [--out FOLDER] [--compare PYTHON] [--compare-fluid PYTHON]

With --compare the dygraph and the static example also run on that Python (with Paddle 2.6.2, for example), with
--compare-fluid the fluid one (Paddle 1.8.5), and the curves are compared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import digits
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("dygraph", "static", "fluid")
STEPS = 100


def run(python, kind, *options):
    """Runs an example in a process of its own; its report, and the seconds of the whole process."""
    script = os.path.join(HERE, "lenet_%s.py" % kind)
    # PYTHONPATH is for this Python only.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or python == sys.executable}
    begin = time.perf_counter()
    child = subprocess.run([python, script, *options], stdout=subprocess.PIPE, text=True, env=env)
    if child.returncode:
        raise SystemExit("demo: %s has failed on %s (status %d)" % (script, python, child.returncode))
    return json.loads(child.stdout.splitlines()[-1]), time.perf_counter() - begin


def train(python, kind, data, folder, init):
    """Train and save, then test what was saved in a new process: [kind, accuracy, again, seconds, of the process]."""
    out = os.path.join(folder, kind)
    options = ["--data", data, "--out", out]
    result, whole = run(python, kind, *options, *(["--init", init] if init else []))
    again, _ = run(python, kind, *options, "--test")
    return result["accuracy"], again["accuracy"], result["seconds"], whole


def losses(folder, kind):
    return np.load(os.path.join(folder, kind, "losses.npy"))[:STEPS]


def compare(name, kinds, folder, limit, reference, problems):
    """The largest difference of each curve from the reference's."""
    for kind in kinds:
        apart = float(np.abs(losses(folder, kind) - reference).max())
        print("  %-34s differs by at most %.1e in %d steps" % (name % kind, apart, STEPS))
        if not apart <= limit:
            problems.append("the losses of %s differ by more than %g" % (name % kind, limit))


def table(name, python, kinds, data, folder, init, problems):
    """Train the examples on one Python, and print a line for each."""
    os.makedirs(folder, exist_ok=True)
    for kind in kinds:
        # Programs draw parameters in another order than dygraph mode, and 1.8 has other generators.
        given = init or (None if kind == "dygraph" else os.path.join(folder, "dygraph", "init.npz"))
        accuracy, again, seconds, whole = train(python, kind, data, folder, given)
        print(
            "  %-16s held-out %.2f %%, loaded in a new process %.2f %%, trained in %.2f s, whole process %.2f s"
            % (name % kind, 100 * accuracy, 100 * again, seconds, whole),
            flush=True,
        )
        if accuracy != again:
            problems.append("%s: the loaded model is another one" % (name % kind))
        if accuracy < 0.97:
            problems.append("%s: less than 97 %% right" % (name % kind))


def in_two_processes(data, folder, problems):
    """One training by a process alone, and by two that the launcher starts."""
    script = os.path.join(HERE, "parallel_lenet.py")
    logs = ["--log_dir", os.path.join(folder, "logs")]
    launch = ["-m", "paddle.distributed.launch", "--nproc_per_node", "2", *logs]
    commands = {"alone": [script], "parallel": [*launch, script]}
    for kind, command in commands.items():
        options = ["--data", data, "--out", os.path.join(folder, kind)]
        child = subprocess.run([sys.executable, "-W", "ignore", *command, *options], stdout=subprocess.PIPE, text=True)
        if child.returncode:
            raise SystemExit("demo: %s has failed (status %d)" % (kind, child.returncode))
        lines = [line for line in child.stdout.splitlines() if line.startswith("{")]
        found = json.loads(lines[-1])
        accuracy, seconds = 100 * found["accuracy"], found["seconds"]
        print("  %-16s held-out %.2f %%, trained in %.2f s" % (kind, accuracy, seconds), flush=True)
        if found["accuracy"] < 0.97:
            problems.append("%s: less than 97 %% right" % kind)
    compare("%s", ["parallel"], folder, 1e-4, losses(folder, "alone"), problems)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="keep the models there")
    parser.add_argument("--compare", metavar="PYTHON", help="another Python for the dygraph and static examples")
    parser.add_argument("--compare-fluid", metavar="PYTHON", help="another Python for the fluid example")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.out or scratch
        os.makedirs(folder, exist_ok=True)
        data = os.path.join(folder, "digits.npz")
        problems = []
        begin = time.perf_counter()
        train_images, _, test_images, _ = digits.load_data(data)
        print(
            "LeNet, %d digits to learn, %d held out, %d epochs of batches of %d"
            % (len(train_images), len(test_images), digits.EPOCHS, digits.BATCH),
            flush=True,
        )
        table("%s", sys.executable, KINDS, data, folder, None, problems)
        print("three curves from the same initial values:")
        reference = losses(folder, "dygraph")
        compare("%s", KINDS[1:], folder, 1e-5, reference, problems)
        print("in two processes:")
        in_two_processes(data, folder, problems)
        print("all in %.1f s" % (time.perf_counter() - begin))
        for python, kinds in ((args.compare, KINDS[:2]), (args.compare_fluid, KINDS[2:])):
            if python:
                print("compared with " + python + ":")
                other = os.path.join(folder, "compared")
                init = os.path.join(folder, "dygraph", "init.npz")
                table("%s", python, kinds, data, other, init, problems)
                compare("%s", kinds, other, 1e-4, reference, problems)
    for problem in problems:
        print("demo: " + problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
