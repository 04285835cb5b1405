"""HDFSClient over a stand-in for the command `hadoop`, which keeps its files in a folder."""

from __future__ import annotations

import stat
import sys

import pytest
from paddle.distributed.fleet.utils import HDFSClient
from paddle.distributed.fleet.utils.fs import FSFileExistsError, FSFileNotExistsError, FSTimeOut

STAND_IN = """#!{python} -S
import os, shutil, sys, time
root, args = {root!r}, sys.argv[2:]
open(os.path.join(root, "log"), "a").write(repr(args) + "\\n")
args = [a for a in args if not a.startswith("-D")]
left = os.path.join(root, "failures")
if os.path.exists(left) and int(open(left).read()):
    count = int(open(left).read())
    open(left, "w").write(str(count - 1))
    print("connection refused", file=sys.stderr)
    sys.exit(1)
if os.path.exists(os.path.join(root, "slow")):
    time.sleep(30)
verb, rest = args[0][1:], [a for a in args[1:] if a not in ("-p", "-r", "-R", "-d", "-e")]
at = lambda p: os.path.join(root, "files", p.lstrip("/"))
if verb == "ls":
    path = at(rest[0])
    if not os.path.exists(path):
        print(f"ls: {{rest[0]}}: No such file or directory", file=sys.stderr)
        sys.exit(1)
    names = sorted(os.listdir(path)) if os.path.isdir(path) else [""]
    if "-R" in args:
        names = [os.path.relpath(os.path.join(d, n), path) for d, ds, fs in os.walk(path) for n in sorted(ds + fs)]
    for n in names:
        kind = "d" if os.path.isdir(os.path.join(path, n)) else "-"
        print(f"{{kind}}rw-r--r--   3 me us 1 2020-01-01 10:00 {{os.path.join(rest[0], n)}}")
elif verb == "test":
    sys.exit(0 if (os.path.isdir if "-d" in args else os.path.exists)(at(rest[0])) else 1)
elif verb == "put":
    (shutil.copytree if os.path.isdir(rest[0]) else shutil.copy)(rest[0], at(rest[1]))
elif verb == "get":
    (shutil.copytree if os.path.isdir(at(rest[0])) else shutil.copy)(at(rest[0]), rest[1])
elif verb == "mkdir":
    os.makedirs(at(rest[0]))
elif verb == "mv":
    os.rename(at(rest[0]), at(rest[1]))
elif verb == "rm":
    shutil.rmtree(at(rest[0])) if "-r" in args else os.remove(at(rest[0]))
elif verb == "touchz":
    open(at(rest[0]), "w").close()
"""


@pytest.fixture
def home(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "files").mkdir()
    command = tmp_path / "bin" / "hadoop"
    command.write_text(STAND_IN.format(python=sys.executable, root=str(tmp_path)))
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def test_a_file_system(home):
    client = HDFSClient(str(home), {"fs.default.name": "hdfs://x:1"}, time_out=20000, sleep_inter=10)
    client.mkdirs("/a/b")
    client.touch("/a/$(touch x); one file")
    assert client.ls_dir("/a") == (["b"], ["$(touch x); one file"])
    assert client.list_dirs("/none") == [] and not client.is_exist("/none")
    odd = "/a/$(touch x); one file"
    assert client.is_dir("/a/b") and not client.is_dir(odd) and client.is_file(odd)
    local = home / "local"
    local.write_text("text")
    client.upload(str(local), "/a/copy")
    with pytest.raises(FSFileExistsError, match="/a/copy"):
        client.upload(str(local), "/a/copy")
    with pytest.raises(FSFileNotExistsError, match="absent"):
        client.upload(str(home / "absent"), "/a/other")
    client.mv("/a/copy", "/a/b/copy")
    with pytest.raises(FSFileNotExistsError, match="/a/copy"):
        client.mv("/a/copy", "/a/x")
    client.download("/a/b/copy", str(home / "back"))
    assert (home / "back").read_text() == "text"
    with pytest.raises(FSFileExistsError):
        client.touch("/a/b/copy", exist_ok=False)
    client.delete("/a")
    client.delete("/a")
    assert not client.is_exist("/a")
    with pytest.raises(ValueError, match="'-"):
        client.is_exist("-rm")
    assert "'-Dfs.default.name=hdfs://x:1'" in (home / "log").read_text()


def test_what_fails_is_tried_again_until_the_time_is_over(home):
    client = HDFSClient(str(home), None, time_out=20000, sleep_inter=10)
    (home / "failures").write_text("3")
    client.mkdirs("/a")
    assert client.is_dir("/a")
    (home / "failures").write_text("1000000")
    client._time_out = 300
    with pytest.raises(FSTimeOut, match="is_exist.*connection refused"):
        client.is_exist("/a")
    (home / "failures").write_text("0")
    (home / "slow").touch()
    with pytest.raises(FSTimeOut, match="ls /a took longer"):
        client.is_exist("/a")


def test_a_command_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="bin/hadoop"):
        HDFSClient(str(tmp_path), None).is_exist("/a")
