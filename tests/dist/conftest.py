from __future__ import annotations

import pytest
from pool import Pool


@pytest.fixture(scope="session")
def three():
    """Three processes; failures must stay in groups of the test's own."""
    pool = Pool(3)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def two_apart():
    """Two processes that make their rings by the Programs they run."""
    pool = Pool(2, join=False)
    yield pool
    pool.close()
