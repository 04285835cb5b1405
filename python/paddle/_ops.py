"""The operator builtins of the native module: one function for each operator of the table.

A builtin runs its operator in dygraph mode and appends it to the current Program in static mode. This module is the
native module itself; `_ops.pyi` has the signatures.
"""

import sys

import paddle._core as _core

sys.modules[__name__] = _core.ops
