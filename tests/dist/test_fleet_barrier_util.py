"""incubate.fleet.utils.fleet_barrier_util, over the stand-in for the command `hadoop`."""

from __future__ import annotations

import threading
import time

import pytest
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.utils import fleet_barrier_util
from test_hdfs_client import home  # noqa: F401 (a fixture)


@pytest.fixture
def files(home, monkeypatch):  # noqa: F811
    for name, value in (("HADOOP_HOME", str(home)), ("FS_NAME", "hdfs://x:1"), ("FS_UGI", "me,secret")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(fleet_barrier_util, "_LOOK", 0.05)
    fleet.init(UserDefinedRoleMaker(1, Role.WORKER, 2, ["127.0.0.1:6174"]))
    return home / "files" / "ready"


def test_trainers_wait_for_each_other(files):
    waiting = threading.Thread(target=fleet_barrier_util.check_all_trainers_ready, args=("/ready/", 3), daemon=True)
    waiting.start()
    until = time.monotonic() + 60
    while not (files / "ready.3.1.done").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert waiting.is_alive() and [p.name for p in files.iterdir()] == ["ready.3.1.done"]
    (files / "ready.2.0.done").touch()  # from another epoch
    waiting.join(0.5)
    assert waiting.is_alive()
    (files / "ready.3.0.done").touch()
    waiting.join(60)
    assert not waiting.is_alive()


def test_the_environment_must_say_where(files, monkeypatch):
    monkeypatch.delenv("FS_NAME")
    monkeypatch.setenv("FS_UGI", "")
    with pytest.raises(ValueError, match="the environment lacks FS_NAME, FS_UGI"):
        fleet_barrier_util.check_all_trainers_ready("/ready", 0)
