"""The command line of ``python -m paddle.legacy``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from paddle._basics import flags, mode

from . import runner

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m paddle.legacy",
        usage="%(prog)s [--as 1.8] [--explain] SCRIPT.py [ARGS...]  (or -m MODULE [ARGS...])",
        description="Runs a program that was written for Paddle 1.x and the Python, numpy, Pillow and PyYAML of its "
        "day. The names that these have removed come back for the program's own modules.",
    )
    parser.add_argument("--as", dest="release", choices=["1.8", "2.0"], help="the release whose arithmetic is computed")
    parser.add_argument("--explain", action="store_true", help="print at exit what was changed")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's arguments")
    return parser


def choose_release(release: str) -> None:
    """Sets FLAGS_compat, in this process and in those that it starts. A program of 1.8 begins in static mode."""
    os.environ["FLAGS_compat"] = release
    flags.set_flags({"FLAGS_compat": release})
    if release == "1.8":
        mode.choose_static()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line `argv`; ends as the program ends.

    Raises:
        SystemExit: always.
    """
    args = _parser().parse_args(argv)
    if args.release:
        choose_release(args.release)
    if args.explain:
        runner.explain()
    try:
        (runner.run_module if args.module else runner.run_script)(args.script, args.arguments)
    except (OSError, ImportError) as error:
        sys.stderr.write(f"python -m paddle.legacy: {error}\n")
        raise SystemExit(2) from None
    raise SystemExit(0)
