"""What tests of several modules need."""

from __future__ import annotations

import pytest
from paddle.dataset import common


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """The folder of data sets, an empty one; downloads fail at once."""

    def urlopen(url, timeout):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("paddle._basics.fetch.PAUSES", (0, 0))
    return tmp_path / "home"
