"""All kernels compile for a GPU with CuPy's options and without spilled registers; NVRTC requires no GPU. Each kernel
for one architecture and type, and (marked slow) for all types and several architectures: OAR_CUDA_ARCH lists them,
separated by spaces. OAR_NVRTC is the path of another libnvrtc."""

import os
import re

import pytest
from nvrtc import compile_unit, library, spilled
from paddle import _cuda
from paddle._cuda import formula

ARCHITECTURES = os.environ.get("OAR_CUDA_ARCH", "sm_80 sm_90").split()


@pytest.fixture(scope="module")
def nvrtc():
    found = library()
    if found is None:
        pytest.skip("NVRTC is missing: pip install nvidia-cuda-nvrtc-cu12")
    return found


def test_a_row_compiles(nvrtc):
    unit = formula.unit("gelu_grad")
    assert len(compile_unit(nvrtc, unit.name, unit.text, unit.kernels, "sm_80")) == len(unit.kernels)


@pytest.mark.parametrize("unit", _cuda.units(), ids=lambda u: u.name)
def test_every_template_compiles(unit, nvrtc):
    one = {k.split("<")[0]: k for k in reversed(unit.kernels)}
    declared = set(re.findall(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)", unit.text))
    assert declared == set(one), "kernels without an instance, or instances of no kernel"
    assert len(compile_unit(nvrtc, unit.name, unit.text, tuple(one.values()), "sm_80")) == len(one)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("unit", _cuda.units(), ids=lambda u: u.name)
def test_every_kernel_compiles(unit, arch, nvrtc):
    lowered = compile_unit(nvrtc, unit.name, unit.text, unit.kernels, arch)
    assert len(set(lowered.values())) == len(unit.kernels)


def test_a_mistake_is_found(nvrtc):
    with pytest.raises(AssertionError, match="undefined"):
        compile_unit(nvrtc, "wrong", "__global__ void k(float* x) { x[0] = nothing; }", ("k",), "sm_80")


def test_spills_are_found():
    log = """ptxas info : Function properties for _Z1kPf
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads"""
    assert spilled(log) == ["_Z1kPf: 8 bytes"]
    assert spilled(log.replace("8 bytes spill", "0 bytes spill").replace("4 bytes spill", "0 bytes spill")) == []
