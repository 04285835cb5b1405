"""Writes THIRD_PARTY_LICENSES.txt: the licences of all crates that are linked into the wheel.

Needs `cargo install cargo-bundle-licenses`. Run it after a change of Cargo.lock: tests/test_wheel.py compares the two.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "THIRD_PARTY_LICENSES.txt"
#: The platforms of wheels.
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin")
#: Of several licences that a crate offers, the first one here is taken.
PREFERRED = ("Apache-2.0", "MIT", "BSD-3-Clause", "BSD-2-Clause", "Zlib", "ISC", "Unicode-3.0")


def linked_crates() -> set[tuple[str, str]]:
    """(name, version) of the crates of other projects that the extension module is linked from."""
    found = set()
    for target in TARGETS:
        command = ["cargo", "tree", "--locked", "-e", "normal", "--prefix", "none", "-p", "oar", "--target", target]
        for line in subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines():
            name, version, *rest = line.split()
            if not any(part.startswith("(/") for part in rest):
                found.add((name, version.removeprefix("v")))
    return found


def main() -> None:
    """Writes the file."""
    crates = linked_crates()
    with TemporaryDirectory() as folder:
        out = Path(folder) / "licences.json"
        command = ["cargo", "bundle-licenses", "--format", "json", "--output", str(out)]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
        listed = json.loads(out.read_text())["third_party_libraries"]
    texts: dict[str, list[str]] = {}
    rows = []
    for crate in listed:
        if (crate["package_name"], crate["package_version"]) not in crates:
            continue
        offered = {entry["license"]: entry["text"].strip() for entry in crate["licenses"]}
        known = [name for name in PREFERRED if offered.get(name, "NOT FOUND") != "NOT FOUND"]
        # "A AND B" needs both texts, "A OR B" one.
        chosen = known if " AND " in crate["license"] else known[:1]
        if not chosen:
            raise SystemExit(f"{crate['package_name']}: no text of a licence was found: {crate['license']}")
        label = f"{crate['package_name']} {crate['package_version']}"
        rows.append(f"{label:32} {crate['license']:36} {crate['repository']}")
        for name in chosen:
            texts.setdefault(offered[name], []).append(label)
    parts = ["Crates that are linked into paddle/_core.abi3.so\n", "\n".join(sorted(rows))]
    for text, labels in sorted(texts.items(), key=lambda item: item[1]):
        parts += ["\n" + "=" * 100, ", ".join(sorted(labels)), "=" * 100 + "\n", text]
    FILE.write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
