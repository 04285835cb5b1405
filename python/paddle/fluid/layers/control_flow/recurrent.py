"""StaticRNN and DynamicRNN: recurrent networks with a user-defined step block."""

from __future__ import annotations

import contextlib
from typing import Any

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType
from paddle._programs.variable import Variable
from paddle._programs.while_block import BlockGuard, While
from paddle.nn.layer_helper import LayerHelper
from paddle.tensor.array import array_read, array_write

from .rank_table import array_to_lod_tensor, shrink_memory

__all__ = ["StaticRNN", "DynamicRNN"]


def _parent_block(helper: LayerHelper):
    program = helper.main_program
    parent = program.current_block().parent_idx
    assert parent >= 0
    return program.block(parent)


def _unwrap_single(outputs: list) -> Any:
    return outputs[0] if len(outputs) == 1 else outputs


class BlockGuardWithCompletion(BlockGuard):
    """``with rnn.step():`` the block of a StaticRNN; its operator is appended at the end."""

    def __init__(self, rnn: StaticRNN) -> None:
        if not isinstance(rnn, StaticRNN):
            raise TypeError("BlockGuardWithCompletion takes a StaticRNN")
        super().__init__(rnn.helper.main_program)
        self.rnn = rnn

    def __enter__(self) -> None:
        self.rnn.status = StaticRNN.IN_RNN_BLOCK
        super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        if exc_type is None:
            self.rnn.status = StaticRNN.AFTER_RNN_BLOCK
            self.rnn._complete_op()
        return super().__exit__(exc_type, exc_val, exc_tb)


class StaticRNNMemoryLink:
    """A state: its initial variable, its variable in the step, and its updated variable."""

    def __init__(self, init, pre_mem, mem=None) -> None:
        self.init, self.pre_mem, self.mem = init, pre_mem, mem


