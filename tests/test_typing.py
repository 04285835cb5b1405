"""The package as seen by type checkers and `help`."""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import ops_stub
import paddle
import pytest
from paddle import _core

PYTHON = Path(paddle.__file__).resolve().parent.parent
SCRIPT = """
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


class Net(nn.Layer):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 1)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.second(F.relu(self.first(x)))


def train(steps: int) -> float:
    net = Net(8)
    rate = paddle.optimizer.lr.StepDecay(0.01, step_size=10)
    adam = paddle.optimizer.Adam(learning_rate=rate, parameters=net.parameters(), weight_decay=0.01)
    sgd = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    x = paddle.to_tensor(np.ones((16, 4), "float32"))
    y: paddle.Tensor = x.sum(axis=1, keepdim=True) * 2.0 + np.ones((16, 1), "float32")
    loss = paddle.zeros([1])
    for step in range(steps):
        loss = F.mse_loss(net(x), y).mean() + paddle.sum(x[0] @ x.t()) * 0
        loss.backward()
        (adam if step % 2 else sgd).step()
        adam.clear_grad()
        rate.step()
    with paddle.no_grad():
        best = paddle.argmax(net(x), axis=0)
    paddle.save(net.state_dict(), "net.pdparams")
    net.set_state_dict(paddle.load("net.pdparams"))
    sizes: list[int] = best.shape
    return float(loss.item()) + len(sizes)


print(train(3))
"""


def check(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(text)
    # as for an installed package: errors in it are not reported
    args = ["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), str(script)]
    env = {**os.environ, "MYPYPATH": str(PYTHON)}
    return subprocess.run([sys.executable, "-m", "mypy", *args], env=env, capture_output=True, text=True)


def test_a_script_passes_the_strict_checks(tmp_path):
    done = check(tmp_path, SCRIPT)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True)


def test_a_wrong_script_does_not(tmp_path):
    wrong = SCRIPT + "\nt: str = paddle.ones([2]).shape\npaddle.ones([2]).reshape(1.5)\n"
    done = check(tmp_path, wrong)
    assert done.returncode == 1 and done.stdout.count("error:") == 2, done.stdout + done.stderr


def test_misspelt_names_are_found(tmp_path):
    done = check(tmp_path, "import paddle\npaddle.ones([2]).reshap([1])\n")
    assert done.returncode == 1 and '"Tensor" has no attribute "reshap"' in done.stdout, done.stdout


def test_pyright_accepts_the_script(tmp_path):
    """`x: paddle.Tensor` as an annotation, and functions of `paddle` by name."""
    pyright = shutil.which("pyright") or shutil.which("pyright", path=str(Path(sys.executable).parent))
    if pyright is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(PYTHON)]}))
    done = subprocess.run(
        [pyright, "script.py", "--pythonpath", sys.executable], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed():
    assert (PYTHON / "paddle" / "py.typed").is_file()


def test_the_stub_names_what_tensors_have():
    tree = ast.parse((PYTHON / "paddle" / "_core.pyi").read_text())
    (stub,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor"]
    named = {n.name for n in stub.body if isinstance(n, ast.FunctionDef)}
    named |= {n.target.id for n in stub.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    have = {n for n in dir(paddle.Tensor) if not n.startswith("_")}
    assert have - named == set() and {n for n in named if not n.startswith("_")} - have == set()
    for node in stub.body:
        method = getattr(paddle.Tensor, node.name, None) if isinstance(node, ast.FunctionDef) else None
        if inspect.isfunction(method) and not node.name.startswith("_"):
            stars = [a.arg for a in (node.args.vararg, node.args.kwarg) if a]
            taken = [a.arg for a in node.args.args][1:] + stars
            assert taken == list(inspect.signature(method).parameters)[1:], node.name


def test_the_stub_names_what_the_native_module_has():
    """Without a `__getattr__`, so that a checker finds misspelt names."""
    tree = ast.parse((PYTHON / "paddle" / "_core.pyi").read_text())
    named = {n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    named |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    named |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    have = {n for n in dir(_core) if not n.startswith("__")}
    assert have - named == set() and named - have - {"_Operand", "_Shape"} == set()


def test_the_stub_of_the_operators_is_up_to_date():
    assert ops_stub.PATH.read_text() == ops_stub.stub(), "run python tools/ops_stub.py"


def test_help_is_complete():
    """Every public method and property of Tensor has a docstring, and so does the class."""
    gaps = [
        n
        for n in dir(paddle.Tensor)
        if not n.startswith("_") and not (inspect.getattr_static(paddle.Tensor, n).__doc__ or "").strip()
    ]
    assert gaps == [] and len(paddle.Tensor.__doc__) > 100
