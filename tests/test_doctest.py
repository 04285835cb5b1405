"""The examples in docstrings run."""
from __future__ import annotations

import doctest
import importlib
import pkgutil

import paddle
import pytest

# Modules whose import needs what is not installed, or that are programs.
SKIPPED = {"paddle._cuda.__main__", "paddle.distributed.launch"}


def modules():
    found = ["paddle"]
    for info in pkgutil.walk_packages(paddle.__path__, "paddle."):
        if info.name not in SKIPPED and not info.name.endswith("._core"):
            found.append(info.name)
    return found


@pytest.fixture(autouse=True)
def fresh():
    """Dygraph mode, with Programs, names and a scope of the test's own."""
    from paddle.framework import unique_name

    static = paddle.static
    paddle.disable_static()
    with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
        with unique_name.guard():
            yield
    paddle.disable_static()


@pytest.mark.parametrize("name", modules())
def test_examples(name, tmp_path, monkeypatch):
    module = importlib.import_module(name)
    if not any(t.examples for t in doctest.DocTestFinder(exclude_empty=True).find(module)):
        return
    monkeypatch.chdir(tmp_path)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, _ = doctest.testmod(module, optionflags=options, verbose=False)
    assert failed == 0, f"{failed} examples of {name} fail: python -m doctest shows them"
