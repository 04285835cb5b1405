"""Lookup tables that servers hold and trainers look up remotely."""

from __future__ import annotations

import math
import warnings
from typing import Any

import paddle._core as core
from paddle._basics.names import OP_ROLE, OP_ROLE_VAR, OpRole

from .program_utils import delete_ops

__all__ = [
    "LOOKUP_TABLE_TYPE",
    "fake_init_tables",
    "find_distributed_lookup_table",
    "find_distributed_lookup_table_inputs",
    "find_distributed_lookup_table_outputs",
    "is_looked_up_remotely",
    "local_table_names",
    "lookups_with_remote_prefetch",
    "make_checkpoint_block",
    "make_optimize_block",
    "make_prefetch_block",
    "prefetch_instead_of_lookup",
    "replace_remote_lookups",
    "send_table_gradient",
    "split_off",
]

LOOKUP_TABLE_TYPE = "lookup_table"
_LOOKUPS = ("lookup_table", "lookup_table_v2")
_RPC = int(OpRole.RPC)
_DIST = int(OpRole.Dist)
_ROWS = core.VarDesc.VarType.SELECTED_ROWS


# ------------------------------------------------------- sparse embeddings whose rows are fetched (remote_prefetch)


def lookups_with_remote_prefetch(program: Any) -> list[Any]:
    """The lookup operators whose parameter stays on the servers."""
    kinds = (*_LOOKUPS, "nce")
    return [op for op in program.global_block().ops if op.type in kinds and op.attr("remote_prefetch") is True]


def is_looked_up_remotely(t: Any, param: str) -> bool:
    """Whether one of these operators reads the parameter."""
    return any(param in op.input_arg_names for op in t.sparse_update_ops)


def replace_remote_lookups(t: Any, program: Any, lookups: dict[str, tuple[list[str], list[str]]]) -> None:
    """Replaces the lookups of a parameter by one distributed_lookup_table, placed after all its ids are computed."""
    block = program.global_block()
    for param, (endpoints, names) in lookups.items():
        readers = [op for op in t.sparse_update_ops if param in op.input_arg_names]
        kind = readers[0].type if readers else ""
        ops = [op for op in readers if op.type == kind]
        t.sparse_update_ops = [op for op in t.sparse_update_ops if not any(op is o for o in ops)]
        if kind not in _LOOKUPS:
            continue
        ids = [block.vars[op.input("Ids")[0]] for op in ops]
        outs = [block.vars[op.output("Out")[0]] for op in ops]
        table, padding = block.vars[ops[0].input("W")[0]], ops[0].attr("padding_idx")
        delete_ops(block, ops)
        made, used = {v.name for v in ids}, {v.name for v in outs}
        after = max((i for i, op in enumerate(block.ops) if made & set(op.output_arg_names)), default=-1) + 1
        before = min((i for i, op in enumerate(block.ops) if used & set(op.input_arg_names)), default=len(block.ops))
        if after > before:
            raise ValueError(
                f"the lookups of {param} cannot be merged: some ids are computed from the result of another lookup"
            )
        block._insert_op(
            index=after,
            type="distributed_lookup_table",
            inputs={"Ids": ids, "W": table},
            outputs={"Outputs": outs},
            attrs={
                "table_names": names,
                "endpoints": endpoints,
                "padding_idx": padding,
                "trainer_id": t.trainer_id,
                "pserver_num": len(t.pserver_endpoints),
                "lookup_table_version": kind,
            },
        )._set_attr("height_sections", t.sparse_param_to_height_sections[param])


# ------------------------------------------------------------------ what trainers do not initialise


def local_table_names(t: Any) -> list[str]:
    """The tables of the main Program without values on a trainer."""
    ops = t.origin_program.global_block().ops
    names = [op.input("W")[0] for op in ops if op.type in ("lookup_table", "nce") and op.attr("is_sparse") is True]
    names += [op.input("W")[0] for op in ops if op.type == "distributed_lookup_table"]
    if t.has_distributed_lookup_table:
        names.append(t.table_name)
    return sorted(set(names))


