"""paddle.utils, paddle.sysconfig, paddle.onnx: helpers, and calls that are not supported."""

import io
import sys
import tarfile
import zipfile

import numpy as np
import paddle
import pytest
from paddle.dataset import common
from paddle.utils import cpp_extension, deprecated, try_import
from paddle.utils.download import get_path_from_url, get_weights_path_from_url, is_url


class Answer(io.BytesIO):
    headers: dict = {}


@pytest.fixture
def web(monkeypatch):
    """Addresses and their contents; returns the list of requested addresses."""
    pages: dict = {}
    asked: list = []

    def urlopen(request, timeout):
        url = request.full_url
        asked.append(url)
        if url not in pages:
            raise OSError(f"no route to {url}")
        return Answer(pages[url])

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr("paddle._basics.fetch.PAUSES", (0, 0))
    return pages, asked


def test_download(web, tmp_path, monkeypatch):
    pages, asked = web
    url = "https://example.org/files/net.pdparams"
    pages[url] = b"weights"
    path = get_path_from_url(url, str(tmp_path))
    assert path == str(tmp_path / "net.pdparams") and (tmp_path / "net.pdparams").read_bytes() == b"weights"
    assert get_path_from_url(url, str(tmp_path)) == path and len(asked) == 1
    get_path_from_url(url, str(tmp_path), check_exist=False)
    assert len(asked) == 2
    monkeypatch.setattr("paddle.utils.download.WEIGHTS_HOME", str(tmp_path / "home"))
    assert get_weights_path_from_url(url).startswith(str(tmp_path))
    with pytest.raises(AssertionError, match="not a url"):
        get_path_from_url("net.pdparams", str(tmp_path))
    assert is_url("http://a.b/c") and not is_url("ftp://a.b/c")


def test_download_that_fails(web, tmp_path):
    pages, asked = web
    with pytest.raises(RuntimeError, match=r"in 3 attempts: no route .* belongs at .*gone\.tar"):
        get_path_from_url("https://example.org/gone.tar", str(tmp_path))
    assert len(asked) == 3
    pages["https://example.org/a"] = b"text"
    with pytest.raises(RuntimeError, match="its MD5 sum is 1cb251ec0d568de6a929b520c4aed8d1, expected 0"):
        get_path_from_url("https://example.org/a", str(tmp_path), md5sum="0")
    assert list(tmp_path.iterdir()) == []


def packed(kind, names):
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            for name in names:
                archive.writestr(name, name)
    else:
        with tarfile.open(fileobj=file, mode="w:gz" if kind == "tgz" else "w") as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size = len(name)
                archive.addfile(info, io.BytesIO(name.encode()))
    return file.getvalue()


@pytest.mark.parametrize("kind", ["tar", "tgz", "zip"])
@pytest.mark.parametrize(
    ("names", "found"),
    [(["one/a", "one/b/c"], "one"), (["alone.txt"], "alone.txt"), (["a", "b/c"], "archive")],
    ids=["folder", "file", "files"],
)
def test_archives(web, tmp_path, kind, names, found):
    url = f"https://example.org/archive.{kind}"
    web[0][url] = packed(kind, names)
    assert get_path_from_url(url, str(tmp_path)) == str(tmp_path / found)
    below = tmp_path / "archive" if found == "archive" else tmp_path
    assert [(below / name).read_text() for name in names] == names


def test_archives_stay_in_their_folder(web, tmp_path):
    web[0]["https://example.org/archive.tar"] = packed("tar", ["a", "../../evil"])
    with pytest.raises(tarfile.OutsideDestinationError):
        get_path_from_url("https://example.org/archive.tar", str(tmp_path / "x"))
    assert not (tmp_path / "evil").exists()


