"""The servers' Programs: a listen_and_serv with a sub-block for each block of a parameter, and its initialization."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.names import OP_ROLE_VAR
from paddle._basics.unique_name import generate
from paddle._programs.program import Program

from .blocks import is_part_of, name_parts, orig_name, row_numel
from .lookup_tables import make_checkpoint_block, make_optimize_block, make_prefetch_block
from .trainer_program import original

__all__ = ["is_optimizer_op", "optimizer_input_shape", "main_program", "ops_on", "startup_program"]

# Inputs of optimizers with the parameter's shape.
_LIKE_PARAM = {
    "adam": ("Moment1", "Moment2"),
    "adagrad": ("Moment",),
    "adamax": ("Moment", "InfNorm"),
    "momentum": ("Velocity",),
    "lars_momentum": ("Velocity",),
    "rmsprop": ("Moment", "MeanSquare"),
    "decayed_adagrad": ("Moment",),
    "ftrl": ("SquaredAccumulator", "LinearAccumulator"),
    "sgd": (),
}
_SHARED = ("Param", "Grad", "LearningRate", "Beta1Tensor", "Beta2Tensor")
_FILLS = ("gaussian_random", "fill_constant", "uniform_random", "truncated_gaussian_random")


def optimizer_input_shape(kind: str, slot: str, whole: Any, param: Any) -> Any:
    """The shape of an optimizer's input for a block of a parameter, of shape `param`.

    Raises:
        ValueError: for an optimizer that servers cannot run on blocks.
    """
    if kind not in _LIKE_PARAM:
        raise ValueError(f"the optimizer {kind} is not supported on parameter servers")
    return param if slot in _LIKE_PARAM[kind] else whole


def is_optimizer_op(op: Any) -> bool:
    """Whether an operator of the optimizer updates a parameter; the others prepare the update."""
    return "Param" in op.input_names and "LearningRate" in op.input_names


def ops_on(t: Any, endpoint: str) -> list[Any]:
    """The updates of the parameters of which this server holds a block."""
    names = [p.name for p in t.param_grad_ep_mapping[endpoint]["params"]]
    updates = (op for op in t.optimize_ops if is_optimizer_op(op))
    return [op for op in updates if any(is_part_of(n, op.input("Param")[0]) for n in names)]


class _Server:
    """The builder of one server's Program."""

    def __init__(self, t: Any, endpoint: str):
        self.t, self.endpoint = t, endpoint
        self.origin = original(t).vars
        self.program = Program()
        self.program.random_seed = t.origin_program.random_seed
        self.program._copy_dist_param_info_from(t.origin_program)
        self.program._ps_endpoint = endpoint
        self.top = self.program.global_block()
        self.params = t.param_grad_ep_mapping[endpoint]["params"]
        self.grads = t.param_grad_ep_mapping[endpoint]["grads"]
        self.merges = t.trainer_num > 0 and (t.sync_mode or (t.config.completely_not_async and t.trainer_num > 1))
        self.grad_to_block_id: list[str] = []
        self.sparse_grad_to_param: list[str] = []
        self.lr_ops: list[Any] = []

    # -------------------------------------------------------------- variables

    def declare(self) -> list[Any]:
        """Declares parameters and gradients; returns the variables that trainers send."""
        received = []
        for v in self.params:
            kept = {k: getattr(v, k) for k in ("name", "shape", "dtype", "type", "lod_level")}
            self.top.create_var(persistable=True, **kept)
        for v in self.grads:
            at = v.name.find(".trainer_")
            name = v.name if at < 0 else v.name[:at]
            kept = {k: getattr(v, k) for k in ("type", "dtype", "shape")}
            merged = self.top.create_var(name=name, persistable=True, **kept)
            if not self.merges:
                received.append(merged)
                continue
            for i in range(self.t.trainer_num):
                received.append(self.top.create_var(name=f"{name}.trainer_{i}", persistable=False, **kept))
        if self.t.config.enable_dc_asgd:
            self.declare_backups()
        return received

    def declare_backups(self) -> None:
        """Declares, for each trainer, a copy of each parameter as it was last sent to it."""
        if self.t.sync_mode:
            raise ValueError("enable_dc_asgd corrects late gradients: it needs sync_mode=False")
        self.t.param_bak_list = []
        for p in self.params:
            for i in range(self.t.trainer_num):
                kept = {k: getattr(p, k) for k in ("type", "shape", "dtype")}
                self.t.param_bak_list.append((p, self.top.create_var(name=f"{p.name}.trainer_{i}_bak", **kept)))

    def block_of(self, var: Any) -> Any | None:
        """This server's block of a parameter or gradient, or None."""
        whole = orig_name(var.name)
        if whole not in self.t.grad_name_to_param_name and whole not in self.t.param_name_to_grad_name:
            return None
        mine = (v for v in self.top.vars.values() if orig_name(v.name) == whole and ".trainer_" not in v.name)
        return next(mine, None)

    def here(self, name: str) -> Any:
        """This server's variable for one of the original Program."""
        var = self.origin[name]
        block = self.block_of(var)
        if block is not None:
            return block
        return self.top.vars[name] if name in self.top.vars else self.top._clone_variable(var)

    # -------------------------------------------------------------- operators

    def clone(self, block: Any, op: Any) -> Any:
        """Appends a copy of the operator, on this server's variables."""
        inputs = {slot: [self.here(n) for n in op.input(slot)] for slot in op.input_names}
        outputs = {slot: [self.here(n) for n in op.output(slot)] for slot in op.output_names}
        return block.append_op(type=op.type, inputs=inputs, outputs=outputs, attrs=op.all_attrs())

    def clone_sub_block(self, op: Any, parent: Any) -> None:
        """Gives a cloned operator a copy of its sub-block, with parent block `parent`."""
        if not op.has_attr("sub_block"):
            return
        there = self.t.origin_program.block(op.desc._block_attr_id("sub_block"))
        block = self.program._create_block(parent.idx)
        for var in there.vars.values():
            block._clone_variable(var, force_persistable=False)
        for inner in there.ops:
            for name in [*inner.input_arg_names, *inner.output_arg_names]:
                if not block.has_var(name) and name not in self.top.vars:
                    block._clone_variable(self.origin[name])
            names = {slot: list(map(block._var_recursive, inner.input(slot))) for slot in inner.input_names}
            outs = {slot: list(map(block._var_recursive, inner.output(slot))) for slot in inner.output_names}
            copy = block.append_op(type=inner.type, inputs=names, outputs=outs, attrs=inner.all_attrs())
            self.clone_sub_block(copy, block)
        op._set_attr("sub_block", block)

    def lr_block(self) -> Any | None:
        """The block that computes the learning rate, or None."""
        self.lr_ops = original(self.t).lr_ops
        if not self.lr_ops:
            return None
        block = self.program._create_block(self.program.num_blocks - 1)
        for op in self.lr_ops:
            self.clone_sub_block(self.clone(block, op), block)
        return block

    def merge(self, block: Any, grad: str) -> Any | None:
        """Appends the mean of the trainers' gradients; returns None where this server holds no block of it."""
        mine = next((g for g in self.grads if orig_name(g.name) == orig_name(grad)), None)
        if mine is None:
            return None
        whole, part, _ = name_parts(mine.name)
        merged = self.top.vars[f"{whole}.{part}" if part else whole]
        self.grad_to_block_id.append(f"{merged.name}:{block.idx}")
        if self.merges:
            n = self.t.trainer_num
            each = [self.top.vars[f"{merged.name}.trainer_{i}"] for i in range(n)]
            block.append_op(type="sum", inputs={"X": each}, outputs={"Out": merged}, attrs={"use_mkldnn": False})
            block.append_op(type="scale", inputs={"X": merged}, outputs={"Out": merged}, attrs={"scale": 1.0 / n})
        return merged

    def optimize_block(self, update: Any, parent: int) -> Any:
        """The block of one update: merging, regularization, clipping, optimizer."""
        block = self.program._create_block(parent)
        param = update.attr(OP_ROLE_VAR)[0]
        ops = [op for op in self.t.optimize_ops if op.attr(OP_ROLE_VAR)[:1] == [param]]
        merged = self.merge(block, self.t.param_name_to_grad_name[param])
        for op in ops if merged is not None else ():
            if is_optimizer_op(op):
                self.update(block, op, merged)
            elif not any(op is lr for lr in self.lr_ops):
                self.clone(block, op)
        return block

    def update(self, block: Any, op: Any, merged: Any) -> None:
        """Appends the update of this server's block of a parameter."""
        kind, slots = op.type, op.input_names
        part = next((p for p in self.params if is_part_of(p.name, op.input("Param")[0])), None)
        if part is None:
            return
        ins: dict[str, Any] = {}
        for slot in [s for s in slots if s in _SHARED]:
            names = op.input(slot)
            if slot == "Grad":
                ins[slot] = self.gradient(block, names[0], part, merged)
            elif slot == "Param":
                kept = {k: getattr(part, k) for k in ("name", "dtype", "shape")}
                ins[slot] = self.top.create_var(persistable=True, **kept)
            elif names and names[0] in self.top.vars:
                ins[slot] = self.top.vars[names[0]]
            elif names:
                ins[slot] = self.state(names[0], self.origin[names[0]].shape)
        for slot in [s for s in slots if s not in _SHARED and op.input(s)]:
            var = self.origin[op.input(slot)[0]]
            ins[slot] = self.state(var.name, optimizer_input_shape(kind, slot, var.shape, part.shape))
        outs = {slot: [self.origin[n] for n in op.output(slot)] for slot in op.output_names}
        outs["ParamOut"] = ins["Param"]
        block.append_op(type=kind, inputs=ins, outputs=outs, attrs=op.all_attrs())
        if ins["Grad"].type == core.VarDesc.VarType.SELECTED_ROWS:
            self.sparse_grad_to_param.append(f"{ins['Grad'].name}:{ins['Param'].name}")

    def state(self, name: str, shape: Any) -> Any:
        """Declares a variable of the optimizer."""
        var = self.origin[name]
        return self.top.create_var(name=name, persistable=var.persistable, dtype=var.dtype, shape=shape)

    def gradient(self, block: Any, name: str, part: Any, merged: Any) -> Any:
        """The variable that the update reads as the gradient."""
        if self.t.config.enable_dc_asgd:
            return self.compensate(block, part, merged)
        # Clipping, and weight decay of a sparse gradient, write other variables than the merged gradient.
        return merged if orig_name(name) == orig_name(merged.name) else self.here(name)

    def compensate(self, block: Any, param: Any, grad: Any) -> Any:
        """grad + (param - param_sent_to_the_trainer) * grad * grad: delay-compensated asynchronous SGD."""
        kept = {k: getattr(param, k) for k in ("shape", "type", "dtype")}
        then = block.create_var(name=f"{param.name}.local_bak", persistable=False, **kept)
        int64 = core.VarDesc.VarType.INT64
        trainer = block.create_var(name="@TRAINER_ID@", dtype=int64, shape=[1], persistable=False)
        copies = [copy for p, copy in self.t.param_bak_list if p.name == param.name]
        block.append_op(type="ref_by_trainer_id", inputs={"X": copies, "TrainerId": trainer}, outputs={"Out": then})

        def combine(kind: str, x: Any, y: Any) -> Any:
            out = block.create_var(name=generate("tmp_dc_output"), persistable=False, **kept)
            block.append_op(type=kind, inputs={"X": x, "Y": y}, outputs={"Out": out})
            return out

        moved = combine("elementwise_sub", param, then)
        squared = combine("elementwise_mul", combine("elementwise_mul", moved, grad), grad)
        return combine("elementwise_add", grad, squared)


