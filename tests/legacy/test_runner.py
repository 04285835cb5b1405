"""paddle.legacy: scripts run as child processes, by the runner and by their first line."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

NAMES = """
    import collections, fractions, inspect, itertools, math, string, sys, time
    import numpy
    import numpy as np
    from collections import Iterable, OrderedDict
    from itertools import izip
    import cPickle, Queue
    import six
    from six.moves import range as moved, urllib
    from helper import shared

    assert np.float is float and np.int is int and np.object is object
    assert np.float_ is np.float64 and np.product([2, 3]) == 6 and np.NaN != np.NaN and np.Inf == math.inf
    assert isinstance([], Iterable) and isinstance({}, collections.Mapping) and OrderedDict is collections.OrderedDict
    assert time.clock() >= 0 and fractions.gcd(4, 6) == 2 and inspect.getargspec(shared).args == ["x"]
    assert list(xrange(3)) == list(moved(3)) == [0, 1, 2] and reduce(lambda a, b: a + b, [1, 2]) == 3
    assert list(izip([1], [2])) == [(1, 2)] and string.letters and sys.maxint > 0 and cmp(1, 2) == -1
    assert isinstance("a", basestring) and isinstance("a", six.string_types) and unicode is str and long is int
    assert list(six.iteritems({1: 2})) == [(1, 2)] and cPickle.loads(cPickle.dumps(1)) == 1 and Queue.Queue
    assert np.array([[1], [2, 3]]).dtype == object and numpy.asscalar(np.ones(1)) == 1.0
    assert np.fromstring(b"\\x01\\x02", np.uint8).tolist() == [1, 2]
    assert isinstance(np, type(sys)) and np.ndarray is type(np.zeros(1)) and np.random.rand(2).shape == (2,)
    print("ok")
"""
NUMBERS = """
    import io, logging, math, struct
    from math import sqrt
    import numpy as np
    import paddle.fluid as fluid

    written = io.StringIO()
    logging.basicConfig(level=logging.INFO, stream=written, format="%(message)s")
    x = fluid.data("x", [None, 1])
    y = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(1.0))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    out = exe.run(feed={"x": np.float32([[1], [2]])}, fetch_list=[y])[0]
    loss = np.array(out[:1])
    assert [float(loss), int(loss), complex(loss)] == [1, 1, 1]
    assert "%.2f %d" % (loss, loss) == "1.00 1" and "%.1f" % loss == "1.0" and "%(a)d" % {"a": loss} == "1"
    assert "{:.1f} {a:.1f}".format(loss, a=loss) == "1.0 1.0" and f"{loss[0]:.1f}" == "1.0"
    assert math.sqrt(loss) == 1.0 and list(range(np.array([2]))) == [0, 1] and sqrt(loss) == 1.0
    assert [np.float(loss), np.int(loss)] == [1, 1] and list(map(float, out)) == [1.0, 2.0]
    logging.info("%.1f %d", loss, loss)
    logging.getLogger("a").warning("%(a).2f", {"a": loss})
    assert written.getvalue() == "1.0 1\\n1.00\\n" and struct.pack("f", loss) == struct.pack("f", 1.0)
    kept = np.zeros(2)
    kept[1] = np.array([3.0])
    assert kept.tolist() == [0.0, 3.0] and 7 % np.array([4]) == 3
    assert ["%.2f" % row for row in np.array(out)] == ["1.00", "2.00"]
    print("ok")
"""
FILES = """
    import cPickle as pickle
    import numpy as np

    with open("old.pkl") as file:
        old = pickle.load(file)
    assert old["w"].tolist() == [1.0, 2.0], old
    assert [len(line) for line in open("latin.txt", "rU")] == [5]
    assert pickle.load(open("old.pkl", "rb"))["w"].dtype == np.float32
    assert np.load("objects.npy").item() == {"a": 1}
    pickle.dump([1], open("new.pkl", "w"))
    print("ok")
