"""Hosts that are network namespaces of this machine: each has its own interface, loopback and host name."""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from launching import clean_environment, command, kill

TOKEN = "00112233445566778899aabbccddeeff"


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


def _kill_all(name: str) -> None:
    left = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
    for number in left.split():
        kill(int(number))


class Hosts:
    """`count` namespaces on one switch, which is a namespace, too; nothing of them reaches beyond.

    The host `node0` has the address 10.77.0.1, and so on; names are resolved through the file `folder`/hosts.
    """

    def __init__(self, count: int, folder: Path):
        self.count, self._folder, self._made = count, folder, []
        self.ips = [f"10.77.0.{i + 1}" for i in range(count)]
        self._names = [f"oar{os.getpid()}-{i}" for i in range(count)]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{ip} node{i}\n" for i, ip in enumerate(self.ips)))

    def __enter__(self) -> Hosts:
        missing = [tool for tool in ("ip", "tc", "unshare", "mount") if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"no {', '.join(missing)} here")
        switch = f"oar{os.getpid()}-s"
        try:
            for name in (switch, *self._names):
                _run("ip", "netns", "add", name)
                self._made.append(name)
                _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
            _run("ip", "-n", switch, "link", "set", "br0", "up")
            for i, name in enumerate(self._names):
                _run("ip", "-n", switch, "link", "add", f"p{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
                _run("ip", "-n", switch, "link", "set", f"p{i}", "master", "br0", "up")
                _run("ip", "-n", name, "address", "add", f"{self.ips[i]}/24", "dev", "eth0")
                _run("ip", "-n", name, "link", "set", "eth0", "up")
        except subprocess.CalledProcessError as e:
            self.__exit__()
            pytest.skip(f"network namespaces cannot be made here: {' '.join(e.cmd)}: {e.stderr.strip()}")
        return self

    def __exit__(self, *_) -> None:
        for name in self._made:
            _kill_all(name)
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self._made.clear()

    def cut(self, i: int) -> None:
        """Unplug a host's cable."""
        _run("ip", "-n", self._names[i], "link", "set", "eth0", "down")

    def worsen(self, i: int, rate: str, room: int) -> None:
        """Let a host send so much in a second; what finds more than `room` bytes waiting is lost."""
        _run("ip", "netns", "exec", self._names[i], "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
             "burst", "16kb", "limit", str(room))

    def emulate(self, i: int, how: str) -> None:
        """Delay and lose what a host sends, in the words of netem."""
        try:
            words = ["tc", "qdisc", "add", "dev", "eth0", "root", "netem", *how.split()]
            _run("ip", "netns", "exec", self._names[i], *words)
        except subprocess.CalledProcessError as e:
            pytest.skip(f"the kernel emulates no network: {e.stderr.strip()}")

    def kill(self, i: int) -> None:
        """End all that runs on a host, without a word."""
        _kill_all(self._names[i])

    def lost(self, i: int) -> int:
        """Packets that a worsened host has lost."""
        shown = subprocess.run(["ip", "netns", "exec", self._names[i], "tc", "-s", "qdisc", "show", "dev", "eth0"],
                               capture_output=True, text=True, check=True).stdout
        return int(shown.split("dropped ")[1].split(",")[0])

    def on(self, i: int, words: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
        """Start a program on a host, in a process group of its own. Its folder there is its own, too."""
        home = self._folder / f"node{i}"
        home.mkdir(exist_ok=True)
        # The name space of mounts is ip's: the file of hosts is this program's alone.
        script = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'
        inside = ["unshare", "--uts", "sh", "-c", script, str(self._folder / "hosts"), f"node{i}", *words]
        return subprocess.Popen(["ip", "netns", "exec", self._names[i], *inside], cwd=home, env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)

    def launch(self, i: int, flags: list[str], *script: str, **env: str) -> subprocess.Popen[str]:
        return self.on(i, command(flags, *script), clean_environment(OAR_JOB_TOKEN=TOKEN) | env)
