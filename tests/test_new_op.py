"""tools/new_op.py: skeletons of operators in a small copy of the tree."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
from pathlib import Path

import new_op
import pytest
from specification import find

ROOT = Path(__file__).resolve().parent.parent

LIBRARY = """\
//! Operators: a group.

pub mod concat;
pub mod softmax;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    concat::TABLE,  // concat
    softmax::TABLE, // softmax
];
"""
STUB = "def softmax(\n    X: _One,\n) -> Any: ...\n"
MODULE = '''"""Losses."""

from __future__ import annotations

from paddle import _ops

__all__ = ["mse_loss"]


def mse_loss(input, label):
    return _ops.mse_loss(input, label)
'''

LAYERS = '''"""Layers."""

from __future__ import annotations

__all__ = []
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with two groups, of which all but the operator softmax is missing."""
    texts = {
        "rust/ops/nn/src/lib.rs": LIBRARY,
        "rust/ops/math/src/lib.rs": LIBRARY,
        "python/paddle/_ops.pyi": STUB,
        "python/paddle/loss.py": MODULE,
        "python/paddle/layers.py": LAYERS,
        "rust/kernels/src/elementwise/mod.rs": "//! Loops.\n\npub mod cast;\nmod tests;\n",
        "python/paddle/_cuda/families.py": (ROOT / "python/paddle/_cuda/families.py").read_text(),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "rustfmt.toml", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["huber_loss", "conv2d", "nce", "einsum"])
def test_the_files(tree: Path, name: str) -> None:
    written = new_op.files(name, "nn", cuda=True, function="paddle.loss", root=tree)
    spec = next(op for op in json.loads(find("ops.json").read_text()) if op["type"] == name)
    family = written[Path(f"rust/ops/nn/src/{name}.rs")]
    for slot in spec["inputs"] + spec["outputs"]:
        assert f'"{slot}"' in family
    for attr in spec["attrs"]:
        assert f"{attr}: " in family
    assert ("Grad::By(" in family) == spec["grad"]
    assert "bail!(Unimplemented" in family
    library = written[Path("rust/ops/nn/src/lib.rs")]
    assert f"pub mod {name};\n" in library and f"    {name}::TABLE," in library
    assert {path.suffix for path in written} == {".rs", ".py"}
    for path, text in written.items():
        if path.suffix == ".py":
            ast.parse(text)
        elif shutil.which("rustfmt"):
            command = ["rustfmt", "--check", "--edition", "2021", "--config-path", str(tree)]
            found = subprocess.run(command, input=text, capture_output=True, text=True)
            assert found.returncode == 0 and not found.stdout, found.stdout
    launchers = written[Path("python/paddle/_cuda/families.py")]
    assert launchers.count(f"\n    {name},\n") == 2 or name != "huber_loss"
    assert "_ops." + name in written[Path("python/paddle/loss.py")]


def test_the_signature_is_that_of_the_specification(tree: Path) -> None:
    written = new_op.files("huber_loss", "nn", function="paddle.loss", root=tree)
    text = written[Path("python/paddle/loss.py")]
    assert "def huber_loss(input, label, delta):" in text
    assert '__all__ = ["huber_loss", "mse_loss"]' in text


def test_a_kernel_and_a_layer(tree: Path) -> None:
    written = new_op.files(
        "logit", "math", function="paddle.loss", layer="paddle.layers", kernel="elementwise", root=tree
    )
    kernel = written[Path("rust/kernels/src/elementwise/logit.rs")]
    assert "pub fn logit<T: Float>(x: &[T], eps: T, out: &mut [T])" in kernel and "at_every_level(" in kernel
    assert "pub mod cast;\npub mod logit;\n" in written[Path("rust/kernels/src/elementwise/mod.rs")]
    layers = written[Path("python/paddle/layers.py")]
    assert "class Logit(UnaryFunctionLayer):" in layers and "def __init__(self, eps: Any = 1e-06, name" in layers
    assert "from paddle.loss import logit" in layers and '"Logit",' in layers
    for path, text in written.items():
        if path.suffix == ".py":
            ast.parse(text)
    assert "return named(name, _ops.logit, x, eps=eps)" in written[Path("python/paddle/loss.py")]