"""
YAML = """
    import yaml
    assert yaml.load("a: 1") == {"a": 1} and yaml.load("b: 2", Loader=yaml.SafeLoader) == {"b": 2}
    print("ok")
"""
PILLOW = """
    from PIL import Image, ImageDraw
    import PIL.Image
    image = Image.new("RGB", (4, 4)).resize((2, 2), Image.ANTIALIAS)
    assert PIL.Image.ANTIALIAS == PIL.Image.LANCZOS and ImageDraw.Draw(image).textsize("a")[0] > 0
    print("ok")
"""
HELPER = """
    import numpy as np

    def shared(x):
        return int(float(x))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text(textwrap.dedent(HELPER))
    # a pickle of Python 2: bytes that are no ASCII, in a byte string of protocol 2
    array = np.array([1, 2], "float32")
    data = pickle.dumps({"w": array}, protocol=2, fix_imports=True).replace(b"numpy._core", b"numpy.core")
    (tmp_path / "old.pkl").write_bytes(data[:2] + b"}U\x02\xe9\xffK\x01s0" + data[2:])
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    np.save(tmp_path / "objects.npy", np.array({"a": 1}, dtype=object), allow_pickle=True)
    return tmp_path


def run(folder: Path, script: str, *arguments: str, by: tuple[str, ...] = ("-m", "paddle.legacy")):
    path = folder / "train.py"
    path.write_text(textwrap.dedent(script))
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    line = [sys.executable, *by, str(path), *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)


@pytest.mark.parametrize("script", [NAMES, NUMBERS, FILES], ids=["names", "numbers", "files"])
@pytest.mark.parametrize("first_line", [False, True])
def test_script(folder, script, first_line):
    if first_line:
        done = run(folder, "import paddle.legacy\n" + textwrap.dedent(script), by=())
    else:
        done = run(folder, script)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


@pytest.mark.parametrize(("package", "script"), [("yaml", YAML), ("PIL", PILLOW)])
def test_optional_packages(folder, package, script):
    pytest.importorskip(package)
    done = run(folder, script)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


def test_arguments_and_status(folder):
    done = run(folder, "import sys\nprint(sys.argv[1:], __name__, __file__ == sys.argv[0])\nsys.exit(3)\n", "--a", "b")
    assert (done.returncode, done.stdout) == (3, "['--a', 'b'] __main__ True\n")
    assert run(folder, "raise KeyError('x')").returncode == 1


def test_a_module(folder):
    (folder / "job.py").write_text("import numpy as np, sys\nprint(np.float, sys.argv[1:])\n")
    line = [sys.executable, "-m", "paddle.legacy", "-m", "job", "a"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=folder)
    assert (done.returncode, done.stdout) == (0, "<class 'float'> ['a']\n"), done.stderr


def test_tracebacks_are_those_of_the_script(folder):
    script = """
        from helper import shared
        def step(x):
            return shared("%d" % x + "a")
        step(3)
    """
    plain, legacy = run(folder, script, by=()), run(folder, script)
    assert plain.returncode == legacy.returncode == 1
    frames = [line for line in plain.stderr.splitlines() if line.startswith("  File")]
    assert len(frames) == 3 and frames == [line for line in legacy.stderr.splitlines() if line.startswith("  File")]
    assert legacy.stderr.splitlines()[-1] == "ValueError: could not convert string to float: '3a'"


def test_installed_packages_are_untouched(folder):
    script = """
        import numpy as np
        np.float
        import sys
        assert "float" not in vars(sys.modules["numpy"]) and not hasattr(sys.modules["collections"], "Iterable")
        import json
        assert json.__builtins__ is not __builtins__ and "xrange" not in json.__builtins__
    """
    done = run(folder, script)
    assert done.returncode == 0, done.stderr


def test_explain(folder):
    done = run(
        folder, "import numpy as np\nnp.float\nfloat(np.array([1.0]))\n", by=("-m", "paddle.legacy", "--explain")
    )
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[0] == "paddle.legacy changed:"
    assert lines[1].endswith("train.py:2: numpy.float is builtins.float (removed in numpy 1.24)")
    assert lines[2].endswith("train.py:3: an array of shape (1,) is converted to a number")


