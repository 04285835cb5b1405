"""A switch of packets between network namespaces that delays and loses them, where the kernel has no netem.

    python slow_network.py DELAY JITTER LOSS SEED NAMESPACE=ADDRESS...

Each namespace gets a device eth0 (TUN) of this process, which prints "ready" once all exist and ends with its standard
input. DELAY and JITTER are seconds, LOSS is a probability; which packets are lost follows from SEED and their order.
Packets from one host to another keep their order. On SIGUSR1 and at its end it prints the numbers of received and lost
packets.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import sys
import time

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI, _CLONE_NEWNET = 0x400454CA, 1, 0x1000, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def device(namespace: str) -> int:
    """A new device eth0 of a namespace; it outlives this thread's visit to the namespace."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _enter(there)
        try:
            made = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(made, _TUNSETIFF, struct.pack("16sH14x", b"eth0", _IFF_TUN | _IFF_NO_PI))
            return made
        finally:
            _enter(home)
    finally:
        os.close(home)
        os.close(there)


class Switch:
    """Forwards packets between devices with a delay, or drops them."""

    def __init__(self, delay: float, jitter: float, loss: float, seed: int, devices: dict[bytes, int]) -> None:
        self.delay, self.jitter, self.loss, self.draw = delay, jitter, loss, random.Random(seed)
        self.devices, self.came, self.lost, self.number = devices, 0, 0, 0
        self.waiting: list[tuple[float, int, int, bytes]] = []
        self.last: dict[tuple[int, int], float] = {}

    def take(self, source: int) -> None:
        for _ in range(64):
            try:
                packet = os.read(source, 65536)
            except OSError:  # no more packets, or the host is disconnected
                return
            target = self.devices.get(packet[16:20]) if len(packet) >= 20 and packet[0] >> 4 == 4 else None
            if target is None:
                continue
            self.came += 1
            if self.draw.random() < self.loss:
                self.lost += 1
                continue
            due = time.monotonic() + self.delay + self.draw.uniform(-self.jitter, self.jitter)
            due = self.last[source, target] = max(due, self.last.get((source, target), 0.0))
            self.number += 1
            heapq.heappush(self.waiting, (due, self.number, target, packet))

    def give(self) -> float | None:
        """Forwards packets that are due; returns the seconds until the next one."""
        while self.waiting:
            left = self.waiting[0][0] - time.monotonic()
            if left > 0:
                return left
            _, _, target, packet = heapq.heappop(self.waiting)
            try:
                os.write(target, packet)
            except OSError:  # disconnected, or full
                self.lost += 1
        return None

    def say(self, *_: object) -> None:
        print(f"{self.came} {self.lost}", flush=True)

    def run(self) -> None:
        watch = select.poll()
        for source in (0, *self.devices.values()):
            watch.register(source, select.POLLIN)
        signal.signal(signal.SIGUSR1, self.say)
        print("ready", flush=True)
        while True:
            left = self.give()
            for source, event in watch.poll(None if left is None else left * 1000 + 0.05):
                if source == 0:
                    self.say()
                    return
                if event & select.POLLIN:
                    self.take(source)


def main() -> None:
    delay, jitter, loss, seed, *hosts = sys.argv[1:]
    named = [host.split("=") for host in hosts]
    devices = {socket.inet_aton(address): device(name) for name, address in named}
    Switch(float(delay), float(jitter), float(loss), int(seed), devices).run()


if __name__ == "__main__":
    main()
