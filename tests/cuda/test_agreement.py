"""The operators' own case rows on the stand-in against the CPU (see agreement.py)."""

from collections import defaultdict

import pytest
from agreement import TABLE, WHOLE, names, report
from cases import ALL
from paddle import _cuda
from paddle._cuda.comm import rings
from paddle._cuda.host import DECLINED_TYPES, PASSED_ON
from paddle._cuda.random import philox

# Launchers that no case row reaches (values that are only passed on keep to their CPU kernel):
# covered by test_kernels.py, test_random_kernels.py, test_beam_search.py, test_lod.py; collectives by test_nccl.py.
ELSEWHERE = {c.op for c in ALL} | set(philox.LAUNCHERS) | {"empty", "tdm_sampler", "beam_search"}
ELSEWHERE |= set(rings.LAUNCHERS) | {"fusion_seqexpand_concat_fc", "sequence_unpad_grad"}


@pytest.mark.parametrize("op", names())
def test_cases_agree_with_the_cpu(op, shim):
    wrong = report(op, shim).wrong
    assert not wrong, f"{len(wrong)} results differ:\n" + "\n".join(wrong[:5])


@pytest.mark.gpu
@pytest.mark.parametrize("op", names())
def test_cases_agree_on_a_gpu(op, gpu):
    """All cases, updates in place among them; an operator of which the stand-in runs something runs it here, too."""
    found = report(op, gpu)
    assert not found.wrong, f"{len(found.wrong)} results differ:\n" + "\n".join(found.wrong[:5])
    assert found.ran or op in DECLINED_TYPES or op in PASSED_ON


def test_types_that_are_declined_are_listed(shim):
    """Each integer type that the CPU kernel takes runs on the device in some case, or is in DECLINED_TYPES."""
    ran, declined = defaultdict(set), defaultdict(set)
    for op in names():
        if set(WHOLE) & set(TABLE[op]["dtypes"]):
            _cuda.use(shim)
            found = report(op, shim)
            for name, dtypes in found.ran.items():
                ran[name] |= dtypes
            for name, dtypes in found.declined.items():
                declined[name] |= dtypes
    never = {op: (dtypes - ran[op]) & set(WHOLE) for op, dtypes in declined.items()}
    assert {op: dtypes for op, dtypes in never.items() if dtypes} == DECLINED_TYPES


def test_every_launcher_runs(shim):
    """A launcher that declines all cases is none."""
    ran = defaultdict(set)
    for op in names():
        _cuda.use(shim)
        for name, dtypes in report(op, shim).ran.items():
            ran[name] |= dtypes
    assert set(_cuda.LAUNCHERS) - set(ran) - ELSEWHERE == set()
