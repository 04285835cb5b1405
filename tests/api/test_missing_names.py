"""Names and modules of Paddle that are not there yet say so, wherever they are asked for."""

import importlib
import json
import pkgutil

import paddle
import pytest
from paddle._basics import missing
from specification import find

SPEC = find("api.json")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "fluid",
        "fluid.contrib",
        "fluid.dygraph",
        "fluid.layers",
        "fluid.core",
        "fluid.framework",
        "fluid.optimizer",
        "nn",
        "nn.functional",
        "optimizer",
        "static",
        "static.nn",
        "io",
        "metric",
        "utils",
    ],
)
def test_modules_say_so(name):
    module = importlib.import_module(f"paddle.{name}".rstrip("."))
    with pytest.raises(AttributeError, match=f"'{module.__name__}' has no attribute 'no_such_name'; .* not there yet"):
        _ = module.no_such_name
    assert not hasattr(module, "no_such_name")


def test_import_from():
    with pytest.raises(ImportError, match="no_such_name"):
        from paddle.fluid.contrib import no_such_name  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="No module named 'paddle.no_such_module'$"):
        importlib.import_module("paddle.no_such_module")


def test_modules_that_are_not_there():
    here = {m.name for m in pkgutil.walk_packages(paddle.__path__, "paddle.") if "._" not in m.name}
    gone = sorted(missing.MODULES - here)
    for name in gone:
        parent = name.rpartition(".")[0]
        if parent in gone:
            continue
        with pytest.raises(ModuleNotFoundError, match="Paddle 2.0.2 that is not there yet") as caught:
            importlib.import_module(name)
        assert caught.value.name == name


@pytest.mark.specification("api.json")
def test_every_module_of_the_specification():
    entries = json.loads(SPEC.read_text())
    names = {e["name"] for e in entries if e["kind"] == "module"} | {e["section"] for e in entries}
    names -= {"paddle", "paddle.Tensor"}
    here = {m.name for m in pkgutil.walk_packages(paddle.__path__, "paddle.")}
    assert not names - here - missing.MODULES


def test_passes_of_the_core():
    with pytest.raises(missing.OperatorMissing, match="OAR_PLAN_PASSES"):
        _ = paddle.fluid.core.get_pass


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("from paddle.fluid.dygraph.nn import Conv2D, no_such_name", "'no_such_name' from 'paddle.fluid.dygraph.nn'"),
        (
            "from paddle import no_such_name",
            "'no_such_name' from 'paddle'; a name of Paddle 2.0.2 that is missing here is",
        ),
        ("from paddle.fluid.layers import no_such_name", "'no_such_name' from 'paddle.fluid.layers'; a name of Paddle"),
        ("from paddle.nn.layer.common import no_such_name", "is not there yet"),
    ],
)
def test_import_of_a_name_says_what_is_missing(statement, says):
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert says in str(caught.value) and type(caught.value) is ImportError
    module, name = statement.split()[1], statement.split()[-1]
    assert not hasattr(importlib.import_module(module), name)


def test_names_where_2_0_defines_them():
    for module, names in missing.HOMES.items():
        for name, package in names.items():
            there = getattr(importlib.import_module(module), name)
            assert there is getattr(importlib.import_module(package), name), (module, name)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = paddle.fluid.layers.nn.no_such_name
