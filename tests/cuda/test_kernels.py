"""Launchers against the Rust kernels, on operands of more than a block: kernels as C++ on the CPU, and (marked gpu) on
a GPU. test_agreement.py covers every launcher."""

import paddle
import pytest
from cases import ALL, compare
from paddle._cuda.__main__ import templates


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name())
@pytest.mark.filterwarnings("error")
def test_as_cpp(case, shim):
    compare(case, paddle.CUDAPlace(0))
    assert shim.started or not case.own, f"{case.op} started no kernel"


@pytest.mark.gpu
@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name())
def test_on_a_gpu(case, gpu):
    compare(case, paddle.CUDAPlace(0))


def test_variants_of_a_loop_are_one_template():
    """docs/dev/cuda.md: another operation, layout or rule for the source is a template argument."""
    assert templates() <= 90
