"""Writes the skeleton of an operator: Rust family, kernel, case file, CUDA launcher, Python function, Layer.

    python tools/new_op.py erfinv --group math --dry-run     print the files
    python tools/new_op.py erfinv --group math               write them
    python tools/new_op.py erfinv --kernel elementwise --cuda --function paddle.tensor.math
    python tools/new_op.py logit --function paddle.nn.functional.activation --layer paddle.nn.layer.activation
    python tools/new_op.py softshift --define "X -> Out; alpha=1.0, shift=0.0"

The operator is one of `spec/ops.json`; `--define` states slots and attributes of one that Paddle 2.0.2 does not have.
Without `--group` the prefix of the name chooses the group (`sequence_`, `fused_`, `c_`, ...), and else it is math.
Written are:

- `rust/ops/<group>/src/<name>.rs`: slots, attributes, shape rule, a kernel that returns an Unimplemented error, the
  gradient operator (without slots in the specification: all inputs and the gradients of the outputs); and the family's
  two lines in the `lib.rs` of the group (of the groups quant and random: `rust/ops/math/src/<group>/<name>.rs` and
  `mod.rs`);
- `--kernel FOLDER`: `rust/kernels/src/<folder>/<name>.rs`, a loop over slices with its test, and its line in `mod.rs`;
- `tests/ops/<group>/test_<name>.py`: a case, which fails until the kernel is written;
- `--cuda`: `python/paddle/_cuda/<group>/<name>.py`, a launcher that declines, and its lines in `_cuda/families.py`;
- `--function MODULE`: a function at the end of the module, with the signature of `spec/api.json`, and its name in
  `__all__`;
- `--layer MODULE`: a Layer that keeps the attributes and calls the function (give both).

Nothing is written where the operator, its family or its case file exists. See docs/dev/add-an-op.md.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import keyword
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from specification import find

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120

#: group by prefix of the operator's name
PREFIXES = {
    "fused_": "fused",
    "fusion_": "fused",
    "sequence_": "sequence",
    "c_": "distributed",
    "partial_": "distributed",
    "distributed_": "distributed",
    "fake_": "quant",
    "fill_": "shape",
}

#: Rust type of an attribute, and a value of it for a case where it is required
TYPES = {
    "INT": ("i32", "1"),
    "LONG": ("i64", "1"),
    "FLOAT": ("f32", "1.0"),
    "BOOLEAN": ("bool", "False"),
    "STRING": ("Text", '""'),
    "INTS": ("Vec<i32>", "[1]"),
    "LONGS": ("Vec<i64>", "[1]"),
    "FLOATS": ("Vec<f32>", "[1.0]"),
    "FLOAT64S": ("Vec<f64>", "[1.0]"),
    "STRINGS": ("Vec<String>", '[""]'),
    "BOOLEANS": ("Vec<bool>", "[False]"),
    "BLOCK": ("BlockRef", "0"),
}

ACRONYMS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def imported(text: str, line: str, name: str) -> str:
    """The module with the import, where it does not have the name; ruff sorts it."""
    if re.search(rf"^(?:from|import) .*\b{name}\b", text, re.M):
        return text
    first = re.search(r"^(?:from (?!__future__)|import )", text, re.M)
    at = first.start() if first else text.index("\n__all__") + 1
    return text[:at] + line + "\n" + text[at:]


class Refused(Exception):
    """The skeleton cannot be written."""


def snake(name: str) -> str:
    return ACRONYMS.sub("_", name).lower()


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def constant(slot: str) -> str:
    """The constant of a slot: `PRIOR_DIST` of PriorDist, `DOUT` of Out@GRAD."""
    base, *grads = slot.split("@")
    return "D" * len(grads) + re.sub(r"\W", "_", snake(base)).upper()


def rustfmt(text: str, root: Path) -> str:
    """The text as rustfmt writes it, or unchanged where rustfmt is not installed."""
    if shutil.which("rustfmt") is None:
        return text
    command = ["rustfmt", "--edition", "2021", "--config-path", str(root)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def ruff(text: str, root: Path) -> str:
    """The text with sorted imports as ruff writes it, or unchanged where ruff is not installed."""
    found = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    for command in (["check", "-q", "--fix-only", "--select", "I"], ["format", "-q"]) if found else ():
        name = ["--stdin-filename", str(root / "new.py"), "-"]
        text = (
            subprocess.run([found, *command, *name], cwd=root, input=text, capture_output=True, text=True).stdout
            or text
        )
    return text


def existing(root: Path) -> set[str]:
    """The operators of the table, as the generated stub and the sources name them."""
    stub = (root / "python/paddle/_ops.pyi").read_text()
    names = set(re.findall(r"^def (\w+)\(", stub, re.M))
    for path in (root / "rust/ops").rglob("*.rs"):
        names.update(re.findall(r'\bname: "(\w+)"', path.read_text()))
    return names


def groups(root: Path) -> dict[str, Path]:
    """The groups of operators, and the files with their lists of families: crates, and folders of crates."""
    crates = [(path.parent.parent.name, path) for path in root.glob("rust/ops/*/src/lib.rs")]
    folders = [(path.parent.name, path) for path in root.glob("rust/ops/*/src/*/mod.rs")]
    lists = sorted((name, path) for name, path in crates + folders if "pub static TABLES" in path.read_text())
    return {name: path.relative_to(root) for name, path in lists}


def scalar(value: Any) -> str:
    """A number, bool or string as Rust."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)


