"""Configuration of all tests."""

import os
import signal

import pytest
from specification import find

# A background job of a shell starts with SIGINT ignored, which children inherit; tests send SIGINT to them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests that need the specification if it is missing; in CI they fail."""
    mark = item.get_closest_marker("specification")
    if mark is None or find(mark.args[0]) is not None:
        return
    text = f"{mark.args[0]} of the specification is not there: it lies in ../shared/spec, or where OAR_SPEC says"
    if os.environ.get("CI", "").lower() in ("", "0", "false", "no"):
        pytest.skip(text)
    pytest.fail(text, pytrace=False)
