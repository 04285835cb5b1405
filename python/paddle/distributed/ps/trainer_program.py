"""The trainers' Programs: operators that send gradients and receive parameters replace the optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.names import OP_ROLE, OP_ROLE_VAR, OpRole
from paddle.nn.initializer import Constant

from .blocks import height_sections
from .lookup_tables import (
    fake_init_tables,
    is_looked_up_remotely,
    local_table_names,
    replace_remote_lookups,
)
from .program_utils import delete_ops, find_op_by_output_arg

__all__ = ["OriginalProgram", "build", "control_var", "extend_startup", "finish", "original"]

_RPC = int(OpRole.RPC)
_DIST = int(OpRole.Dist)
_SCHEDULE = int(OpRole.LRSched)


def control_var(program: Any) -> Any:
    """A variable without a value: a control dependency."""
    from_name = f"__control_var@{len(program.global_block().vars)}"
    while program.global_block().has_var(from_name):
        from_name += "_"
    return program.global_block().create_var(name=from_name)


def _roles(param: str, grad: str, role: int = _RPC) -> dict[str, Any]:
    return {OP_ROLE: role, OP_ROLE_VAR: [param, grad]}


def _split_gradient(t: Any, program: Any, grad: Any, index: int, parts: list[Any]) -> None:
    """Inserts after `index` an operator that splits the gradient into `parts`."""
    sections = height_sections(parts)
    sparse = grad.type == core.VarDesc.VarType.SELECTED_ROWS
    param = t.grad_name_to_param_name[grad.name]
    if sparse and is_looked_up_remotely(t, param):
        t.sparse_param_to_height_sections[param] = sections
    program.global_block()._insert_op(
        index=index + 1,
        type="split_selected_rows" if sparse else "split_byref",
        inputs={"X": grad},
        outputs={"Out": parts},
        attrs={"height_sections" if sparse else "sections": sections, OP_ROLE: _DIST},
    )


def _dispatch(t: Any) -> tuple[list[tuple[str, list[Any]]], dict[str, str]]:
    """Gradients in the order of their assignment to servers, and the server of each block of a parameter."""
    items = list(t.grad_var_mapping.items())
    if not t.config.slice_var_up:
        # In their order whole parameters would alternate: all weights on one server, all biases on another.
        np.random.RandomState(t.origin_program.random_seed).shuffle(items)  # type: ignore[arg-type]
    grads = [v for _, parts in items for v in parts]
    params = [t.grad_param_mapping[v] for v in grads]
    dispatcher = t.config.split_method(t.pserver_endpoints)
    endpoints = dispatcher.dispatch(params)
    for endpoint, param, grad in zip(endpoints, params, grads, strict=True):
        t.param_grad_ep_mapping[endpoint]["params"].append(param)
        t.param_grad_ep_mapping[endpoint]["grads"].append(grad)
        t.vars_overview.get_distributed_var_by_slice(param.name).endpoint = endpoint
    return items, {p.name: e for p, e in zip(params, endpoints, strict=True)}


def _send_gradients(t: Any, program: Any, items: list[tuple[str, list[Any]]], endpoint_of: dict[str, str]) -> None:
    """Inserts a send after the operator that computes each gradient."""
    block = program.global_block()
    for name, parts in items:
        endpoints = [endpoint_of[t.grad_param_mapping[v].name] for v in parts]
        made = name if len(parts) > 1 else parts[0].name
        index = find_op_by_output_arg(block, made, reverse=True)
        if len(parts) > 1 and not t.config.runtime_split_send_recv:
            _split_gradient(t, program, block.vars[made], index, parts)
            index += 1
        if parts[0].type == core.VarDesc.VarType.SELECTED_ROWS:
            param = t.grad_name_to_param_name[name]
            if is_looked_up_remotely(t, param):
                t.sparse_param_to_height_sections[param] = height_sections(parts)
        done = control_var(program)
        t.grad_name_to_send_dummy_out[name] = done
        what, sections, names = parts, [], []
        if t.config.runtime_split_send_recv:
            what, sections = [block.vars[made]], height_sections(parts)
            several = t.config.completely_not_async and t.trainer_num > 1
            names = [f"{v.name}.trainer_{t.trainer_id}" if several else v.name for v in parts]
        block._insert_op(
            index=index + 1,
            type="send",
            inputs={"X": what},
            outputs={"Out": done},
            attrs={
                "endpoints": endpoints,
                "trainer_id": t.trainer_id,
                "sections": sections,
                "send_varnames": names,
                **_roles(t.grad_name_to_param_name[name], made),
            },
        )


def _send_counter(t: Any, program: Any) -> list[Any]:
    """In asynchronous mode appends a send of this trainer's step counter: servers sum the counters of all trainers."""
    if t.sync_mode or not learning_rate_ops(t) or not t.counter_var:
        return []
    done = control_var(program)
    program.global_block().append_op(
        type="send",
        inputs={"X": t.counter_var},
        outputs={"Out": done},
        attrs={
            "endpoints": t.pserver_endpoints,
            "trainer_id": t.trainer_id,
            "sections": [],
            "send_varnames": [t.counter_var.name] if t.config.runtime_split_send_recv else [],
            "merge_add": True,
            "use_send_handler": False,
            **_roles(t.counter_var.name, t.counter_var.name),
        },
    )
    return [done]


