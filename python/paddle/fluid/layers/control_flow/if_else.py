"""IfElse: rows of tensors go through one of two blocks."""

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
            raise ValueError("a block of IfElse cannot stand in another one of the same IfElse")
        self.owner, self.which = owner, which
        self.guard: BlockGuard = owner._blocks[which].block()

    def __enter__(self) -> None:
        self.owner._within = self.which
        self.guard.__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        done = self.guard.__exit__(exc_type, exc_val, exc_tb)
        self.owner._within = None
        if exc_type is None and not self.owner._outputs[self.which]:
            raise ValueError("IfElse: outputs are set within a block")
        return done


class IfElse:
    """Rows where `cond` holds go through one block, the others through another one.

    Args:
        cond (Variable): bool, of shape [N, 1].
        name (str, optional): a name for the variables.

    Inside a block ``ie.input(x)`` gives its rows of `x`, and ``ie.output(y, ...)`` its results. ``ie()`` is the list of
    results, with the rows of both blocks in their places.

    Raises:
        ValueError: for input, output or a call in the wrong place, or blocks with different numbers of outputs.
        TypeError: for a `cond` that is no Variable.
    """

    def __init__(self, cond: Variable, name: str | None = None) -> None:
        check_type(cond, "cond", Variable, "fluid.layers.IfElse")
        check_type(name, "name", (str, type(None)), "fluid.layers.IfElse")
        self.helper = LayerHelper("ifelse", name=name)
        self.cond = cond
        #: 0 in the block for False, 1 in that for True
        self._within: int | None = None
        self._blocks = (ConditionalBlock([cond]), ConditionalBlock([cond]))
        self._outputs: tuple[list, list] = ([], [])
        self._inputs: dict[int, tuple[Variable, tuple[Variable, Variable]]] = {}

    def _parent(self):
        program = self.helper.main_program
        return program.block(program.current_block().parent_idx)

    def true_block(self) -> _Branch:
        """The guard of the block for rows where the condition holds."""
        return _Branch(self, 1)

    def false_block(self) -> _Branch:
        """The guard of the block for the other rows."""
        return _Branch(self, 0)

    def input(self, x: Variable) -> Variable:
        """The rows of `x` for the current block."""
        if self._within is None:
            raise ValueError("IfElse.input is for use inside a block of the IfElse")
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
        """Results of the current block."""
        if self._within is None:
            raise ValueError("IfElse.output is for use inside a block of the IfElse")
        for out in outs:
            check_type(out, "each output", Variable, "fluid.layers.IfElse.output")
            name = unique_name.generate(self.helper.name + "_output")
            outside = self._parent().create_var(name=name, dtype=out.dtype)
            _ops.assign(out, Out=outside)
            self._outputs[self._within].append(outside)

    def __call__(self) -> list[Variable]:
        """The results, of both blocks where there are two."""
        if self._within is not None:
            raise ValueError("an IfElse is called outside its blocks")
        no, yes = self._outputs
        if not no and not yes:
            raise ValueError("true_block or false_block must come before the call")
        if not no or not yes:
            return no or yes
        if len(no) != len(yes):
            raise ValueError("IfElse: both blocks must give as many outputs")
        return [_ops.merge_lod_tensor(self.cond, self.cond, t, f, level=0) for f, t in zip(no, yes, strict=True)]