def test_the_release(folder):
    script = "import os, paddle\nprint(paddle.get_flags('FLAGS_compat')['FLAGS_compat'], os.environ['FLAGS_compat'])\n"
    done = run(folder, script, by=("-m", "paddle.legacy", "--as", "1.8"))
    assert (done.returncode, done.stdout) == (0, "1.8 1.8\n"), done.stderr
    done = run(folder, script, by=("-m", "paddle.legacy", "--as", "1.7"))
    assert done.returncode == 2 and "invalid choice: '1.7'" in done.stderr


def test_a_script_that_is_missing(tmp_path):
    line = [sys.executable, "-m", "paddle.legacy", "no_such.py"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 2 and "no_such.py" in done.stderr and "Traceback" not in done.stderr


def test_python_2_is_named(folder):
    done = run(folder, "print 'a'\n")
    assert done.returncode == 1 and "2to3" in done.stderr


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import numpy as np\nnp.float\n", "numpy.float was removed in numpy 1.24; python -m paddle.legacy"),
        ("from collections import Iterable\n", "collections.Iterable was removed in Python 3.10; python -m"),
        ("import time\ntime.clock()\n", "time.clock was removed in Python 3.8; python -m paddle.legacy"),
        ("import cPickle\n", "the module cPickle is not there any more; python -m paddle.legacy"),
        ("xrange(3)\n", "builtins.xrange was removed in Python 3; python -m paddle.legacy"),
        (
            "import numpy as np\nnp.array([[1], [2, 3]])\n",
            "makes no array of ragged sequences; python -m paddle.legacy",
        ),
        ("int('a')\n", None),
        ("import numpy as np\nnp.no_such_name\n", None),
    ],
)
def test_errors_name_the_runner(folder, script, says):
    done = run(folder, f"import paddle\n{script}", by=())
    assert done.returncode == 1
    if says is None:
        assert "paddle.legacy" not in done.stderr
    else:
        last = done.stderr.splitlines()[-1]
        assert says in last and last.endswith("train.py runs this")


def test_conversions_name_the_runner(folder):
    if int(np.__version__.split(".")[0]) < 2 or np.__version__.startswith(("2.0", "2.1", "2.2", "2.3")):
        pytest.skip("numpy below 2.4 converts these arrays")
    done = run(folder, "import paddle, numpy as np\n'%f' % np.array([1.0])\n", by=())
    assert "converts no array that has a dimension; python -m paddle.legacy" in done.stderr.splitlines()[-1]


def test_launch(folder):
    script = "import numpy as np, os\nprint(np.float, os.environ['PADDLE_TRAINER_ID'])\n"
    line = ("-m", "paddle.distributed.launch", "--legacy", "--nproc_per_node", "1", "--print_config", "false")
    done = run(folder, script, by=line)
    assert done.returncode == 0 and "<class 'float'> 0" in done.stdout, done.stdout + done.stderr


def test_a_program_of_18_begins_in_static_mode(folder):
    script = """
        import paddle.fluid as fluid
        drawn = fluid.layers.randint(low=-5, high=5, shape=[3, 4], dtype="int64")
        with fluid.name_scope("s"):
            one = fluid.layers.stack(fluid.data("x", [2], "float32"))
        assert one.op.desc.attr("op_namescope") == "/s/" and one.shape == (1, 2)
        print(type(drawn).__name__)
    """
    done = run(folder, script, by=("-m", "paddle.legacy", "--as", "1.8"))
    assert (done.returncode, done.stdout) == (0, "Variable\n"), done.stderr


def test_a_name_scope_before_the_first_operator(folder):
    script = """
        import paddle.fluid as fluid
        with fluid.name_scope("s"):
            x = fluid.data("x", [2], "float32") + 1
        print(x.op.desc.attr("op_namescope"))
    """
    assert run(folder, script).stdout == "/s/\n"
