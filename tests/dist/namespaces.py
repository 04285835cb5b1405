"""Hosts that are network namespaces of this machine: each has its own interface, loopback and host name."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
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
    """`count` namespaces on one switch, itself a namespace, isolated from other networks.

    With `slow` (seconds of delay, of jitter, probability of loss, seed) the switch is a process that delays and loses
    packets. The host `node0` has the address 10.77.0.1, and so on; names are resolved through the file `folder`/hosts.
    """

    def __init__(self, count: int, folder: Path, slow: tuple[float, float, float, int] | None = None):
        self.count, self._folder, self._slow = count, folder, slow
        self._made: list[str] = []
        self._switch: subprocess.Popen[str] | None = None
        self.ips = [f"10.77.0.{i + 1}" for i in range(count)]
        self._names = [f"oar{os.getpid()}-{i}" for i in range(count)]
        (folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{ip} node{i}\n" for i, ip in enumerate(self.ips))
        )

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
            self._connect_slowly() if self._slow else self._connect(switch)
            for i, name in enumerate(self._names):
                _run("ip", "-n", name, "address", "add", f"{self.ips[i]}/24", "dev", "eth0")
                _run("ip", "-n", name, "link", "set", "eth0", "up")
        except subprocess.CalledProcessError as e:
            self.__exit__()
            pytest.skip(f"network namespaces cannot be made here: {' '.join(e.cmd)}: {e.stderr.strip()}")
        return self

    def _connect(self, switch: str) -> None:
        """Creates a bridge, with a link to each host."""
        _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "br0", "up")
        for i, name in enumerate(self._names):
            _run("ip", "-n", switch, "link", "add", f"p{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "-n", switch, "link", "set", f"p{i}", "master", "br0", "up")

    def _connect_slowly(self) -> None:
        """Starts a process that forwards all packets."""
        words = [str(word) for word in self._slow or ()]
        words += [f"{name}={ip}" for name, ip in zip(self._names, self.ips, strict=True)]
        script = str(Path(__file__).with_name("slow_network.py"))
        self._switch = subprocess.Popen(
            [sys.executable, script, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._switch.stdout is None or self._switch.stdout.readline() != "ready\n":
            said = self._switch.communicate(timeout=30)[1].strip().splitlines()
            self.__exit__()
            pytest.skip(f"no devices of user space (TUN) here: {said[-1] if said else ''}")

    def __exit__(self, *_) -> None:
        for name in self._made:
            _kill_all(name)
        if self._switch is not None:
            self._switch.kill()
            self._switch.communicate()
            self._switch = None
        for name in self._made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self._made.clear()

    def packets(self) -> tuple[int, int]:
        """For a slow network: the numbers of received and of lost packets."""
        assert self._switch is not None and self._switch.stdout is not None
        self._switch.send_signal(signal.SIGUSR1)
        came, lost = self._switch.stdout.readline().split()
        return int(came), int(lost)

    def cut(self, i: int) -> None:
        """Disconnects a host."""
        _run("ip", "-n", self._names[i], "link", "set", "eth0", "down")

    def worsen(self, i: int, rate: str, room: int) -> None:
        """Limits a host's bandwidth; packets that find more than `room` bytes queued are dropped."""
        _run(
            "ip",
            "netns",
            "exec",
            self._names[i],
            "tc",
            "qdisc",
            "add",
            "dev",
            "eth0",
            "root",
            "tbf",
            "rate",
            rate,
            "burst",
            "16kb",
            "limit",
            str(room),
        )

    def kill(self, i: int) -> None:
        """Kills all processes of a host."""
        _kill_all(self._names[i])

    def lost(self, i: int) -> int:
        """The number of packets dropped by a limited host."""
        shown = subprocess.run(
            ["ip", "netns", "exec", self._names[i], "tc", "-s", "qdisc", "show", "dev", "eth0"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return int(shown.split("dropped ")[1].split(",")[0])

    def on(self, i: int, words: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
        """Starts a program on a host, in its own process group and folder."""
        home = self._folder / f"node{i}"
        home.mkdir(exist_ok=True)
        # the mount namespace is that of `ip`: only this program sees the hosts file
        script = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'
        inside = ["unshare", "--uts", "sh", "-c", script, str(self._folder / "hosts"), f"node{i}", *words]
        return subprocess.Popen(
            ["ip", "netns", "exec", self._names[i], *inside],
            cwd=home,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )

    def launch(self, i: int, flags: list[str], *script: str, **env: str) -> subprocess.Popen[str]:
        return self.on(i, command(flags, *script), clean_environment(OAR_JOB_TOKEN=TOKEN) | env)
