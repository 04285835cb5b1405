"""Fixtures of the CUDA tests: the shim on the CPU, or a GPU."""

import pytest
from shim import ShimMachine, have_compiler


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder where kernels are compiled as C++, once per session."""
    if not have_compiler():
        pytest.skip("g++ is missing: CUDA kernels are not run as C++")
    return ShimMachine(tmp_path_factory.mktemp("units"))


@pytest.fixture
def shim(built):
    """CUDAPlace(0) is the shim during the test."""
    from paddle import _cuda

    built.forget()
    _cuda.use(built)
    yield built
    _cuda.use(None)


def pytest_collection_modifyitems(items):
    """A test of a GPU fails where an operator falls back to the CPU."""
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.filterwarnings("error:operator .* has no CUDA kernel:RuntimeWarning"))


@pytest.fixture
def gpu():
    """CUDAPlace(0) is a GPU, whose convolutions do not use TF32; skips if there is none."""
    from paddle import _cuda

    found = _cuda.runtime()
    if found is None:
        pytest.skip(f"no GPU: {_cuda.reason()}")
    _cuda.allow_tf32_convolutions(False)
    _cuda.use(found.machine)  # every test is warned again
    yield found.machine
    _cuda.allow_tf32_convolutions(True)
