"""The examples in docstrings run."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import pkgutil

import paddle
import pytest
from paddle._basics import unique_name

# Modules whose import requires optional packages, or that are programs.
SKIPPED = {"paddle._cuda.__main__", "paddle.distributed.launch"}


def modules():
    found = ["paddle"]
    for info in pkgutil.walk_packages(paddle.__path__, "paddle."):
        if info.name not in SKIPPED and not info.name.endswith("._core"):
            found.append(info.name)
    return found


@contextlib.contextmanager
def fresh():
    """Dygraph mode, with separate Programs, names and scope for the example."""
    static = paddle.static
    paddle.disable_static()
    with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
        with unique_name.guard():
            yield
    paddle.disable_static()


#: Modules whose examples need an optional package.
OPTIONAL = {
    "paddle.fluid.proto.framework_pb2": "google.protobuf",
    "paddle.legacy.pillow_names": "PIL",
    "paddle.legacy.yaml_names": "yaml",
}


@pytest.mark.filterwarnings(
    "ignore:DataParallel runs on this one process",
    "ignore:.* is deprecated and does nothing",
    "ignore:a batch norm that trains always updates",
)
@pytest.mark.parametrize("name", modules())
def test_examples(name, tmp_path, monkeypatch):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module):
        if not example.examples:
            continue
        text: list[str] = []
        with fresh():
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
            runner.run(example, out=text.append)
        assert runner.failures == 0, "".join(text)
