"""The machines that CUDA tests run on: the shim on the CPU, or a GPU."""

import pytest
from shim import ShimMachine, have_compiler


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Where the kernels are compiled as C++, once a session."""
    if not have_compiler():
        pytest.skip("g++ is missing: CUDA kernels are not run as C++")
    return ShimMachine(tmp_path_factory.mktemp("units"))


@pytest.fixture
def shim(built):
    """CUDAPlace(0) is the shim while the test runs."""
    from paddle import _cuda

    built.started.clear()
    _cuda.use(built)
    yield built
    _cuda.use(None)


@pytest.fixture
def gpu():
    """CUDAPlace(0) is a GPU; skips where there is none."""
    from paddle import _cuda

    if _cuda.runtime() is None:
        pytest.skip(f"no GPU: {_cuda.reason()}")
