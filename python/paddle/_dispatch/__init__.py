"""The dispatch of calls to operators: appending in static mode, Python's operators and indexing, normalisation of
arguments, and the switch between the modes.
"""

from . import append, core_patch, math_op_patch

core_patch.install()
math_op_patch.monkey_patch_variable()
