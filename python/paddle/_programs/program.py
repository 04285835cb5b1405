"""Program: a static graph, stored as the ProgramDesc of Paddle's files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import paddle._core as core
from paddle._basics import unique_name
from paddle._basics.checks import INTS
from paddle._basics.dtypes import VarType
from paddle._basics.missing import load
from paddle._basics.names import OpRole

from .block import Block
from .operator import Operator
from .runners import Runnable
from .text import program_gaps, program_text, whole
from .variable import Parameter, Variable, isinstance_of

__all__: list[str] = []

global_prog_seed = 0


class Program(Runnable):
    """A static graph of Blocks.

    API functions append to :func:`default_main_program`; initialisers of parameters go to
    :func:`default_startup_program`; :func:`program_guard` switches both.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> main, startup = paddle.static.Program(), paddle.static.Program()
        >>> with paddle.static.program_guard(main, startup):
        ...     x = paddle.static.data("x", [-1, 784], "float32")
        >>> len(main.global_block().ops)
        0
    """

    def __init__(self) -> None:
        self._from_desc(core.ProgramDesc())
        self.current_block_idx = 0
        self._seed = global_prog_seed
        self._current_role: int = OpRole.Forward
        self._op_role_var_: list[str] = []
        # of distributed training
        self._is_distributed = False
        self._is_chief = False
        self._parameters_on_pservers = None
        self._endpoints: list[str] = []
        self._ps_endpoint: str | None = None
        self._communication = None
        #: of an asynchronous trainer: the AsyncCommunication that its runner uses
        self._async_communication: Any = None
        self._trainers_endpoints: list[str] = []
        self._distributed_lookup_table = None
        self._enable_dgc = False
        self._use_lamb = False
        self._nccl_comm_num = 1
        self._use_hierarchical_allreduce = False
        self._hierarchical_allreduce_inter_nranks = 0
        self._fleet_opt = None
        self._program_config = None
        self._pipeline_opt = None
        #: number of append_backward passes: gradients of later passes get other names
        self._appending_grad_times = 0
        self._auto_checkpoint_name = unique_name.generate("__auto_checkpoint_program__")
        #: the PreparedRuns of Executor.run, by fed names, fetch list, pruning and device
        self._prepared_runs: dict = {}

    def _from_desc(self, desc) -> None:
        self.desc = desc
        self.blocks = [Block(self, i) for i in range(desc.num_blocks())]

    # ------------------------------------------------------------------ roles of operators

    @property
    def _op_role(self) -> int:
        return self._current_role

    @_op_role.setter
    def _op_role(self, role: int) -> None:
        self._current_role = role

    @property
    def _op_role_var(self) -> list[str]:
        return self._op_role_var_

    @contextlib.contextmanager
    def _role_guard(self, role: int, names: list[str] | None):
        former = self._current_role, self._op_role_var_
        self._current_role = role
        if names is not None:
            self._op_role_var_ = names
        try:
            yield
        finally:
            self._current_role, self._op_role_var_ = former

    def _backward_role_guard(self):
        return self._role_guard(OpRole.Backward, None)

    def _optimized_guard(self, param_and_grads):
        names = [v.name if isinstance_of(v, Variable) else v for v in param_and_grads]
        return self._role_guard(OpRole.Optimize, names)

    def _lr_schedule_guard(self, is_with_opt=False):
        role = int(OpRole.LRSched) | int(OpRole.Optimize) if is_with_opt else OpRole.LRSched
        return self._role_guard(role, [])

    # ------------------------------------------------------------------ text and bytes

    def __str__(self) -> str:
        return self._to_readable_code()

    __repr__ = __str__

    def _to_readable_code(self, skip_op_callstack=True) -> str:
        assert isinstance(skip_op_callstack, bool), (
            f"to_string: skip_op_callstack must be a bool, got {type(skip_op_callstack)}"
        )
        return "".join(b._to_readable_code(skip_op_callstack) + "\n" for b in self.blocks)

    def _repr_html_(self) -> str:
        """The graph of the forward operators, for notebooks."""
        return load("paddle.utils.drawing:program_svg")(self)

    def to_string(self, throw_on_error, with_details=False) -> str:
        """The program as protobuf text.

        Args:
            throw_on_error (bool): ValueError where a variable has a shape or a LoD level and no element type.
            with_details (bool): add attributes that only Python has: stop_gradient, trainable, ...
        """
        for name, value in (("throw_on_error", throw_on_error), ("with_details", with_details)):
            assert isinstance(value, bool), (
                f"The type of {name} parameter is wrong, expected bool, but received {type(value)}."
            )
        if with_details:
            return "".join(b.to_string(throw_on_error, True) for b in self.blocks)
        return whole(self.desc, program_text, program_gaps, throw_on_error)

    @staticmethod
    def parse_from_string(binary_str: bytes) -> Program:
        """The Program in the bytes of `desc.serialize_to_string()`, without attributes that only Python has.

        Raises:
            TypeError: for anything but bytes.
            ValueError: when the bytes are no ProgramDesc.
        """
        if not isinstance(binary_str, bytes):
            raise TypeError(f"a Program is read from bytes, but received {type(binary_str)}")
        return Program._construct_from_desc(core.ProgramDesc(binary_str))

    @staticmethod
    def _construct_from_desc(desc) -> Program:
        program = Program()
        program._from_desc(desc)
        program._sync_with_cpp()
        return program

    def _get_desc(self):
        return self.desc

    def _version(self) -> int:
        return self.desc._version()

    # ------------------------------------------------------------------ copies

    def clone(self, for_test=False) -> Program:
        """A copy; with `for_test` the forward pass only, with ``is_test`` set (dropout, batch_norm).

        Clone for testing before `minimize`: a later clone loses forward operators that share a variable with the
        update.

        Examples:
            >>> import paddle
            >>> paddle.enable_static()
            >>> test_program = paddle.static.default_main_program().clone(for_test=True)
        """
        self._sync_with_cpp()
        origin: dict[int, int] = {}
        if for_test:
            desc, origin = core.prune_backward(self.desc)
            copy = Program._construct_from_desc(desc)._inference_optimize(prune_read_op=False)
        else:
            copy = Program()
            copy._seed = self._seed
            copy._from_desc(core.ProgramDesc(self.desc))
            copy.current_block_idx = self.current_block_idx
            copy._current_role = self._current_role
            copy._op_role_var_ = self._op_role_var_
            copy._appending_grad_times = self._appending_grad_times
            if hasattr(self, "lr_sheduler"):
                copy.lr_sheduler = self.lr_sheduler  # type: ignore[attr-defined]  # set by optimizers
            copy._sync_with_cpp()
        return copy._take_info_from(self, origin)

    def _take_info_from(self, other: Program, origin: dict[int, int] | None = None) -> Program:
        self._copy_param_info_from(other)
        self._copy_data_info_from(other, origin)
        self._copy_dist_param_info_from(other)
        return self

    def _prune(self, targets) -> Program:
        return self._prune_with_input([], targets)

    def _prune_with_input(self, feeded_var_names, targets) -> Program:
        """The part of the program that computes `targets` (Variables, names, Operators) from the fed variables.

        Raises:
            ValueError: for a target that no operator computes, or one of another type.
        """
        self._sync_with_cpp()
        feeds = feeded_var_names if isinstance(feeded_var_names, list) else [feeded_var_names]
        for name in feeds:
            if not isinstance(name, str):
                raise ValueError(f"Program._prune_with_input: feeded_var_names must hold str, got {type(name)}")
        targets = targets if isinstance(targets, list) else [targets]
        ops = [t for t in targets if isinstance(t, Operator)]
        positions = []
        for target in targets:
            op: Operator | None = None
            if isinstance(target, Operator):
                op = target
            else:
                if not isinstance(target, str) and not isinstance_of(target, Variable):
                    raise ValueError(
                        "All targets of Program._prune_with_input() can only be Variable or Operator, got "
                        f"{type(target)}"
                    )
                name = target if isinstance(target, str) else target.name
                if name in feeds:
                    continue
                for candidate in self.global_block().ops:
                    # an operator of the optimizer updates its parameter, but does not compute it
                    if name in candidate.output_arg_names and not (
                        candidate._is_optimize_op() and candidate not in ops
                    ):
                        op = candidate
                        break
                if op is None:
                    raise ValueError(f"prune: no operator of the Program writes target '{name}'")
            positions.append([op.block.idx, op.idx])
        desc, origin = core.prune(self.desc, set(feeds), positions)
        return Program._construct_from_desc(desc)._take_info_from(self, origin)

    def _inference_optimize(self, prune_read_op=True) -> Program:
        """A copy for inference: ``is_test`` set; with `prune_read_op` without readers and the operators before them."""
        desc = core.ProgramDesc(self.desc)
        root = desc.block(0)
        if prune_read_op:
            reads = [i for i in range(root.op_size()) if root.op(i).type() == "read"]
            if reads:
                root._remove_op(0, reads[0] + 1)
            for name in [v.name() for v in root.all_vars() if v.type() == VarType.READER]:
                root._remove_var(name)
        for i in range(desc.num_blocks()):
            block = desc.block(i)
            for k in range(block.op_size()):
                op = block.op(k)
                if op.has_attr("is_test"):
                    op._set_attr("is_test", True)
        return Program._construct_from_desc(desc)

    # ------------------------------------------------------------------ blocks

    @property
    def num_blocks(self) -> int:
        """How many Blocks it has."""
        return self.desc.num_blocks()

    def global_block(self) -> Block:
        """Block 0."""
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """Block `index`."""
        return self.blocks[index]

    def current_block(self) -> Block:
        """The Block that operators are appended to."""
        return self.blocks[self.current_block_idx]

    def _create_block(self, parent_idx=None) -> Block:
        """A new Block, which becomes the current one; its parent is by default the current Block."""
        parent = self.current_block() if parent_idx is None else self.block(parent_idx)
        self.desc.append_block(parent.desc)
        self.current_block_idx = len(self.blocks)
        self.blocks.append(Block(self, self.current_block_idx))
        return self.current_block()

    def _rollback(self) -> None:
        """Make the parent of the current Block current."""
        self.current_block_idx = self.current_block().parent_idx

    def _sync_with_cpp(self) -> None:
        for i in range(len(self.blocks), self.desc.num_blocks()):
            self.blocks.append(Block(self, i))
        for block in self.blocks:
            block._sync_with_cpp()

    # ------------------------------------------------------------------ attributes that only Python has

    def _check_program(self, other) -> None:
        if not isinstance(other, Program):
            raise TypeError(f"a source Program is needed, but received {type(other)}")

    def _copy_param_info_from(self, other: Program) -> None:
        self._check_program(other)
        self.global_block()._copy_param_info_from(other.global_block())

    def _copy_dist_param_info_from(self, other: Program) -> None:
        self._check_program(other)
        for name in (
            "_is_distributed",
            "_is_chief",
            "_parameters_on_pservers",
            "_endpoints",
            "_ps_endpoint",
            "_communication",
            "_distributed_lookup_table",
        ):
            setattr(self, name, getattr(other, name))

    def _copy_data_info_from(self, other: Program, pruned_origin_block_id_map: dict[int, int] | None = None) -> None:
        self._check_program(other)
        origin = pruned_origin_block_id_map or {i: i for i in range(self.desc.num_blocks())}
        for i, block in enumerate(self.blocks):
            source = other.blocks[origin[i]]
            for var in block.vars.values():
                known = source.var(var.name)
                if known.is_data:
                    var.is_data = True
                if known.desc.need_check_feed():
                    var.desc.set_need_check_feed(True)
                if known.stop_gradient:
                    var.stop_gradient = True

    # ------------------------------------------------------------------ contents

    def list_vars(self) -> Iterator[Variable]:
        """Iterates over the Variables of all Blocks."""
        for block in self.blocks:
            yield from list(block.vars.values())

    def all_parameters(self) -> list[Parameter]:
        """The Parameters of all Blocks."""
        return [p for block in self.blocks for p in block.iter_parameters()]

    @property
    def random_seed(self) -> int:
        """The seed of random operators appended from now on; 0: the global generator."""
        return self._seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if not isinstance(seed, INTS):
            raise ValueError(f"Program.random_seed must be an int, got {type(seed)}")
        self._seed = seed

    def global_seed(self, seed: int = 0) -> None:
        """Set the seed of this program and of programs created later."""
        global global_prog_seed
        global_prog_seed = seed
        self._seed = seed
