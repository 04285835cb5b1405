"""Loading of click logs as MultiSlot text, Parquet and Arrow: rows a second of InMemoryDataset and QueueDataset.

    python benches/columns.py [--rows 60000] [--rounds 5] [--threads 1 2]        (pip install pyarrow)

26 ids, 13 numbers and a label a row, as in Criteo's data; ids of 62 bits (hashes) or below 100,000. The kinds of files
alternate; the least times count: on the clock, and of all threads' processors.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import numpy as np
import paddle

FIELDS, DENSE, DISTINCT = 26, 13, 100000


def write(folder: str, name: str, rows: int, largest: int) -> list[str]:
    """The same rows as text, Parquet and Arrow; the files' names."""
    import pyarrow as arrow
    from pyarrow import parquet

    random = np.random.default_rng(0)
    columns = {}
    for i in range(FIELDS):
        columns[f"c{i}"] = random.integers(1, largest, DISTINCT)[random.integers(0, DISTINCT, rows)]
    dense = random.random((rows, DENSE)).round(4).astype("float32")
    columns["dense"] = arrow.FixedSizeListArray.from_arrays(arrow.array(dense.ravel()), DENSE)
    columns["label"] = random.integers(0, 2, rows)
    table = arrow.table(columns)
    paths = [os.path.join(folder, f"{name}.{kind}") for kind in ("txt", "parquet", "arrow")]
    with open(paths[0], "w") as file:
        for r in range(rows):
            ids = [f"1 {columns[f'c{i}'][r]}" for i in range(FIELDS)]
            file.write(" ".join([*ids, "13", *(f"{x:.4f}" for x in dense[r]), f"1 {columns['label'][r]}\n"]))
    parquet.write_table(table, paths[1])
    with arrow.ipc.new_file(paths[2], table.schema) as writer:
        writer.write_table(table)
    return paths


def load(kind: str, path: str, threads: int) -> tuple[float, float]:
    """Seconds on the clock and of processors."""
    with paddle.static.program_guard(paddle.static.Program()):
        ids = [paddle.static.data(f"c{i}", [None, 1], "int64", lod_level=1) for i in range(FIELDS)]
        rest = [paddle.static.data("dense", [None, DENSE]), paddle.static.data("label", [None, 1], "int64")]
    dataset = getattr(paddle.distributed, kind)()
    dataset.init(batch_size=128, thread_num=threads, use_var=[*ids, *rest])
    dataset.set_filelist([path])
    started, processors = time.perf_counter(), time.process_time()
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
    else:
        dataset._prepare_to_run()
        for batches in dataset.dataset.batches(threads)[1]:
            while batches.next():
                pass
    return time.perf_counter() - started, time.process_time() - processors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    paddle.enable_static()
    best: dict[tuple, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = write(folder, "hashes", args.rows, 1 << 62) + write(folder, "small", args.rows, 100000)
        for _ in range(args.rounds):
            for kind in ("InMemoryDataset", "QueueDataset"):
                for threads in args.threads:
                    for path in paths:
                        key, found = (kind, threads, os.path.basename(path)), load(kind, path, threads)
                        best[key] = tuple(map(min, best.get(key, found), found))  # type: ignore[assignment]
    print("| data set | threads | file | ms | ms of processors | million rows/s |\n|---|---|---|---|---|---|")
    for (kind, threads, name), (clock, cpu) in best.items():
        print(f"| {kind} | {threads} | {name} | {clock * 1e3:.0f} | {cpu * 1e3:.0f} | {args.rows / clock / 1e6:.2f} |")


if __name__ == "__main__":
    main()
