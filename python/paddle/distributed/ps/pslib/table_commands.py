"""Commands of the first worker for the servers' tables: save, load, shrink, clear and others.

The worker sends a command; a block of the server's Program passes it to `TableCommands`; the worker receives the
answer. A saved table is the folder ``folder/NNN``, NNN its id: for a sparse table one part for each server, with a file
of SelectedRows for each value of its rows; for a dense table one file for each parameter, as ``fluid.io.save_vars``
writes.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import paddle._core as _core
from paddle._basics.place import CPUPlace
from paddle._core import _Scope as Scope
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle.static.creation import data
from paddle.static.executor import Executor

from .server_programs import ANSWER, COMMAND, SparseTable

__all__: list[str] = []

#: rows of one read or write
_CHUNK = 1 << 16
#: modes of saving: all rows; those that changed since the last save; those above base_threshold; all, and a day ends
ALL, CHANGED, WORTH, DAY = range(4)
#: the names of the commands
COMMANDS = frozenset({"save", "load", "shrink", "clear", "stat", "most", "cache", "confirm", "revert"})


class TableCommands:
    """The commands on the tables of one server.

    Args:
        tables (list of SparseTable): the sparse tables. dense (dict): id to the parameters of this server and the
            states of their rules. scope (Scope): the scope of these. me, servers (int): the index of this server, and
            the number of servers.
    """

    def __init__(
        self, tables: list[SparseTable], dense: dict[int, list[str]], scope: Any, me: int, servers: int
    ) -> None:
        self.tables, self.dense, self.scope = {table.number: table for table in tables}, dense, scope
        self.me, self.servers, self.exe = me, servers, Executor(CPUPlace())
        self.confirmed: tempfile.TemporaryDirectory[str] | None = None

    def __call__(self, command: Any) -> np.ndarray:
        """Runs a command and returns its answer, both as bytes of JSON."""
        given = json.loads(bytes(np.array(command)))
        try:
            if (do := given.pop("do")) not in COMMANDS:
                raise ValueError(f"there is no command {do!r}")
            answer = {"done": getattr(self, do)(**given)}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        return np.frombuffer(json.dumps(answer).encode(), "uint8")

    def _chosen(self, table: int | None) -> list[int]:
        known = [*self.tables, *self.dense]
        if table is not None and table not in known:
            raise ValueError(f"there is no table {table}, only {', '.join(map(str, sorted(known)))}")
        return known if table is None else [table]

    def _sparse(self, table: int) -> SparseTable:
        if table not in self.tables:
            raise ValueError(f"there is no sparse table {table}, only {', '.join(map(str, sorted(self.tables)))}")
        return self.tables[table]

    # Rows

    def _columns(self, table: SparseTable, names: list[str]) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Ids and the named values of all rows, in chunks."""
        every = np.frombuffer(_core.dist.table_ids(table.name), "int64")
        main = Program()
        with program_guard(main, Program()):
            found = table.read(data("ids", [None], "int64"), names)
        for at in range(0, len(every), _CHUNK):
            ids = every[at : at + _CHUNK]
            yield ids, self.exe.run(main, {"ids": ids}, found, scope=Scope())

    def _write(self, table: SparseTable, ids: np.ndarray, values: dict[str, np.ndarray]) -> None:
        main = Program()
        with program_guard(main, Program()):
            given = [data(name, [None, 1], "float32") for name in values]
            table.write(data("ids", [None], "int64"), list(values), given)
        self.exe.run(main, {"ids": ids, **values}, scope=Scope())

    def _ids_to_save(self, table: SparseTable, mode: int) -> np.ndarray:
        """The ids that a mode saves: all of a table without counts of shows."""
        if not table.clicks or mode in (ALL, DAY):
            return np.frombuffer(_core.dist.table_ids(table.name), "int64")
        s, found = table.accessor.downpour_accessor_param, [np.empty(0, "int64")]
        least = s.delta_threshold if mode == CHANGED else 0.0
        for ids, (show, click, delta, unseen) in self._columns(table, ["Show", "Click", "Delta", "Unseen"]):
            good = (table.score(show, click) >= s.base_threshold) & (delta >= least)
            found.append(ids[(good & (unseen <= s.delta_keep_days))[:, 0]])
        return np.concatenate(found)

    def _finish_save(self, table: SparseTable, mode: int, saved: np.ndarray) -> None:
        """After a save: resets the changes of the saved rows, or ends a day."""
        if mode == CHANGED and table.clicks:
            for at in range(0, len(saved), _CHUNK):
                some = saved[at : at + _CHUNK]
                self._write(table, some, {"Delta": np.zeros([len(some), 1], "float32")})
        elif mode == DAY and table.clicks:
            for ids, (unseen,) in self._columns(table, ["Unseen"]):
                self._write(table, ids, {"Unseen": unseen + 1})

    # Commands

    def save(
        self, folder: str, mode: int = ALL, table: int | None = None, prefix: str = "", whitelist: str = ""
    ) -> int:
        """Writes tables; returns the number of saved rows of sparse tables."""
        if mode not in (ALL, CHANGED, WORTH, DAY):
            raise ValueError(
                f"mode must be 0 (all), 1 (what changed), 2 (above base_threshold) or 3 (a day), got {mode}"
            )
        rows = 0
        for number in self._chosen(table):
            if number in self.dense:
                self._files("save", Path(folder) / f"{number:03d}", self.dense[number])
                continue
            one = self.tables[number]
            ids = self._ids_to_save(one, mode)
            if whitelist:
                ids = ids[np.isin(ids, np.array(Path(whitelist).read_text().split(), "int64"))]
            self._save_rows(one, Path(folder) / f"{number:03d}", ids, prefix)
            self._finish_save(one, mode, ids)
            rows += len(ids)
        return rows

    def _save_rows(self, table: SparseTable, folder: Path, ids: np.ndarray, prefix: str = "") -> None:
        name = f"part-{prefix}-" if prefix else "part-"
        if self.me == 0:
            # Parts of an earlier job with more servers would be loaded together with the new ones.
            for old in folder.glob(f"{name}[0-9][0-9][0-9]-00000"):
                if int(old.name.split("-")[-2]) >= self.servers:
                    shutil.rmtree(old)
        _core.dist.save_table(table.name, str(folder / f"{name}{self.me:03d}-00000"), ids.tobytes())

    def _files(self, kind: str, folder: Path, names: list[str]) -> None:
        """Saves parameters to files, or loads them."""
        program = Program()
        block = program.global_block()
        for name in names:
            held = np.array(self.scope.find_var(name).get_tensor())
            var = block.create_var(name=name, shape=held.shape, dtype="float32", persistable=True)
            slot = {"inputs": {"X": var}, "outputs": {}} if kind == "save" else {"inputs": {}, "outputs": {"Out": var}}
            block.append_op(type=kind, attrs={"file_path": str(folder / name)}, **slot)
        self.exe.run(program, scope=self.scope)

    def load(self, folder: str, mode: int = ALL, table: int | None = None) -> None:
        """Reads tables that any number of servers saved; other rows of a table stay."""
        del mode  # the files of all modes have one format
        for number in self._chosen(table):
            at = Path(folder) / f"{number:03d}"
            if number in self.dense:
                self._files("load", at, self.dense[number])
                continue
            parts = sorted(at.glob("part-*"))
            if not parts:
                raise FileNotFoundError(f"{at} has no part-* of sparse table {number}")
            for part in parts:
                _core.dist.load_table(self.tables[number].name, str(part), self.me, self.servers)

    def shrink(self) -> int:
        """Decays shows and clicks, and removes rows below delete_threshold; returns their number."""
        gone = 0
        for table in (t for t in self.tables.values() if t.clicks):
            s = table.accessor.downpour_accessor_param
            for ids, (show, click, unseen) in self._columns(table, ["Show", "Click", "Unseen"]):
                show, click = show * s.show_click_decay_rate, click * s.show_click_decay_rate
                bad = (table.score(show, click) < s.delete_threshold) | (unseen > s.delete_after_unseen_days)
                self._write(table, ids, {"Show": show.astype("float32"), "Click": click.astype("float32")})
                gone += _core.dist.forget_rows(table.name, ids[bad[:, 0]].tobytes())
        return gone

    def clear(self, table: int | None = None) -> None:
        """Removes all rows of sparse tables."""
        chosen = self.tables.values() if table is None else [self._sparse(table)]
        program = Program()
        attrs = {"large_scale_metas": [one.meta() for one in chosen]}
        program.global_block().append_op(type="lookup_sparse_table_init", inputs={}, outputs={}, attrs=attrs)
        self.exe.run(program)

    def stat(self, table: int) -> list[int]:
        """The number of rows, and of those with embedx columns."""
        one = self._sparse(table)
        rows = _core.dist.table_size(one.name)
        if not one.clicks:
            return [rows, rows]
        least, whole = one.accessor.embedx_threshold, 0
        for _, (show, click) in self._columns(one, ["Show", "Click"]):
            whole += int((one.score(show, click) >= least).sum())
        return [rows, whole]

    def most(self, table: int, count: int) -> list[float]:
        """The shows of the `count` rows with the most shows, in descending order."""
        best = np.empty(0, "float32")
        for _, (show,) in self._columns(self._sparse(table), ["Show"]):
            best = np.sort(np.concatenate([best, show[:, 0]]))[::-1][:count]
        return best.tolist()

    def cache(self, table: int, folder: str, least: float) -> int:
        """Writes the rows with at least `least` shows; returns their number."""
        one, found = self._sparse(table), [np.empty(0, "int64")]
        for ids, (show,) in self._columns(one, ["Show"]):
            found.append(ids[show[:, 0] >= least])
        ids = np.concatenate(found)
        self._save_rows(one, Path(folder) / f"{table:03d}_cache", ids)
        return len(ids)

    def confirm(self) -> None:
        """Stores the current tables for `revert`."""
        kept = tempfile.TemporaryDirectory(prefix="pslib.")
        self.save(kept.name)
        if self.confirmed is not None:
            self.confirmed.cleanup()
        self.confirmed = kept

    def revert(self) -> None:
        """Restores the tables of the last `confirm`."""
        if self.confirmed is None:
            raise RuntimeError("confirm has not been called yet")
        self.clear()
        for number in self._chosen(None):
            at = Path(self.confirmed.name) / f"{number:03d}"
            if number in self.dense:
                self._files("load", at, self.dense[number])
            else:
                _core.dist.load_table(self.tables[number].name, str(at / f"part-{self.me:03d}-00000"), 0, 1)


