"""Each launcher against the Rust kernel, on random operands: kernels as C++ on the CPU, and (marked gpu) on a GPU."""

import paddle
import pytest
from cases import ALL, compare
from paddle import _cuda
from paddle._cuda.comm import rings

# In-place operators and operators without operands; covered by test_route.py.
IN_PLACE = {"sgd", "adam", "fill_constant"}
# Collectives; covered by test_nccl.py.
BETWEEN = set(rings.LAUNCHERS)


def test_every_launcher_has_a_case():
    assert set(_cuda.LAUNCHERS) - {c.op for c in ALL} == IN_PLACE | BETWEEN


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name())
@pytest.mark.filterwarnings("error")
def test_as_cpp(case, shim):
    compare(case, paddle.CUDAPlace(0))
    assert bool(shim.started) == case.own, f"{case.op} started {shim.started}"


@pytest.mark.gpu
@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name())
def test_on_a_gpu(case, gpu):
    compare(case, paddle.CUDAPlace(0))
