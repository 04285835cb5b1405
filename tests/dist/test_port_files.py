"""Port files of servers are removed at their end, also of killed servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from launching import clean_environment
from paddle.distributed.port_files import port_file, remove_stale_port_files


def test_the_next_start_removes_those_of_killed_servers():
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(60)
    gone, mine = map(port_file, (dead.pid, os.getpid()))
    other = port_file("of-another")
    try:
        for path in (gone, mine, other):
            path.write_text("1\n")
        remove_stale_port_files()
        assert (gone.exists(), mine.exists(), other.exists()) == (False, True, True)
    finally:
        for path in (gone, mine, other):
            path.unlink(missing_ok=True)


def test_the_launcher_removes_them(tmp_path):
    script = tmp_path / "server.py"
    script.write_text(
        "import os, signal\n"
        "from paddle.distributed.port_files import port_file\n"
        "at = port_file(os.getpid())\n"
        "at.write_text('1')\n"
        f"open({str(tmp_path / 'at')!r}, 'w').write(str(at))\n"
        f"os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
    )
    command = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node=1", str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode, done.stderr
    assert not Path((tmp_path / "at").read_text()).exists()
