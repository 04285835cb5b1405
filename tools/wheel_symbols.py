"""Whether a wheel runs where its name says: ``python tools/wheel_symbols.py WHEEL...`` checks the libraries in it.

manylinux_2_17 means: no symbol of a glibc newer than 2.17, and no other libraries than those that every Linux has;
musllinux_1_2: no symbol of glibc, and no other library than musl.
"""

from __future__ import annotations

import re
import struct
import sys
import zipfile
from pathlib import Path

#: what a manylinux_2_17 wheel may ask the system for (PEP 599, as far as this package does)
LIBRARIES = {
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
#: what a musllinux wheel may ask the system for (PEP 656): musl itself
MUSL = {"libc.so", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1", "libgcc_s.so.1"}
#: files without which users' type checkers see nothing
TYPES = ("paddle/py.typed", "paddle/_core.pyi", "paddle/_ops.pyi")
_DYNAMIC, _VERSIONS_NEEDED = 6, 0x6FFFFFFE
_NEEDED = 1


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()


def asks_for(data: bytes) -> tuple[set[str], set[str]]:
    """(libraries, versions of symbols) that a 64-bit little-endian ELF file asks the system for.

    Raises:
        ValueError: for another kind of file.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    start, size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
    # (type, offset, length, linked section, number of entries)
    at_rows = range(start, start + count * size, size)
    rows = [struct.unpack_from("<I", data, at + 4) + struct.unpack_from("<QQII", data, at + 24) for at in at_rows]
    libraries, versions = set(), set()
    for kind, offset, length, link, entries in rows:
        if kind not in (_DYNAMIC, _VERSIONS_NEEDED):
            continue
        strings = data[rows[link][1] : rows[link][1] + rows[link][2]]
        if kind == _DYNAMIC:
            pairs = struct.iter_unpack("<qQ", data[offset : offset + length])
            libraries |= {_text(strings, value) for tag, value in pairs if tag == _NEEDED}
            continue
        for _ in range(entries):
            _, names, _, name_at, next_at = struct.unpack_from("<HHIII", data, offset)
            at = offset + name_at
            for _ in range(names):
                _, _, _, name, step = struct.unpack_from("<IHHII", data, at)
                versions.add(_text(strings, name))
                at += step
            offset += next_at
    return libraries, versions


def problems(wheel: Path) -> list[str]:
    """Why the wheel does not run everywhere that its name says; empty when it does."""
    found = []
    tag = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    musl = "-musllinux_1_2_" in wheel.name
    if not musl and (tag is None or (int(tag[1]), int(tag[2])) > (2, 17)):
        found.append("its name says neither manylinux_2_17 nor musllinux_1_2")
    newest, allowed = ((0, 0), MUSL) if musl else ((2, 17), LIBRARIES)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        found += [f"{name} is not in it" for name in TYPES if name not in names]
        for name in names:
            if not re.search(r"\.so(\.|$)", name):
                continue
            libraries, versions = asks_for(archive.read(name))
            found += [f"{name} needs the library {library}" for library in sorted(libraries - allowed)]
            for version in sorted(versions):
                number = re.fullmatch(r"GLIBC_([\d.]+)", version)
                if number and tuple(map(int, number[1].split("."))) > newest:
                    found.append(f"{name} needs {version}")
    return found


def main() -> None:
    wheels = [Path(name) for name in sys.argv[1:]]
    if not wheels:
        sys.exit("usage: python tools/wheel_symbols.py WHEEL...")
    bad = [f"{wheel.name}: {problem}" for wheel in wheels for problem in problems(wheel)]
    if bad:
        sys.exit("\n".join(bad))
    print("\n".join(f"{wheel}: runs where its name says" for wheel in wheels))


if __name__ == "__main__":
    main()