class StaticRNN:
    """A recurrent network over sequences of equal length: its block runs once per step.

    Args:
        name (str, optional): prefix of the variables' names.

    Inside ``with rnn.step():`` `step_input` is the current step of a tensor [steps, batch, ...], `memory` creates a
    state, `update_memory` sets its next value, and `step_output` (or `output`) declares outputs. ``rnn()`` is these
    outputs with the steps as first dimension.

    Raises:
        ValueError: for a call outside of its context, inputs of different lengths, or a memory without a size.

    Examples:
        >>> import numpy as np, paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [3, 2, 4], "float32")
        >>> rnn = fluid.layers.StaticRNN()
        >>> with rnn.step():
        ...     now = rnn.step_input(x)
        ...     total = rnn.memory(shape=[-1, 4], batch_ref=now)
        ...     new = now + total
        ...     rnn.update_memory(total, new)
        ...     rnn.step_output(new)
        >>> out = rnn()
        >>> got, = fluid.Executor().run(feed={"x": np.ones([3, 2, 4], "float32")}, fetch_list=[out])
        >>> got[:, 0, 0].tolist()
        [1.0, 2.0, 3.0]
    """

    BEFORE_RNN_BLOCK = 0
    IN_RNN_BLOCK = 1
    AFTER_RNN_BLOCK = 2

    def __init__(self, name=None) -> None:
        check_type(name, "name", (str, type(None)), "fluid.layers.StaticRNN")
        self.helper = LayerHelper("static_rnn", name=name)
        self.memories: dict[str, StaticRNNMemoryLink] = {}
        self.inputs: list[Variable] = []
        self.outputs: list[Variable] = []
        self.status = StaticRNN.BEFORE_RNN_BLOCK
        #: the number of steps, from the first input
        self.seq_len: int | None = None

    def step(self) -> BlockGuard:
        """The context of the step block."""
        return BlockGuardWithCompletion(self)

    def _assert_in_rnn_block_(self, method: str) -> None:
        if self.status != StaticRNN.IN_RNN_BLOCK:
            raise ValueError(f"You must invoke {method} in rnn block")

    def memory(self, init=None, shape=None, batch_ref=None, init_value=0.0, init_batch_dim_idx=0, ref_batch_dim_idx=1):
        """Creates a state; its value is that of the previous step.

        Args:
            init (Variable, optional): the initial value; otherwise it is filled with `init_value`, and needs:
            shape (list|tuple): its shape, with any number as batch size,
            batch_ref (Variable): a tensor whose dimension `ref_batch_dim_idx` is the batch (a step input refers to
                the whole input),
            init_batch_dim_idx (int): the batch dimension in `shape`.
        """
        self._assert_in_rnn_block_("memory")
        check_type(init, "init", (Variable, type(None)), "fluid.layers.StaticRNN.memory")
        check_type(shape, "shape", (list, tuple, type(None)), "fluid.layers.StaticRNN.memory")
        check_type(batch_ref, "batch_ref", (Variable, type(None)), "fluid.layers.StaticRNN.memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("if init is None, memory at least need shape and batch_ref")
            init = self._boot(shape, batch_ref, init_value, init_batch_dim_idx, ref_batch_dim_idx)
        elif self.helper.main_program.current_block().has_var(init.name):
            init = self._move_outside(init)
        name = unique_name.generate_with_ignorable_key(f"{self.helper.name}@mem")
        before = self.helper.create_variable(name=name, dtype=init.dtype, shape=init.shape)
        self.memories[before.name] = StaticRNNMemoryLink(init=init, pre_mem=before)
        return before

    def _boot(self, shape, batch_ref, value, at, ref_at):
        # A step input lacks the steps' dimension of the whole input.
        parent = _parent_block(self.helper)
        name = unique_name.generate_with_ignorable_key(f"{self.helper.name}@memory_boot")
        boot = parent.create_var(name=name, shape=shape, dtype=batch_ref.dtype, persistable=False)
        parent.append_op(
            type="fill_constant_batch_size_like",
            inputs={"Input": [batch_ref]},
            outputs={"Out": [boot]},
            attrs={
                "value": float(value),
                "shape": list(boot.shape),
                "dtype": boot.dtype,
                "input_dim_idx": ref_at,
                "output_dim_idx": at,
            },
        )
        return boot

    def step_input(self, x):
        """The current step of `x`, a tensor [steps, ...]."""
        self._assert_in_rnn_block_("step_input")
        check_type(x, "x", Variable, "fluid.layers.StaticRNN.step_input")
        if self.seq_len is None:
            self.seq_len = x.shape[0]
        elif x.shape[0] != -1 and self.seq_len != x.shape[0]:
            raise ValueError("Static RNN only take fix seq_len input")
        if self.helper.main_program.current_block().has_var(x.name):
            self._move_outside(x)
        # Inside of the block the name refers to the step.
        step = self.helper.create_variable(name=x.name, dtype=x.dtype, shape=list(x.shape[1:]), type=x.type)
        self.inputs.append(step)
        return step

    def _move_outside(self, x):
        """Move the operators that compute `x`, which was built within the step block, before the loop. Returns `x`."""
        block, parent = self.helper.main_program.current_block(), _parent_block(self.helper)
        needed, moved = {x.name}, []
        for op in reversed(block.ops):
            if needed.intersection(op.output_arg_names):
                moved.append(op)
                needed.update(op.input_arg_names)
        made = {name for op in moved for name in op.output_arg_names}
        steps = {var.name for var in self.inputs} | set(self.memories)
        rest = {name for op in block.ops if op not in moved for name in op.input_arg_names}
        if needed & steps or made & rest or any(op.has_attr("sub_block") for op in moved):
            raise ValueError(
                f"StaticRNN: {x.name} is computed in the step; inputs and first states are computed before it"
            )
        for name in made:
            var = block.var(name)
            parent._clone_variable(var, force_persistable=False).stop_gradient = var.stop_gradient
        for op in reversed(moved):
            parent.desc.append_op().copy_from(op.desc)
        for op in moved:
            block._remove_op(op.idx)
        for name in made:
            block._remove_var(name)
        parent._sync_with_cpp()
        return parent.var(x.name)

    def step_output(self, o) -> None:
        """Declares an output of every step."""
        self._assert_in_rnn_block_("step_output")
        check_type(o, "o", Variable, "fluid.layers.StaticRNN.step_output")
        inside = self._copy(o)
        outside = _parent_block(self.helper).create_var(
            name=inside.name, shape=[self.seq_len, *inside.shape], dtype=inside.dtype
        )
        self.outputs.append(outside)

    def _copy(self, var):
        # Gradients that are missing (of the last step, or of unused outputs) are zeros.
        out = self.helper.create_variable_for_type_inference(dtype=var.dtype)
        return _ops.rnn_memory_helper(var, dtype=var.dtype, Out=out)

    def output(self, *outputs) -> None:
        """`step_output` for each argument."""
        for each in outputs:
            self.step_output(each)

    def update_memory(self, mem, var) -> None:
        """Sets the state `mem` of the next step to `var`."""
        check_type(mem, "mem", Variable, "fluid.layers.StaticRNN.update_memory")
        check_type(var, "var", Variable, "fluid.layers.StaticRNN.update_memory")
        self.memories[mem.name].mem = var

    def _parent_block(self):
        return _parent_block(self.helper)

    def __call__(self, *args, **kwargs):
        if self.status != StaticRNN.AFTER_RNN_BLOCK:
            raise ValueError("RNN output can only be retrieved after rnn block")
        if not self.outputs:
            raise ValueError("RNN has no output")
        return _unwrap_single(self.outputs)

    def _complete_op(self) -> None:
        block = self.helper.main_program.current_block()
        parent = _parent_block(self.helper)
        own = {name for op in block.ops for name in op.output_arg_names}
        own |= {var.name for var in self.inputs} | set(self.memories)
        read = dict.fromkeys(name for op in block.ops for name in op.input_arg_names if name not in own)
        links = list(self.memories.values())
        states = []
        for link in links:
            assert link.mem is not None, f"{link.init.name} should be updated in every step."
            states.append(self._copy(block.var(link.mem.name)).name)
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        parent.append_op(
            type="recurrent",
            inputs={
                "inputs": [parent._var_recursive(var.name) for var in self.inputs],
                "initial_states": [link.init for link in links],
                "parameters": [parent._var_recursive(name) for name in read],
            },
            outputs={"outputs": self.outputs, "step_scopes": [scopes]},
            attrs={
                "has_states": bool(links),
                "ex_states": [link.pre_mem.name for link in links],
                "states": states,
                "sub_block": block,
            },
        )


class DynamicRNN:
    """A recurrent network over sequences of different lengths (a LoD): step t runs the sequences that have it.

    Args:
        name (str, optional): prefix of the variables' names.

    Inside ``with rnn.block():`` `step_input` is the current step of sequences, `static_input` a tensor that is constant
    over the steps, `memory` a state; `update_memory` sets its next value, and `output` declares outputs. ``rnn()`` is
    these outputs, with the LoD of the first step input.

    Raises:
        ValueError: for a call outside of its context. RuntimeError: for `static_input` before `step_input`.

    Examples:
        >>> import numpy as np, paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 1], "float32", lod_level=1)
        >>> rnn = fluid.layers.DynamicRNN()
        >>> with rnn.block():
        ...     now = rnn.step_input(x)
        ...     total = rnn.memory(shape=[1], value=0.0)
        ...     new = now + total
        ...     rnn.update_memory(total, new)
        ...     rnn.output(new)
        >>> last = fluid.layers.sequence_last_step(rnn())
        >>> feed = {"x": fluid.create_lod_tensor(np.ones([5, 1], "float32"), [[2, 3]], fluid.CPUPlace())}
        >>> fluid.Executor().run(feed=feed, fetch_list=[last])[0].tolist()
        [[2.0], [3.0]]
    """

    BEFORE_RNN = 0
    IN_RNN = 1
    AFTER_RNN = 2

    def __init__(self, name=None) -> None:
        self.helper = LayerHelper("dynamic_rnn", name=name)
        self.status = DynamicRNN.BEFORE_RNN
        self.lod_rank_table: Any = None
        self.max_seq_len: Any = None
        self.step_idx: Any = None
        self.zero_idx: Any = None
        #: name of a state in the block -> the array of its values
        self.mem_dict: dict[str, Variable] = {}
        self.output_array: list[Variable] = []
        self.outputs: list[Variable] = []
        self.cond = self.helper.create_variable_for_type_inference(dtype="bool")
        self.cond.stop_gradient = False
        self.while_op = While(self.cond)
        self.input_array: list[tuple] = []
        #: (updated state, the array of its values)
        self.mem_link: list[tuple] = []

    def _outside(self, key: str, **properties):
        return self._parent_block_().create_var(name=unique_name.generate(key), **properties)

    def _append_outside(self, kind: str, inputs: dict, out, **attrs) -> None:
        self._parent_block_().append_op(type=kind, inputs=inputs, outputs={"Out": out}, attrs=attrs)

    def step_input(self, x, level=0):
        """The current step of the sequences of `x`: one row per active sequence, in order of descending length.

        Args:
            x (Variable): with a LoD; the first input determines the lengths.
            level (int): the LoD level of the sequences.
        """
        self._assert_in_rnn_block_("step_input")
        check_type(x, "x", Variable, "fluid.layers.DynamicRNN.step_input()")
        if self.lod_rank_table is None:
            self.lod_rank_table = self._outside("lod_rank_table", type=VarType.LOD_RANK_TABLE)
            self.lod_rank_table.stop_gradient = True
            self._append_outside("lod_rank_table", {"X": x}, self.lod_rank_table, level=level)
            self.max_seq_len = self._outside("dynamic_rnn_max_seq_len", dtype="int64")
            self.max_seq_len.stop_gradient = False
            self._append_outside("max_sequence_len", {"RankTable": self.lod_rank_table}, self.max_seq_len)
            self.cond.stop_gradient = True
            both = {"X": self.step_idx, "Y": self.max_seq_len}
            self._append_outside("less_than", both, self.cond, force_cpu=True)
        array = self._outside("dynamic_rnn_input_array", type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype)
        self.input_array.append((array, x.dtype))
        self._append_outside("lod_tensor_to_array", {"X": x, "RankTable": self.lod_rank_table}, array)
        return array_read(array=array, i=self.step_idx)

    def static_input(self, x):
        """The sequences (or rows) of `x` that belong to the active sequences of the current step."""
        self._assert_in_rnn_block_("static_input")
        check_type(x, "x", Variable, "fluid.layers.DynamicRNN.static_input()")
        if self.lod_rank_table is None:
            raise RuntimeError("static_input() must be called after step_input().")
        ordered = self._reordered(x, "dynamic_rnn_static_input_reordered")
        return shrink_memory(ordered, self.step_idx, self.lod_rank_table)

    def _reordered(self, x, key: str):
        out = self._outside(key, type=VarType.LOD_TENSOR, dtype=x.dtype)
        self._append_outside("reorder_lod_tensor_by_rank", {"X": [x], "RankTable": [self.lod_rank_table]}, [out])
        return out

    @contextlib.contextmanager
    def block(self):
        """The context of the step block."""
        if self.status != DynamicRNN.BEFORE_RNN:
            raise ValueError("rnn.block() can only be invoke once")
        self.step_idx = _ops.fill_constant(shape=[1], dtype=VarType.INT64, value=0.0, str_value="0", force_cpu=True)
        self.step_idx.stop_gradient = False
        self.status = DynamicRNN.IN_RNN
        with self.while_op.block():
            yield
            _ops.increment(self.step_idx, step=1.0, Out=self.step_idx)
            for new, array in self.mem_link:
                array_write(x=new, i=self.step_idx, array=array)
            _ops.less_than(self.step_idx, self.max_seq_len, force_cpu=True, Out=self.cond)
        self.status = DynamicRNN.AFTER_RNN
        self.outputs += [array_to_lod_tensor(x=array, table=self.lod_rank_table) for array in self.output_array]

    def __call__(self, *args, **kwargs):
        if self.status != DynamicRNN.AFTER_RNN:
            raise ValueError("Output of the dynamic RNN can only be visited outside the rnn block.")
        return _unwrap_single(self.outputs)

    def memory(self, init=None, shape=None, value=0.0, need_reorder=False, dtype="float32"):
        """Creates a state; its value is that of the previous step.

        Args:
            init (Variable, optional): the initial value, one row per sequence.
            shape (list|tuple): shape of a row, if `init` is None.
            value (float): the initial elements in that case.
            need_reorder (bool): the rows of `init` are in the order of the sequences, not sorted by length.
            dtype (str): the type, if `init` is None.
        """
        self._assert_in_rnn_block_("memory")
        self._init_zero_idx_()
        if shape is not None:
            check_type(shape, "shape", (list, tuple), "fluid.layers.DynamicRNN.memory()")
        if init is None:
            init = self._filled(list(shape or []), value, dtype)
        check_type(init, "init", Variable, "fluid.layers.DynamicRNN.memory()")
        first = init
        if need_reorder:
            if self.lod_rank_table is None:
                raise ValueError("memory(need_reorder=True) needs the order of a step_input: call step_input before")
            first = self._reordered(init, "dynamic_rnn_mem_init_reordered")
        array = self._outside("dynamic_rnn_mem_array", type=VarType.LOD_TENSOR_ARRAY, dtype=init.dtype)
        self._append_outside("write_to_array", {"X": first, "I": self.zero_idx}, array)
        state = shrink_memory(x=array_read(array=array, i=self.step_idx), i=self.step_idx, table=self.lod_rank_table)
        self.mem_dict[state.name] = array
        return state

    def _filled(self, shape: list, value, dtype):
        if not self.input_array:
            raise ValueError("step_input should be invoked before memory(shape=..., value=...)")
        init = self._outside("mem_init", dtype=dtype)
        array, kind = self.input_array[0]
        step = self._outside("in0", dtype=kind)
        self._append_outside("read_from_array", {"X": [array], "I": [self.zero_idx]}, [step])
        self._append_outside(
            "fill_constant_batch_size_like",
            {"Input": [step]},
            [init],
            shape=[-1, *shape],
            value=float(value),
            dtype=init.dtype,
        )
        return init

    def update_memory(self, ex_mem, new_mem) -> None:
        """Sets the state `ex_mem` of the next step to `new_mem`."""
        self._assert_in_rnn_block_("update_memory")
        check_type(ex_mem, "ex_mem", Variable, "fluid.layers.DynamicRNN.update_memory()")
        check_type(new_mem, "new_mem", Variable, "fluid.layers.DynamicRNN.update_memory()")
        array = self.mem_dict.get(ex_mem.name)
        if array is None:
            raise ValueError("Please invoke memory before update_memory")
        if self.lod_rank_table is None:
            raise ValueError("Please invoke step_input before update_memory")
        self.mem_link.append((new_mem, array))

    def output(self, *outputs) -> None:
        """Declares outputs of every step."""
        self._assert_in_rnn_block_("output")
        for each in outputs:
            check_type(each, "outputs", Variable, "fluid.layers.DynamicRNN.output")
            name = unique_name.generate_with_ignorable_key(f"{self.helper.name}_output_array_{each.name}")
            array = self._parent_block_().create_var(name=name, type=VarType.LOD_TENSOR_ARRAY, dtype=each.dtype)
            array_write(x=each, i=self.step_idx, array=array)
            self.output_array.append(array)

    def _init_zero_idx_(self) -> None:
        if self.zero_idx is None:
            self.zero_idx = self._outside("zero_idx", dtype="int64")
            self._append_outside(
                "fill_constant", {}, [self.zero_idx], shape=[1], dtype=self.zero_idx.dtype, value=0.0, force_cpu=True
            )

    def _parent_block_(self):
        return _parent_block(self.helper)

    def _assert_in_rnn_block_(self, method: str) -> None:
        if self.status != DynamicRNN.IN_RNN:
            raise ValueError(f"{method} can only be invoked inside rnn block.")
