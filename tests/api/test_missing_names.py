"""Errors for names and modules of Paddle that are not implemented, and legacy module paths."""

import contextlib
import importlib
import json
import pickle
import pkgutil
import re
from pathlib import Path

import paddle
import pytest
from paddle._basics import import_hook, internal_reasons, legacy_names, missing, unavailable_names
from specification import find, resolve

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
def test_missing_attributes(name):
    module = importlib.import_module(f"paddle.{name}".rstrip("."))
    with pytest.raises(AttributeError, match=f"'{module.__name__}' has no attribute 'no_such_name'$"):
        _ = module.no_such_name
    assert not hasattr(module, "no_such_name")


def test_import_from():
    with pytest.raises(ImportError, match="no_such_name"):
        from paddle.fluid.contrib import no_such_name  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="No module named 'paddle.no_such_module'$"):
        importlib.import_module("paddle.no_such_module")


def modules() -> set[str]:
    """The public modules of the package, those of the table of legacy names among them."""
    files = {m.name for m in pkgutil.walk_packages(paddle.__path__, "paddle.") if "._" not in m.name}
    return files | set(legacy_names.entries())


def test_missing_modules():
    assert not import_hook.MISSING_MODULES & modules()
    for name in import_hook.MISSING_MODULES:
        with pytest.raises(ModuleNotFoundError, match="Paddle 2.0.2 that is not there yet") as caught:
            importlib.import_module(name)
        assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("paddle.cat", "this is PyTorch's name: in Paddle it is paddle.concat"),
        ("paddle.nn.Module", "this is PyTorch's name: in Paddle it is paddle.nn.Layer"),
        ("paddle.sparse", "it is new in Paddle 2.1 to 2.6, this package follows 2.0.2"),
        ("paddle.autograd.jacobian", "it is new in Paddle 2.1 to 2.6"),
        ("paddle.vision.ops.psroi_pool", "it is new in Paddle 2.1 to 2.6"),
        ("paddle.conact", "did you mean 'concat'"),
    ],
)
def test_a_missing_name_has_its_reason(name, says):
    module, _, last = name.rpartition(".")
    with pytest.raises(AttributeError, match=re.escape(says)):
        getattr(importlib.import_module(module), last)


def test_tables_of_missing_names_are_true():
    """No name of the tables is there, and every replacement is."""
    for block in unavailable_names.LATER.strip().split("\n\n"):
        module, *lines = block.split("\n")
        try:
            owner = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        assert not [name for name in " ".join(lines).split() if hasattr(owner, name)], module
    for block in unavailable_names.TORCH.strip().split("\n\n"):
        module, *lines = block.split("\n")
        owner = importlib.import_module(module)
        for pair in " ".join(lines).split():
            torch, _, ours = pair.partition("=")
            assert not hasattr(owner, torch) and hasattr(owner, ours), f"{module}: {pair}"


def test_every_module_of_the_specification():
    entries = json.loads(SPEC.read_text())
    names = {e["name"] for e in entries if e["kind"] == "module"} | {e["section"] for e in entries}
    assert not names - {"paddle", "paddle.Tensor"} - modules() - import_hook.MISSING_MODULES


def test_every_name_of_the_specification():
    """Those of 2.0.2, and those of 1.8 that 2.0 has dropped."""
    missing_names = []
    for entry in json.loads(SPEC.read_text()):
        try:
            resolve(entry["name"])
        except (ImportError, AttributeError):
            missing_names.append(entry["name"])
    assert not missing_names


def test_names_that_modules_of_202_define():
    """A name that a module of 2.0.2 defines at module level is there, or its absence has a reason."""
    without = []
    for module, names in json.loads(find("modules.json").read_text()).items():
        try:
            found = importlib.import_module(module)
        except ImportError:
            if internal_reasons.module_reason(module) is None:
                without.append(module)
            continue
        for name in names.split():
            # A feature that is refused by name counts as present.
            with contextlib.suppress(missing.OperatorMissing):
                if not hasattr(found, name) and internal_reasons.reason(module, name) is None:
                    without.append(f"{module}.{name}")
    assert [name for name in without if not name.rpartition(".")[2].startswith("__")] == []


