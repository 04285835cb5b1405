"""Configuration of all tests."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# A background job of a shell starts with SIGINT ignored, and children inherit that; tests send SIGINT to children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# nohup does so with SIGHUP.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

HERE = Path(__file__).resolve().parent

#: Files and folders that get the marker `alone`: they start several processes with time limits, bind ports, or measure
#: time, memory or threads.
ALONE = [
    "acceptance",
    "api/test_gil.py",
    "api/test_import.py",
    "api/test_io_failures.py",
    "api/test_io_generator.py",
    "dist",
    "inference/test_many_runs.py",
    "inference/test_mutated_models.py",
    "static/test_shared_scope.py",
    "static/test_train_from_dataset.py",
    "test_forks_of_threads.py",
    "test_fuzz.py",
    "test_memory.py",
    "test_pickle_fuzz.py",
    "test_robust.py",
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    paths = [HERE / name for name in ALONE]
    for item in items:
        if any(item.path.is_relative_to(path) for path in paths):
            item.add_marker("alone")


@pytest.fixture(autouse=True)
def _environment_of_one_test() -> Iterator[None]:
    """Restores the variables that a test or a docstring's example sets: child processes of later tests inherit them."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)
