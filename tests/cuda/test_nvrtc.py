"""Every kernel compiles for a GPU. NVRTC needs none: OAR_CUDA_ARCH names other architectures, separated by spaces."""
import os

import pytest
from nvrtc import compile_unit, library
from paddle import _cuda
from paddle._cuda import formula

ARCHITECTURES = os.environ.get("OAR_CUDA_ARCH", "sm_80").split()


@pytest.fixture(scope="module")
def nvrtc():
    found = library()
    if found is None:
        pytest.skip("NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")
    return found


def test_a_row_compiles(nvrtc):
    unit = formula.unit("gelu_grad")
    assert len(compile_unit(nvrtc, unit.name, unit.text, unit.kernels, "sm_80")) == len(unit.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("unit", _cuda.units(), ids=lambda u: u.name)
def test_every_kernel_compiles(unit, arch, nvrtc):
    lowered = compile_unit(nvrtc, unit.name, unit.text, unit.kernels, arch)
    assert len(set(lowered.values())) == len(unit.kernels)


def test_a_mistake_is_found(nvrtc):
    with pytest.raises(AssertionError, match="undefined"):
        compile_unit(nvrtc, "wrong", "__global__ void k(float* x) { x[0] = nothing; }", ("k",), "sm_80")
