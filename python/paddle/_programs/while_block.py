"""BlockGuard, which builds a sub-block, and While."""

from __future__ import annotations

import math

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._programs.guards import default_main_program
from paddle._programs.program import Program
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = ["BlockGuard", "While"]


class BlockGuard:
    """``with BlockGuard(program):`` operators go to a new sub-block of the current one."""

    def __init__(self, main_program) -> None:
        if not isinstance(main_program, Program):
            raise TypeError("BlockGuard: a Program is expected")
        self.main_program = main_program

    def __enter__(self) -> None:
        self.main_program._create_block()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        self.main_program._rollback()
        return exc_type is None


def get_inputs_outputs_in_block(block, inner_inputs, inner_outputs, helper=None) -> tuple[dict, dict]:
    """(names that the block reads before it replaces them, names that it writes), each in order. A block inside it,
    which may not run, replaces nothing; two branches of one condition do. Arrays that only the block declares are not
    inputs.
    """
    inputs, outputs = dict.fromkeys(inner_inputs), dict.fromkeys(inner_outputs)
    replaced, negated, branches = set(outputs), {}, {}
    for op in block.ops:
        inputs.update((n, None) for n in op.input_arg_names if n not in replaced)
        writes = op.output_arg_names
        outputs.update((n, None) for n in writes)
        if op.type == "logical_not":
            negated[writes[0]] = op.input("X")[0]
        if op.type == "conditional_block":
            condition = op.input("Cond")[0]
            branches[condition] = writes
            writes = [n for n in writes if n in block.vars or n in branches.get(negated.get(condition), ())]
        elif op.type == "while":
            writes = [n for n in writes if n in block.vars]
        replaced.update(writes)
    parent = block.program.block(block.parent_idx)
    for name in list(inputs):
        own = block.vars.get(name)
        if own is not None and own.type == VarType.LOD_TENSOR_ARRAY and parent._find_var_recursive(name) is None:
            del inputs[name]
    return inputs, outputs


class _WhileGuard(BlockGuard):
    def __init__(self, while_op: While) -> None:
        super().__init__(default_main_program())
        self.while_op = while_op

    def __enter__(self) -> None:
        self.while_op.status = While.IN_WHILE_BLOCK
        super().__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb) -> bool:
        if exc_type is None:
            self.while_op.status = While.AFTER_WHILE_BLOCK
            self.while_op._complete()
        return super().__exit__(exc_type, exc_val, exc_tb)


class While:
    """A loop: its block runs as long as `cond` holds.

    Args:
        cond (Variable): bool, shape [1]; the block must write it.
        is_test (bool): True keeps no values for a gradient.
        name (str, optional): a name.

    Raises:
        TypeError: when `cond` is not bool or has more than one element.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> i = fluid.layers.fill_constant([1], "int64", 0)
        >>> n = fluid.layers.fill_constant([1], "int64", 10)
        >>> cond = fluid.layers.less_than(i, n)
        >>> with fluid.layers.While(cond).block():
        ...     _ = fluid.layers.increment(i)
        ...     _ = fluid.layers.less_than(i, n, cond=cond)
    """

    BEFORE_WHILE_BLOCK = 0
    IN_WHILE_BLOCK = 1
    AFTER_WHILE_BLOCK = 2

    def __init__(self, cond, is_test=False, name=None) -> None:
        self.name = name or unique_name.generate("while")
        self.status = While.BEFORE_WHILE_BLOCK
        check_variable_and_dtype(cond, "cond", ["bool"], "fluid.layers.While")
        check_one_element(cond, "condition")
        self.cond_var = cond
        self.is_test = is_test

    def block(self) -> BlockGuard:
        """The guard in which the body is built."""
        return _WhileGuard(self)

    def _complete(self) -> None:
        program = default_main_program()
        body = program.current_block()
        parent = program.block(body.parent_idx)
        inputs, outputs = get_inputs_outputs_in_block(body, (), [self.cond_var.name])
        outside = [parent._find_var_recursive(n) for n in outputs]
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        parent.append_op(
            type="while",
            inputs={"X": [parent._var_recursive(n) for n in inputs], "Condition": [self.cond_var]},
            outputs={"Out": [v for v in outside if v is not None], "StepScopes": [scopes]},
            attrs={"sub_block": body, "is_test": self.is_test},
        )


def check_one_element(var, what: str) -> None:
    if math.prod(var.shape) != 1:
        raise TypeError(f"the shape of {what} should be [1], but given shape as {list(var.shape)}.")
