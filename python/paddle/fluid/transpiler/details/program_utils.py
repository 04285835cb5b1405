"""paddle.fluid.transpiler.details.program_utils."""

from paddle.distributed.ps.program_utils import delete_ops, find_op_by_input_arg, find_op_by_output_arg

__all__ = ["delete_ops", "find_op_by_input_arg", "find_op_by_output_arg"]
