"""What holds for all tests."""

import os
import signal

import pytest
from specification import find

# A job in the background of a shell starts with SIGINT ignored, and its children would, too; tests send it to them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that compares with the specification is skipped where that is missing, but not in CI: there it fails."""
    mark = item.get_closest_marker("specification")
    if mark is None or find(mark.args[0]) is not None:
        return
    text = f"{mark.args[0]} of the specification is not there: it lies in ../shared/spec, or where OAR_SPEC says"
    if os.environ.get("CI", "").lower() in ("", "0", "false", "no"):
        pytest.skip(text)
    pytest.fail(text, pytrace=False)
