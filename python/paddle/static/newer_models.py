"""Models that Paddle 2.1 to 2.6 wrote: later operators as operators of 2.0, and checks of later attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import paddle._core as core
from paddle._basics.dtypes import VarType

__all__ = ["translate"]

#: attributes of every operator that say nothing about its result
_GENERAL = frozenset(
    """
    op_callstack op_device op_namescope op_role op_role_var with_quant_attr quantization_type skip_quant bit_length
    activation_bits weight_bits use_mkldnn use_cudnn use_gpudnn use_quantizer mkldnn_data_type workspace_size_MB
    exhaustive_search is_test
    """.split()
)
#: defaults of later attributes, as far as they are not zero or empty
_DEFAULTS = {
    "scale_x": 1.0,
    "scale_y": 1.0,
    "scale_out": 1.0,
    "scale_in": 1.0,
    "fused_output_scale": 1.0,
    "force_fp32_output": False,
    "data_format": "AnyLayout",
    "deterministic": False,
    "rounding_type": 1,
    "round_type": 1,
}

#: (type, inputs by slot, outputs by slot, attributes) of an operator
Step = tuple[str, dict[str, list[str]], dict[str, list[str]], dict[str, Any]]
Rule = Callable[[Any, Any, Callable[[], str]], "list[Step] | None"]


def _attr(op: Any, name: str, default: Any) -> Any:
    return op.attr(name) if op.has_attr(name) else default


def _renamed(kind: str, slots: dict[str, str] | None = None, **attrs: Any) -> Rule:
    """The same operator under another name; `attrs` are set."""

    def rule(op: Any, block: Any, fresh: Callable[[], str]) -> list[Step]:
        names = slots or {}
        ins = {names.get(k, k): v for k, v in op.inputs().items()}
        old = {n: op.attr(n) for n in op.attr_names() if n not in _GENERAL}
        return [(kind, ins, op.outputs(), {**old, **attrs})]

    return rule


def _of_x(*steps: tuple[str, dict[str, Any]]) -> Rule:
    """A chain of operators from X to Out."""

    def rule(op: Any, block: Any, fresh: Callable[[], str]) -> list[Step]:
        at, out, made = op.input("X")[0], op.output("Out")[0], []
        for i, (kind, attrs) in enumerate(steps):
            to = out if i == len(steps) - 1 else fresh()
            made.append((kind, {"X": [at]}, {"Out": [to]}, attrs))
            at = to
        return made

    return rule


def _tan(op: Any, block: Any, fresh: Callable[[], str]) -> list[Step]:
    x, sine, cosine = op.input("X"), fresh(), fresh()
    return [
        ("sin", {"X": x}, {"Out": [sine]}, {}),
        ("cos", {"X": x}, {"Out": [cosine]}, {}),
        ("elementwise_div", {"X": [sine], "Y": [cosine]}, op.outputs(), {"axis": -1}),
    ]


def _celu(op: Any, block: Any, fresh: Callable[[], str]) -> list[Step]:
    alpha = float(_attr(op, "alpha", 1.0))
    chain = _of_x(("scale", {"scale": 1.0 / alpha}), ("elu", {"alpha": 1.0}), ("scale", {"scale": alpha}))
    return chain(op, block, fresh) or []


def _shuffle(op: Any, block: Any, fresh: Callable[[], str]) -> list[Step] | None:
    if _attr(op, "data_format", "NCHW") != "NCHW":
        return None
    return [("shuffle_channel", op.inputs(), op.outputs(), {"group": int(_attr(op, "groups", 1))})]


def _logical(kind: str) -> Rule:
    """Bitwise operators of booleans."""

    def rule(op: Any, block: Any, fresh: Callable[[], str]) -> list[Step] | None:
        var = block.find_var_recursive(op.input("X")[0])
        if var is None or var.dtype() != VarType.BOOL:
            return None
        return [(kind, op.inputs(), op.outputs(), {})]

    return rule


_RULES: dict[str, Rule] = {
    "silu": _renamed("swish", beta=1.0),
    "share_data": _renamed("assign"),
    "memcpy_h2d": _of_x(("assign", {})),
    "memcpy_d2h": _of_x(("assign", {})),
    "channel_shuffle": _shuffle,
    "reduce_amax": _renamed("reduce_max"),
    "reduce_amin": _renamed("reduce_min"),
    "expm1": _of_x(("exp", {}), ("scale", {"scale": 1.0, "bias": -1.0})),
    "celu": _celu,
    "tan": _tan,
    "nonzero": _renamed("where_index", {"X": "Condition", "Condition": "Condition"}),
    "bitwise_and": _logical("logical_and"),
    "bitwise_or": _logical("logical_or"),
    "bitwise_xor": _logical("logical_xor"),
    "bitwise_not": _logical("logical_not"),
}


@cache
def _schemas() -> dict[str, frozenset[str]]:
    return {op["type"]: frozenset(a["name"] for a in op["attrs"]) for op in core.op_table()}


def translate(desc: Any, what: str) -> None:
    """Replaces operators of later versions in a ProgramDesc by operators of 2.0.

    Args:
        desc (ProgramDesc): is changed.
        what (str): names the model in errors.

    Raises:
        NotImplementedError: for operators that are neither in the table nor replaced; it names them.
        ValueError: for an attribute that is not known and not at its default; it names operator and attribute.
    """
    missing: set[str] = set()
    for b in range(desc.num_blocks()):
        block = desc.block(b)
        for i in range(block.op_size() - 1, -1, -1):
            op = block.op(i)
            kind = op.type()
            if kind in ("feed", "fetch"):
                continue
            if kind in _schemas():
                _check_attributes(op, what)
                continue
            rule = _RULES.get(kind)
            steps = rule(op, block, partial(_temporary, block, op)) if rule else None
            if steps is None:
                missing.add(kind)
                continue
            for k, step in enumerate(steps):
                _fill(block._insert_op(i + k), step)
            block._remove_op(i + len(steps), i + len(steps) + 1)
    if missing:
        raise NotImplementedError(f"{what} has operators that are not implemented: {', '.join(sorted(missing))}")


def _check_attributes(op: Any, what: str) -> None:
    kind = op.type()
    for name in op.attr_names():
        if name in _schemas()[kind] or name in _GENERAL or name.endswith("_threshold"):
            continue
        if op.attr_type(name) in (core.AttrType.BLOCK, core.AttrType.BLOCKS):
            continue
        value = op.attr(name)
        if value and value != _DEFAULTS.get(name.lower()) and value not in ("float32", "NCHW", "AnyLayout"):
            raise ValueError(f"{what}: operator {kind}: attribute '{name}' = {value!r} is not known")


def _temporary(block: Any, op: Any) -> str:
    """A new variable like the output of an operator."""
    out = op.output("Out")[0]
    like, n = block.find_var_recursive(out), 0
    while block.has_var_recursive(f"{out}.newer_{n}"):
        n += 1
    var = block.var(f"{out}.newer_{n}")
    var.set_type(VarType.LOD_TENSOR)
    if like is not None and like.type() == VarType.LOD_TENSOR:
        var.set_dtype(like.dtype())
        var.set_shape(like.shape())
    return var.name()


def _fill(op: Any, step: Step) -> None:
    kind, ins, outs, attrs = step
    op.set_type(kind)
    for slot, names in ins.items():
        op.set_input(slot, names)
    for slot, names in outs.items():
        op.set_output(slot, names)
    for name, value in attrs.items():
        if name in _schemas()[kind]:
            op._set_attr(name, value)
    op.check_attrs()
