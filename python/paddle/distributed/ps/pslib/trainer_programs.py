"""The Programs of a described job's trainers: they pull parameters and rows first and push gradients last.

A run returns once the servers have applied its pushes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from paddle import tensor
from paddle._basics.names import GRAD_VAR_SUFFIX, OP_ROLE, OpRole
from paddle._basics.place import CPUPlace
from paddle._core import VarDesc
from paddle._core import _Scope as Scope
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard
from paddle.distributed.ps.program_utils import delete_ops
from paddle.static.executor import Executor
from paddle.static.nn import sequence
from paddle.static.vars_io import load_vars

from .server_programs import INITIAL, READY, SparseTable, dense_placement, sparse_tables

__all__: list[str] = []

_PULLS = ("pull_sparse", "pull_sparse_v2", "lookup_table", "lookup_table_v2")
_PUSHES = ("push_sparse", "push_sparse_v2", "lookup_table_grad", "lookup_table_v2_grad")
_RPC = {OP_ROLE: int(OpRole.RPC)}
#: the id whose lookup is zeros, as in PSLib
_ZERO_ID = 0


class Trainer:
    """The rewriting of one Program.

    Args:
        program (Program): with backward, as `minimize` leaves it; changed in place.
        opt_info (dict): the description by `minimize`.
        endpoints (list of str): the servers. me (int): this trainer's index.

    Raises:
        NotImplementedError: for accessors, rules and lookups that are not supported.
    """

    def __init__(self, program: Any, opt_info: Any, endpoints: list[str], me: int) -> None:
        worker, desc = opt_info["program_id_to_worker"][str(id(program))], opt_info["fleet_desc"]
        self.program, self.block, self.endpoints = program, program.global_block(), endpoints
        self.tables, self.dense = sparse_tables(desc), dense_placement(desc, endpoints)
        self.mine = [n for table in worker.get_desc().dense_table for n in table.dense_variable_name]
        described = worker.get_desc().sparse_table
        self.table_of = {value: self.tables[t.table_id] for t in described for value in t.slot_value}
        self.at = {"trainer_id": me, **_RPC}
        #: negative: sums of data_norm are pushed unscaled
        self.epsilon = float(opt_info.get("scale_datanorm", -1))

    def change(self) -> None:
        """Inserts the pulls before the first operator, and appends the pushes."""
        with program_guard(self.program, Program()):
            self._look_up()
            pushed = self._take_gradients()
            delete_ops(self.block, [op for op in self.block.ops if op.type == "push_dense"])
            grads = [self.dense[name][0] for name in self.mine]
            for table, pairs in pushed.items():
                self._push(self.tables[table], pairs)
            self._send(self._scaled(grads, pushed), [self.dense[name][1] for name in self.mine], grads)
            attrs = {"endpoints": self.endpoints, "half_async": True, **self.at}
            self.block.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs=attrs)
            pulled = [self.block.var(name) for name in self.mine]
            if pulled:
                attrs = {"epmap": [self.dense[name][1] for name in self.mine], **self.at}
                self.block._insert_op(index=0, type="recv", inputs={"X": []}, outputs={"Out": pulled}, attrs=attrs)

    def _scaled(self, grads: list[str], pushed: dict[int, list[tuple[Any, ...]]]) -> list[str]:
        """With scale_datanorm, divides the increments of data_norm's sums by the batch size, except for epsilon."""
        tails = [f"{tail}{GRAD_VAR_SUFFIX}" for tail in (".batch_size", ".batch_sum", ".batch_square_sum")]
        if self.epsilon < 0 or not any(name.endswith(tuple(tails)) for name in grads):
            return grads
        ids = next((ids for pairs in pushed.values() for ids, *_ in pairs), None)
        if ids is None:
            raise ValueError("pslib: scale_datanorm needs a lookup: the batch size is the number of its ids")
        batch, found = self._batch(self.block.var(ids)), []
        for name in grads:
            var = self.block.var(name)
            if name.endswith(tails[2]):
                var = (var - batch * self.epsilon) / batch + batch * self.epsilon
            elif name.endswith(tuple(tails)):
                var = var / batch
            found.append(var.name)
        return found

    def _send(self, names: list[str], endpoints: list[str], known: list[str]) -> None:
        """Appends a send of variables, with the servers' names `known`."""
        if names:
            attrs = {"endpoints": endpoints, "epmap": endpoints, "send_varnames": known, **self.at}
            inputs = {"X": [self.block.var(name) for name in names]}
            self.block.append_op(type="send", inputs=inputs, outputs={"Out": []}, attrs=attrs)

    def _like_a_row(self, table: SparseTable) -> Any:
        """A variable with the shape of one row, for operators that read the table's width."""
        name = table.name + ".row"
        if name not in self.block.vars:
            row = self.block.create_var(name=name, shape=[1, table.width], dtype="float32")
            attrs = {"shape": [1, table.width], "dtype": row.dtype, "value": 0.0}
            self.block._insert_op(index=0, type="fill_constant", inputs={}, outputs={"Out": row}, attrs=attrs)
        return self.block.vars[name]

    def _look_up(self) -> None:
        for op in [op for op in self.block.ops if op.type in _PULLS and op.output("Out")[0] in self.table_of]:
            table = self.table_of[op.output("Out")[0]]
            width = self.block.var(op.output("Out")[0]).shape[-1]
            # The output of an ordinary lookup has no counts, except before a layer continuous_value_model.
            hides = not op.type.startswith("pull") and table.clicks and width == table.width - 2
            if width != table.width and not hides:
                raise ValueError(
                    f"pslib: {op.input('W')[0]} is looked up with width {width}, rows of its table have {table.width}"
                )
            row = self._like_a_row(table)
            index = next(i for i, there in enumerate(self.block.ops) if there is op)
            inputs = {"Ids": [self.block.var(n) for n in op.input("Ids")], "W": row}
            outs = [self.block.var(n) for n in op.output("Out")]
            if hides:
                outs = [self._without_counts(index, table, out) for out in outs]
            attrs = {
                "table_names": [table.ids] * len(self.endpoints),
                "endpoints": self.endpoints,
                "is_distributed": True,
                "padding_idx": _ZERO_ID,
                "pserver_num": len(self.endpoints),
                **self.at,
                "lookup_table_version": "lookup_table_v2" if op.type.endswith("_v2") else "lookup_table",
            }
            delete_ops(self.block, [op])
            self.block._insert_op(
                index=index, type="distributed_lookup_table", inputs=inputs, outputs={"Outputs": outs}, attrs=attrs
            )

    def _without_counts(self, index: int, table: SparseTable, out: Any) -> Any:
        """A variable for the whole rows; an inserted slice writes `out` without shows and clicks."""
        shape = [*out.shape[:-1], table.width]
        whole = self.block.create_var(name=out.name + ".whole", shape=shape, dtype="float32", lod_level=out.lod_level)
        attrs = {"axes": [len(shape) - 1], "starts": [2], "ends": [table.width]}
        self.block._insert_op(index + 1, type="slice", inputs={"Input": whole}, outputs={"Out": out}, attrs=attrs)
        return whole

    def _take_gradients(self) -> dict[int, list[tuple[Any, ...]]]:
        """Removes the pushes; by table: ids, gradients, the variable of clicks, whether to scale by the batch size."""
        found: dict[int, list[tuple[Any, ...]]] = {}
        gone, written = [], set()
        for op in self.block.ops:
            if op.type not in _PUSHES:
                continue
            grads = op.input("Out" + GRAD_VAR_SUFFIX)
            table = self.table_of.get(grads[0].removesuffix(GRAD_VAR_SUFFIX))
            if table is None:
                continue
            own = op.type.startswith("push")
            clicks = op.attr("CtrLabelName") if own else self._clicks(table, grads[0])
            how = (clicks, op.attr("ScaleSparseGrad") if own else True)
            pairs = zip(op.input("Ids"), grads, strict=True)
            found.setdefault(table.number, []).extend((ids, grad, *how) for ids, grad in pairs)
            gone.append(op)
            if not own:
                written.update(op.output("W" + GRAD_VAR_SUFFIX))
        # The sums of the gradients of several lookups.
        gone += [op for op in self.block.ops if op.type == "sum" and written.issuperset(op.input("X"))]
        delete_ops(self.block, gone)
        return found

    def _clicks(self, table: SparseTable, grad: str) -> str:
        """The variable of clicks of an ordinary lookup; empty where continuous_value_model has added them."""
        if not table.clicks or self.block.var(grad).shape[-1] == table.width:
            return ""
        if "click" not in self.block.vars:
            raise ValueError(f"pslib: the accessor {table.accessor.accessor_class} needs the variable click")
        return "click"

    def _batch(self, ids: Any) -> Any:
        """The number of samples, as float32."""
        if ids.lod_level:
            ids = sequence.sequence_pool(tensor.cast(ids, "float32"), "sum")
        return tensor.cast(tensor.slice(tensor.shape(ids), [0], [0], [1]), "float32")

    def _value(self, table: SparseTable, ids: Any, grad: Any, label: str, scaled: bool) -> Any:
        """The pushed row of each id: for click accessors shows and clicks, then the gradient."""
        width = grad.shape[-1]
        grad = tensor.reshape(grad, [-1, width])
        first, rest = [], grad
        if table.clicks:
            if width == table.width:
                counts, rest = (tensor.slice(grad, [1], [a], [b]) for a, b in ((0, 2), (2, table.width)))
            # Without a label continuous_value_model has added shows and clicks.
            if label:
                clicks = tensor.reshape(tensor.cast(self.block.var(label), "float32"), [-1, 1])
                if ids.lod_level:
                    clicks = sequence.sequence_expand(clicks, tensor.cast(ids, "float32"))
                elif tuple(ids.shape[1:]) not in ((), (1,)):
                    raise NotImplementedError(f"pslib: {ids.name}: ids of clicks are sequences, or one a sample")
                first = [tensor.ones_like(clicks), clicks]
            else:
                first = [counts]
        if scaled:
            rest = rest * self._batch(ids)
        return tensor.concat([*first, rest], axis=1) if first else rest

    def _push(self, table: SparseTable, pairs: list[tuple[Any, ...]]) -> None:
        def rows(tail: str) -> Any:
            how = {"dtype": "float32", "shape": [-1, table.width], "type": VarDesc.VarType.SELECTED_ROWS}
            return self.block.create_var(name=table.grad + tail, **how)

        numbers, values = [], []
        for ids_name, grad, label, scaled in pairs:
            ids = self.block.var(ids_name)
            values.append(self._value(table, ids, self.block.var(grad), label, scaled))
            numbers.append(tensor.reshape(ids, [-1, 1]))
        every = rows("")
        joined = {"Ids": tensor.concat(numbers, axis=0), "Out@GRAD": tensor.concat(values, axis=0)}
        self.block.append_op(
            type="lookup_table_grad",
            inputs={"W": self._like_a_row(table), **joined},
            outputs={"W@GRAD": every},
            attrs={"is_sparse": True},
        )
        parts = [rows(f".server{i}") for i in range(len(self.endpoints))]
        self.block.append_op(type="split_ids", inputs={"Ids": [every]}, outputs={"Out": parts}, attrs={})
        self._send([p.name for p in parts], self.endpoints, [table.grad] * len(parts))