def test_datasets_download(web, tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    web[0]["https://example.org/data.txt"] = b"text"
    path = common.download("https://example.org/data.txt", "mine", "1cb251ec0d568de6a929b520c4aed8d1")
    assert path == str(tmp_path / "mine" / "data.txt") and common.md5file(path) == "1cb251ec0d568de6a929b520c4aed8d1"


def test_split_and_cluster_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common.split(lambda: iter(range(10)), 4, suffix="part-%03d")
    with pytest.raises(TypeError, match="dumper should be callable"):
        common.split(lambda: iter(range(3)), 2, dumper=3)
    seen = [list(common.cluster_files_reader("part-*", 2, i)()) for i in range(2)]
    assert seen == [[0, 1, 2, 3, 8, 9], [4, 5, 6, 7]]
    with pytest.raises(TypeError, match="loader should be callable"):
        list(common.cluster_files_reader("part-*", 1, 0, loader=3)())


def test_try_import():
    assert try_import("os.path").join("a", "b") == "a/b"
    with pytest.raises(ImportError, match="pip install no_such_package"):
        try_import("no_such_package.part")


def test_deprecated():
    def old():
        """Does it."""

    deprecated(update_to="paddle.new", since="2.0.0", reason="a better one")(old)
    assert old.__doc__.startswith('\n\nWarning: API "test_utils.old" is deprecated since 2.0.0, and will be removed in')
    assert 'Please use "paddle.new" instead.\n reason: a better one\nDoes it.' in old.__doc__
    assert deprecated()(old) is old
    with pytest.raises(AssertionError, match='must start with "paddle."'):
        deprecated(update_to="torch.new")(old)
    with pytest.raises(AssertionError, match="since"):
        deprecated(since=2)(old)


def test_require_version(monkeypatch):
    require = paddle.utils.require_version
    for good in (("2.0",), ("1.8", "2.0.2"), ("2.0.2.0", "2.0.2"), ("0.1.0", "10")):
        require(*good)
    for bad in (("2.1",), ("1.8", "2.0.1"), ("2.0.2.1",)):
        with pytest.raises(Exception, match="2.0.2"):
            require(*bad)
    for part in ("major", "minor", "patch"):
        monkeypatch.setattr(paddle.version, part, "0")
    with pytest.warns(UserWarning, match="no version to compare"):
        require("9.9")


def test_run_check(capsys):
    paddle.enable_static()
    try:
        paddle.fluid.install_check.run_check()
        assert not paddle.in_dynamic_mode()
    finally:
        paddle.disable_static()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Running verify PaddlePaddle program") and lines[-1].startswith("PaddlePaddle is inst")
    assert "works well on 1 " in lines[1] and "works well on 2 " in lines[2]


def test_unsupported_calls():
    for call in (
        lambda: cpp_extension.load("name", ["a.cc"]),
        lambda: cpp_extension.setup(name="a"),
        lambda: cpp_extension.CppExtension(["a.cc"]),
        cpp_extension.BuildExtension,
    ):
        with pytest.raises(NotImplementedError, match="C\\+\\+ core"):
            call()
    with pytest.raises(NotImplementedError, match="C\\+\\+ core"):
        paddle.utils.load_op_library("lib.so")
    assert paddle.sysconfig.get_lib().endswith("libs")


def test_onnx_requires_its_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'oar-paddle\[onnx\]'"):
        paddle.onnx.export(paddle.nn.Linear(2, 2), str(tmp_path / "net"))


def test_names_that_are_imported_lazily():
    assert {"Model", "vision", "callbacks"} <= set(dir(paddle))
    assert paddle.callbacks.Callback is paddle.hapi.callbacks.Callback
    with pytest.raises(AttributeError, match="has no attribute"):
        _ = paddle.vision.no_such_name


def test_weighted_average():
    with pytest.warns(UserWarning, match="deprecated"):
        mean = paddle.fluid.average.WeightedAverage()
    with pytest.raises(ValueError, match="no data"):
        mean.eval()
    mean.add(np.array([1.0, 2.0]), 1)
    mean.add(np.array([3.0, 6.0]), np.array([3.0]))
    assert mean.eval().tolist() == [2.5, 5.0]
    for value, weight in (("a", 1), (1, "a"), (1, np.ones(2))):
        with pytest.raises(ValueError, match="must be a number"):
            mean.add(value, weight)
