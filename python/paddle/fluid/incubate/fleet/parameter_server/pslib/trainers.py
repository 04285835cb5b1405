"""What a description makes of a trainer's Program: it pulls parameters and rows, and pushes gradients at its end.

Every run pulls, and ends when the servers have applied what it pushed.
"""
from __future__ import annotations

import time
from typing import Any

import numpy as np

import paddle.fluid as fluid
from paddle._basics.names import GRAD_VAR_SUFFIX, OP_ROLE, OpRole
from paddle._core import VarDesc
from paddle.fluid.transpiler.details import delete_ops

from .servers import BEGIN, READY, SparseTable, dealt, sparse_tables

__all__: list[str] = []

layers: Any = fluid.layers

_PULLS = ("pull_sparse", "pull_sparse_v2", "lookup_table", "lookup_table_v2")
_PUSHES = ("push_sparse", "push_sparse_v2", "lookup_table_grad", "lookup_table_v2_grad")
_RPC = {OP_ROLE: int(OpRole.RPC)}
#: ids of this number find zeros, as PSLib has it
_NOBODY = 0


class Trainer:
    """The changes of one Program.

    Args:
        program (Program): with backward, as `minimize` leaves it; it is changed.
        worker (DownpourWorker): what it pulls and pushes. desc: the description.
        endpoints (list of str): the servers'. me (int): this trainer's number.

    Raises:
        NotImplementedError: for accessors, rules and lookups that are not there.
    """

    def __init__(self, program: Any, worker: Any, desc: Any, endpoints: list[str], me: int) -> None:
        self.program, self.block, self.endpoints = program, program.global_block(), endpoints
        self.tables, self.dense = sparse_tables(desc), dealt(desc, endpoints)
        self.mine = [n for table in worker.get_desc().dense_table for n in table.dense_variable_name]
        described = worker.get_desc().sparse_table
        self.table_of = {value: self.tables[t.table_id] for t in described for value in t.slot_value}
        self.at = {"trainer_id": me, **_RPC}

    def change(self) -> None:
        """Pull before, push behind."""
        with fluid.program_guard(self.program, fluid.Program()):
            self._look_up()
            pushed = self._take_gradients()
            delete_ops(self.block, [op for op in self.block.ops if op.type == "push_dense"])
            grads = [self.dense[name][0] for name in self.mine]
            for table, pairs in pushed.items():
                self._push(self.tables[table], pairs)
            self._send(grads, [self.dense[name][1] for name in self.mine], grads)
            attrs = {"endpoints": self.endpoints, "half_async": True, **self.at}
            self.block.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs=attrs)
            pulled = [self.block.var(name) for name in self.mine]
            if pulled:
                attrs = {"epmap": [self.dense[name][1] for name in self.mine], **self.at}
                self.block._insert_op(index=0, type="recv", inputs={"X": []}, outputs={"Out": pulled}, attrs=attrs)

    def _send(self, names: list[str], endpoints: list[str], known: list[str]) -> None:
        """Send variables that servers know as `known`."""
        if names:
            attrs = {"endpoints": endpoints, "epmap": endpoints, "send_varnames": known, **self.at}
            inputs = {"X": [self.block.var(name) for name in names]}
            self.block.append_op(type="send", inputs=inputs, outputs={"Out": []}, attrs=attrs)

    def _like_a_row(self, table: SparseTable) -> Any:
        """A row of the table, for operators that ask how wide it is."""
        name = table.name + ".row"
        if name not in self.block.vars:
            row = self.block.create_var(name=name, shape=[1, table.width], dtype="float32")
            attrs = {"shape": [1, table.width], "dtype": row.dtype, "value": 0.0}
            self.block._insert_op(index=0, type="fill_constant", inputs={}, outputs={"Out": row}, attrs=attrs)
        return self.block.vars[name]

    def _look_up(self) -> None:
        for op in [op for op in self.block.ops if op.type in _PULLS and op.output("Out")[0] in self.table_of]:
            table = self.table_of[op.output("Out")[0]]
            if not op.type.startswith("pull") and table.clicks:
                raise NotImplementedError(
                    f"pslib: the accessor {table.accessor.accessor_class} is there for lookups within fleet_embedding; "
                    f"{op.type} of {op.input('W')[0]} takes DownpourSparseValueAccessor"
                )
            width = self.block.var(op.output("Out")[0]).shape[-1]
            if width != table.width:
                raise ValueError(
                    f"pslib: {op.input('W')[0]} is looked up with width {width}, rows of its table have {table.width}"
                )
            row = self._like_a_row(table)
            index = next(i for i, there in enumerate(self.block.ops) if there is op)
            inputs = {"Ids": [self.block.var(n) for n in op.input("Ids")], "W": row}
            outs = [self.block.var(n) for n in op.output("Out")]
            attrs = {
                "table_names": [table.ids] * len(self.endpoints), "endpoints": self.endpoints, "is_distributed": True,
                "padding_idx": _NOBODY, "pserver_num": len(self.endpoints), **self.at,
                "lookup_table_version": "lookup_table_v2" if op.type.endswith("_v2") else "lookup_table",
            }  # fmt: skip
            delete_ops(self.block, [op])
            self.block._insert_op(
                index=index, type="distributed_lookup_table", inputs=inputs, outputs={"Outputs": outs}, attrs=attrs
            )

    def _take_gradients(self) -> dict[int, list[tuple[Any, ...]]]:
        """Takes pushes out; by table: ids, gradients, the variable of clicks, whether gradients are times the batch."""
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
            how = (op.attr("CtrLabelName") if own else "", op.attr("ScaleSparseGrad") if own else True)
            pairs = zip(op.input("Ids"), grads, strict=True)
            found.setdefault(table.number, []).extend((ids, grad, *how) for ids, grad in pairs)
            gone.append(op)
            if not own:
                written.update(op.output("W" + GRAD_VAR_SUFFIX))
        # What adds up the gradients of several lookups.
        gone += [op for op in self.block.ops if op.type == "sum" and written.issuperset(op.input("X"))]
        delete_ops(self.block, gone)
        return found

    def _batch(self, ids: Any) -> Any:
        """How many samples there are, as float32."""
        if ids.lod_level:
            ids = layers.sequence_pool(layers.cast(ids, "float32"), "sum")
        return layers.cast(layers.slice(layers.shape(ids), [0], [0], [1]), "float32")

    def _value(self, table: SparseTable, ids: Any, grad: Any, label: str, scaled: bool) -> Any:
        """What is pushed for each id: of accessors of clicks shows and clicks, and the gradient."""
        grad = layers.reshape(grad, [-1, table.width])
        first, rest = [], grad
        if table.clicks:
            counts, rest = (layers.slice(grad, [1], [a], [b]) for a, b in ((0, 2), (2, table.width)))
            # Without a name the layer continuous_value_model has put shows and clicks there.
            if label:
                clicks = layers.reshape(layers.cast(self.block.var(label), "float32"), [-1, 1])
                if ids.lod_level:
                    clicks = layers.sequence_expand(clicks, layers.cast(ids, "float32"))
                elif tuple(ids.shape[1:]) not in ((), (1,)):
                    raise NotImplementedError(f"pslib: {ids.name}: ids of clicks are sequences, or one a sample")
                first = [layers.ones_like(clicks), clicks]
            else:
                first = [counts]
        if scaled:
            rest = layers.elementwise_mul(rest, self._batch(ids))
        return layers.concat([*first, rest], axis=1) if first else rest

    def _push(self, table: SparseTable, pairs: list[tuple[Any, ...]]) -> None:
        def rows(tail: str) -> Any:
            how = {"dtype": "float32", "shape": [-1, table.width], "type": VarDesc.VarType.SELECTED_ROWS}
            return self.block.create_var(name=table.grad + tail, **how)

        numbers, values = [], []
        for ids_name, grad, label, scaled in pairs:
            ids = self.block.var(ids_name)
            values.append(self._value(table, ids, self.block.var(grad), label, scaled))
            numbers.append(layers.reshape(ids, [-1, 1]))
        every = rows("")
        joined = {"Ids": layers.concat(numbers, axis=0), "Out@GRAD": layers.concat(values, axis=0)}
        self.block.append_op(
            type="lookup_table_grad",
            inputs={"W": self._like_a_row(table), **joined},
            outputs={"W@GRAD": every},
            attrs={"is_sparse": True},
        )
        parts = [rows(f".server{i}") for i in range(len(self.endpoints))]
        self.block.append_op(type="split_ids", inputs={"Ids": [every]}, outputs={"Out": parts}, attrs={})
        self._send([p.name for p in parts], self.endpoints, [table.grad] * len(parts))


