"""Fixtures of the tests with several processes."""

from __future__ import annotations

import pytest
from pool import Pool


@pytest.fixture(scope="session")
def three():
    """Three processes; a failure must stay within groups of the test."""
    pool = Pool(3)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def two_apart():
    """Two processes whose Programs create the rings."""
    pool = Pool(2, join=False)
    yield pool
    pool.close()