def _barrier(t: Any, program: Any, kind: str, ins: list[Any], outs: Any, **more: Any) -> None:
    attrs = {"endpoints": t.pserver_endpoints, "trainer_id": t.trainer_id, **more, OP_ROLE: _RPC}
    program.global_block().append_op(type=kind, inputs={"X": ins}, outputs={"Out": outs}, attrs=attrs)


def _receive(t: Any, program: Any, after: Any, endpoint_of: dict[str, str]) -> list[Any]:
    """Appends a recv for each parameter; returns the received variables."""
    block, received = program.global_block(), []
    lookups: dict[str, tuple[list[str], list[str]]] = {}
    for name, parts in t.param_var_mapping.items():
        endpoints, names = [endpoint_of[v.name] for v in parts], [v.name for v in parts]
        grad = t.param_name_to_grad_name[name]
        parts_of_grad = t.grad_var_mapping[grad]
        if name in t.sparse_param_to_height_sections:
            for n in names:
                t.vars_overview.get_distributed_var_by_slice(n).vtype = "RemotePrefetch"
            lookups[name] = (endpoints, names)
            continue
        into, remote = parts, []
        if t.config.runtime_split_send_recv:
            into, remote = [block.vars[name]], names
        received += into
        block.append_op(
            type="recv",
            inputs={"X": [after if t.sync_mode else t.grad_name_to_send_dummy_out[grad]]},
            outputs={"Out": into},
            attrs={
                "epmap": endpoints,
                "recv_varnames": remote,
                "trainer_id": t.trainer_id,
                **_roles(name, parts_of_grad[0].name if len(parts_of_grad) == 1 else grad),
            },
        )
    replace_remote_lookups(t, program, lookups)
    return received


def _concat_blocks(t: Any, program: Any, names: Any, **attrs: Any) -> None:
    """Appends a concat for each parameter that is received in several blocks."""
    block = program.global_block()
    for name in names:
        parts = t.param_var_mapping[name]
        if len(parts) < 2:
            continue
        whole = block.vars.get(name)
        if whole is None:
            var = t.origin_program.global_block().vars[name]
            kept = {k: getattr(var, k) for k in ("persistable", "type", "dtype", "shape")}
            whole = block.create_var(name=name, **kept)
        block.append_op(type="concat", inputs={"X": parts}, outputs={"Out": [whole]}, attrs={"axis": 0, **attrs})


def build(t: Any, program: Any) -> None:
    """Inserts sends, barriers, recvs and concats into the main Program, and recvs into the startup Program."""
    items, endpoint_of = _dispatch(t)
    _send_gradients(t, program, items, endpoint_of)
    sends_done = control_var(program)
    if t.has_distributed_lookup_table:
        t.grad_name_to_send_dummy_out[t.table_name] = control_var(program)
    before = [*t.grad_name_to_send_dummy_out.values(), *_send_counter(t, program)]
    if t.sync_mode:
        _barrier(t, program, "send_barrier", before, sends_done, half_async=False)
    elif t.config.runtime_split_send_recv and t.config.half_async:
        _barrier(t, program, "send_barrier", before, sends_done, half_async=True)
    received = _receive(t, program, sends_done, endpoint_of)
    if t.sync_mode and received:
        _barrier(t, program, "fetch_barrier", [sends_done], received)
    if not t.config.runtime_split_send_recv:
        whole = [n for n in t.param_var_mapping if n not in t.sparse_param_to_height_sections]
        _concat_blocks(t, program, whole, **{OP_ROLE: _DIST})
    extend_startup(t, endpoint_of)


