"""Operators and names of PaddlePaddle 2.0.2 that the package has: `make status`, `make status ARGS=missing`.

They are counted against the specification data (ops.json and api.json of spec/, or of the folder OAR_SPEC).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from specification import find, resolve

ROOT = Path(__file__).resolve().parent.parent


def is_there(name: str) -> bool:
    """Whether the package has this name, not only an object that raises at its use."""
    try:
        found = resolve(name)
    except (ImportError, AttributeError, NotImplementedError):
        return False
    return not getattr(found, "_oar_missing", False)


def operators(show: bool, spec: Path) -> None:
    from paddle import _core

    ours = {op["type"]: op for op in _core.op_table()}
    wanted = [o["type"] for o in json.loads((spec / "ops.json").read_text()) if o["source"] == "2.0.2"]
    have = [name for name in wanted if name in ours]
    print(f"operators          {len(have):5} / {len(wanted)}   ({len(ours)} in the table, gradients included)")
    outside = [op for op in ours.values() if op["needs"]]
    print(f"  without a kernel {len(outside):5}   (they raise an error that names what they need)")
    cases = recorded_cases()
    without = [n for n in have if n not in cases]
    print(f"  without a test   {len(without):5}")
    launchers = cuda_launchers()
    print(f"CUDA launchers     {len(launchers & set(ours)):5} / {len(ours)}   (python -m paddle._cuda lists the rest)")
    if show:
        print("\nmissing operators:", " ".join(n for n in wanted if n not in ours))
        print("\noperators without a kernel:")
        for op in outside:
            print(f"  {op['type']:28} {op['needs']}")
        print("\noperators without a test case:", " ".join(without))


def recorded_cases() -> set[str]:
    """Operators that tests/ops has a case for."""
    sys.path.insert(0, str(ROOT / "tests" / "ops"))
    from catalogue import cases, covered

    return set(cases()) | covered()


def cuda_launchers() -> set[str]:
    """Operators that have a CUDA launcher."""
    try:
        from paddle import _cuda
    except ImportError:
        return set()
    return set(_cuda.LAUNCHERS)


def names(show: bool, spec: Path) -> None:
    entries = json.loads((spec / "api.json").read_text())
    there = {e["name"]: is_there(e["name"]) for e in entries}
    print(f"API names          {sum(there.values()):5} / {len(there)}")
    seed = [e for e in entries if e["seed"]]
    print(f"  of the first list{sum(there[e['name']] for e in seed):5} / {len(seed)}")
    have, total = Counter(), Counter()
    for e in seed:
        total[e["section"]] += 1
        have[e["section"]] += there[e["name"]]
    for section, n in total.most_common():
        print(f"    {section:44} {have[section]:4} / {n}")
    if show:
        print("\nmissing names of the first list:", " ".join(e["name"] for e in seed if not there[e["name"]]))
        others = [e["name"] for e in entries if not e["seed"] and not there[e["name"]]]
        print("\nother missing names:", " ".join(others))


def main() -> None:
    show = "missing" in sys.argv[1:]
    try:
        spec = find("ops.json").parent
    except FileNotFoundError as error:
        sys.exit(f"status: {error}")
    operators(show, spec)
    names(show, spec)


if __name__ == "__main__":
    main()