def main_program(t: Any, endpoint: str) -> Program:
    """The Program that the server at `endpoint` runs."""
    server = _Server(t, endpoint)
    program = server.program
    received = server.declare()
    updates = ops_on(t, endpoint)
    blocks = []
    lr = server.lr_block()
    if lr is not None:
        blocks.append(lr)
    parent = program.num_blocks - 1
    blocks += [server.optimize_block(op, parent) for op in updates]
    index = t.pserver_endpoints.index(endpoint)
    attrs: dict[str, Any] = {}
    grad_to_block_id = list(dict.fromkeys(server.grad_to_block_id))
    if t.has_distributed_lookup_table:
        table = make_optimize_block(t, program, server.origin, index, parent, grad_to_block_id)
        blocks.append(table)
        attrs["prefetch_var_name_to_block_id"] = make_prefetch_block(t, program, index, table.idx)
        attrs["checkpint_block_id"] = make_checkpoint_block(t, program, table.idx)
        program._distributed_lookup_table = t.table_name
    if not blocks:
        warnings.warn(f"the server {endpoint} has nothing to optimize", stacklevel=3)
        blocks.append(program._create_block(program.num_blocks - 1))
    if t.config.enable_dc_asgd:
        attrs["dc_asgd"] = True
    server.top.append_op(
        type="listen_and_serv",
        inputs={"X": received},
        outputs={},
        attrs={
            "optimize_blocks": blocks,
            "endpoint": endpoint,
            "pserver_id": index,
            "Fanin": t.trainer_num,
            "distributed_mode": t.distributed_mode,
            "grad_to_block_id": grad_to_block_id,
            "sparse_grad_to_param": server.sparse_grad_to_param,
            "lr_decay_block_id": -1 if lr is None else lr.idx,
            "rpc_get_thread_num": t.server_config._rpc_get_thread_num,
            "rpc_send_thread_num": t.server_config._rpc_send_thread_num,
            "rpc_prefetch_thread_num": t.server_config._rpc_prefetch_thread_num,
            **attrs,
        },
    )
    program._sync_with_cpp()
    return program