def test_passes_of_the_core():
    with pytest.raises(missing.OperatorMissing, match="OAR_PLAN_PASSES"):
        _ = paddle.fluid.core.get_pass


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("from paddle.fluid.dygraph.nn import Conv2D, no_such_name", "'no_such_name' from 'paddle.fluid.dygraph.nn'"),
        ("from paddle import no_such_name", "'no_such_name' from 'paddle'"),
        ("from paddle import poisson", "'poisson' from 'paddle'; it is new in Paddle 2.1 to 2.6"),
        ("from paddle.nn import Modul", "'Modul' from 'paddle.nn'"),
        ("from paddle.nn import Conv2d", "this is PyTorch's name: in Paddle it is paddle.nn.Conv2D"),
    ],
)
def test_import_errors_name_what_is_missing(statement, says):
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert says in str(caught.value) and type(caught.value) is ImportError
    module, name = statement.split()[1], statement.split()[-1]
    assert not hasattr(importlib.import_module(module), name)


def test_names_where_2_0_defines_them():
    """A name of the specification is found at the path of its definition too, if it is below fluid."""
    missing_paths = []
    for entry in json.loads(SPEC.read_text()):
        path = entry.get("defined_in") or ""
        module, _, name = path.rpartition(".")
        if not path.startswith("paddle.fluid.") or " " in path or entry["kind"] not in ("function", "class"):
            continue
        try:
            resolve(entry["name"])
        except (ImportError, AttributeError):
            continue  # not implemented under any name
        try:
            found = hasattr(importlib.import_module(module), name)
        except ImportError:
            found = False
        if not found:
            missing_paths.append(path)
    assert not missing_paths


def test_legacy_names():
    for module, entry in legacy_names.entries().items():
        made = importlib.import_module(module)
        if entry.same:
            assert made is importlib.import_module(entry.same) is importlib.import_module(module)
        for name, source in entry.names.items():
            where, _, old = source.partition(":")
            assert getattr(made, name) is getattr(importlib.import_module(where), old), (module, name)
        assert set(entry.names) <= set(dir(made)) or entry.same
        if not hasattr(made, "__file__"):
            assert list(entry.public) == made.__all__ and made.__doc__
            scope: dict[str, object] = {}
            exec(f"from {module} import *", scope)
            assert set(entry.public) <= set(scope)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = paddle.fluid.layers.nn.no_such_name
    with pytest.raises(ModuleNotFoundError, match="No module named 'paddle.fluid.clip.no_such_module'"):
        importlib.import_module("paddle.fluid.clip.no_such_module")


def test_no_module_imports_a_legacy_module():
    """Code of the package imports definitions; the table is for users' programs."""
    files = {m.name for m in pkgutil.walk_packages(paddle.__path__, "paddle.")}
    legacy = "|".join(re.escape(name) for name in set(legacy_names.entries()) - files - {"paddle"})
    statement = re.compile(rf"^\s*(?:from|import) (?:{legacy})(?: import|$)", re.M)
    for path in Path(paddle.__path__[0]).rglob("*.py"):
        assert not statement.search(path.read_text()), path


def test_objects_unpickle_by_a_legacy_path():
    data = pickle.dumps(paddle.io.Subset([1, 2, 3], [0]), protocol=0)
    old = data.replace(b"paddle.io.dataset", b"paddle.fluid.dataloader.dataset")
    assert old != data and pickle.loads(old)[0] == 1


def test_a_later_module_is_not_one_that_upstream_imports():
    """`paddle.incubate.nn` is a package of 2.2, not the `nn` of `fluid.layers`."""
    for found in (lambda: paddle.incubate.nn, lambda: paddle.incubate.nn.FusedLinear):
        with pytest.raises(AttributeError, match=r"'paddle\.incubate' has no attribute 'nn'; it is new in Paddle 2\.1"):
            found()