def init_servers(desc: Any, scopes: list[Any], endpoints: list[str], me: int) -> None:
    """Sends the first worker's parameters to servers without parameters, and marks the servers as initialized.

    Raises:
        RuntimeError: for a parameter without a value.
    """
    if _ready(endpoints, me)():
        return
    send_parameters(desc, scopes, endpoints, me)
    ready = {f"{READY}.{i}": np.ones(1, "float32") for i in range(len(endpoints))}
    _push_now(ready, endpoints, [READY + INITIAL] * len(endpoints), endpoints, me)


def send_parameters(desc: Any, scopes: list[Any], endpoints: list[str], me: int, names: Any = None) -> None:
    """Sends parameters (None: all) to the servers, from the first of the scopes that has them.

    Raises:
        RuntimeError: for a parameter without a value.
    """
    dense = {
        name: where
        for name, (_, where, _) in dense_placement(desc, endpoints).items()
        if names is None or name in names
    }
    values = {}
    for name in dense:
        vars_ = [s.find_var(name) for s in scopes]
        value = next((v.get_tensor() for v in vars_ if v is not None and v.get_tensor()._is_initialized()), None)
        if value is None:
            raise RuntimeError(f"fleet.init_worker: the parameter {name} has no value: run the startup Program before")
        values[name] = np.array(value)
    _push_now(values, list(dense.values()), [name + INITIAL for name in dense], endpoints, me)


