"""From a call to an operator: builtins append in static mode, Python's operators and indices, arguments in their many
forms, dygraph mode."""

from . import append, core_patch, math_op_patch

core_patch.install()
math_op_patch.monkey_patch_variable()
