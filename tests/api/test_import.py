"""`import paddle` together with other packages in any order, and its cost."""

import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path

import paddle
import pytest

OTHERS = [
    name
    for name in ("numpy", "scipy.linalg", "sklearn.datasets", "torch", "pandas")
    if importlib.util.find_spec(name.split(".")[0])
]


def child(code: str) -> str:
    """The output of a new process."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stderr}"
    return done.stdout


# Uses each package after all are loaded, which exposes clashes of symbols.
USE = """
import numpy
a = numpy.arange(12.0, dtype="float32").reshape(3, 4)
if "scipy.linalg" in sys.modules:
    sys.modules["scipy.linalg"].svd(a)
if "sklearn.datasets" in sys.modules:
    assert sys.modules["sklearn.datasets"].load_digits().images.shape == (1797, 8, 8)
if "torch" in sys.modules:
    torch = sys.modules["torch"]
    assert torch.from_numpy(a).matmul(torch.from_numpy(a.T)).shape == (3, 3)
if "pandas" in sys.modules:
    assert sys.modules["pandas"].DataFrame(a).sum().sum() == 66
x = paddle.to_tensor(a, stop_gradient=False)
paddle.matmul(x, x, transpose_y=True).sum().backward()
assert list(x.grad.shape) == [3, 4]
print("done")
"""


@pytest.mark.parametrize(
    "order",
    [["paddle", *OTHERS], [*OTHERS, "paddle"], ["paddle", *reversed(OTHERS)]],
    ids=["first", "last", "reversed"],
)
def test_together_with_other_packages(order):
    assert child("import sys\n" + "".join(f"import {name}\n" for name in order) + USE) == "done\n"


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(["paddle", *OTHERS[:3]])), ids="-".join)
def test_any_order(order):
    assert child("import sys\n" + "".join(f"import {name}\n" for name in order) + USE) == "done\n"


def test_cuda_package_is_not_imported():
    assert child("import sys, paddle\nprint('cupy' in sys.modules, 'scipy' in sys.modules)") == "False False\n"


@pytest.mark.parametrize(
    "name",
    [
        "io.DataLoader",
        "jit.TracedLayer",
        "dataset.mnist.train",
        "reader.shuffle",
        "static.Executor",
        "fluid.layers.fc",
        "optimizer.lr.NoamDecay",
        "metric.Accuracy",
        "nn.functional.relu",
        "regularizer.L2Decay",
        "batch",
    ],
)
def test_reachable_after_plain_import(name):
    assert child(f"import paddle\nprint(callable(paddle.{name}))") == "True\n"


def test_memory():
    # Not ru_maxrss: a child inherits its parent's peak.
    code = "import paddle\nprint(next(l for l in open('/proc/self/status') if l.startswith('VmRSS')).split()[1])"
    assert min(int(child(code)) for _ in range(3)) < 60 * 1024


def test_a_folder_with_paddlepaddle_in_it_is_named(tmp_path):
    """Both packages install into the folder `paddle`; modules of the two must not be mixed."""
    ours = Path(paddle.__file__).parent
    (tmp_path / "paddle" / "libs").mkdir(parents=True)
    for entry in ours.iterdir():
        (tmp_path / "paddle" / entry.name).symlink_to(entry)
    code = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport paddle"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    for text in ("ImportError", "paddle/libs", "pip uninstall -y paddlepaddle", "-m venv"):
        assert text in done.stderr
