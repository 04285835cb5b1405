from __future__ import annotations

import pytest
from pool import Pool


@pytest.fixture(scope="session")
def three():
    """Three processes; failures must stay in groups of the test's own."""
    pool = Pool(3)
    yield pool
    pool.close()