def literal(value: Any, kind: str) -> str | None:
    """The default of an attribute as Rust; None where the attribute is required."""
    rust = TYPES[kind][0]
    if rust.startswith("Vec<"):
        if value is None:
            return None
        items = [scalar(float(v) if "FLOAT" in kind else v) + (".into()" if kind == "STRINGS" else "") for v in value]
        return f"vec![{', '.join(items)}]"
    if isinstance(value, list):  # a single number whose default is in braces in the source
        value = value[0] if value else None
    if value is None:
        return None
    if kind == "FLOAT":
        value = float(value)
    return scalar(value) + (".into()" if rust == "Text" else "")


def join(items: list[str], indent: str) -> str:
    """The items in lines of at most `WIDTH` columns."""
    lines, line = [], indent
    for i, item in enumerate(items):
        item += "," if i + 1 < len(items) else ""
        if len(line) + len(item) + 1 > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += item + " "
    return "\n".join([*lines, line.rstrip()])


class Skeleton:
    """The texts of one operator's files."""

    def __init__(self, spec: dict[str, Any], group: str, known: set[str], root: Path = ROOT) -> None:
        self.spec, self.group, self.known, self.root = spec, group, known, root
        self.name: str = spec["type"]
        self.module = snake(self.name)
        self.function = self.module + "_op" if keyword.iskeyword(self.module) else self.module
        self.attrs = {k: v for k, v in spec["attrs"].items() if k.isidentifier() and spec["attr_types"][k] in TYPES}
        self.left = [
            f"{k} ({spec['attr_types'][k]})" for k in spec["attrs"] if k not in self.attrs and k.isidentifier()
        ]
        self.flags: dict[str, list[str]] = spec.get("flags", {})
        self.recorded = "grad_op" in spec
        if spec["grad"] and not self.recorded:
            spec = self.spec = {**spec, "grad_op": self._all_slots()}
        self.grad: dict[str, Any] | None = spec.get("grad_op")
        if self.grad and self.grad["type"] in known | {self.name}:
            self.grad = None

    def _all_slots(self) -> dict[str, Any]:
        """The gradient operator that reads all inputs and the gradients of the outputs."""
        ins, outs = self.spec["inputs"], self.spec["outputs"]
        kept = [s for s in outs if "intermediate" in self.flags.get(f"out:{s}", [])]
        given = [f"{s}@GRAD" for s in outs if s not in kept]
        return {
            "type": f"{self.name}_grad",
            "inputs": [*ins, *kept, *given],
            "outputs": [f"{s}@GRAD" for s in ins],
        }

    def slot(self, kind: str, name: str, flags: list[str]) -> str:
        ordered = [f for f in ("duplicable", "dispensable", "intermediate") if f in flags]
        return f'{constant(name)} "{name}"' + "".join(f".{flag}()" for flag in ordered)

    def slots(self) -> str:
        """The `slots!` block."""
        kinds = ("in", "inputs"), ("out", "outputs")
        sides = [[self.slot(k, s, self.flags.get(f"{k}:{s}", [])) for s in self.spec[key]] for k, key in kinds]
        modules = [self._slots_module(self.module, *sides)]
        if self.grad:
            sides = [[self.slot(k, s, self._grad_flags(k, s)) for s in self.grad[key]] for k, key in kinds]
            modules.append(self._slots_module(self.grad_module, *sides))
        return "slots! {\n" + "\n".join(modules) + "\n}"

    @property
    def grad_module(self) -> str:
        assert self.grad is not None
        return snake(self.grad["type"])

    def _grad_flags(self, kind: str, slot: str) -> list[str]:
        base = slot.partition("@")[0]
        flags = self.flags.get(f"in:{base}", []) + self.flags.get(f"out:{base}", [])
        kept = ("duplicable", "dispensable") if kind == "in" and "@" not in slot else ("duplicable",)
        return [flag for flag in kept if flag in flags]

    @staticmethod
    def _slots_module(module: str, ins: list[str], outs: list[str]) -> str:
        line = f"    mod {module} {{ {', '.join(ins)} => {', '.join(outs)} }}".replace("{  =>", "{ =>").replace(
            "=>  }", "=> }"
        )
        if len(line) <= WIDTH:
            return line
        parts = [
            f"    mod {module} {{",
            join(ins, "        ") if ins else "",
            "        =>",
            join(outs, "        "),
            "    }",
        ]
        return "\n".join(part for part in parts if part)

    def attributes(self) -> str:
        """The `attrs!` block, or nothing for an operator without attributes."""
        if not self.attrs:
            return ""
        required = set(self.spec.get("required_attrs", []))
        fields = []
        for name, value in self.attrs.items():
            kind = self.spec["attr_types"][name]
            default = None if name in required else literal(value, kind)
            fields.append(f"{name}: {TYPES[kind][0]}" + ("" if default is None else f" = {default}"))
        line = f"    pub struct {self.struct} {{ {', '.join(fields)} }}"
        if len(line) > WIDTH:
            line = f"    pub struct {self.struct} {{\n{join(fields, '        ')},\n    }}"
        return f"attrs! {{\n{line}\n}}\n\n"

    @property
    def struct(self) -> str:
        return camel(self.name) + "Attrs"

    def _operator(self, name: str, module: str, infer: str, run: str, grad: str) -> str:
        attrs = f"    attrs: {self.struct}::FIELDS,\n" if self.attrs else ""
        return (
            f"pub static {constant(name)}: Op = Op {{\n"
            f'    name: "{name}",\n'
            f"    inputs: {module}::INS,\n"
            f"    outputs: {module}::OUTS,\n"
            f"{attrs}"
            f"    dtypes: DTypes::FLOATS,\n"
            f"    {infer},\n"
            f"    cpu: Kernel::Pure({run}),\n"
            f"{grad}"
            f"    ..OP\n"
            f"}};\n\n"
        )

    def rust(self) -> str:
        """The family file."""
        first = self.spec["inputs"][:1]
        rules = []
        for slot in self.spec["outputs"]:
            out = f"{self.module}::{constant(slot)}"
            rules.append(f"    cx.like({out}, {self.module}::{constant(first[0])})?;\n" if first else f"    // {out}\n")
        kernel = '    bail!(Unimplemented, "operator {} has no CPU kernel yet", cx.op.name)\n'
        tables, grad = [constant(self.name)], ""
        if self.grad:
            grad = f"    grad: Grad::By(&{constant(self.grad['type'])}),\n"
            tables.append(constant(self.grad["type"]))
        elif self.spec.get("grad_op"):
            kind = self.spec["grad_op"]["type"]
            grad = (
                f"    // The gradient is operator {kind}, which exists: Grad::Map or Grad::Fn.\n    grad: Grad::None,\n"
            )
        special = [
            rust
            for rust in ("BlockRef", "Text")
            if any(TYPES[self.spec["attr_types"][a]][0] == rust for a in self.attrs)
        ]
        imports = ["use oar_core::attrs;"] if self.attrs else []
        imports.append("use oar_core::base::{DTypes, Result};")
        if special:
            imports.append(f"use oar_core::op::attrs::{{{', '.join(special)}}};")
        if self.grad:
            imports.append("use oar_core::op::infer::grads_like_inputs;")
        names = (["Grad"] if grad else []) + ["Kernel", "KernelContext", "Op", "ShapeContext", "OP"]
        imports.append(f"use oar_core::op::{{{', '.join(names)}}};")
        imports.append("use oar_core::{bail, slots};")
        text = f"//! {self.name}: one sentence, what it computes.\n\n" + "\n".join(imports) + "\n\n"
        text += "".join(f"// Attribute {left} has no Rust type (AttrValue).\n" for left in self.left)
        text += self.attributes() + self.slots() + "\n\n"
        text += "/// Shape, data type and LoD of every output; -1 for a size that depends on values.\n"
        cx = "cx" if first else "_cx"
        text += f"fn infer({cx}: &mut ShapeContext) -> Result<()> {{\n{''.join(rules)}    Ok(())\n}}\n\n"
        text += f"fn run(cx: &mut KernelContext) -> Result<()> {{\n{kernel}}}\n\n"
        if self.grad:
            if not self.recorded:
                text += "// Slots that the gradient does not read go; where only the shape is read, `.meta_only()`.\n"
            text += f"fn run_grad(cx: &mut KernelContext) -> Result<()> {{\n{kernel}}}\n\n"
        text += self._operator(self.name, self.module, "infer", "run", grad)
        if self.grad:
            text += self._operator(self.grad["type"], self.grad_module, "infer: grads_like_inputs", "run_grad", "")
        text += f"pub static TABLE: &[&Op] = &[{', '.join('&' + table for table in tables)}];\n"
        return rustfmt(text, self.root)

    def library(self, text: str) -> str:
        """The group's `lib.rs` with the two lines of the family."""
        modules = list(re.finditer(r"^(?:pub )?mod (\w+);\n", text, re.M))
        after = [found for found in modules if found[1] < self.module]
        at = after[-1].end() if after else modules[0].start()
        text = text[:at] + f"pub mod {self.module};\n" + text[at:]
        start = text.index("pub static TABLES")
        end = text.index("\n];", start)
        text = text[:end] + f"\n    {self.module}::TABLE," + text[end:]
        return rustfmt(text, self.root)

    def case(self) -> str:
        """The case file."""
        required = self.spec.get("required_attrs", [])
        attrs = ", ".join(f'"{a}": {TYPES[self.spec["attr_types"][a]][1]}' for a in self.attrs if a in required)
        arrays, given = [], []
        for i, slot in enumerate(self.spec["inputs"]):
            flags = self.flags.get(f"in:{slot}", [])
            if "dispensable" in flags and i:
                break
            array = "real(2, 3)" if i == 0 else f"real(2, 3, seed={i})"
            arrays.append(f"[{array}]" if "duplicable" in flags else array)
            given.append(snake(slot) + ("_" if keyword.iskeyword(snake(slot)) else ""))
        arguments = [f'"{self.name}"', f"[{', '.join(arrays)}]", f"{{{attrs}}}", "expected"]
        if self.spec["grad"] and self.spec.get("grad_op"):
            ends = [s.removesuffix("@GRAD") for s in self.spec["grad_op"]["outputs"]]
            wanted = [s for s in self.spec["inputs"][: len(arrays)] if s in ends]
            if wanted:
                arguments.append(f'grad="{" ".join(wanted)}"')
        parameters = ", ".join([*given, "**attrs"] if attrs else given)
        return ruff(
            f'"""{self.name}."""\n\n'
            "from case import case, real, table\n\n\n"
            f"def expected({parameters}):\n"
            f'    raise NotImplementedError("the values of {self.name}, by numpy")\n\n\n'
            f"test_{self.function} = table(\n    case({', '.join(arguments)}),\n)\n",
            self.root,
        )

    def launcher(self) -> str:
        """The module with the CUDA launcher."""
        return ruff(
            f'"""{self.name}: one sentence, how the threads divide the work."""\n\n'
            "from __future__ import annotations\n\n"
            "from ..call import Call, Declined\n\n\n"
            f"def _{self.function}(call: Call) -> dict:\n"
            "    # With SOURCE, UNIT and call.launch (docs/dev/cuda.md) it runs on the GPU; until then on the CPU.\n"
            "    raise Declined\n\n\n"
            f'LAUNCHERS = {{"{self.name}": _{self.function}}}\n',
            self.root,
        )

    def kernel(self) -> str:
        """The file of the kernel, with its test."""
        ins = [snake(slot) for slot in self.spec["inputs"]]
        floats = [snake(a) for a in self.attrs if self.spec["attr_types"][a] == "FLOAT"]
        numbers = "".join(f"{name}: T, " for name in floats)
        slices = ", ".join(f"{name}: &[T]" for name in ins)
        unused = f"    let _ = [{', '.join(floats)}];\n" if floats else ""
        wanted = "".join(
            f"        let {name}: Vec<f64> = (0..n).map(|i| (i as f64).sin()).collect();\n" for name in ins
        )
        return rustfmt(
            f"//! {self.name}: one sentence, what it computes.\n\nuse crate::types::Float;\n\n"
            f"/// out = the formula. All slices have one length.\n"
            f"pub fn {self.function}<T: Float>({slices}{', ' if ins else ''}{numbers}out: &mut [T]) {{\n"
            "    // The work is divided among threads by crate::elementwise::{map, zip, zip3}, or crate::pool.\n"
            f"    let _ = [{', '.join(ins)}];\n{unused}    out.fill(T::ZERO);\n}}\n\n"
            "#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::simd::at_every_level;\n\n    #[test]\n"
            f"    fn {self.function}_is_the_plain_loop() {{\n        let n = 5000;\n{wanted}"
            "        at_every_level(|_| {\n            let mut out = vec![0.0; n];\n"
            f"            {self.function}({''.join(f'&{name}, ' for name in ins)}{'0.5, ' * len(floats)}&mut out);\n"
            "            for (i, got) in out.iter().enumerate() {\n                let want = i as f64;\n"
            '                assert!((got - want).abs() <= 1e-12 * (1.0 + want.abs()), "[{i}]: {got} for {want}");\n'
            "            }\n        });\n    }\n}\n",
            self.root,
        )

    def kernel_module(self, text: str) -> str:
        """The `mod.rs` of the kernel's folder with its line."""
        modules = list(re.finditer(r"^(?:pub )?mod (\w+);\n", text, re.M))
        after = [found for found in modules if found[1] < self.module]
        at = after[-1].end() if after else modules[0].start()
        return rustfmt(text[:at] + f"pub mod {self.module};\n" + text[at:], self.root)

    def layer(self, function: str, text: str, api: list[dict[str, Any]]) -> str:
        """The module with a Layer that calls the function."""
        entry = self.entry(function, api)
        called = entry["name"].rpartition(".")[2] if entry else self.function
        name = camel(called)
        if re.search(rf"^class {name}\(", text, re.M):
            raise Refused(f"the module has a class {name}")
        # paddle.nn.functional exports the functions of its modules; layers call them as F.
        package = "paddle.nn.functional"
        short = function.startswith(package + ".") and "from paddle.nn import functional as F\n" in text
        public = package if short else function
        given = [snake(slot) for slot in self.spec["inputs"] if "dispensable" not in self.flags.get(f"in:{slot}", [])]
        attrs = [(snake(a), v) for a, v in self.attrs.items() if a not in self.spec.get("extra_attrs", [])]
        signature = "".join(f"{a}: Any" + ("" if v is None else f" = {v!r}") + ", " for a, v in attrs)
        kept = "".join(f"{a}={a}, " for a, _ in attrs)
        base = "UnaryFunctionLayer" if len(given) == 1 else "FunctionLayer"
        described = "".join(f"        {a}: its type and meaning.\n" for a, _ in attrs)
        body = (
            f'\n\nclass {name}({base}):\n    """`{public}.{called}` as a layer.\n\n'
            f'    Args:\n{described}        name: a name for the output.\n    """\n\n'
            f"    _function = staticmethod({'F.' if short else ''}{called})\n\n"
            f"    def __init__(self, {signature}name: str | None = None) -> None:\n"
            f"        super().__init__({kept}name=name)\n"
        )
        if len(given) != 1:
            inputs = ", ".join(f"{x}: Any" for x in given)
            body += (
                f"\n    def forward(self, {inputs}) -> Any:\n"
                f'        """The function of {", ".join(given)}."""\n'
                f"        return self._function({', '.join(given)}, **self._arguments)\n"
            )
        names = re.search(r"^__all__(?:: list\[str\])? = \[", text, re.M)
        if names:
            text = text[: names.end()] + f'"{name}", ' + text[names.end() :]
        if not short:
            text = imported(text, f"from {function} import {called}", called)
        text = imported(text, f"from paddle.nn.layer.function_layer import {base}", base)
        text = imported(text, "from typing import Any", "Any")
        return ruff(text.rstrip("\n") + "\n" + body, self.root)

    def families(self, text: str) -> str:
        """`_cuda/families.py` with the launcher's module."""
        line = re.search(rf"^from \.{self.group} import \(?", text, re.M)
        if line:
            text = text[: line.end()] + f"{self.module}, " + text[line.end() :]
        else:
            at = text.index("from .units import")
            text = text[:at] + f"from .{self.group} import {self.module}\n" + text[at:]
        end = text.index("\n)", text.index("_FAMILIES = ("))
        return ruff(text[:end] + f"\n    {self.module}," + text[end:], self.root)

    def entry(self, module: str, api: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The function of `spec/api.json` that appends the operator, preferably of that module and that name."""
        found = [e for e in api if e["kind"] == "function" and self.name in e.get("ops", [])]

        def rank(entry: dict[str, Any]) -> tuple[bool, bool]:
            where = (entry["name"].rpartition(".")[0], str(entry.get("defined_in", "")).rpartition(".")[0])
            return module in where, entry["name"].rpartition(".")[2] == self.name

        return max(found, key=rank, default=None)

    def python(self, module: str, text: str, api: list[dict[str, Any]]) -> str:
        """The module with the function and its name in `__all__`."""
        entry = self.entry(module, api)
        name = entry["name"].rpartition(".")[2] if entry else self.function
        if entry:
            signature = entry["signature"]
            given = [argument.arg for argument in ast.parse(f"def f{signature}: pass").body[0].args.args]  # type: ignore[attr-defined]
            call = ", ".join(given[: len(self.spec["inputs"])])
        else:
            slots = [snake(slot) for slot in self.spec["inputs"]]
            optional = [s for s in self.spec["inputs"] if "dispensable" in self.flags.get(f"in:{s}", [])]
            attributes = [
                f"{snake(a)}={v!r}" for a, v in self.attrs.items() if a not in self.spec.get("extra_attrs", [])
            ]
            ins = [
                s + ("=None" if slot in optional else "") for s, slot in zip(slots, self.spec["inputs"], strict=True)
            ]
            signature = f"({', '.join([*ins, *attributes, 'name=None'])})"
            given = [*slots, *(a.partition("=")[0] for a in attributes), "name"]
            call = ", ".join(
                [*slots, *(f"{a}={snake(a)}" for a in self.attrs if a not in self.spec.get("extra_attrs", []))]
            )
        if re.search(rf"^def {name}\(", text, re.M):
            raise Refused(f"module {module} has a function {name}")
        described = "".join(
            f"        {argument}: its type, shape and meaning.\n" for argument in given if argument != "name"
        )
        if "name" in given:
            described += "        name: a name for the output.\n"
        function = (
            f"\n\ndef {name}{signature}:\n"
            f'    """One sentence: what it computes.\n\n'
            f"    Args:\n{described}\n"
            "    Returns:\n        Tensor: its shape and data type.\n\n"
            "    Examples:\n        >>> import paddle\n"
            '    """\n'
            + (
                f"    return named(name, _ops.{self.name}, {call})\n"
                if "name" in given
                else f"    return _ops.{self.name}({call})\n"
            )
        )
        names = re.search(r"^__all__(?:: list\[str\])? = \[", text, re.M)
        if names:
            at = names.end()
            text = text[:at] + f'"{name}", ' + text[at:]
        text = imported(text, "from paddle import _ops", "_ops")
        if "name" in given:
            text = imported(text, "from paddle._dispatch.append import named", "named")
        return ruff(text.rstrip("\n") + "\n" + function, self.root)


