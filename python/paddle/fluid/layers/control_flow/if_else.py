"""IfElse: rows of tensors pass through one of two blocks."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.checks import check_type
from paddle._programs.variable import Variable
from paddle.nn.layer_helper import LayerHelper
from paddle.static.conditional import ConditionalBlock
from paddle.static.loops import BlockGuard

__all__ = ["IfElse"]


class _Branch:
    """``with ie.true_block():``"""

    def __init__(self, owner: IfElse, which: int) -> None:
        if owner._within is not None:
            raise ValueError("IfElse: blocks of the same IfElse cannot be nested")
        self.owner, self.which = owner, which
        self.guard: BlockGuard = owner._blocks[which].block()

    def __enter__(self) -> None:
        self.owner._within = self.which
        self.guard.__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        done = self.guard.__exit__(exc_type, exc_val, exc_tb)
        self.owner._within = None
        if exc_type is None and not self.owner._outputs[self.which]:
            raise ValueError("IfElse: a block must have outputs")
        return done


class IfElse:
    """Rows where `cond` is True pass through one block, the other rows through another.

    Args:
        cond (Variable): bool, of shape [N, 1].
        name (str, optional): prefix of the variables' names.

    Inside a block ``ie.input(x)`` is the block's rows of `x`, and ``ie.output(y, ...)`` declares results. ``ie()`` is
    the list of results, with the rows of both blocks in their original positions.

    Raises:
        ValueError: for a call outside of its context, or blocks with different numbers of outputs.
        TypeError: if `cond` is not a Variable.
    """

    def __init__(self, cond: Variable, name: str | None = None) -> None:
        check_type(cond, "cond", Variable, "fluid.layers.IfElse")
        check_type(name, "name", (str, type(None)), "fluid.layers.IfElse")
        self.helper = LayerHelper("ifelse", name=name)
        self.cond = cond
        #: 0 in the block for False, 1 in the block for True
        self._within: int | None = None
        self._blocks = (ConditionalBlock([cond]), ConditionalBlock([cond]))
        self._outputs: tuple[list, list] = ([], [])
        self._inputs: dict[int, tuple[Variable, tuple[Variable, Variable]]] = {}

    def _parent(self):
        program = self.helper.main_program
        return program.block(program.current_block().parent_idx)

    def true_block(self) -> _Branch:
        """The context of the block for rows where the condition is True."""
        return _Branch(self, 1)

    def false_block(self) -> _Branch:
        """The context of the block for the other rows."""
        return _Branch(self, 0)

    def input(self, x: Variable) -> Variable:
        """The rows of `x` for the current block."""
        if self._within is None:
            raise ValueError("IfElse.input must be called inside a block of the IfElse")
        if id(x) not in self._inputs:
            parent = self._parent()
            no, yes = (
                parent.create_var(name=unique_name.generate("ifelse_input" + self.helper.name), dtype=x.dtype)
                for _ in range(2)
            )
            parent.append_op(
                type="split_lod_tensor",
                inputs={"X": x, "Mask": self.cond},
                outputs={"OutTrue": yes, "OutFalse": no},
                attrs={"level": 0},
            )
            self._inputs[id(x)] = (x, (no, yes))
        return self._inputs[id(x)][1][self._within]

    def output(self, *outs: Variable) -> None:
        """Declares results of the current block."""
        if self._within is None:
            raise ValueError("IfElse.output must be called inside a block of the IfElse")
        for out in outs:
            check_type(out, "each output", Variable, "fluid.layers.IfElse.output")
            name = unique_name.generate(self.helper.name + "_output")
            outside = self._parent().create_var(name=name, dtype=out.dtype)
            _ops.assign(out, Out=outside)
            self._outputs[self._within].append(outside)

    def __call__(self) -> list[Variable]:
        """The merged results of the blocks."""
        if self._within is not None:
            raise ValueError("IfElse: the object must be called outside of its blocks")
        no, yes = self._outputs
        if not no and not yes:
            raise ValueError("IfElse: true_block or false_block must be used before the call")
        if not no or not yes:
            return no or yes
        if len(no) != len(yes):
            raise ValueError("IfElse: both blocks must have the same number of outputs")
        return [_ops.merge_lod_tensor(self.cond, self.cond, t, f, level=0) for f, t in zip(no, yes, strict=True)]
