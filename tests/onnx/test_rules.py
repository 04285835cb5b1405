"""Each rule: the cases of its operator (tests/ops) run by onnxruntime give the values of the Program."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from case import Case, Rows, cast, compare, is_inexact
from case_programs import Built, from_fetched
from catalogue import cases
from paddle._basics import mode
from paddle.onnx import rules  # noqa: F401
from paddle.onnx.registry import RULES
from running import model_of, run

CASES = cases()
#: operators whose numbers are drawn: only shapes and types are compared
DRAWN = {
    "uniform_random",
    "gaussian_random",
    "uniform_random_batch_size_like",
    "gaussian_random_batch_size_like",
    "randint",
    "bernoulli",
    "multinomial",
}


class Inference(Built):
    """The operator in a Program of inference; sizes beyond the known ones are -1 where `dynamic`."""

    def __init__(self, c: Case, inputs: dict[str, Any], dynamic: bool) -> None:
        self.dynamic = dynamic
        super().__init__(c, inputs)

    def data(self, c: Case, slot: str, value: Any, i: int = 0) -> Any:
        var = super().data(c, slot, value, i)
        if self.dynamic and not isinstance(value, list) and value.ndim and is_inexact(value):
            var.desc.set_shape([-1, *value.shape[1:]])
        return var


def usable(c: Case) -> bool:
    flat = [x for v in c.inputs.values() for x in (v if isinstance(v, list) else [v])]
    if c.lod or any(isinstance(x, Rows) or x.dtype.kind == "c" or x.size == 0 for x in flat):
        return False
    return not left_out(c) and all(np.isfinite(x).all() for x in flat if x.dtype.kind == "f")


def left_out(c: Case) -> bool:
    """Cases that onnxruntime computes otherwise, and those that need float64."""
    a, i = c.attrs, c.inputs
    match c.op:
        case "allclose":
            return "Rtol" in i or "Atol" in i  # their types are fixed
        case "fusion_repeated_fc_relu":
            return not c.static
        case "grid_sampler":
            return any(np.abs(v).max() > 1e20 for v in i.values())
        case "rnn":
            return 0 in i.get("SequenceLength", [1])  # the last state of a sequence without steps
        case "roi_align":
            return a.get("sampling_ratio", -1) <= 0 and i["ROIs"].shape == (2, 4)
        case "set_value":
            return a.get("dtype") == 6
        case "top_k_v2":
            return a.get("sorted") is False  # any order
    return False


def float32(inputs: dict[str, Any]) -> dict[str, Any]:
    return cast(inputs, "float32") if any(is_inexact(v) for v in inputs.values()) else inputs


def check(c: Case, opset: int, dynamic: bool) -> bool:
    """Compares the outputs that the rule gives; False where it gives none."""
    inputs = float32(c.inputs)
    try:
        built = Inference(c, inputs, dynamic)
    except ValueError:
        return not dynamic  # the operator requires known sizes
    outs = []
    for value in built.outs.values():
        outs += [v for v in (value if isinstance(value, list) else [value]) if v is not None]
    names, feeds = [], list(built.feed)
    for var in outs:
        with contextlib.suppress(ValueError):
            model_of(built.program, feeds, [var.name], opset)
            names.append(var.name)
    if not names:
        return False
    with mode._dygraph_guard(None):
        built.program = built.program.clone(for_test=True)
    want = [from_fetched(value)[0] for value in built.run(names)]
    got = run(model_of(built.program, feeds, names, opset), built.feed)
    for name, value, right in zip(names, got, want, strict=True):
        assert value.dtype == right.dtype, f"{name} is {value.dtype}, expected {right.dtype}"
        if c.op not in DRAWN:
            compare(Case(c.op, {}, {}, tol=max(c.tol or 0, 1e-4)), name, value, right, inputs)
        else:
            assert value.shape == right.shape
    return True


def passes(c: Case, opset: int, dynamic: bool = False) -> bool:
    """True where the rule expresses the case, False where it raises NotImplementedError."""
    try:
        return check(c, opset, dynamic)
    except NotImplementedError as error:
        assert f"operator {c.op}" in str(error)
        return False


TESTED = sorted(set(RULES) & set(CASES))
#: rules without a case that is exported: tested in test_single_rules.py and test_control.py
ELSEWHERE = {"fake_channel_wise_quantize_abs_max", "fusion_repeated_fc_relu", "multinomial"}


@pytest.mark.parametrize("op", TESTED)
def test_rule(op):
    done = [passes(c, 17) for c in CASES[op] if usable(c)]
    assert any(done) or op in ELSEWHERE, f"no case of {op} is exported"


@pytest.mark.parametrize("op", TESTED)
def test_rule_with_unknown_batch(op):
    for c in CASES[op]:
        if usable(c):
            passes(c, 21, dynamic=True)


@pytest.mark.parametrize(
    "opset", [11, pytest.param(13, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.slow)]
)
def test_older_operator_sets(opset):
    wrong = []
    for op in TESTED:
        for c in CASES[op]:
            try:
                if usable(c):
                    passes(c, opset)
            except Exception as error:
                wrong.append(f"{c.name()}: {error}")
    assert not wrong
