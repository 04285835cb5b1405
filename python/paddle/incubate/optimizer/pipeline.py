"""PipelineOptimizer: a Program is cut at its device_guards into sections, one for each process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddle._basics import unique_name
from paddle._basics.mode import in_static_mode
from paddle._basics.names import EMPTY_VAR_NAME, GRAD_VAR_SUFFIX, OP_DEVICE, OP_ROLE, OP_ROLE_VAR, OpRole
from paddle._programs.guards import default_startup_program
from paddle._programs.program import Program
from paddle._programs.runners import assign
from paddle.optimizer.base import OptimizerBase, Pairs
from paddle.static.amp.decorator import OptimizerWithMixedPrecision

__all__ = ["PipelineOptimizer"]

_READERS = ("create_py_reader", "read", "create_double_buffer_reader")


def _role(op: Any) -> int:
    return int(op.attr(OP_ROLE))


def _device(op: Any) -> str:
    return op.attr(OP_DEVICE) if op.has_attr(OP_DEVICE) else ""


def _number(device: str) -> int:
    return int(device.split(":")[1])


def _updates(op: Any) -> bool:
    return {"Param", "Grad", "LearningRate"} <= set(op.input_names)


def _in_all(op: Any) -> bool:
    """Whether every section has this operator: those of the learning rate, and readers."""
    return bool(_role(op) & OpRole.LRSched) or op.type in _READERS


class PipelineOptimizer:
    """Wraps an optimizer, for Programs that are cut at their `device_guard`s into sections.

    ``device_guard("gpu:0")``, ``"gpu:1"`` and so on number the sections; under fleet each runs in its own
    process, on any device. A batch is processed in `num_microbatches` parts: all forward, then all backward, then one
    update by the mean of their gradients, as in 2.0.2.

    Args:
        optimizer: the optimizer of the update (ValueError for another type).
        num_microbatches: the number of parts of a batch, 1 or more (AssertionError).
        start_cpu_core_id: of the first section's thread, 0 or more (AssertionError).
        cut_list: lists of Variables where 1.8 cut the Program. The sections run one after the other in this process, on
            the Executor's place; an update follows each batch. It may take the place of `num_microbatches`.
        place_list, concurrency_list: of 1.8, an element for each of the ``2 * len(cut_list) - 1`` sections
            (ValueError).
        queue_size, sync_steps: of 1.8; without effect, because sections do not overlap.

    Raises:
        Exception: in dygraph mode.
    """

    def __init__(
        self,
        optimizer: Any,
        num_microbatches: int = 1,
        start_cpu_core_id: int = 0,
        cut_list: Sequence[Any] | None = None,
        place_list: Sequence[Any] | None = None,
        concurrency_list: Sequence[int] | None = None,
        queue_size: int = 30,
        sync_steps: int = 1,
    ) -> None:
        if not in_static_mode():
            raise Exception("In dygraph, don't support PipelineOptimizer.")
        if not isinstance(optimizer, (OptimizerBase, OptimizerWithMixedPrecision)):
            raise ValueError(f"PipelineOptimizer: optimizer must be an Optimizer, got {type(optimizer)}")
        if isinstance(num_microbatches, (list, tuple)):  # the place of 1.8
            num_microbatches, cut_list = 1, num_microbatches
        self._cut_list = cut_list
        if cut_list is not None and (place_list is not None or concurrency_list is not None):
            for name, given in (("place_list", place_list), ("concurrency_list", concurrency_list)):
                if given is not None and len(given) != 2 * len(cut_list) - 1:
                    raise ValueError(
                        f"PipelineOptimizer: {name} must have {2 * len(cut_list) - 1} elements for a cut_list of "
                        f"{len(cut_list)}, got {len(given)}"
                    )
        assert num_microbatches >= 1, f"num_microbatches must be 1 or more, got {num_microbatches}"
        assert start_cpu_core_id >= 0, f"start_cpu_core_id must not be negative, got {start_cpu_core_id}"
        self._optimizer: Any = optimizer
        self._num_microbatches = num_microbatches
        self._start_cpu_core_id = start_cpu_core_id
        self._param_device_map: dict[str, Any] = {}

    # ------------------------------------------------------------------------------------------- placement

    def _place(self, block: Any) -> list[str]:
        """Assigns a device to every operator; returns the devices in order."""
        first = next((_device(op) for op in block.ops if _device(op)), "")
        if not first.startswith("gpu:"):
            raise ValueError("PipelineOptimizer: sections are made by device_guard('gpu:0') and so on: there is none")
        for at, op in enumerate(block.ops):
            if _device(op):
                continue
            names = op.attr(OP_ROLE_VAR) if op.has_attr(OP_ROLE_VAR) else []
            if _role(op) & OpRole.LRSched:
                device = first
            elif op.type == "sum" and _role(op) & OpRole.Backward:
                made = op.output("Out")[0]
                device = next(_device(o) for o in block.ops[at + 1 :] if made in o.input_arg_names)
            elif _role(op) == OpRole.Optimize and len(names) == 2:
                device = self._param_device_map[names[0]]
            else:
                raise ValueError(
                    f"PipelineOptimizer: operator {op.type} (of {op.output_arg_names}) stands under no device_guard, "
                    "and belongs to no single parameter"
                )
            op._set_attr(OP_DEVICE, device)
        devices = list(dict.fromkeys(_device(op) for op in block.ops))
        if any(not d.startswith("gpu:") for d in devices) or devices != sorted(devices, key=_number):
            raise ValueError(f"PipelineOptimizer: devices must be 'gpu:N', in the order of their numbers: {devices}")
        return devices

    @staticmethod
    def _send(block: Any, at: int, var: Any, device: str, peer: str, role: int) -> None:
        attrs = {OP_DEVICE: device, OP_ROLE: role, "use_calc_stream": True, "peer": _number(peer)}
        block._insert_op(at, type="send_v2", inputs={"X": var}, attrs=attrs)

    @staticmethod
    def _receive(block: Any, at: int, var: Any, device: str, peer: str, role: int) -> None:
        attrs = {
            "out_shape": list(var.shape),
            "dtype": var.dtype,
            OP_DEVICE: device,
            OP_ROLE: role,
            "use_calc_stream": True,
            "peer": _number(peer),
        }
        block._insert_op(at, type="recv_v2", outputs={"Out": [var]}, attrs=attrs)

    def _send_between(self, block: Any) -> None:
        """Inserts the sends of variables that other sections read, once for each section."""
        made_at: dict[str, str] = {}
        known: set[tuple[str, str]] = set()
        inserted = 0
        for at, op in enumerate(list(block.ops)):
            here, role = _device(op), _role(op)
            if not role & OpRole.LRSched and not _updates(op):
                for name in op.input_arg_names:
                    var = block.vars.get(name)
                    there = made_at.get(name, here)
                    if var is None or var.is_data or there == here or (name, here) in known:
                        continue
                    known.add((name, here))
                    self._send(block, at + inserted, var, there, here, role)
                    self._receive(block, at + inserted + 1, var, here, there, role)
                    inserted += 2
            for name in op.output_arg_names:
                made_at[name] = here
                known = {k for k in known if k[0] != name}

    # ------------------------------------------------------------------------------------------------ sections

    @staticmethod
    def _declare(block: Any, source: Any) -> None:
        for op in block.ops:
            for name in (*op.input_arg_names, *op.output_arg_names):
                if name != EMPTY_VAR_NAME and "_blocking_queue" not in name and block._find_var_recursive(name) is None:
                    block._clone_variable(source._var_recursive(name), False)

    def _split(self, block: Any, devices: list[str]) -> list[dict[str, Any]]:
        """Creates a Program for each device; all compute the learning rate."""
        sections = {device: Program() for device in devices}
        for op in block.ops:
            for device in devices if _in_all(op) else [_device(op)]:
                copy = sections[device].global_block().desc.append_op()
                copy.copy_from(op.desc)
                if op.has_attr("sub_block"):
                    self._copy_block(sections[device], block.program.block(op._block_attr_id("sub_block")), copy)
        for program in sections.values():
            program._sync_with_cpp()
            self._declare(program.global_block(), block)
        return [{"program": program} for program in sections.values()]

    def _copy_block(self, program: Any, source: Any, op: Any) -> None:
        inner = program._create_block(parent_idx=0)
        program._rollback()
        for one in source.ops:
            inner.desc.append_op().copy_from(one.desc)
        inner._sync_with_cpp()
        self._declare(inner, source)
        op.set_block_attr("sub_block", inner.desc)

    def _send_data(self, main: Any, blocks: list[Any], devices: list[str]) -> None:
        """Inserts sends of fed variables from the first section."""
        for name, var in main.vars.items():
            if not var.is_data:
                continue
            readers = {_device(op) for op in main.ops if name in op.input_arg_names}
            for block, device in list(zip(blocks, devices, strict=True))[1:]:
                if device in readers:
                    if name not in blocks[0].vars:
                        blocks[0]._clone_variable(var, False)
                    self._send(blocks[0], 0, blocks[0].var(name), devices[0], device, int(OpRole.Forward))
                    self._receive(block, 0, block.var(name), device, devices[0], int(OpRole.Forward))

    def _send_shared(self, blocks: list[Any], devices: list[str]) -> None:
        """Inserts sends of shared parameters from the section that updates them, once for a batch."""
        for name in dict.fromkeys(n for b in blocks for n, v in b.vars.items() if v.persistable):
            having = [i for i, b in enumerate(blocks) if name in b.vars]
            writers = [
                i for i in having if any(name in op.output_arg_names and not _in_all(op) for op in blocks[i].ops)
            ]
            if len(having) < 2 or not writers:
                continue
            assert len(writers) == 1, f"PipelineOptimizer: several sections write {name}"
            owner = writers[0]
            for i in having:
                if i != owner:
                    once, there = int(OpRole.LRSched), devices[i]
                    self._send(blocks[owner], 0, blocks[owner].var(name), devices[owner], there, once)
                    self._receive(blocks[i], 0, blocks[i].var(name), there, devices[owner], once)

    def _split_startup(self, startup: Any, devices: list[str], mine: int) -> Program:
        """Reduces the startup Program to this section's variables."""
        program = Program()
        program.random_seed = startup.random_seed
        for op in startup.global_block().ops:
            device = _device(op)
            if device == "cpu":  # Adam's Beta1Pow and Beta2Pow
                device = self._param_device_map[op.output_arg_names[0].partition("_beta")[0]]
            if device in ("", devices[mine]):
                copy = program.global_block().desc.append_op()
                copy.copy_from(op.desc)
                copy._set_attr(OP_DEVICE, "")
        program._sync_with_cpp()
        self._declare(program.global_block(), startup.global_block())
        return program

    # ----------------------------------------------------------------------------------------------- gradients

    def _accumulate(self, block: Any, device: str) -> None:
        """Inserts the accumulation of the micro-batches' gradients, as their mean."""
        for at, op in reversed(list(enumerate(block.ops))):
            if _role(op) & (OpRole.Backward | OpRole.Loss) == OpRole.Backward | OpRole.Loss:
                grad = block.vars[op.output_arg_names[0]]
                attrs = {"scale": 1.0 / self._num_microbatches, OP_DEVICE: device, OP_ROLE: OpRole.Backward}
                block._insert_op(at + 1, type="scale", inputs={"X": grad}, outputs={"Out": grad}, attrs=attrs)
                continue
            if not _role(op) & OpRole.Backward or not op.has_attr(OP_ROLE_VAR) or op.type == "recv_v2":
                continue
            names = op.attr(OP_ROLE_VAR)
            for name in names[1::2]:
                grad = block.vars[name]
                part = block.create_var(
                    name=unique_name.generate(name), shape=grad.shape, dtype=grad.dtype, persistable=False
                )
                op._rename_output(name, part.name)
                block._insert_op(
                    at + 1,
                    type="sum",
                    inputs={"X": [grad, part]},
                    outputs={"Out": grad},
                    attrs={OP_DEVICE: device, OP_ROLE: OpRole.Backward, OP_ROLE_VAR: names},
                )
        for param, where in self._param_device_map.items():
            grad = block.vars.get(param + GRAD_VAR_SUFFIX)
            if where == device and grad is not None:
                attrs = {"shape": list(grad.shape), "dtype": grad.dtype, "value": 0.0, OP_DEVICE: device}
                attrs[OP_ROLE] = OpRole.LRSched  # once for a batch
                block._insert_op(0, type="fill_constant", inputs={}, outputs={"Out": [grad]}, attrs=attrs)

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], Pairs, list[dict[str, Any]]]:
        """Appends backward and update, and cuts the Program of `loss` into sections.

        Returns:
            (operators of the update, pairs of parameter and gradient, the sections' Programs).

        Raises:
            ValueError: for operators outside of device_guard, or devices that are not numbered consecutively.
            AssertionError: without fleet, which sets the section of this process.

        With `cut_list` the Program is left whole, and the list of sections is empty.
        """
        if self._cut_list is not None:
            ops, pairs = self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
            return ops, pairs, []
        main, startup = loss.block.program, startup_program or default_startup_program()
        assert isinstance(main._pipeline_opt, dict) and "local_rank" in main._pipeline_opt, (
            "PipelineOptimizer is used by fleet, with strategy.pipeline: which sets the section of this process"
        )
        ops, pairs = self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        self._param_device_map = self._optimizer._param_device_map
        block = loss.block
        devices = self._place(block)
        self._send_between(block)
        sections = self._split(block, devices)
        blocks = [section["program"].global_block() for section in sections]
        self._send_data(block, blocks, devices)
        self._send_shared(blocks, devices)
        mine = main._pipeline_opt["local_rank"] % len(devices)
        self.startup_program = self._split_startup(startup, devices, mine)
        startup._pipeline_opt = {"startup_program": self.startup_program}
        assign(startup, "redirect", self.startup_program)
        self._accumulate(blocks[mine], devices[mine])
        main._pipeline_opt = {
            "trainer": "PipelineTrainer",
            "device_worker": "Section",
            "inner_parallelism": len(devices),
            "section_program": sections[mine],
            "place_id": mine,
            "sync_steps": -1,
            "num_microbatches": self._num_microbatches,
            "start_cpu_core_id": self._start_cpu_core_id,
        }
        assign(main, "pipeline", main._pipeline_opt)
        return ops, pairs, sections