def fake_init_tables(t: Any, names: list[str]) -> None:
    """Makes the startup Program set only the shape of the tables.

    Raises:
        ValueError: unless one operator initialises each.
    """
    block = t.startup_program.global_block()
    for name in names:
        inits = [op for op in block.ops if name in op.output_arg_names]
        if len(inits) != 1:
            raise ValueError(f"one operator must initialise the table {name}, got {len(inits)}")
        shape = inits[0].attr("shape") if inits[0].has_attr("shape") else list(block.vars[name].shape)
        block.append_op(type="fake_init", inputs={}, outputs={"Out": block.vars[name]}, attrs={"shape": shape})
        delete_ops(block, inits)


# --------------------------------------------------------------- the distributed table (is_distributed): trainers


def split_off(t: Any, params: list[Any], grads: list[Any]) -> tuple[list[Any], list[Any]]:
    """Parameters and gradients without the distributed table, whose rows are assigned to servers by id."""
    if not t.has_distributed_lookup_table:
        return params, grads
    pair = next(pair for pair in t.params_grads if pair[0].name == t.table_name)
    t.table_param_grad, grad = pair, pair[1]
    tag = f".trainer_{t.trainer_id}" if t.sync_mode else ""
    kept = {k: getattr(grad, k) for k in ("type", "shape", "dtype")}
    block = t.origin_program.global_block()
    t.trainer_side_table_grad_list = [
        block.create_var(name=f"{grad.name}{tag}.pserver_{i}", **kept) for i in range(len(t.pserver_endpoints))
    ]
    return [p for p in params if p.name != t.table_name], [g for g in grads if g.name != grad.name]


def prefetch_instead_of_lookup(t: Any, program: Any) -> None:
    """Inserts split_ids, prefetch and merge_ids for the first lookup of the table, and removes all lookups."""
    block = program.global_block()
    ops = [op for op in block.ops if op.type in _LOOKUPS and op.input("W")[0] == t.table_name]
    if any(not op.attr("is_distributed") for op in ops):
        raise RuntimeError(f"every lookup of the distributed table {t.table_name} must set is_distributed")
    index = list(block.ops).index(ops[0])
    ids = [block.vars[op.input("Ids")[0]] for op in ops]
    outs = [block.vars[op.output("Out")[0]] for op in ops]
    delete_ops(block, ops)

    def temporaries(what: str, like: Any) -> list[Any]:
        kept = {k: getattr(like, k) for k in ("type", "shape", "dtype")}
        number = range(len(t.pserver_endpoints))
        return [block.create_var(name=f"prefetch_compress_{what}_tmp_{i}", **kept) for i in number]

    t.all_in_ids_vars, t.all_out_emb_vars = ids, outs
    t.all_prefetch_input_vars = temporaries("in", ids[0])
    t.all_prefetch_output_vars = temporaries("out", outs[0])
    asked, found = t.all_prefetch_input_vars, t.all_prefetch_output_vars
    # merge_ids restores the order of the ids
    block._insert_op(index=index, type="split_ids", inputs={"Ids": ids}, outputs={"Out": asked})
    block._insert_op(
        index=index + 1,
        type="prefetch",
        inputs={"X": asked},
        outputs={"Out": found},
        attrs={"epmap": t.pserver_endpoints, "trainer_id": t.trainer_id},
    )
    block._insert_op(
        index=index + 2,
        type="merge_ids",
        inputs={"Ids": ids, "Rows": asked, "X": found},
        outputs={"Out": outs},
    )


def send_table_gradient(t: Any, program: Any) -> None:
    """Inserts split_ids and send after the operator that computes the table's gradient."""
    block = program.global_block()
    grad = t.table_param_grad[1].name
    index = next(i for i, op in enumerate(block.ops) if grad in op.output_arg_names)
    parts = t.trainer_side_table_grad_list
    block._insert_op(
        index=index + 1,
        type="split_ids",
        inputs={"Ids": [block.vars[grad]]},
        outputs={"Out": parts},
        attrs={OP_ROLE: _DIST},
    )
    block._insert_op(
        index=index + 2,
        type="send",
        inputs={"X": parts},
        outputs={"Out": [t.grad_name_to_send_dummy_out[t.table_name]] if t.sync_mode else []},
        attrs={
            "endpoints": t.pserver_endpoints,
            "trainer_id": t.trainer_id,
            OP_ROLE: _RPC,
            OP_ROLE_VAR: [t.grad_name_to_param_name[grad], grad],
        },
    )


# --------------------------------------------------------------- the distributed table (is_distributed): a server


