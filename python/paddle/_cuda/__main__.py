"""Lists the operators with and without a CUDA launcher: ``python -m paddle._cuda``."""

import textwrap
from collections import defaultdict

import paddle._core as _core
from paddle import _cuda
from paddle._cuda.families import FAMILY, takes
from paddle._cuda.host import HOST_BY_NATURE, PASSED_ON

_SHORT = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "bool": "bool",
}
_ALSO = ("sync_batch_norm", "sync_batch_norm_grad", "inplace_abn", "inplace_abn_grad")


def operators() -> dict[str, dict]:
    """The operators whose operands may lie on a device, by type."""
    return {op["type"]: op for op in _core.op_table() if op["kernel"] in ("kernel", "random") or op["type"] in _ALSO}


def lacking() -> list[str]:
    """Operators of a device that run on the CPU."""
    return sorted(set(operators()) - set(_cuda.LAUNCHERS) - set(HOST_BY_NATURE) - PASSED_ON)


def templates() -> int:
    """The kernels of all units but those rendered from the formula table."""
    return len({k.split("<")[0] for unit in _cuda.units() if unit.name != "formula" for k in unit.kernels})


def _listed(names: list[str]) -> str:
    return textwrap.fill(" ".join(names), 116, initial_indent="  ", subsequent_indent="  ")


def main() -> None:
    table, without = operators(), lacking()
    device = [name for name in table if name not in HOST_BY_NATURE]
    print(f"operators with a CUDA launcher: {len(device) - len(without)} of {len(device)}")
    families: dict[str, list[str]] = defaultdict(list)
    for name in device:
        if name in FAMILY:
            families[FAMILY[name]].append(name)
    print(f"{len(PASSED_ON)} of these start nothing of their own: they share the memory of an operand, or call others:")
    print(_listed(sorted(PASSED_ON)))
    print("by family (forward + gradient, data types):")
    for family, names in sorted(families.items()):
        gradients = sum(table[name]["is_gradient"] for name in names)
        types = sorted({t for name in names for t in takes(name)} & set(_SHORT), key=list(_SHORT).index)
        print(f"  {family:28} {len(names) - gradients:3} + {gradients:3}  {' '.join(_SHORT[t] for t in types)}")
    print(f"hand-written kernel templates: {templates()}, besides the rows of the formula table")
    print(f"on the host by nature ({len(HOST_BY_NATURE)}):")
    for name, reason in HOST_BY_NATURE.items():
        print(f"  {name}: {reason}")
    print("without one:")
    print(_listed(without))


if __name__ == "__main__":
    main()