def begin(desc: Any, scopes: list[Any], endpoints: list[str], me: int) -> None:
    """The first worker gives the servers its parameters.

    Raises:
        RuntimeError: for a parameter that has no value.
    """
    dense, program, scope = dealt(desc, endpoints), fluid.Program(), fluid.Scope()
    block = program.global_block()
    names, where = [], []

    def give(name: str, value: np.ndarray, endpoint: str) -> None:
        block.create_var(name=name, shape=value.shape, dtype="float32", persistable=True)
        scope.var(name).get_tensor().set(value, fluid.CPUPlace())
        names.append(name)
        where.append(endpoint)

    for name, (_, endpoint, _) in dense.items():
        vars_ = [s.find_var(name) for s in scopes]
        value = next((v.get_tensor() for v in vars_ if v is not None and v.get_tensor()._is_initialized()), None)
        if value is None:
            raise RuntimeError(f"fleet.init_worker: the parameter {name} has no value: run the startup Program before")
        give(name, np.array(value), endpoint)
    for i, endpoint in enumerate(endpoints):
        give(f"{READY}.{i}", np.ones(1, "float32"), endpoint)
    known = [name + BEGIN for name in dense] + [READY + BEGIN] * len(endpoints)
    attrs = {"endpoints": where, "epmap": where, "send_varnames": known, "trainer_id": me}
    inputs = {"X": [block.var(name) for name in names]}
    block.append_op(type="send", inputs=inputs, outputs={"Out": []}, attrs=attrs)
    attrs = {"endpoints": endpoints, "half_async": True, "trainer_id": me}
    block.append_op(type="send_barrier", inputs={"X": []}, outputs={"Out": []}, attrs=attrs)
    fluid.Executor(fluid.CPUPlace()).run(program, scope=scope)


def wait(endpoints: list[str], me: int, seconds: float = 300) -> None:
    """The other workers wait until the servers have parameters.

    Raises:
        TimeoutError: if they have none for so long.
    """
    program, exe = fluid.Program(), fluid.Executor(fluid.CPUPlace())
    block = program.global_block()
    outs = [block.create_var(name=f"{READY}.{i}", shape=[1], dtype="float32") for i in range(len(endpoints))]
    attrs = {"epmap": endpoints, "varnames": [READY] * len(endpoints), "trainer_id": me}
    block.append_op(type="recv", inputs={"X": []}, outputs={"Out": outs}, attrs=attrs)
    end = time.monotonic() + seconds
    while not all(value[0] for value in exe.run(program, fetch_list=outs)):
        if time.monotonic() > end:
            raise TimeoutError(f"fleet.init_worker: worker 0 has given the servers no parameters for {seconds} s")
        time.sleep(0.02)
