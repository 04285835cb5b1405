"""Simulates synchronous steps of many trainers at many servers from measured costs: throughput, and what limits it.

    python benches/servers_simulate.py [--compute 3 --message 60 --byte 0.4 --update 0.25 --network 0.8]

Costs: `--compute` milliseconds of a trainer's own work in a step, `--message` microseconds of CPU for a message at
either end, `--byte` nanoseconds of CPU for a byte sent or received at either end, `--update` nanoseconds of CPU for
each byte of a gradient that a server adds, `--network` nanoseconds for a byte on a host's wire (0.8: 10 Gbit/s), each
way. A server has `--cores` cores and a host of its own; a trainer one core and a host. A step: every trainer computes
(a random fifth more or less), sends each server its part, the server adds each part when all are there, steps, and
answers all. Parts are equal. The defaults
of compute, byte and update are fitted to what `servers.py train` measured; that of message is assumed.
"""

from __future__ import annotations

import argparse
import heapq
import random

SHAPES = [(1, 1), (2, 2), (4, 4), (8, 8), (8, 64), (8, 1000), (32, 1000), (100, 100), (100, 1000), (400, 1000)]
#: bytes that a trainer sends, and receives, in a step
SIZES = {"sparse, 0.8 MB": 0.8e6, "dense, 7 MB": 7e6, "dense, 100 MB": 100e6}


class Cores:
    """Cores of a host; work goes to the first free one."""

    def __init__(self, count: int) -> None:
        self.free, self.busy = [0.0] * count, 0.0

    def do(self, since: float, cost: float) -> float:
        end = max(since, heapq.heappop(self.free)) + cost
        heapq.heappush(self.free, end)
        self.busy += cost
        return end


Played = tuple[float, dict[str, float]]


def play(servers: int, trainers: int, size: float, cost: argparse.Namespace, steps: int = 3) -> Played:
    """Seconds of a step, and how busy trainers, servers' cores and a server's wire (in one of its directions) are."""
    draw = random.Random(1)
    part = size / servers
    handle, wire = cost.message * 1e-6 + part * cost.byte * 1e-9, part * cost.network * 1e-9
    add = part * cost.update * 1e-9
    cores = [Cores(cost.cores) for _ in range(servers)]
    into, out = [Cores(1) for _ in range(servers)], [Cores(1) for _ in range(servers)]
    at, worked = [0.0] * trainers, 0.0
    for _ in range(steps):
        arrivals: list[tuple[float, int]] = []
        for t in range(trainers):
            own = cost.compute * 1e-3 * draw.uniform(0.8, 1.2)
            worked += own + 2 * servers * handle
            now = at[t] + own
            for k in range(servers):
                now += max(handle, wire)  # sending to one server overlaps with making the next one's part
                arrivals.append((now, (t + k) % servers))
        ready = [0.0] * servers
        for when, s in sorted(arrivals):
            ready[s] = max(ready[s], cores[s].do(into[s].do(when, wire), handle))
        answers: list[list[float]] = [[] for _ in range(trainers)]
        for s in range(servers):
            stepped = cores[s].do(ready[s], trainers * add)
            for t in range(trainers):
                answers[t].append(out[s].do(cores[s].do(stepped, handle), wire))
        # A trainer takes its answers one after the other.
        at = [0.0] * trainers
        for t, times in enumerate(answers):
            for when in sorted(times):
                at[t] = max(at[t], when) + handle
    end = max(at)
    used = {
        "trainers": worked / trainers / end,
        "servers' cores": max(c.busy for c in cores) / cost.cores / end,
        "servers' wires, both ways added": max(a.busy + b.busy for a, b in zip(into, out, strict=True)) / end,
    }
    return end / steps, used


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = {"compute": 3.0, "message": 60.0, "byte": 0.4, "update": 0.25, "network": 0.8}
    for name, value in defaults.items():
        ask.add_argument(f"--{name}", type=float, default=value)
    ask.add_argument("--cores", type=int, default=8)
    cost = ask.parse_args()
    for name, size in SIZES.items():
        print(f"{name}\n{'servers':>9} {'trainers':>9} {'ms/step':>9} {'steps/s':>9}  busy")
        for servers, trainers in SHAPES:
            seconds, used = play(servers, trainers, size, cost)
            busy = ", ".join(f"{what} {100 * share:.0f} %" for what, share in used.items())
            print(f"{servers:9d} {trainers:9d} {1e3 * seconds:9.1f} {trainers / seconds:9.0f}  {busy}")


if __name__ == "__main__":
    main()
