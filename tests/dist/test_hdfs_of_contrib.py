"""fluid.contrib.HDFSClient, over the stand-in for the command `hadoop` of test_hdfs_client."""

from __future__ import annotations

import zipfile

import paddle.fluid as fluid
import paddle.fluid.incubate.fleet.utils.fs as fs
import paddle.fluid.incubate.fleet.utils.hdfs as hdfs
import pytest
from paddle.distributed.fleet.utils import HDFSClient, LocalFS
from test_hdfs_client import home  # noqa: F401 (a fixture)


@pytest.fixture
def client(home):  # noqa: F811
    return fluid.contrib.HDFSClient(str(home), {"fs.default.name": "hdfs://x:1"})


def test_the_other_client_is_fleets_own():
    assert issubclass(hdfs.HDFSClient, HDFSClient) and fs.LocalFS is LocalFS


def test_files_there_and_back(client, tmp_path):
    one = tmp_path / "one file.txt"
    one.write_text("1")
    assert not client.is_exist("/a") and not client.is_dir("/a") and client.ls("/a") == [] == client.lsr("/a")
    assert client.makedirs("/a/b") and client.makedirs("/a/b") is None
    assert client.is_dir("/a/b") and client.upload("/a", str(one))
    assert client.ls("/a") == ["/a/b", "/a/one file.txt"] and not client.is_dir("/a/one file.txt")
    one.write_text("2")
    assert not client.upload("/a", str(one)) and (tmp_path / "files/a/one file.txt").read_text() == "1"
    # other files of the folder stay
    assert client.upload("/a", str(one), overwrite=True) and client.is_dir("/a/b")
    local = tmp_path / "local"
    assert client.download("/a/one file.txt", str(local)) and (local / one.name).read_text() == "2"
    assert not client.download("/a/one file.txt", str(local))
    assert client.download("/a/one file.txt", str(local), overwrite=True)
    assert not client.download("/none", str(local)) and not client.upload("/a", str(local))
    with pytest.raises(FileNotFoundError, match="none does not exist"):
        client.upload("/a", str(tmp_path / "none"))


def test_names_and_removal(client, tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).write_text(name)
        assert client.makedirs(f"/{name}") and client.upload(f"/{name}", str(tmp_path / name))
    assert not client.rename("/x/x", "/y/y") and not client.rename("/none", "/z")
    assert client.rename("/x/x", "/y/y", overwrite=True) and (tmp_path / "files/y/y").read_text() == "x"
    assert client.delete("/y/y") and client.delete("/y") and client.delete("/y") and client.lsr("/") == []
    assert client.lsr("/", only_file=False) == ["/x"]


def test_archives(client, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inner.txt", "text")
    assert client.makedirs("/z") and client.upload("/z", str(tmp_path / "a.zip"))
    assert client.download("/z/a.zip", str(tmp_path / "out"), unzip=True)
    assert (tmp_path / "out/inner.txt").read_text() == "text"


def test_failures_are_tried_again(client, tmp_path, caplog):
    (tmp_path / "failures").write_text("1")
    assert client.makedirs("/f") and "connection refused" in caplog.text
    (tmp_path / "failures").write_text("9")
    assert client.ls("/f") == []
    (tmp_path / "failures").write_text("0")
    with pytest.raises(ValueError, match="must not begin with '-'"):
        client.is_exist("-rf")
    with pytest.raises(ValueError, match="needs a path, got None"):
        client.is_dir()
    with pytest.raises(FileNotFoundError, match="cannot be run"):
        fluid.contrib.HDFSClient(str(tmp_path / "none"), {}).ls("/")


def test_many_files(client, tmp_path):
    source = tmp_path / "source"
    for name in ("a", "sub/b", "sub/deep/c"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    assert client.makedirs("/data")
    fluid.contrib.multi_upload(client, "/data", str(source), multi_processes=2)
    assert sorted(client.lsr("/data")) == ["/data/a", "/data/sub/b", "/data/sub/deep/c"]
    shares = [fluid.contrib.multi_download(client, "/data", str(tmp_path / "got"), i, 2) for i in range(2)]
    assert len(shares[0]) == 2 and len(shares[1]) == 1
    for file in sum(shares, []):
        name = file.removeprefix(f"{tmp_path}/got/")
        assert open(file).read() == name
    for function in (fluid.contrib.multi_upload, fluid.contrib.multi_download):
        with pytest.raises(TypeError, match="must be a fluid.contrib.HDFSClient"):
            function(HDFSClient("/x", {}), "/data", "x", 0, 1)
