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

    built.started.clear()
    _cuda.use(built)
    yield built
    _cuda.use(None)


@pytest.fixture
def gpu():
    """CUDAPlace(0) is a GPU; skips if there is none."""
    from paddle import _cuda

    if _cuda.runtime() is None:
        pytest.skip(f"no GPU: {_cuda.reason()}")