def _push_now(values: dict[str, np.ndarray], where: list[str], known: list[str], endpoints: list[str], me: int) -> None:
    """Sends arrays, with the servers' names `known`; returns once the servers have applied them."""
    program, scope = Program(), Scope()
    block = program.global_block()
    for name, value in values.items():
        block.create_var(name=name, shape=value.shape, dtype="float32", persistable=True)
        scope.var(name).get_tensor().set(value, CPUPlace())
    attrs = {"endpoints": where, "epmap": where, "send_varnames": known, "trainer_id": me}
    if values:
        block.append_op(type="send", inputs={"X": [block.var(n) for n in values]}, outputs={"Out": []}, attrs=attrs)
    attrs = {"endpoints": endpoints, "half_async": True, "trainer_id": me}
    block.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs=attrs)
    Executor(CPUPlace()).run(program, scope=scope)


def from_model(held: dict[str, np.ndarray], saved: Any, path: str, names: Any, one_file: bool) -> dict[str, np.ndarray]:
    """Copies of the parameters `held` with the values of a saved model; of other sizes the common first elements."""
    block, exe, scope = saved.global_block(), Executor(CPUPlace()), Scope()
    found = sorted(name for name in names if name in held and name in block.vars)
    folder, file = os.path.split(path) if one_file else (path, None)
    with scope_guard(scope):
        load_vars(exe, folder, saved, [block.vars[name] for name in found], filename=file)
    after = dict(held)
    for name in found:
        old, new = np.array(scope.find_var(name).get_tensor()).ravel(), held[name].copy()
        n = min(old.size, new.size)
        new.ravel()[:n] = old[:n]
        after[name] = new
    return after


def _ready(endpoints: list[str], me: int) -> Callable[[], bool]:
    """A function that returns whether all servers are initialized."""
    program, exe = Program(), Executor(CPUPlace())
    block = program.global_block()
    outs = [block.create_var(name=f"{READY}.{i}", shape=[1], dtype="float32") for i in range(len(endpoints))]
    attrs = {"epmap": endpoints, "varnames": [READY] * len(endpoints), "trainer_id": me}
    block.append_op(type="recv", inputs={"X": []}, outputs={"Out": outs}, attrs=attrs)
    return lambda: all(value[0] for value in exe.run(program, fetch_list=outs))


def wait_for_servers(endpoints: list[str], me: int, seconds: float = 300) -> None:
    """Waits until worker 0 has initialized the servers.

    Raises:
        TimeoutError: after `seconds`.
    """
    ready, end = _ready(endpoints, me), time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"fleet.init_worker: worker 0 has not initialized the servers within {seconds} s")
        time.sleep(0.02)
