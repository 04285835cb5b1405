"""Block: a list of operators and the variables they use."""

from __future__ import annotations

import collections
from collections.abc import Iterator

import paddle._core as core
from paddle._basics import mode
from paddle._basics.dtypes import VarType, convert_np_dtype_to_dtype_

from . import building
from .operator import Operator
from .parameter import ParamBase, deferring
from .text import block_gaps, block_text, indent, message, whole
from .variable import Parameter, Variable, isinstance_of

__all__: list[str] = []

#: operators that write a parameter without initialising it
_NOT_INITIALISERS = ("c_broadcast", "c_sync_comm_stream", "coalesce_tensor")


def _varbase_creator(type=VarType.LOD_TENSOR, name=None, shape=None, dtype=None, persistable=None, **kwargs):  # noqa: A002
    """An empty dygraph tensor, with the arguments that `create_var` takes."""
    dtype = VarType.FP32 if dtype is None else convert_np_dtype_to_dtype_(dtype)
    return core.Tensor(dtype, list(shape) if shape else [], name, type or VarType.LOD_TENSOR, bool(persistable))


class Block:
    """A Block of a Program; block 0 is the global one, others belong to control flow.

    Args:
        program (Program): the owner.
        idx (int): its index in the program.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> block = paddle.static.Program().current_block()
        >>> x = block.create_var(name="X", shape=[-1, 23, 48], dtype="float32")
        >>> op = block.append_op(type="abs", inputs={"X": [x]}, outputs={"Out": [x]})
        >>> op.type
        'abs'
    """

    def __init__(self, program, idx: int) -> None:
        self.desc = program.desc.block(idx)
        self.vars: collections.OrderedDict[str, Variable] = collections.OrderedDict()
        self.ops: list[Operator] = []
        self.program = program
        self.removed_vars: collections.OrderedDict[str, Variable] = collections.OrderedDict()

    # ------------------------------------------------------------------ text

    def __str__(self) -> str:
        return self._to_readable_code()

    __repr__ = __str__

    def _to_readable_code(self, skip_op_callstack=True) -> str:
        assert isinstance(skip_op_callstack, bool), (
            f"to_string: skip_op_callstack must be a bool, got {type(skip_op_callstack)}"
        )
        lines = [f"{{ // block {self.idx}"]
        lines += ["    " + v._to_readable_code() for v in self.vars.values()]
        lines.append("")
        lines += ["    " + op._to_readable_code(skip_op_callstack) for op in self.ops]
        return "\n".join(lines) + "\n}"

    def to_string(self, throw_on_error, with_details=False) -> str:
        """The block as protobuf text; with details also the attributes of variables that only Python has."""
        assert isinstance(throw_on_error, bool) and isinstance(with_details, bool)
        if not with_details:
            return whole(self.desc, block_text, block_gaps, throw_on_error)
        body = f"idx: {self.idx}\nparent_idx: {self.parent_idx}\n"
        body += "".join(message("vars", v.to_string(throw_on_error, True)) for v in self.vars.values())
        body += "".join(message("ops", op.to_string(throw_on_error)) for op in self.ops)
        return "blocks {\n" + indent(body) + "}"

    # ------------------------------------------------------------------ numbers

    @property
    def idx(self) -> int:
        return self.desc.id

    @property
    def parent_idx(self) -> int:
        return self.desc.parent

    @property
    def forward_block_idx(self) -> int:
        return self.desc.get_forward_block_idx()

    def _set_forward_block_idx(self, idx: int) -> None:
        self.desc._set_forward_block_idx(idx)

    @property
    def backward_block_idx(self) -> int:
        """The index of the gradient block, -1 without one."""
        mine = self.idx
        return next((b.idx for b in self.program.blocks if b.forward_block_idx == mine), -1)

    # ------------------------------------------------------------------ variables

    def var(self, name: str) -> Variable:
        """The variable `name` of this block.

        Raises:
            TypeError: when the name is no string.
            ValueError: when there is none.
        """
        if not isinstance(name, str):
            raise TypeError(f"Block.var: the name must be a str, got {type(name)}")
        found = self.vars.get(name)
        if found is None:
            raise ValueError(f"the block has no variable '{name}'")
        return found

    def has_var(self, name: str) -> bool:
        """Whether this block itself, not an ancestor, has the variable `name`."""
        return name in self.vars

    def _find_var_recursive(self, name: str) -> Variable | None:
        """The variable in this block, its ancestors or their forward blocks; None if absent."""
        waiting, seen = collections.deque([self]), set()
        blocks = self.program.blocks
        while waiting:
            block = waiting.popleft()
            if block.idx in seen:
                continue
            seen.add(block.idx)
            found = block.vars.get(name)
            if found is not None:
                return found
            waiting.extend(blocks[i] for i in (block.parent_idx, block.forward_block_idx) if i >= 0)
        return None

    def _var_recursive(self, name: str) -> Variable:
        found = self._find_var_recursive(name)
        if found is None:
            raise ValueError(f"neither the block nor its parents have a variable '{name}'")
        return found

    def all_parameters(self) -> list[Parameter]:
        """The parameters of this block."""
        return list(self.iter_parameters())

    def iter_parameters(self) -> Iterator[Parameter]:
        """Iterates over the parameters of this block."""
        return (v for v in self.vars.values() if isinstance_of(v, Parameter))  # type: ignore[misc]  # filtered to Parameters

    def create_var(self, *args, **kwargs):
        """A new Variable here (a tensor in dygraph mode); arguments as of :class:`Variable`."""
        mode.choose_static()
        if not mode.in_static_mode():
            return _varbase_creator(*args, **kwargs)
        var = Variable(self, *args, **kwargs)
        if "initializer" in kwargs:
            kwargs["initializer"](var, self)
        return var

    def create_parameter(self, *args, **kwargs):
        """A new Parameter of the global block; `initializer` appends its operator to this block."""
        initializer = kwargs.get("initializer")
        if not mode.in_static_mode():
            param = ParamBase(*args, **kwargs)
            if initializer is not None:  # independent of a Program's parameter of the same name
                if deferring.on:
                    param.init_func = lambda deferred: initializer(deferred, self)
                else:
                    initializer(param, self)
            return param
        param = Parameter(self.program.global_block(), *args, **kwargs)
        param.stop_gradient = False
        if initializer is not None:
            made_by = [
                op
                for op in self.program.global_block().ops
                if param.name in op.output_arg_names and op.type not in _NOT_INITIALISERS
            ]
            if len(made_by) > 1:
                raise RuntimeError(f"param {param.name} is inited by multiple init ops {made_by}")
            if not made_by:
                initializer(param, self)
        return param

    def _rename_var(self, name, new_name) -> Variable:
        name, new_name = (n.decode() if isinstance(n, bytes) else n for n in (name, new_name))
        if not self.has_var(name):
            raise ValueError(f"the block has no variable '{name}'")
        old = self.var(name)
        kept = {k: getattr(old, k) for k in ("error_clip", "stop_gradient")}
        kind = old.type
        self.desc._rename_var(name, new_name)
        if type(old) is Parameter:
            for k in ("trainable", "optimize_attr", "regularizer"):
                kept[k] = getattr(old, k)
            desc = self.desc.find_var(new_name)
            new: Variable = Parameter(self, desc.shape(), desc.dtype(), type=kind, name=new_name, **kept)
        elif type(old) is Variable:
            new = Variable(self, type=kind, name=new_name, **kept)
        else:
            raise ValueError(f"unsupported var type: {type(old)}")
        self.vars[new_name] = new
        self.vars.pop(name, None)
        self._sync_with_cpp()
        return new

    def _remove_var(self, name, sync=True) -> None:
        if sync:
            self._sync_with_cpp()
        self.desc._remove_var(name)
        del self.vars[name]

    def _clone_variable(self, var, force_persistable=True) -> Variable:
        """A variable of the same name and properties in this block; persistable by default."""
        kwargs = {"name": var.name, "type": var.type, "persistable": force_persistable or var.persistable}
        if var.type in (VarType.STEP_SCOPES, VarType.RAW, VarType.READER):
            kwargs["persistable"] = var.persistable
        else:
            kwargs.update(
                shape=var.shape, dtype=var.dtype, is_data=var.is_data, need_check_feed=var.desc.need_check_feed()
            )
            if var.type != VarType.SELECTED_ROWS:
                kwargs["lod_level"] = var.lod_level
        return self.create_var(**kwargs)

    def _copy_param_info_from(self, other: Block) -> None:
        """Make the variables Parameters that are Parameters in `other`."""
        if not isinstance(other, Block):
            raise TypeError("_copy_param_info_from: a Block is expected")
        for p in other.iter_parameters():
            v = self.vars.get(p.name)
            if v is None:
                continue
            new = Parameter(
                self,
                v.shape,
                v.dtype,
                type=v.type,
                lod_level=v.lod_level if v.type == VarType.LOD_TENSOR else None,
                name=v.name,
                **{
                    k: getattr(p, k)
                    for k in (
                        "stop_gradient",
                        "trainable",
                        "optimize_attr",
                        "regularizer",
                        "error_clip",
                        "do_model_average",
                        "need_clip",
                    )
                },
            )
            self.vars[new.name] = new

    # ------------------------------------------------------------------ operators

    def append_op(self, *args, **kwargs) -> Operator:
        """Append an operator: keywords `type`, `inputs`, `outputs`, `attrs`; in dygraph mode run it at once."""
        if not mode.in_static_mode():
            return self._trace(kwargs)
        if building.current is not None:
            kwargs = {k: building.current.variables(v) if k in ("inputs", "outputs") else v for k, v in kwargs.items()}
            for value in (kwargs.get("inputs") or {}).values():
                for var in value if isinstance(value, (list, tuple)) else (value,):
                    if issubclass(type(var), Variable) and self._find_var_recursive(var.name) is None:
                        raise building.current.out_of_reach(var)
        op = self._new_op(self.desc.append_op, len(self.ops), args, kwargs)
        if building.current is not None and building.current.recording and not core.is_grad_enabled():
            self._stop_gradients(op)
        return op

    def _stop_gradients(self, op: Operator) -> None:
        """Make the new variables that the last operator writes stop gradients: it was called under no_grad.

        The variables of branches and loops keep the gradients of the values that they have from outside.
        """
        if op.has_attr("sub_block"):
            return
        written = {name for former in self.ops[:-1] for name in former.output_arg_names}
        for name in set(op.output_arg_names) - written - set(op.input_arg_names):
            if name in self.vars and not self.vars[name].persistable:
                self.vars[name].stop_gradient = True

    def _prepend_op(self, *args, **kwargs) -> Operator:
        if not mode.in_static_mode():
            return self._trace(kwargs)
        return self._new_op(self.desc._prepend_op, 0, args, kwargs)

    def _insert_op(self, index: int, *args, **kwargs) -> Operator:
        self._sync_with_cpp()
        return self._insert_op_without_sync(index, *args, **kwargs)

    def _insert_op_without_sync(self, index: int, *args, **kwargs) -> Operator:
        return self._new_op(lambda: self.desc._insert_op(index), index, args, kwargs)

    def _new_op(self, make_desc, index: int, args, kwargs) -> Operator:
        kwargs = {k: kwargs[k] for k in ("type", "inputs", "outputs", "attrs") if k in kwargs}
        desc = make_desc()
        try:
            op = Operator(self, desc, *args, **kwargs)
        except BaseException:
            # an invalid operator is removed from the block
            self.desc._remove_op(index, index + 1)
            raise
        self.ops.insert(index, op)
        return op

    def _trace(self, kwargs) -> Operator:
        kind, attrs = kwargs.get("type"), kwargs.get("attrs") or {}
        op = Operator(self, None, type=kind, attrs=attrs)
        inputs, outputs = kwargs.get("inputs") or {}, kwargs.get("outputs") or {}
        mode._dygraph_tracer().trace_op(kind, inputs, outputs, attrs, kwargs.get("stop_gradient", False))
        return op

    def _remove_op(self, index: int, sync=True) -> None:
        if sync:
            self._sync_with_cpp()
        self.desc._remove_op(index, index + 1)
        del self.ops[index]

    def _slice_ops(self, start: int, end: int) -> list[Operator]:
        return self.ops[start:end]

    def _sync_with_cpp(self) -> None:
        """Update `vars` and `ops` after the desc was changed directly."""
        names = set()
        for desc in self.desc.all_vars():
            name = desc.name()
            names.add(name)
            if name not in self.vars:
                Variable(self, name=name, type=desc.type())
        for name in [n for n in self.vars if n not in names]:
            del self.vars[name]

        old, ops, at = self.ops, [], 0
        for i in range(self.desc.op_size()):
            desc = self.desc.op(i)
            # known operators are in the desc's order: those skipped were removed
            found = next((k for k in range(at, len(old)) if old[k].desc == desc), None)
            if found is None:
                ops.append(Operator(self, desc))
            else:
                ops.append(old[found])
                at = found + 1
        self.ops[:] = ops
