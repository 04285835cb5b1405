"""Time and CPU time of an all_reduce among processes of this machine, by ranks, size and transport.

    python benches/bench_allreduce.py [--ranks 2,4,8] [--sizes 4B,4KB,1MB,64MB] [--ways memory,tcp] [--runs 5]

Ranks are made by `paddle.distributed.spawn`, with one thread each; float32 sums. `memory` is shared memory, `tcp` the
loopback (OAR_SHARED_MEMORY=0). Prints for every rank count, size and transport: the microseconds of a call (the median
of the runs; of the slowest and of the fastest rank), the CPU microseconds of a call averaged over the ranks, and the
CPU seconds that all ranks used together. Ranks beyond the number of cores share them: the time of a call is then the
CPU time of all ranks over the cores. With `chrt -r 1` other processes of the machine do not show in the figures.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from typing import Any

COUNTS = {"4B": 1, "4KB": 1 << 10, "1MB": 1 << 18, "64MB": 1 << 24}  # float32 values


def calls_per_run(count: int) -> int:
    """Calls per run: a run takes well under a second and many times the clock's resolution."""
    return 100 if count < 1 << 16 else 20 if count < 1 << 20 else 3


def rank_main(sizes: list[str], runs: int, results: Any) -> None:
    """Puts (rank, {size: (seconds of a call, CPU seconds in all)}) into `results`."""
    import paddle
    import paddle.distributed as dist

    dist.init_parallel_env()
    one = paddle.ones([1])
    dist.all_reduce(one)
    if float(one.numpy()[0]) != dist.get_world_size():
        raise AssertionError("all_reduce did not add")
    report = {}
    for size in sizes:
        x, calls = paddle.zeros([COUNTS[size]]), calls_per_run(COUNTS[size])
        for _ in range(3):
            dist.all_reduce(x)
        times, cpu = [], time.process_time()
        for _ in range(runs):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(x)
            times.append((time.perf_counter() - begin) / calls)
        report[size] = (statistics.median(times), time.process_time() - cpu)
    results.put((dist.get_rank(), report))
    dist.barrier()


def measure(ranks: int, sizes: list[str], way: str, runs: int) -> list[dict[str, tuple[float, float]]]:
    """The results of every rank, by rank."""
    import paddle.distributed as dist

    os.environ.update(OMP_NUM_THREADS="1", OAR_SHARED_MEMORY="0" if way == "tcp" else "1")
    results = multiprocessing.get_context("spawn").SimpleQueue()
    dist.spawn(rank_main, args=(sizes, runs, results), nprocs=ranks)
    return [report for _, report in sorted((results.get() for _ in range(ranks)), key=lambda r: r[0])]


def main() -> None:
    def listed(text: str) -> list[str]:
        return text.split(",")

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ranks", type=listed, default="2,4,8")
    p.add_argument("--sizes", type=listed, default=",".join(COUNTS))
    p.add_argument("--ways", type=listed, default="memory,tcp")
    p.add_argument("--runs", type=int, default=5)
    args = p.parse_args()
    for size in args.sizes:
        if size not in COUNTS:
            p.error(f"a size is one of {', '.join(COUNTS)}, not {size!r}")
    for way in args.ways:
        if way not in ("memory", "tcp"):
            p.error(f"a way is memory or tcp, not {way!r}")
    print("ranks  size     way    us a call      fastest  CPU us a rank   CPU s")
    for ranks in args.ranks:
        for way in args.ways:
            reports = measure(int(ranks), args.sizes, way, args.runs)
            for size in args.sizes:
                times, cpus = zip(*(r[size] for r in reports), strict=True)
                slow, fast, cpu = max(times) * 1e6, min(times) * 1e6, sum(cpus)
                each = cpu / len(cpus) / (args.runs * calls_per_run(COUNTS[size])) * 1e6
                print(f"{ranks:>5} {size:>5} {way:>7} {slow:12.1f} {fast:12.1f} {each:14.1f} {cpu:7.2f}", flush=True)


if __name__ == "__main__":
    main()