def set_layout_flag(t: Any, endpoint: str) -> None:
    """Sets the layout flag of a server of this process: the rows that it holds, which its snapshots store."""
    lines = [f"server\t{t.pserver_endpoints.index(endpoint)}\t{len(t.pserver_endpoints)}"]
    for v in t.vars_overview.get_distributed_vars_by_ep(endpoint):
        if v.is_slice:
            first = v.offset // row_numel(v.origin.shape)
            lines.append(f"{v.slice.name}\t{v.origin.name}\t{first}\t{v.slice.shape[0]}")
    core.dist.set_server_flag(f"layout {endpoint}", "\n".join(lines))


def _slice_values(t: Any, attrs: dict[str, Any], part: Any) -> None:
    """Reduces the initial values of a whole parameter to those of a block."""
    known = next((v for v in t.vars_overview.distributed_vars if v.slice.name == part.name and v.is_slice), None)
    if known is None:
        return
    start, count = known.offset, int(np.prod(part.shape))
    attrs["shape"] = list(part.shape)
    for name in ("bool_values", "fp32_values", "int32_values", "int64_values"):
        if attrs.get(name):
            attrs[name] = attrs[name][start : start + count]


def startup_program(t: Any, endpoint: str, main: Program) -> Program:
    """The Program that initializes the variables of the server at `endpoint`."""
    origin = t.startup_program
    program = Program()
    program.random_seed = origin.random_seed
    top, held = program.global_block(), main.global_block().vars
    here = {name: top._clone_variable(var) for name, var in held.items()}
    parts = [p.name for p in t.param_grad_ep_mapping[endpoint]["params"]]
    for op in original(t).startup_ops:
        outs = {}
        for slot in op.output_names:
            name = op.output(slot)[0]
            part = next((p for p in parts if is_part_of(p, name) and p != name), None)
            if part is not None or name in held:
                outs[slot] = here[part or name]
        if not outs:
            continue
        attrs = op.all_attrs()
        if op.type in _FILLS:
            attrs["shape"] = list(outs["Out"].shape)
        if op.type == "assign_value":
            _slice_values(t, attrs, outs["Out"])
        ins = {slot: [here[n] for n in op.input(slot)] for slot in op.input_names}
        top.append_op(type=op.type, inputs=ins, outputs=outs, attrs=attrs)
    for param, copy in t.param_bak_list if t.config.enable_dc_asgd else ():
        top.append_op(type="assign", inputs={"X": top.vars[param.name]}, outputs={"Out": top.vars[copy.name]})
    return program