def make_optimize_block(
    t: Any, program: Any, whole: dict[str, Any], server: int, parent: int, grad_to_block_id: list[str]
) -> Any:
    """A block that updates this server's rows of the table, by SGD whatever the optimizer.

    `whole` has the variables of the transpiled Program.
    """
    block = program._create_block(parent)
    top = program.global_block()
    update = next(op for op in t.optimize_ops if "Param" in op.input_names and op.input("Param")[0] == t.table_name)
    table = whole[t.table_name]
    shape = [math.ceil(table.shape[0] / len(t.pserver_endpoints)), *table.shape[1:]]
    param = top.create_var(name=table.name, shape=shape, dtype=table.dtype, type=_ROWS, persistable=True)
    trainers_grad = t.table_param_grad[1]
    grad = top._clone_variable(whole[trainers_grad.name])
    rate = top._clone_variable(whole[update.input("LearningRate")[0]])
    if t.sync_mode:
        kept = {k: getattr(trainers_grad, k) for k in ("type", "shape", "dtype")}
        names = [f"{trainers_grad.name}.trainer_{i}.pserver_{server}" for i in range(t.trainer_num)]
        each = [top.create_var(name=name, **kept) for name in names]
        block.append_op(type="sum", inputs={"X": each}, outputs={"Out": [grad]}, attrs={"use_mkldnn": False})
    else:
        grad = top._rename_var(grad.name, t.trainer_side_table_grad_list[server].name)
    if update.type != "sgd":
        warnings.warn(f"a distributed lookup table is updated by sgd, not by {update.type}", stacklevel=4)
    block.append_op(
        type="sgd",
        inputs={"Param": [param], "Grad": [grad], "LearningRate": [rate]},
        outputs={"ParamOut": [param]},
    )
    grad_to_block_id.append(f"{grad.name}:{block.idx}")
    return block


def make_prefetch_block(t: Any, program: Any, server: int, parent: int) -> list[str]:
    """A block that looks up rows of the table; returns ``["ids:block"]``, an attribute of listen_and_serv."""
    top, block = program.global_block(), program._create_block(parent)

    def here(var: Any) -> Any:
        return top.create_var(name=var.name, type=var.type, shape=var.shape, dtype=var.dtype)

    ids, out = here(t.all_prefetch_input_vars[server]), here(t.all_prefetch_output_vars[server])
    block.append_op(
        type="lookup_sparse_table_read",
        inputs={"Ids": ids},
        outputs={"Out": out},
        attrs={"tablename": t.table_name, "value_names": ["Param"], "init": True},
    )
    return [f"{ids.name}:{block.idx}"]


def make_checkpoint_block(t: Any, program: Any, parent: int) -> int:
    """A block that saves the table at the path of checkpoint_notify; returns its index."""
    program.global_block().create_var(name="kLookupTablePath", persistable=True, type=core.VarDesc.VarType.RAW)
    block = program._create_block(parent)
    block.append_op(type="save", inputs={"X": [t.table_name]}, outputs={}, attrs={"file_path": "none"})
    return block.idx


# ------------------------------------------- the distributed table of a Program: one at most


def _variables(program: Any, table_name: str, args: Any) -> list[Any]:
    local = program.current_block().vars
    ops = (op for op in program.global_block().ops if op.type == LOOKUP_TABLE_TYPE and op.input("W")[0] == table_name)
    return [local[name] for op in ops for name in args(op)]


def find_distributed_lookup_table_inputs(program, table_name):
    """The Variables of the ids of the table's lookups."""
    return _variables(program, table_name, lambda op: op.input("Ids"))


def find_distributed_lookup_table_outputs(program, table_name):
    """The output Variables of the table's lookups."""
    return _variables(program, table_name, lambda op: op.output("Out"))


def find_distributed_lookup_table(program):
    """The name of the parameter of the lookups with ``is_distributed=True``, or None.

    Raises:
        RuntimeError: for several tables, or lookups of one table with and without is_distributed.
    """
    distributed: set[str] = set()
    local: set[str] = set()
    for op in program.global_block().ops:
        if op.type == LOOKUP_TABLE_TYPE:
            (distributed if op.attr("is_distributed") is True else local).add(op.input("W")[0])
    if len(distributed) > 1:
        raise RuntimeError(f"a Program can have one distributed lookup table, got {', '.join(sorted(distributed))}")
    if distributed & local:
        raise RuntimeError(f"the table {distributed.pop()} is looked up with is_distributed and without")
    return next(iter(distributed), None)