def send_command(endpoints: list[str], me: int, **command: Any) -> list[Any]:
    """Sends a command to all servers; returns their answers.

    Raises:
        RuntimeError: when the command fails on a server.
    """
    program, exe = Program(), Executor(CPUPlace())
    block, n = program.global_block(), len(endpoints)
    said = np.frombuffer(json.dumps(command).encode(), "uint8")
    var = block.create_var(name=COMMAND, shape=[len(said)], dtype="uint8")
    attrs = {"endpoints": endpoints, "epmap": endpoints, "send_varnames": [COMMAND] * n, "trainer_id": me}
    block.append_op(type="send", inputs={"X": [var] * n}, outputs={"Out": []}, attrs=attrs)
    attrs = {"endpoints": endpoints, "half_async": True, "trainer_id": me}
    block.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs=attrs)
    outs = [block.create_var(name=f"{ANSWER}.{i}", shape=[-1], dtype="uint8") for i in range(n)]
    attrs = {"epmap": endpoints, "varnames": [ANSWER] * n, "trainer_id": me}
    block.append_op(type="recv", inputs={"X": []}, outputs={"Out": outs}, attrs=attrs)
    answers = [json.loads(bytes(a)) for a in exe.run(program, {COMMAND: said}, outs, scope=Scope())]
    for endpoint, answer in zip(endpoints, answers, strict=True):
        if "error" in answer:
            raise RuntimeError(f"the server at {endpoint} could not {command['do']}: {answer['error']}")
    return [answer["done"] for answer in answers]


def save_cache(endpoints: list[str], me: int, table: int, folder: str, rate: float) -> int:
    """Makes the servers write the fraction `rate` of a table with the most shows; returns the number of rows."""
    rows = sum(rows for rows, _ in send_command(endpoints, me, do="stat", table=table))
    count = math.ceil(rows * rate)
    best = sorted(
        (x for some in send_command(endpoints, me, do="most", table=table, count=count) for x in some), reverse=True
    )
    least = best[count - 1] if count else math.inf
    return sum(send_command(endpoints, me, do="cache", table=table, folder=folder, least=least))


def decayed(values: dict[str, np.ndarray], decay: float, emb_dim: int) -> dict[str, np.ndarray]:
    """The sums of `data_norm` after decay: the first of each `emb_dim` sums is one of logarithms of shows."""
    after = dict(values)
    for name in values:
        if "batch_sum" in name:
            size, total = values[name[: name.index("batch_sum")] + "batch_size"].ravel(), values[name].copy()
            total.ravel()[::emb_dim] += size[::emb_dim] * np.float32(math.log(decay))
            after[name] = total
    return after