def test_a_gradient_without_recorded_slots_reads_everything(tree: Path) -> None:
    family = new_op.files("lerp", "math", root=tree)[Path("rust/ops/math/src/lerp.rs")]
    assert 'X "X", Y "Y", WEIGHT "Weight", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD", DWEIGHT "Weight@GRAD"' in (
        " ".join(family.split())
    )


def test_without_a_group_the_prefix_chooses(tree: Path) -> None:
    assert Path("rust/ops/math/src/erfinv.rs") in new_op.files("erfinv", root=tree)
    with pytest.raises(new_op.Refused, match="no group sequence; groups: math, nn"):
        new_op.files("sequence_pool", root=tree)


@pytest.mark.parametrize(
    "name, group, message",
    [
        ("softmax", "nn", "operator softmax exists"),
        ("huber_los", "nn", "no operator huber_los; near: huber_loss"),
        ("huber_loss", "loss", "no group loss; groups: math, nn"),
    ],
)
def test_refused(tree: Path, name: str, group: str, message: str) -> None:
    with pytest.raises(new_op.Refused, match=message):
        new_op.files(name, group, root=tree)


def test_unknown_folders_and_modules(tree: Path) -> None:
    with pytest.raises(new_op.Refused, match="no folder of kernels math; folders: elementwise"):
        new_op.files("logit", "math", kernel="math", root=tree)
    with pytest.raises(new_op.Refused, match="a layer needs --function"):
        new_op.files("logit", "math", layer="paddle.layers", root=tree)


def test_files_that_exist_are_left_alone(tree: Path) -> None:
    (tree / "rust/ops/nn/src/huber_loss.rs").write_text("")
    with pytest.raises(new_op.Refused, match="huber_loss.rs exists"):
        new_op.files("huber_loss", "nn", root=tree)


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert new_op.main(["take_along_axis", "--group", "shape", "--dry-run"]) == 0
    assert "==> rust/ops/shape/src/take_along_axis.rs" in capsys.readouterr().out
    assert not (ROOT / "rust/ops/shape/src/take_along_axis.rs").exists()


def test_a_group_may_be_a_folder_of_a_crate() -> None:
    groups = new_op.groups(ROOT)
    assert groups["quant"] == Path("rust/ops/math/src/quant/mod.rs")
    assert groups["nn"] == Path("rust/ops/nn/src/lib.rs")


def test_an_operator_of_our_own(tree: Path) -> None:
    known = {"group": "math", "function": "paddle.loss", "layer": "paddle.layers", "kernel": "elementwise"}
    written = new_op.files("soft_shift", **known, definition="X -> Out; alpha=1.0, axes=[0], keep=True", root=tree)
    family = written[Path("rust/ops/math/src/soft_shift.rs")]
    assert "pub struct SoftShiftAttrs { alpha: f32 = 1.0, axes: Vec<i32> = vec![0], keep: bool = true }" in family
    assert 'mod soft_shift_grad { X "X", DOUT "Out@GRAD" => DX "X@GRAD" }' in family
    kernel = written[Path("rust/kernels/src/elementwise/soft_shift.rs")]
    assert "pub fn soft_shift<T: Float>(x: &[T], alpha: T, out: &mut [T])" in kernel
    assert "def soft_shift(x, alpha=1.0, axes=[0], keep=True, name=None):" in written[Path("python/paddle/loss.py")]


@pytest.mark.parametrize("definition", ["X; alpha=1.0", "X -> Out; alpha=f", "X -> Out; alpha", "X -> Out; alpha=None"])
def test_a_definition_that_is_none(tree: Path, definition: str) -> None:
    with pytest.raises(new_op.Refused, match="--define"):
        new_op.files("soft_shift", "math", definition=definition, root=tree)
