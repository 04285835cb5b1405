"""How far along everything is, counted against the specification data: `make status`, `make status ARGS=missing`.

The data (ops.json, api.json) lie outside the repository, in ../shared/spec or where OAR_SPEC points.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from specification import find, resolve

ROOT = Path(__file__).resolve().parent.parent


def is_there(name: str) -> bool:
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
    print(f"  that only say what they need {len(outside):4}")
    stage = spec / "stages" / "mechanism.txt"
    lines = [line for line in stage.read_text().splitlines() if line and line[0] != "#"]
    listed = [n for line in lines for n in line.split(":")[1].split()]
    print(f"  of mechanism.txt {sum(n in ours for n in listed):5} / {len(listed)}")
    cases = recorded_cases()
    without = [n for n in have if n not in cases]
    print(f"  without a case   {len(without):5}")
    launchers = cuda_launchers()
    print(f"CUDA launchers     {len(launchers & set(ours)):5} / {len(ours)}   (python -m paddle._cuda lists the rest)")
    if show:
        print("\noperators not there:", " ".join(n for n in wanted if n not in ours))
        print("\noperators that only say what they need:")
        for op in outside:
            print(f"  {op['type']:28} {op['needs']}")
        print("\nof mechanism.txt not there:", " ".join(n for n in listed if n not in ours))
        print("\noperators without a case:", " ".join(without))


def recorded_cases() -> set[str]:
    """Operators that tests/ops has a case for."""
    sys.path.insert(0, str(ROOT / "tests" / "ops"))
    from catalogue import cases, covered

    return set(cases()) | covered()


def cuda_launchers() -> set[str]:
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
    print(f"  seed names       {sum(there[e['name']] for e in seed):5} / {len(seed)}")
    have, total = Counter(), Counter()
    for e in seed:
        total[e["section"]] += 1
        have[e["section"]] += there[e["name"]]
    for section, n in total.most_common():
        print(f"    {section:44} {have[section]:4} / {n}")
    if show:
        print("\nseed names not there:", " ".join(e["name"] for e in seed if not there[e["name"]]))
        others = [e["name"] for e in entries if not e["seed"] and not there[e["name"]]]
        print("\nother names not there:", " ".join(others))


def main() -> None:
    show = "missing" in sys.argv[1:]
    found = find("ops.json")
    if found is None:
        sys.exit("status: no specification data; set OAR_SPEC to the folder that holds ops.json")
    operators(show, found.parent)
    names(show, found.parent)


if __name__ == "__main__":
    main()
