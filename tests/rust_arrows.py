"""Dependencies between Rust files: `use` and paths in the code, resolved through `pub use` to the defining file."""

from __future__ import annotations

import re
from pathlib import Path

Module = tuple[str, tuple[str, ...]]  # a crate, and a path within it
TREE = re.compile(r"^((?:\w+::)*)\{(.*)\}$", re.S)
USE = re.compile(r"(\bpub(?:\([^)]*\))?\s+)?\buse ([\w:]+(?:\{[^;]*\})?[^;]*);", re.S)
PATH = re.compile(r"\b((?:crate|super|self|oar_\w+)(?:::\w+)+)")
MOD = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod (\w+);", re.M)


TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod \w+\s*([;{])")
INLINE_MODULE = re.compile(r"\bmod \w+\s*\{")
TOKEN = re.compile(r'r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\.[^\']*|[^\'\\])\'|[{}]', re.S)


def block_end(code: str, start: int) -> int:
    """The position after the brace that closes the block whose inside begins at `start`."""
    depth = 1
    for token in TOKEN.finditer(code, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return len(code)


def without_tests(code: str) -> str:
    """The code without its modules under `#[cfg(test)]`, whether they are declared or written out."""
    while found := TEST_MODULE.search(code):
        end = block_end(code, found.end()) if found[1] == "{" else found.end()
        code = code[: found.start()] + code[end:]
    return code


def code_of(path: Path) -> str:
    """The source without comments and tests. In inline modules, `super` is replaced by `self`: both are this file."""
    code = without_tests(re.sub(r"//.*", "", path.read_text()))
    for found in list(INLINE_MODULE.finditer(code)):
        end = block_end(code, found.end())
        code = code[: found.end()] + code[found.end() : end].replace("super::", " self::") + code[end:]
    return code


def leaves(tree: str) -> list[str]:
    """`a::{b, c::{d}}` -> `a::b`, `a::c::d`."""
    tree = tree.strip()
    branch = TREE.match(tree)
    if not branch:
        return [re.sub(r"\s+as\s+\w+$", "", tree)]
    parts, depth = [""], 0
    for c in branch[2]:
        if c == "," and depth == 0:
            parts.append("")
            continue
        depth += (c == "{") - (c == "}")
        parts[-1] += c
    return [branch[1] + leaf for part in parts if part.strip() for leaf in leaves(part)]


class Arrows:
    def __init__(self, root: Path) -> None:
        self.files: dict[Module, Path] = {}
        manifests = [p for p in root.rglob("Cargo.toml") if "fuzz" not in p.parts and "target" not in p.parts]
        self.crates = set()
        for manifest in manifests:
            name = re.search(r'name = "([^"]+)"', manifest.read_text())[1].replace("-", "_")
            self.crates.add(name)
            here = manifest.parent / "lib.rs"
            self._walk(name, (), here if here.exists() else manifest.parent / "src" / "lib.rs")
        self.reexports: dict[tuple[Path, str], Module] = {}
        for (crate, path), file in self.files.items():
            for _, tree in USE.findall(code_of(file)):
                for leaf in leaves(re.sub(r"\s+", " ", tree)):
                    if target := self._absolute(crate, path, leaf):
                        self.reexports[file, leaf.split("::")[-1]] = target

    def _walk(self, crate: str, path: tuple[str, ...], file: Path) -> None:
        self.files[crate, path] = file
        base = file.parent if file.name in ("lib.rs", "mod.rs") else file.with_suffix("")
        for name in MOD.findall(code_of(file)):
            for child in (base / f"{name}.rs", base / name / "mod.rs"):
                if child.exists():
                    self._walk(crate, (*path, name), child)

    def _absolute(self, crate: str, path: tuple[str, ...], name: str) -> Module | None:
        head, *rest = name.split("::")
        if head == "crate":
            return crate, tuple(rest)
        if head == "self":
            return crate, (*path, *rest)
        if head == "super":
            up = 1
            while rest and rest[0] == "super":
                up, rest = up + 1, rest[1:]
            return crate, (*path[: len(path) - up], *rest)
        if head in self.crates:
            return head, tuple(rest)
        return (crate, (*path, head, *rest)) if (crate, (*path, head)) in self.files else None

    def _file(self, crate: str, path: tuple[str, ...], depth: int = 0) -> Path:
        end = next(i for i in range(len(path), -1, -1) if (crate, path[:i]) in self.files)
        file = self.files[crate, path[:end]]
        further = self.reexports.get((file, path[end])) if end < len(path) and depth < 6 else None
        if further and further != (crate, path[: end + 1]):
            return self._file(further[0], (*further[1], *path[end + 1 :]), depth + 1)
        return file

    def between_files(self) -> dict[str, set[str]]:
        """What a file names. A crate's root is named for its macros, and a folder's `pub use` is its table of contents:
        neither is an arrow."""
        found: dict[str, set[str]] = {str(f): set() for f in self.files.values()}
        for (crate, path), file in self.files.items():
            contents = file.name in ("lib.rs", "mod.rs")
            text = code_of(file)
            uses = [leaf for pub, tree in USE.findall(text) if not (contents and pub) for leaf in leaves(tree)]
            if contents:
                text = USE.sub("", text)
            for name in [re.sub(r"\s+", "", u) for u in uses] + PATH.findall(text):
                target = self._absolute(crate, path, name)
                to = self._file(*target) if target else file
                if to != file and to.name != "lib.rs":
                    found[str(file)].add(str(to))
        return found