def extend_startup(t: Any, endpoint_of: dict[str, str]) -> None:
    """Makes the startup Program receive the servers' initial parameters."""
    startup = t.startup_program
    block = startup.global_block()
    tables = local_table_names(t)
    names = [n for n in t.param_var_mapping if n not in tables]
    for name in names:
        parts = t.param_var_mapping[name]
        for v in parts:
            if not block.has_var(v.name):
                kept = {k: getattr(v, k) for k in ("type", "dtype", "shape", "lod_level")}
                block.create_var(name=v.name, persistable=False, **kept)
        attrs = {"epmap": [endpoint_of[v.name] for v in parts], "trainer_id": t.trainer_id, OP_ROLE: _RPC}
        block.append_op(type="recv", inputs={"X": []}, outputs={"Out": parts}, attrs=attrs)
    _barrier(t, startup, "fetch_barrier", [], control_var(startup))
    _concat_blocks(t, startup, names)


@dataclass
class OriginalProgram:
    """The parts of the original Programs from which servers' Programs are built."""

    vars: dict[str, Any]
    lr_ops: list[Any]
    startup_ops: list[Any]


def original(t: Any) -> OriginalProgram:
    """The original variables and operators, kept from before get_trainer_program removes them."""
    if t._whole is None:
        lr_ops, startup = learning_rate_ops(t), t.startup_program.global_block().ops
        inits = [op for op in startup if op.type not in ("recv", "fetch_barrier", "concat")]
        t._whole = OriginalProgram(dict(t.origin_program.global_block().vars), lr_ops, inits)
    return t._whole


def learning_rate_ops(t: Any) -> list[Any]:
    """The operators that compute the learning rate; in asynchronous mode by the sum of all trainers' step counters."""
    found = []
    block = t.origin_program.global_block()
    for index, op in enumerate(list(block.ops)):
        if int(op.attr(OP_ROLE)) not in (_SCHEDULE, _SCHEDULE | int(OpRole.Optimize)):
            continue
        if not t.sync_mode and op.type == "increment":
            op = _sum_trainer_counters(t, block, index, op)
        found.append(op)
    return found


def _sum_trainer_counters(t: Any, block: Any, index: int, op: Any) -> Any:
    """Replaces the increment of the step counter by the sum of the trainers' counters."""
    counter = block.vars[op.output("Out")[0]]
    kept = {k: getattr(counter, k) for k in ("type", "shape", "dtype", "persistable")}
    counters = [block.create_var(name=f"{counter.name}.trainer_{i}", **kept) for i in range(t.trainer_num)]
    startup = t.startup_program.global_block()
    for init in startup.ops:
        if init.type == "fill_constant" and init.output("Out") == [counter.name]:
            init._set_attr("value", float(-t.trainer_num))
    for i, var in enumerate(counters):
        if i == t.trainer_id:
            t.counter_var = var
        kept = {k: getattr(var, k) for k in ("type", "dtype", "shape", "persistable")}
        startup.create_var(name=var.name, initializer=Constant(1), **kept)
    block._remove_op(index)
    return block._insert_op(
        index, type="sum", inputs={"X": counters}, outputs={"Out": counter}, attrs={OP_ROLE: _SCHEDULE}
    )


def delete_optimizer(t: Any, startup: bool) -> None:
    """Removes the optimizer, and variables that only it reads, from the main or the startup Program."""
    program = t.startup_program if startup else t.origin_program
    block = program.global_block()
    read = {name for op in t.optimize_ops for name in op.input_arg_names}
    shared = {name for op in t.optimize_ops for name in op.attr(OP_ROLE_VAR)}
    useless = [name for name in block.vars if name in read - shared]
    if startup:
        delete_ops(block, [op for op in block.ops if set(op.output_arg_names) & (read - shared)])
    else:
        delete_ops(block, t.optimize_ops)
    for name in useless:
        block._remove_var(name)


def finish(t: Any) -> None:
    """Removes from both Programs the computation and initialization that servers now do."""
    lr_ops = original(t).lr_ops
    delete_optimizer(t, startup=True)
    fake_init_tables(t, local_table_names(t))
    delete_ops(t.origin_program.global_block(), lr_ops)
    delete_optimizer(t, startup=False)
