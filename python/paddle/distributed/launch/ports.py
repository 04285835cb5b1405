"""Free ports, address resolution, and local addresses."""

from __future__ import annotations

import ipaddress
import random
import re
import socket
from contextlib import closing
from pathlib import Path

from .args import LaunchError


def _ephemeral() -> tuple[int, int]:
    """The kernel's range of ephemeral ports."""
    try:
        low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        return low, high
    except (OSError, ValueError):
        return 32768, 60999


def free(count: int) -> list[int]:
    """`count` free ports, outside of the ephemeral range if possible: the kernel may assign an ephemeral port before
    its owner binds it.

    Raises:
        LaunchError: when there are fewer.
    """
    low, high = _ephemeral()
    pool = range(10000, low) if low - 10000 >= 4 * count + 1000 else range(low, high)
    found: list[int] = []
    # A private generator: that of the script may be seeded, and two launchers would draw the same ports.
    for port in random.Random().sample(pool, min(len(pool), 100 + 8 * count) if count <= len(pool) else 0):
        if len(found) == count:
            break
        with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as s:
            try:
                s.bind(("", port))
            except OSError:
                continue
        found.append(port)
    if len(found) < count:
        raise LaunchError(f"there are no {count} free ports between {pool.start} and {pool.stop - 1}")
    return found


def resolve(host: str) -> str:
    """The IP address of a host name; an address is returned unchanged.

    Raises:
        LaunchError: for an unknown name.
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as e:
        raise LaunchError(f"the host {host!r} cannot be resolved: {e.strerror or e}") from None


def loopback(ip: str) -> bool:
    return ipaddress.ip_address(ip).is_loopback


def local(ip: str) -> bool:
    """Whether the address is one of this machine's."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with closing(socket.socket(family, socket.SOCK_STREAM)) as s:
            s.bind((ip, 0))
    except OSError:
        return False
    return True


def join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(endpoint: str) -> tuple[str, int | None]:
    """host and port of ``host:port``, ``[v6]:port`` or ``host``.

    Raises:
        LaunchError: for another form.
    """
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]\s]+))(?::(\d{1,5}))?", endpoint.strip())
    port = int(found[3]) if found and found[3] else None
    if found is None or port is not None and not 0 < port < 65536:
        raise LaunchError(f"{endpoint!r} is not of the form ip:port")
    return found[1] or found[2], port