def defined(name: str, text: str) -> dict[str, Any]:
    """The definition of an operator that is not in the specification: `X, Y -> Out; alpha=1.0, axes=[0]`.

    The types of attributes are those of their defaults. The operator has a gradient.
    """
    slots, _, attributes = text.partition(";")
    ins, arrow, outs = slots.partition("->")
    inputs, outputs = ([slot.strip() for slot in side.split(",") if slot.strip()] for side in (ins, outs))
    if not arrow or not outputs or not all(slot.isidentifier() for slot in inputs + outputs):
        raise Refused(f'--define "{text}": expected "X, Y -> Out; alpha=1.0"')
    try:
        call = ast.parse(f"f({attributes})", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        attrs = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
        types = {attr: attribute_type(value) for attr, value in attrs.items()}
    except (AssertionError, KeyError, SyntaxError, ValueError) as error:
        message = f'--define "{text}": expected attributes with literal defaults, such as alpha=1.0, axes=[0]'
        raise Refused(message) from error
    return {"type": name, "inputs": inputs, "outputs": outputs, "attrs": attrs, "attr_types": types, "grad": True}


def attribute_type(value: Any) -> str:
    """The type of an attribute with this default."""
    names = {bool: "BOOLEAN", int: "INT", float: "FLOAT", str: "STRING"}
    return names[type(value[0] if value else 0)] + "S" if isinstance(value, list) else names[type(value)]


def load(name: str, known: set[str], definition: str | None = None) -> dict[str, Any]:
    """The definition of an operator that is in the specification, or defined, and not in the table."""
    if definition is not None and name not in known:
        return defined(name, definition)
    operators = {op["type"]: op for op in json.loads(find("ops.json").read_text())}
    if name in known:
        raise Refused(f"operator {name} exists")
    if name not in operators:
        near = difflib.get_close_matches(name, operators, 5)
        closest = f"; near: {', '.join(near)}" if near else ""
        raise Refused(f"spec/ops.json has no operator {name}{closest}; --define states one")
    return operators[name]


def files(
    name: str,
    group: str | None = None,
    cuda: bool = False,
    function: str | None = None,
    layer: str | None = None,
    kernel: str | None = None,
    definition: str | None = None,
    root: Path = ROOT,
) -> dict[Path, str]:
    """The files to write, by path below `root`.

    Raises:
        Refused: for an operator that exists or is unknown, an unknown group or module, or a file that exists.
    """
    known = existing(root)
    spec = load(name, known, definition)
    chosen = group or next((g for prefix, g in PREFIXES.items() if name.startswith(prefix)), "math")
    known_groups = groups(root)
    if chosen not in known_groups:
        raise Refused(f"no group {chosen}; groups: {', '.join(known_groups)}")
    skeleton = Skeleton(spec, chosen, known, root)
    library, launchers = known_groups[chosen], Path("python/paddle/_cuda")
    new = {
        library.parent / f"{skeleton.module}.rs": skeleton.rust(),
        Path("tests/ops") / chosen / f"test_{skeleton.module}.py": skeleton.case(),
    }
    changed = {library: skeleton.library((root / library).read_text())}
    if cuda:
        if not (root / launchers / chosen / "__init__.py").exists():
            new[launchers / chosen / "__init__.py"] = f'"""CUDA launchers of the group {chosen}."""\n'
        new[launchers / chosen / f"{skeleton.module}.py"] = skeleton.launcher()
        changed[launchers / "families.py"] = skeleton.families((root / launchers / "families.py").read_text())
    if kernel:
        folder = Path("rust/kernels/src") / kernel
        if not (root / folder / "mod.rs").is_file():
            found = sorted(p.parent.name for p in (root / "rust/kernels/src").glob("*/mod.rs"))
            raise Refused(f"no folder of kernels {kernel}; folders: {', '.join(found)}")
        new[folder / f"{skeleton.module}.rs"] = skeleton.kernel()
        changed[folder / "mod.rs"] = skeleton.kernel_module((root / folder / "mod.rs").read_text())
    api = json.loads(find("api.json").read_text()) if function else []
    if layer:
        path = Path("python") / Path(*layer.split(".")).with_suffix(".py")
        if not function or not (root / path).is_file():
            raise Refused(f"a layer needs --function, and a module: {path}")
        changed[path] = skeleton.layer(function, (root / path).read_text(), api)
    if function:
        path = Path("python") / Path(*function.split(".")).with_suffix(".py")
        if not (root / path).is_file():
            raise Refused(f"no module {function}: {path} does not exist")
        changed[path] = skeleton.python(function, (root / path).read_text(), api)
    for path in new:
        if (root / path).exists() or (root / path).with_suffix("").is_dir():
            raise Refused(f"{path} exists: add operator {name} to it by hand")
    return {**new, **changed}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="an operator that the table does not have")
    parser.add_argument(
        "--define", metavar="SLOTS", help="slots and attributes, where spec/ops.json lacks the operator"
    )
    parser.add_argument("--group", help="a group of operators")
    parser.add_argument("--cuda", action="store_true", help="also a CUDA launcher")
    parser.add_argument("--kernel", metavar="FOLDER", help="also a kernel in this folder of rust/kernels/src")
    parser.add_argument("--function", metavar="MODULE", help="also a Python function in this module")
    parser.add_argument("--layer", metavar="MODULE", help="also a Layer of the function in this module")
    parser.add_argument("--dry-run", action="store_true", help="print the files (of changed files the difference)")
    given = parser.parse_args(arguments)
    try:
        written = files(given.name, given.group, given.cuda, given.function, given.layer, given.kernel, given.define)
    except Refused as error:
        print(f"new_op: {error}", file=sys.stderr)
        return 1
    for path, text in written.items():
        before = (ROOT / path).read_text() if (ROOT / path).exists() else ""
        if given.dry_run:
            lines = before.splitlines(keepends=True), text.splitlines(keepends=True)
            print(f"==> {path}")
            print("".join(difflib.unified_diff(*lines, "before", "after", n=1)) if before else text)
        else:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text)
            print(f"{'changed' if before else 'written'}: {path}")
    if not given.dry_run:
        print("next: the kernel, the case, `make build`, `python tools/ops_stub.py`; see docs/dev/add-an-op.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
